//! What a peer may send against any bytes: frames, handshakes, messages.
//!
//! However the bytes arrive, the same comes of them; no length that they claim takes memory; who does not know the secret never gets
//! past the handshake; and a message that is read is written as something that reads as the same message.

use tollgate_cluster::Incarnation;
use tollgate_cluster::wire::{
    AskStatus, Await, Called, Drain, DrainBegun, Forward, FrameError, FrameReader, FrameWriter, GiveBack, GivenBack,
    Handshake, Keyspace, KeyspaceDone, Kind, Lend, Lent, Libraries, LibrariesAnswer, Listeners, Listening, Local,
    Message, NodeStatus, Noted, Pong, Probe, Progress, Publish, Published, Replies, Scripts, ScriptsAnswer, Secret,
    SlotMessages, Versions, Watch, append_slot_message, read_message, write_message,
};

const FRAME_BYTES_MAX: usize = 1 << 16;
const STEPS: [usize; 4] = [1, 3, 64, usize::MAX];

/// The target's body.
pub fn run(data: &[u8]) {
    let whole = frames(data, usize::MAX);
    for step in STEPS {
        assert_eq!(whole, frames(data, step), "in steps of {step}");
    }
    for (kind, body) in &whole.0 {
        read(Kind::of(*kind), body);
    }
    for kind in Kind::ALL {
        read(Some(*kind), data);
    }
    for secret in [None, Some(Secret::new(b"of the fuzzer"))] {
        for opens in [false, true] {
            let whole = shake(data, secret.clone(), opens, usize::MAX);
            assert!(secret.is_none() || whole.1 != "done");
            for step in STEPS {
                assert_eq!(whole, shake(data, secret.clone(), opens, step), "in steps of {step}");
            }
        }
    }
}

/// Gives `data` to `take` in steps.
fn pieces(data: &[u8], step: usize, mut take: impl FnMut(&[u8])) {
    data.chunks(step.min(data.len().max(1))).for_each(&mut take);
}

/// The frames of a stream, and what ended it.
fn frames(data: &[u8], step: usize) -> (Vec<(u8, Vec<u8>)>, Option<FrameError>) {
    let mut reader = FrameReader::new(FRAME_BYTES_MAX);
    let (mut frames, mut error) = (Vec::new(), None);
    pieces(data, step, |piece| {
        if error.is_some() {
            return;
        }
        reader.input().extend_from_slice(piece);
        loop {
            match reader.next_frame() {
                Ok(Some(frame)) => frames.push((frame.kind, frame.body.to_vec())),
                Ok(None) => break,
                Err(wrong) => {
                    error = Some(wrong);
                    break;
                }
            }
        }
        assert!(reader.input().capacity() <= 2 * data.len() + 64);
    });
    (frames, error)
}

/// How a handshake with somebody who sends `data` ends, and what it has sent.
fn shake(data: &[u8], secret: Option<Secret>, opens: bool, step: usize) -> (Vec<u8>, &'static str) {
    let local = Local {
        id: Incarnation {
            name: if opens { "a" } else { "b" }.into(),
            generation: 1,
        },
        cluster: "test".into(),
        workers: 2,
        frame_bytes_max: FRAME_BYTES_MAX,
        versions: Versions { lowest: 1, highest: 1 },
    };
    let mut sent = Vec::new();
    let mut handshake = match opens {
        true => Handshake::open(local, secret, 0, ("b".into(), 1), [1; 32], &mut sent),
        false => Handshake::accept(local, secret, [2; 32]),
    };
    let mut end = "more";
    pieces(data, step, |piece| {
        if end != "more" {
            return;
        }
        handshake.input().extend_from_slice(piece);
        end = match handshake.step(&mut sent) {
            Progress::More => "more",
            Progress::Done(_) => "done",
            Progress::Refused(refusal) => refusal.reason(),
        };
    });
    (sent, end)
}

/// A macro, since the message that is read again borrows from other bytes than the first.
macro_rules! reads_back {
    ($message:ty, $body:expr) => {
        if let Ok(message) = read_message::<$message>(1, $body) {
            let mut reader = FrameReader::new(usize::MAX);
            let mut writer = FrameWriter::new(usize::MAX);
            write_message(&mut writer, 1, 1, &message, reader.input()).expect("what was read can be written");
            let frame = reader.next_frame().expect("a frame").expect("whole");
            assert_eq!(frame.kind, <$message>::KIND as u8);
            assert_eq!(read_message::<$message>(1, frame.body), Ok(message));
        }
    };
}

fn read(kind: Option<Kind>, body: &[u8]) {
    match kind {
        Some(Kind::Forward) => reads_back!(Forward<'_>, body),
        Some(Kind::Replies) => reads_back!(Replies<'_>, body),
        Some(Kind::Probe) => reads_back!(Probe, body),
        Some(Kind::Pong) => reads_back!(Pong, body),
        Some(Kind::Lend) => reads_back!(Lend<'_>, body),
        Some(Kind::Lent) => reads_back!(Lent<'_>, body),
        Some(Kind::GiveBack) => reads_back!(GiveBack<'_>, body),
        Some(Kind::GivenBack) => reads_back!(GivenBack, body),
        Some(Kind::Watch) => reads_back!(Watch<'_>, body),
        Some(Kind::Await) => reads_back!(Await<'_>, body),
        Some(Kind::Noted) => reads_back!(Noted<'_>, body),
        Some(Kind::Called) => reads_back!(Called, body),
        Some(Kind::Keyspace) => reads_back!(Keyspace<'_>, body),
        Some(Kind::KeyspaceDone) => reads_back!(KeyspaceDone<'_>, body),
        Some(Kind::Publish) => reads_back!(Publish<'_>, body),
        Some(Kind::Published) => reads_back!(Published, body),
        Some(Kind::Listeners) => reads_back!(Listeners<'_>, body),
        Some(Kind::Listening) => reads_back!(Listening<'_>, body),
        Some(Kind::Scripts) => reads_back!(Scripts<'_>, body),
        Some(Kind::ScriptsAnswer) => reads_back!(ScriptsAnswer<'_>, body),
        Some(Kind::Libraries) => reads_back!(Libraries<'_>, body),
        Some(Kind::LibrariesAnswer) => reads_back!(LibrariesAnswer<'_>, body),
        Some(Kind::AskStatus) => reads_back!(AskStatus, body),
        Some(Kind::Status) => reads_back!(NodeStatus, body),
        Some(Kind::Drain) => reads_back!(Drain, body),
        Some(Kind::DrainBegun) => reads_back!(DrainBegun, body),
        Some(Kind::Slot) => {
            let messages: Vec<_> = SlotMessages::of(body).map_while(Result::ok).collect();
            let mut again = Vec::new();
            for message in &messages {
                append_slot_message(message, &mut again).expect("what was read can be written");
            }
            assert!(
                SlotMessages::of(&again)
                    .map(|message| message.expect("a message"))
                    .eq(messages)
            );
        }
        // Without a body.
        Some(Kind::NotUnderstood) | None => {}
    }
}
