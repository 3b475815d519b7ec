//! Structured log lines on standard error.

use crate::config::{Log, LogFormat, parse_log_filter};
use std::io;
use thiserror::Error;
use tracing::Subscriber;
use tracing_subscriber::fmt::MakeWriter;

/// The environment variable that takes the place of `log.level`, as in other programs.
pub const VARIABLE_LEVEL: &str = "RUST_LOG";

/// Why logging could not start.
#[derive(Debug, Error)]
pub enum LoggingError {
    /// The filter does not parse.
    #[error("{place} {reason}")]
    Filter {
        /// `log.level` or `RUST_LOG`.
        place: &'static str,
        /// What it must be and what it is.
        reason: String,
    },
    /// The process logs already.
    #[error("logging has started already")]
    Started,
}

/// Starts logging for the process: from here on every event of [`tracing`] goes to standard error.
///
/// # Errors
/// A filter that does not parse, or a second start.
pub fn start(config: &Log) -> Result<(), LoggingError> {
    let variable = std::env::var(VARIABLE_LEVEL).ok().filter(|filter| !filter.is_empty());
    let subscriber = subscriber(config, variable.as_deref(), io::stderr)?;
    tracing::subscriber::set_global_default(subscriber).map_err(|_| LoggingError::Started)
}

fn subscriber<W>(
    config: &Log,
    variable: Option<&str>,
    writer: W,
) -> Result<Box<dyn Subscriber + Send + Sync>, LoggingError>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let (place, filter) = match variable {
        Some(filter) => (VARIABLE_LEVEL, filter),
        None => ("log.level", config.level.as_str()),
    };
    let filter = parse_log_filter(filter).map_err(|reason| LoggingError::Filter { place, reason })?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer);
    Ok(match config.format {
        LogFormat::Text => Box::new(builder.with_ansi(false).finish()),
        LogFormat::Json => Box::new(builder.json().flatten_event(true).with_current_span(false).finish()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(format: LogFormat, level: &str, variable: Option<&str>) -> String {
        let sink = Sink::default();
        let writer = sink.clone();
        let config = Log {
            level: level.to_owned(),
            format,
        };
        let subscriber = subscriber(&config, variable, move || writer.clone()).unwrap();
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(event = "node_ready", workers = 2, "ready");
            tracing::debug!(event = "detail", "more");
        });
        let bytes = sink.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn json_lines_carry_the_fields() {
        let text = logged(LogFormat::Json, "info", None);
        let line: serde_json::Value = serde_json::from_str(text.trim_end()).unwrap();
        assert_eq!(line["event"], "node_ready");
        assert_eq!(line["workers"], 2);
        assert_eq!(line["message"], "ready");
        assert_eq!(line["level"], "INFO");
    }

    #[test]
    fn text_lines_carry_the_fields() {
        let text = logged(LogFormat::Text, "info", None);
        assert!(
            text.contains("ready event=\"node_ready\" workers=2") && text.lines().count() == 1,
            "{text}"
        );
    }

    #[test]
    fn the_variable_takes_the_place_of_the_level() {
        assert_eq!(logged(LogFormat::Text, "info", Some("debug")).lines().count(), 2);
        assert_eq!(logged(LogFormat::Text, "debug", Some("warn")), "");
    }

    #[test]
    fn a_broken_filter_is_named() {
        let error = |level: &str, variable| {
            let config = Log {
                level: level.to_owned(),
                format: LogFormat::Text,
            };
            subscriber(&config, variable, io::stderr).err().unwrap().to_string()
        };
        assert!(error("tollgate=loud", None).starts_with("log.level must be error, warn, "));
        let text = error("info", Some("warning"));
        assert!(
            text.starts_with("RUST_LOG must be error, warn, ")
                && text.ends_with(", not \"warning\"; did you mean 'warn'?"),
            "{text}"
        );
    }
}
