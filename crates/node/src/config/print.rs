//! `--print-config`: the configuration as a file that gives the same configuration again.

use super::{Config, Kind};
use std::fmt::Write;

/// Columns of a comment.
const COLUMNS: usize = 110;

impl Config {
    /// Every key with its value, default, range, unit and meaning, and the rules: a complete configuration file.
    pub fn to_toml(&self) -> String {
        let defaults = Config::default();
        let mut out = String::from(
            "# Every configuration key of tollgate with the value in force. Flags come first, then the environment\n\
             # (TOLLGATE_SECTION_KEY, for example TOLLGATE_NODE_WORKERS), then the file, then the default.\n",
        );
        let mut section = "";
        for ((key, value), (_, default)) in self.keys().zip(defaults.keys()) {
            if key.section != section {
                section = key.section;
                let _ = write!(out, "\n[{section}]\n");
            } else {
                out.push('\n');
            }
            let mut comment = key.meaning.trim().to_owned();
            if let Some(range) = range(key.kind) {
                let _ = write!(comment, " {range}.");
            }
            let _ = write!(comment, " Default: {}", default.to_toml());
            if !key.unit.is_empty() {
                let _ = write!(comment, " {}", key.unit);
            }
            comment.push('.');
            write_comment(&mut out, &comment);
            let _ = writeln!(out, "{} = {}", key.name, value.to_toml());
        }
        for rule in self.rules.iter() {
            // A rule has text and numbers only, which TOML can always write.
            let rule = toml::to_string(rule).unwrap_or_default();
            let _ = write!(out, "\n[[rules]]\n{rule}");
        }
        out
    }
}

fn range(kind: Kind) -> Option<String> {
    match kind {
        Kind::Count(min, max) | Kind::Bytes(min, max) | Kind::Millis(min, max) | Kind::Micros(min, max) => {
            Some(format!("From {min} to {max}"))
        }
        Kind::Choice(words) => Some(format!("One of: {}", words.join(", "))),
        Kind::Flag => Some("true or false".to_owned()),
        Kind::Text
        | Kind::Path
        | Kind::Address
        | Kind::OptionalAddress
        | Kind::PeerAddress
        | Kind::Host
        | Kind::Endpoint
        | Kind::Seeds
        | Kind::LogFilter => None,
    }
}

/// Writes a comment, wrapped.
fn write_comment(out: &mut String, comment: &str) {
    let mut column = 0;
    for word in comment.split_whitespace() {
        if column == 0 || column + 1 + word.len() > COLUMNS {
            out.push_str(if column == 0 { "#" } else { "\n#" });
            column = 1;
        }
        out.push(' ');
        out.push_str(word);
        column += 1 + word.len();
    }
    out.push('\n');
}
