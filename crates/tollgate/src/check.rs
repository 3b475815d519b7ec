//! `tollgate check`: one decision from a running node.

use crate::cli::CheckArguments;
use crate::client::{Client, ClientError};
use serde::Serialize;
use std::fmt;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};
use tollgate_node::config::Password;
use tollgate_protocol::Reply;

/// Exit status of a denied check.
const DENIED: u8 = 1;
/// Exit status of a check that got no decision.
const ERROR: u8 = 2;

/// A decision as the node answers it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Answer {
    allowed: bool,
    limit: i64,
    remaining: i64,
    retry_after_ms: i64,
    reset_at_ms: i64,
    source: String,
}

/// Asks, prints and says it in the exit status: 0 allowed, 1 denied, 2 error.
pub fn run(arguments: &CheckArguments) -> ExitCode {
    let answer = match ask(arguments) {
        Ok(answer) => answer,
        Err(error) => {
            eprintln!("tollgate: {error}");
            return ExitCode::from(ERROR);
        }
    };
    let line = if arguments.json {
        // Strings, numbers and booleans always have a JSON form.
        serde_json::to_string(&answer).unwrap_or_default()
    } else {
        let now_ms = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |now| now.as_millis() as i64);
        Sentence {
            answer: &answer,
            now_ms,
        }
        .to_string()
    };
    println!("{line}");
    if answer.allowed {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(DENIED)
    }
}

fn ask(arguments: &CheckArguments) -> Result<Answer, Box<dyn std::error::Error>> {
    // A variable that is empty names no file.
    let password_file = arguments
        .password_file
        .as_deref()
        .filter(|path| !path.as_os_str().is_empty());
    let password = password_file
        .map(|path| Password::read(path, "--password-file"))
        .transpose()?;
    let mut client = Client::connect(&arguments.addr)?;
    if let Some(password) = password {
        client.call(&[b"AUTH", password.as_bytes()])?;
    }
    let command = command(arguments);
    let words: Vec<&[u8]> = command.iter().map(|word| word.as_bytes()).collect();
    let reply = client.call(&words)?;
    Ok(answer(&client, reply)?)
}

/// The words of RL.CHECK.
fn command(arguments: &CheckArguments) -> Vec<String> {
    let mut words = vec!["RL.CHECK".to_owned(), arguments.key.clone()];
    let mut option = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            words.extend([name.to_owned(), value]);
        }
    };
    option("RULE", arguments.rule.clone());
    option("LIMIT", arguments.limit.map(|limit| limit.to_string()));
    option("PER", arguments.per.clone());
    option("BURST", arguments.burst.map(|burst| burst.to_string()));
    option("COST", Some(arguments.cost.to_string()));
    option("POLICY", arguments.policy.clone());
    if arguments.peek {
        words.push("PEEK".to_owned());
    }
    words
}

fn answer(client: &Client, reply: Reply) -> Result<Answer, ClientError> {
    let shown = format!("{reply:?}");
    let fields = match reply {
        Reply::Array(fields) => fields,
        _ => Vec::new(),
    };
    match fields.as_slice() {
        [
            Reply::Int(allowed),
            Reply::Int(limit),
            Reply::Int(remaining),
            Reply::Int(retry_after_ms),
            Reply::Int(reset_at_ms),
            Reply::Bulk(source),
        ] => Ok(Answer {
            allowed: *allowed == 1,
            limit: *limit,
            remaining: *remaining,
            retry_after_ms: *retry_after_ms,
            reset_at_ms: *reset_at_ms,
            source: String::from_utf8_lossy(source).into_owned(),
        }),
        _ => Err(client.unexpected(format!("a check answered {shown}"))),
    }
}

/// A decision for people.
struct Sentence<'a> {
    answer: &'a Answer,
    now_ms: i64,
}

impl fmt::Display for Sentence<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Answer {
            remaining,
            limit,
            retry_after_ms,
            ..
        } = self.answer;
        match (self.answer.allowed, *retry_after_ms) {
            (true, _) => write!(f, "allowed: {remaining} left of a limit of {limit}")?,
            (false, -1) => write!(
                f,
                "denied for ever: the cost is more than the bucket can hold; {remaining} left"
            )?,
            (false, retry_ms) => write!(
                f,
                "denied: {remaining} left of a limit of {limit}, retry in {}",
                Span(retry_ms)
            )?,
        }
        match self.answer.reset_at_ms - self.now_ms {
            full_in_ms if full_in_ms > 0 => write!(f, ", full again in {}", Span(full_in_ms)),
            _ => f.write_str(", full"),
        }
    }
}

