//! What is unknown at the node that decides may be known at the node that was asked: the error names the former.

use crate::remote::Replies;
use tollgate_commands::CommandError;

/// How such errors start.
const STARTS: [&[u8]; 2] = [b"-ERR unknown rule '", b"-ERR unknown policy '"];
const END: &[u8] = b"\r\n";

/// Adds the name of this node to the errors about unknown rules and policies among the replies to a peer.
pub fn name_node(replies: &mut Replies, name: &str) {
    let is_unknown = |reply: &[u8]| STARTS.iter().any(|start| reply.starts_with(start)) && reply.ends_with(END);
    let mut all = (0..replies.ends.len()).map(|index| replies.get(index).unwrap_or_default());
    if !all.any(is_unknown) {
        return;
    }
    let mut named = Replies {
        elsewhere: std::mem::take(&mut replies.elsewhere),
        ..Replies::default()
    };
    let suffix = format!(" at node '{}'", CommandError::quote(name.as_bytes()));
    for index in 0..replies.ends.len() {
        let reply = replies.get(index).unwrap_or_default();
        match reply.strip_suffix(END).filter(|_| is_unknown(reply)) {
            Some(error) => named.bytes.extend([error, suffix.as_bytes(), END].concat()),
            None => named.bytes.extend_from_slice(reply),
        }
        named.ends.push(named.bytes.len() as u32);
    }
    *replies = named;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replies(all: &[&str]) -> Replies {
        let mut replies = Replies::default();
        for reply in all {
            replies.bytes.extend_from_slice(reply.as_bytes());
            replies.ends.push(replies.bytes.len() as u32);
        }
        replies
    }

    #[test]
    fn errors_about_unknown_rules_name_the_node() {
        let (ok, empty) = (":1\r\n", "");
        let mut some = replies(&[
            ok,
            "-ERR unknown rule 'a'\r\n",
            empty,
            "-ERR unknown policy 'p'\r\n",
            "-ERR unknown command 'x'\r\n",
            ok,
        ]);
        name_node(&mut some, "b\n");
        let expected = replies(&[
            ok,
            "-ERR unknown rule 'a' at node 'b\\n'\r\n",
            empty,
            "-ERR unknown policy 'p' at node 'b\\n'\r\n",
            "-ERR unknown command 'x'\r\n",
            ok,
        ]);
        assert_eq!((&some.bytes, &some.ends), (&expected.bytes, &expected.ends));
        let mut none = replies(&[ok, "$22\r\n-ERR unknown rule 'a'\r\n\r\n"]);
        let before = none.bytes.clone();
        name_node(&mut none, "b");
        assert_eq!(none.bytes, before);
    }
}
