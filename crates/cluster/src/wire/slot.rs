//! Messages between slot machines, as the body of a frame: one after the other, each as its length (u32, little endian) and its bytes. So a
//! machine's step is one frame to each worker of each peer, however many slots it is about.

use super::codec::{self, CodecError};
use crate::slots::Message;

const LENGTH_BYTES: usize = 4;

/// Appends a message to a body.
///
/// # Errors
/// [`CodecError`]; then `body` is as before.
pub fn append_slot_message(message: &Message, body: &mut Vec<u8>) -> Result<(), CodecError> {
    let start = body.len();
    body.extend_from_slice(&[0; LENGTH_BYTES]);
    let written = codec::encode(message, body);
    let length = u32::try_from(body.len() - start - LENGTH_BYTES).map_err(|_| CodecError::TooLong);
    match written.and(length) {
        Ok(length) => {
            body[start..start + LENGTH_BYTES].copy_from_slice(&length.to_le_bytes());
            Ok(())
        }
        Err(error) => {
            body.truncate(start);
            Err(error)
        }
    }
}

/// The messages of a body, in their order. It ends with the first that cannot be read.
#[derive(Debug)]
pub struct SlotMessages<'a>(&'a [u8]);

impl<'a> SlotMessages<'a> {
    /// Those of that body.
    pub fn of(body: &'a [u8]) -> Self {
        Self(body)
    }

    fn read(&mut self) -> Result<Message, CodecError> {
        let body = std::mem::take(&mut self.0);
        let cut = || CodecError::Malformed("a message is cut off".to_owned());
        let (length, rest) = body.split_first_chunk::<LENGTH_BYTES>().ok_or_else(cut)?;
        let length = u32::from_le_bytes(*length) as usize;
        let (message, rest) = rest.split_at_checked(length).ok_or_else(cut)?;
        // What is behind its last field was added by versions that are not spoken.
        let (message, _) = codec::decode(message)?;
        self.0 = rest;
        Ok(message)
    }
}

impl Iterator for SlotMessages<'_> {
    type Item = Result<Message, CodecError>;

    fn next(&mut self) -> Option<Self::Item> {
        (!self.0.is_empty()).then(|| self.read())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_in_their_order_up_to_one_that_cannot_be_read() {
        let messages = [
            Message::Tell,
            Message::Ping { sent_us: 300 },
            Message::Digest { sum: 7 },
        ];
        let mut body = Vec::new();
        messages
            .iter()
            .for_each(|message| append_slot_message(message, &mut body).unwrap());
        assert!(SlotMessages::of(&body).map(Result::unwrap).eq(messages.clone()));
        for cut in 1..body.len() {
            let read: Vec<_> = SlotMessages::of(&body[..cut]).collect();
            let whole = read.iter().take_while(|message| message.is_ok()).count();
            assert!(whole < messages.len() && read.len() <= whole + 1, "{cut}");
            assert!(
                read.into_iter().flatten().eq(messages[..whole].iter().cloned()),
                "{cut}"
            );
        }
        // A later version's field does no harm.
        let mut longer = (body[0] + 1).to_le_bytes().to_vec();
        longer.extend_from_slice(&[0, 0, 0]);
        longer.extend_from_slice(&body[LENGTH_BYTES..LENGTH_BYTES + usize::from(body[0])]);
        longer.push(9);
        assert!(SlotMessages::of(&longer).map(Result::unwrap).eq([Message::Tell]));
    }
}