/// Milliseconds for people, rounded up: who waits that long has waited long enough.
struct Span(i64);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ceil = |unit_ms: i64| (self.0 + unit_ms - 1) / unit_ms;
        let (tenths, seconds, minutes) = (ceil(100), ceil(1_000), ceil(60_000));
        match self.0 {
            ms if ms < 1_000 => write!(f, "{ms} ms"),
            _ if tenths < 600 => write!(f, "{}.{} s", tenths / 10, tenths % 10),
            _ if seconds < 3_600 => write!(f, "{} min {} s", seconds / 60, seconds % 60),
            _ if minutes < 48 * 60 => write!(f, "{} h {} min", minutes / 60, minutes % 60),
            _ => write!(f, "{} d {} h", minutes / 1_440, (minutes % 1_440 + 59) / 60),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread;

    fn sentence(allowed: bool, remaining: i64, retry_after_ms: i64, full_in_ms: i64) -> String {
        let answer = Answer {
            allowed,
            limit: 100,
            remaining,
            retry_after_ms,
            reset_at_ms: 1_000_000 + full_in_ms,
            source: "owner".to_owned(),
        };
        let now_ms = 1_000_000;
        Sentence {
            answer: &answer,
            now_ms,
        }
        .to_string()
    }

    #[test]
    fn decisions_read_as_sentences() {
        assert_eq!(
            sentence(true, 99, 0, 600),
            "allowed: 99 left of a limit of 100, full again in 600 ms"
        );
        assert_eq!(sentence(true, 100, 0, 0), "allowed: 100 left of a limit of 100, full");
        assert_eq!(
            sentence(false, 0, 1_201, 60_000),
            "denied: 0 left of a limit of 100, retry in 1.3 s, full again in 1 min 0 s"
        );
        assert_eq!(
            sentence(false, 3, -1, 5),
            "denied for ever: the cost is more than the bucket can hold; 3 left, full again in 5 ms"
        );
    }

    #[test]
    fn spans_round_up() {
        for (ms, text) in [
            (1, "1 ms"),
            (999, "999 ms"),
            (1_000, "1.0 s"),
            (59_900, "59.9 s"),
            (59_901, "1 min 0 s"),
            (61_001, "1 min 2 s"),
            (3_599_001, "1 h 0 min"),
            (3_600_001, "1 h 1 min"),
            (172_800_000, "2 d 0 h"),
            (172_800_001, "2 d 1 h"),
            (31_622_400_000, "366 d 0 h"),
        ] {
            assert_eq!(Span(ms).to_string(), text, "{ms}");
        }
    }

    fn arguments(addr: &str) -> CheckArguments {
        CheckArguments {
            key: "user:1".to_owned(),
            limit: Some(100),
            per: Some("1m".to_owned()),
            cost: 2,
            burst: None,
            policy: None,
            rule: None,
            peek: true,
            addr: addr.to_owned(),
            password_file: None,
            json: false,
        }
    }

    /// Asks a peer that takes one request and answers `reply`; returns what it was sent and what came of it.
    fn ask_peer(reply: &'static [u8]) -> (Vec<u8>, Result<Answer, String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap().to_string();
        let peer = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = vec![0; 1_024];
            let count = stream.read(&mut request).unwrap();
            request.truncate(count);
            // In two pieces: a reply may be cut anywhere.
            let (first, second) = reply.split_at(reply.len() / 2);
            stream.write_all(first).unwrap();
            stream.flush().unwrap();
            stream.write_all(second).unwrap();
            request
        });
        let result = ask(&arguments(&addr)).map_err(|error| error.to_string().replace(&addr, "ADDR"));
        (peer.join().unwrap(), result)
    }

    #[test]
    fn asks_with_rl_check() {
        let (request, answer) = ask_peer(b"*6\r\n:0\r\n:100\r\n:7\r\n:250\r\n:1700000000000\r\n$5\r\nowner\r\n");
        assert_eq!(
            request,
            b"*9\r\n$8\r\nRL.CHECK\r\n$6\r\nuser:1\r\n$5\r\nLIMIT\r\n$3\r\n100\r\n$3\r\nPER\r\n$2\r\n1m\r\n$4\r\nCOST\r\n$1\r\n2\r\n\
              $4\r\nPEEK\r\n"
        );
        let answer = answer.unwrap();
        assert_eq!(
            (answer.allowed, answer.remaining, answer.retry_after_ms),
            (false, 7, 250)
        );
        assert_eq!(
            serde_json::to_string(&answer).unwrap(),
            r#"{"allowed":false,"limit":100,"remaining":7,"retry_after_ms":250,"reset_at_ms":1700000000000,"source":"owner"}"#
        );
    }

    #[test]
    fn says_what_is_wrong_with_the_arguments() {
        for addr in ["localhost", "6379", ":6379", "localhost:", "localhost:65536", "::1"] {
            assert_eq!(
                ask(&arguments(addr)).unwrap_err().to_string(),
                format!("--addr must be host:port, such as 127.0.0.1:6379 or [::1]:6379, not {addr:?}")
            );
        }
        let mut arguments = arguments("127.0.0.1:1");
        arguments.password_file = Some("/nonexistent/p".into());
        assert!(
            ask(&arguments)
                .unwrap_err()
                .to_string()
                .starts_with("cannot read /nonexistent/p (--password-file): ")
        );
    }

    #[test]
    fn says_what_is_wrong_with_the_other_side() {
        let error = |reply| ask_peer(reply).1.unwrap_err();
        assert_eq!(
            error(b"-NOAUTH Authentication required.\r\n"),
            "ADDR answered: NOAUTH Authentication required. Give the password with --password-file FILE, or TOLLGATE_AUTH_PASSWORD_FILE"
        );
        assert!(error(b"+OK\r\n").starts_with("ADDR does not answer as a node of tollgate: a check answered "));
        assert!(error(b"*1\r\n:1\r\n").starts_with("ADDR does not answer as a node of tollgate: "));
        assert_eq!(
            error(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
            "ADDR does not answer as a node of tollgate: it speaks HTTP; is this the HTTP port?"
        );
        assert_eq!(
            error(b"-ERR unknown rule 'x'\r\n"),
            "ADDR answered: ERR unknown rule 'x'"
        );
        assert_eq!(error(b"*6\r\n:1\r\n"), "ADDR: the connection was closed");
        let free = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .to_string();
        let text = ask(&arguments(&free)).unwrap_err().to_string();
        assert!(
            text.starts_with(&format!("{free}: "))
                && text.ends_with("; is a node running there? (tollgate serve, or --addr)"),
            "{text}"
        );
    }
}
