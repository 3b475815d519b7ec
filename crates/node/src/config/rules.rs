//! The rules of `[[rules]]`: what is wrong with one is said with its id and its line, in words of the file.

use super::file::{one_line, raw};
use super::{ConfigError, Origin, nearest};
use serde::Deserialize;
use std::ops::Range;
use tollgate_limiter::{OnFailure, Rule, RuleError, RuleSet};
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

/// What a field of a rule takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Takes {
    /// Text, such as the example.
    Text(&'static str),
    /// A whole number.
    Number,
    /// One of the words for a holder that cannot be asked.
    OnFailure,
}

/// The fields of a rule, and whether a rule must have them.
const FIELDS: [(&str, Takes, bool); 6] = [
    ("id", Takes::Text("\"login\""), true),
    ("limit", Takes::Number, true),
    ("window", Takes::Text("\"1m\""), true),
    ("burst", Takes::Number, false),
    ("policy", Takes::Text("\"token_bucket\""), false),
    ("on_failure", Takes::OnFailure, false),
];

impl Takes {
    fn expected(self) -> String {
        match self {
            Self::Text(example) => format!("text, such as {example}"),
            Self::Number => "a whole number, such as 5".to_owned(),
            Self::OnFailure => "\"local\", \"open\" or \"closed\"".to_owned(),
        }
    }

    fn fits(self, value: &DeValue<'_>) -> bool {
        match (self, value) {
            (Self::Text(_), DeValue::String(_)) => true,
            (Self::Number, DeValue::Integer(number)) => u64::from_str_radix(number.as_str(), number.radix()).is_ok(),
            (Self::OnFailure, DeValue::String(word)) => {
                OnFailure::parse(word.as_bytes()).is_some_and(|known| known.as_str() == &**word)
            }
            _ => false,
        }
    }
}

/// Reads the rules; also where each is in the text. `at` says where that is in the file.
pub(super) fn read(
    value: Spanned<DeValue<'_>>,
    at: impl Fn(Range<usize>) -> Origin,
) -> Result<(RuleSet, Vec<Range<usize>>), ConfigError> {
    let whole = value.span();
    let not_rules = |span| ConfigError::Syntax {
        at: at(span),
        reason: "rules are written as [[rules]]".to_owned(),
    };
    let DeValue::Array(tables) = value.into_inner() else {
        return Err(not_rules(whole));
    };
    let mut rules = Vec::with_capacity(tables.len());
    let mut spans = Vec::with_capacity(tables.len());
    for (index, rule) in tables.into_iter().enumerate() {
        let span = rule.span();
        let DeValue::Table(fields) = rule.get_ref() else {
            return Err(not_rules(span));
        };
        if let Err((place, reason)) = check(fields) {
            return Err(ConfigError::Rule {
                at: at(place.unwrap_or(span)),
                reason: one_line(&format!("{}: {reason}", name_of(fields, index))),
            });
        }
        // The forms are right; what is left is what the rule itself says of its values, and it names itself.
        let rule = Rule::deserialize(ValueDeserializer::from(rule)).map_err(|error| ConfigError::Rule {
            at: at(error.span().unwrap_or(span.clone())),
            reason: one_line(error.message()),
        })?;
        rules.push(rule);
        spans.push(span);
    }
    let ids: Vec<String> = rules.iter().map(|rule| rule.id.clone()).collect();
    let rules = RuleSet::new(rules).map_err(|error| {
        let second = match &error {
            RuleError::Duplicate(id) => ids.iter().rposition(|other| other == id),
            _ => None,
        };
        let span = second.and_then(|index| spans.get(index).cloned());
        ConfigError::Rule {
            at: at(span.unwrap_or(whole)),
            reason: error.to_string(),
        }
    })?;
    Ok((rules, spans))
}

/// Checks which fields there are, and that each has a value of its form. The error says where, unless that is the whole rule.
fn check(fields: &DeTable<'_>) -> Result<(), (Option<Range<usize>>, String)> {
    for (name, value) in fields {
        let written = &**name.get_ref();
        let Some((_, takes, _)) = FIELDS.iter().find(|(field, ..)| *field == written) else {
            let names = FIELDS.map(|(field, ..)| field);
            let hint = match nearest(written, names.iter().map(|name| (*name).to_owned())) {
                Some(similar) => format!("; did you mean '{similar}'?"),
                None => format!("; a rule has {}", names.join(", ")),
            };
            return Err((Some(name.span()), format!("there is no field '{written}'{hint}")));
        };
        if !takes.fits(value.get_ref()) {
            let reason = format!(
                "{written} must be {}, not {}",
                takes.expected(),
                raw(value.get_ref()).show()
            );
            return Err((Some(value.span()), reason));
        }
    }
    let missing = FIELDS
        .iter()
        .find(|(field, _, required)| *required && fields.get(*field).is_none());
    match missing {
        Some((field, takes, _)) => Err((None, format!("{field} is missing: it is {}", takes.expected()))),
        None => Ok(()),
    }
}

/// What a message calls a rule: by its id if it has one, else by its position, from 1.
fn name_of(fields: &DeTable<'_>, index: usize) -> String {
    match fields.get("id").map(Spanned::get_ref) {
        Some(DeValue::String(id)) => format!("rule '{id}'"),
        _ => format!("rule {}", index + 1),
    }
}
