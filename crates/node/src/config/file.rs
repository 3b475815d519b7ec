//! Reading the configuration file: TOML, with the line in every error.

use super::key::Raw;
use super::{Config, ConfigError, Origin, rules};
use std::ops::Range;
use std::path::Path;
use toml::de::{DeTable, DeValue};

/// The longest configuration file in bytes.
const FILE_MAX_BYTES: u64 = 64 << 20;
/// The array of tables that holds the rules.
pub(super) const RULES: &str = "rules";

/// Sets what the file sets. `named_by` is the flag or variable that names the file, for errors.
pub(super) fn read(config: &mut Config, path: &Path, named_by: &'static str) -> Result<(), ConfigError> {
    let unreadable = |source| ConfigError::Unreadable {
        path: path.to_owned(),
        key: named_by,
        source,
    };
    if std::fs::metadata(path).map_err(unreadable)?.len() > FILE_MAX_BYTES {
        return Err(unreadable(std::io::Error::other("it is larger than 64 MiB")));
    }
    let text = std::fs::read_to_string(path).map_err(unreadable)?;
    apply(config, &text, path)
}

/// Sets what the text of a file sets.
pub(super) fn apply(config: &mut Config, text: &str, path: &Path) -> Result<(), ConfigError> {
    config.file = Some(path.to_owned());
    let at = |span: Range<usize>| Origin::File {
        path: path.to_owned(),
        line: 1 + text[..span.start.min(text.len())].matches('\n').count(),
    };
    let table = DeTable::parse(text).map_err(|error| ConfigError::Syntax {
        at: at(error.span().unwrap_or_default()),
        reason: one_line(error.message()),
    })?;
    for (section, value) in table.into_inner() {
        let span = section.span();
        let section = section.into_inner();
        if section == RULES {
            let spans;
            (config.rules, spans) = rules::read(value, at)?;
            config.rule_lines = lines_of(text, &spans);
            continue;
        }
        if config.section(&section).is_none() {
            return Err(match value.get_ref() {
                DeValue::Table(_) | DeValue::Array(_) => config.unknown_section(&section, at(span)),
                _ => config.without_section(&section, at(span)),
            });
        }
        let DeValue::Table(keys) = value.into_inner() else {
            return Err(ConfigError::Syntax {
                at: at(span),
                reason: format!("'{section}' is a section: write [{section}]"),
            });
        };
        for (name, value) in keys {
            let at = at(name.span());
            config.set(&section, name.get_ref(), raw(value.get_ref()), at)?;
        }
    }
    Ok(())
}

pub(super) fn raw<'a>(value: &'a DeValue<'_>) -> Raw<'a> {
    match value {
        DeValue::String(text) => Raw::String(text),
        DeValue::Boolean(flag) => Raw::Flag(*flag),
        DeValue::Integer(integer) => match i64::from_str_radix(integer.as_str(), integer.radix()) {
            Ok(number) => Raw::Integer(number),
            Err(_) => Raw::Other("integer of more than 64 bits"),
        },
        DeValue::Array(items) => Raw::List(items),
        other => Raw::Other(other.type_str()),
    }
}

/// The line on which each of some pieces of a text starts. They are in its order, so that it is read once.
fn lines_of(text: &str, spans: &[Range<usize>]) -> Vec<usize> {
    let (mut line, mut read) = (1, 0);
    let line_of = |span: &Range<usize>| {
        let start = span.start.clamp(read, text.len());
        line += text.as_bytes()[read..start]
            .iter()
            .filter(|&&byte| byte == b'\n')
            .count();
        read = start;
        line
    };
    spans.iter().map(line_of).collect()
}

/// A message on one line.
pub(super) fn one_line(message: &str) -> String {
    message
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect::<Vec<_>>()
        .join(", ")
}
