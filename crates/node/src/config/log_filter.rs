//! What `log.level` and `RUST_LOG` take: a level, or a filter by module.

use super::nearest;
use tracing_subscriber::EnvFilter;

/// The levels, the quietest last.
const LEVELS: [&str; 6] = ["trace", "debug", "info", "warn", "error", "off"];
/// What the text must be, for people.
pub(super) const EXPECTED: &str =
    "error, warn, info, debug, trace or off, or a filter such as info,tollgate_node=debug";

/// Parses a level or a filter. The error is a reason that follows the name of the key.
///
/// The parser of filters takes a bare word that is no level for the name of a module, so that `warning` would turn off all
/// that is logged: only text with `=` or `,` is a filter.
pub fn parse_log_filter(text: &str) -> Result<EnvFilter, String> {
    let refuse = |more: String| Err(format!("must be {EXPECTED}, not {text:?}{more}"));
    let is_level = LEVELS.iter().any(|level| level.eq_ignore_ascii_case(text));
    if !is_level && !text.contains(['=', ',']) {
        return refuse(match nearest_level(text) {
            Some(level) => format!("; did you mean '{level}'?"),
            None => String::new(),
        });
    }
    EnvFilter::builder()
        .parse(text)
        .or_else(|error| refuse(format!(": {error}")))
}

/// The level that a word was meant to be: one that it starts with or is the start of, or a letter away.
fn nearest_level(word: &str) -> Option<String> {
    let word = word.trim().to_ascii_lowercase();
    if word.is_empty() {
        return None;
    }
    LEVELS
        .iter()
        .find(|level| level.starts_with(&word) || word.starts_with(**level))
        .map(|level| (*level).to_owned())
        .or_else(|| nearest(&word, LEVELS.iter().map(|level| (*level).to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_and_filters_are_taken() {
        for text in [
            "off",
            "error",
            "warn",
            "info",
            "debug",
            "trace",
            "WARN",
            "info,tollgate_node=debug",
            "tollgate_node=off",
        ] {
            assert!(parse_log_filter(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn a_word_that_is_no_level_is_refused_with_the_nearest() {
        for (text, nearest) in [
            ("warning", Some("warn")),
            ("Warning", Some("warn")),
            ("eror", Some("error")),
            ("err", Some("error")),
            ("information", Some("info")),
            (" info", Some("info")),
            ("loud", None),
            ("on", None),
            ("3", None),
            ("tollgate_node", None),
            ("", None),
        ] {
            let more = nearest.map_or(String::new(), |level| format!("; did you mean '{level}'?"));
            assert_eq!(
                parse_log_filter(text).unwrap_err(),
                format!("must be {EXPECTED}, not {text:?}{more}")
            );
        }
    }

    #[test]
    fn a_broken_filter_is_refused_with_the_reason() {
        for text in ["tollgate=loud", "a=b=c", "info,a=loud"] {
            let reason = parse_log_filter(text).unwrap_err();
            assert!(
                reason.starts_with(&format!("must be {EXPECTED}, not {text:?}: ")) && !reason.contains('\n'),
                "{reason}"
            );
        }
    }
}
