//! The JSON of `POST /v1/check`.

use super::backend::{Against, CheckRequest};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde_json::Value;
use std::fmt;
use tollgate_limiter::{AMOUNT_MAX, AmountError, Burst, Cost, Limit, OnFailure, Window};

/// The fields of a check; those that do not go with `rule` first.
const FIELDS: [&str; 10] = [
    "limit",
    "per",
    "burst",
    "policy",
    "on_failure",
    "database",
    "rule",
    "key",
    "cost",
    "peek",
];
/// How many of [`FIELDS`] do not go with `rule`.
const FIELDS_WITHOUT_RULE: usize = 6;
/// The number of databases of a node.
const DATABASES: u64 = 16;

/// What is wrong with a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BodyError {
    /// The field, if it is one.
    pub field: Option<String>,
    /// What is wrong with it.
    pub reason: String,
}

fn refuse<T>(field: &str, reason: impl Into<String>) -> Result<T, BodyError> {
    Err(BodyError {
        field: Some(field.to_owned()),
        reason: reason.into(),
    })
}

/// Reads a check; the key may have that many bytes.
pub(super) fn parse(body: &[u8], key_bytes_max: usize) -> Result<CheckRequest, BodyError> {
    let fields: Fields = serde_json::from_slice(body).map_err(|error| BodyError {
        field: None,
        reason: format!("the body is no JSON object of a check: {error}"),
    })?;
    if let Some((name, _)) = fields.0.iter().find(|(name, _)| !FIELDS.contains(&name.as_str())) {
        return refuse(name, format!("is unknown; a check has {}", FIELDS.join(", ")));
    }
    let key = match fields.text("key")? {
        Some(key) if key.len() > key_bytes_max => {
            return refuse("key", format!("is longer than {key_bytes_max} bytes"));
        }
        Some(key) => key.as_bytes().to_vec(),
        None => return refuse("key", "is missing"),
    };
    let against = match fields.text("rule")? {
        Some(rule) => {
            let other = FIELDS[..FIELDS_WITHOUT_RULE]
                .iter()
                .find(|name| fields.get(name).is_some());
            if let Some(other) = other {
                return refuse(other, "does not go with rule");
            }
            Against::Rule(rule.to_owned())
        }
        None => fields.limit()?,
    };
    Ok(CheckRequest {
        key,
        against,
        cost: fields.amount("cost", Cost::new)?.unwrap_or(Cost::ONE),
        peek: fields.flag("peek")?,
    })
}

/// The members of a JSON object, each once.
struct Fields(Vec<(String, Value)>);

impl Fields {
    /// A member; `null` counts as absent.
    fn get(&self, name: &str) -> Option<&Value> {
        let member = self.0.iter().find(|(member, _)| member == name);
        member.map(|(_, value)| value).filter(|value| !value.is_null())
    }

    fn text(&self, name: &str) -> Result<Option<&str>, BodyError> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => refuse(name, "must be text"),
        }
    }

    fn flag(&self, name: &str) -> Result<bool, BodyError> {
        match self.get(name) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(_) => refuse(name, "must be true or false"),
        }
    }

    fn amount<T>(&self, name: &str, new: fn(u64) -> Result<T, AmountError>) -> Result<Option<T>, BodyError> {
        let Some(value) = self.get(name) else {
            return Ok(None);
        };
        // What is no whole number becomes one that is out of every range, for one text.
        match new(value.as_u64().unwrap_or(u64::MAX)) {
            Ok(amount) => Ok(Some(amount)),
            Err(error) => refuse(
                name,
                format!("must be a whole number from {} to {AMOUNT_MAX}", error.min),
            ),
        }
    }

    fn limit(&self) -> Result<Against, BodyError> {
        let Some(limit) = self.amount("limit", Limit::new)? else {
            return refuse("limit", "is missing; a check has limit and per, or rule");
        };
        let Some(per) = self.text("per")? else {
            return refuse("per", "is missing; it is a duration such as 1m");
        };
        let window = match Window::parse(per.as_bytes()) {
            Ok(window) => window,
            Err(error) => return refuse("per", error.to_string()),
        };
        let database = match self.get("database").map(Value::as_u64) {
            None => 0,
            // The range keeps it far below 256.
            Some(Some(database)) if database < DATABASES => database as u8,
            Some(_) => return refuse("database", "must be a whole number from 0 to 15"),
        };
        let on_failure = match self.text("on_failure")? {
            None => OnFailure::default(),
            Some(word) => match OnFailure::parse(word.as_bytes()) {
                Some(on_failure) => on_failure,
                None => return refuse("on_failure", "must be local, open or closed"),
            },
        };
        Ok(Against::Limit {
            database,
            limit,
            window,
            burst: self.amount("burst", Burst::new)?,
            policy: self.text("policy")?.map(str::to_owned),
            on_failure,
        })
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FieldsVisitor)
    }
}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Fields;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
        let mut fields: Vec<(String, Value)> = Vec::new();
        while let Some((name, value)) = map.next_entry::<String, Value>()? {
            if fields.iter().any(|(other, _)| *other == name) {
                return Err(A::Error::custom(format_args!("{name:?} is there twice")));
            }
            // More members than there are fields: one of them is unknown, which is all that needs to be known.
            if fields.len() <= FIELDS.len() {
                fields.push((name, value));
            }
        }
        Ok(Fields(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(body: &str) -> String {
        let error = parse(body.as_bytes(), 64).unwrap_err();
        format!("{}: {}", error.field.as_deref().unwrap_or("-"), error.reason)
    }

    #[test]
    fn reads_both_forms() {
        let request = parse(br#"{"key":"user:1","limit":100,"per":"1m"}"#, 64).unwrap();
        assert_eq!(
            request,
            CheckRequest {
                key: b"user:1".to_vec(),
                against: Against::Limit {
                    database: 0,
                    limit: Limit::new(100).unwrap(),
                    window: Window::parse(b"1m").unwrap(),
                    burst: None,
                    policy: None,
                    on_failure: OnFailure::Local,
                },
                cost: Cost::ONE,
                peek: false,
            }
        );
        let full =
            br#"{"key":"","limit":1000000000000,"per":"366d","burst":7,"cost":0,"policy":"leaky_bucket","peek":true,
            "database":15,"on_failure":"Closed","rule":null}"#;
        let request = parse(full, 64).unwrap();
        assert!(matches!(
            request.against,
            Against::Limit {
                database: 15,
                burst: Some(_),
                policy: Some(_),
                on_failure: OnFailure::Closed,
                ..
            }
        ));
        assert_eq!((request.cost.get(), request.peek, request.key.len()), (0, true, 0));
        let request = parse(br#"{"key":"k","rule":"free","cost":3}"#, 64).unwrap();
        assert_eq!(request.against, Against::Rule("free".to_owned()));
    }

    #[test]
    fn errors_name_the_field() {
        for (body, expected) in [
            (r#"{"limit":1,"per":"1m"}"#, "key: is missing"),
            (r#"{"key":1,"limit":1,"per":"1m"}"#, "key: must be text"),
            (
                r#"{"key":"k"}"#,
                "limit: is missing; a check has limit and per, or rule",
            ),
            (
                r#"{"key":"k","limit":1}"#,
                "per: is missing; it is a duration such as 1m",
            ),
            (
                r#"{"key":"k","limit":0,"per":"1m"}"#,
                "limit: must be a whole number from 1 to 1000000000000",
            ),
            (
                r#"{"key":"k","limit":1.0,"per":"1m"}"#,
                "limit: must be a whole number from 1 to 1000000000000",
            ),
            (
                r#"{"key":"k","limit":"1","per":"1m"}"#,
                "limit: must be a whole number from 1 to 1000000000000",
            ),
            (
                r#"{"key":"k","limit":1,"per":"1m","cost":-1}"#,
                "cost: must be a whole number from 0 to 1000000000000",
            ),
            (
                r#"{"key":"k","limit":1,"per":"1m","burst":1e13}"#,
                "burst: must be a whole number from 1 to 1000000000000",
            ),
            (r#"{"key":"k","limit":1,"per":60}"#, "per: must be text"),
            (r#"{"key":"k","limit":1,"per":"367d"}"#, "per: must be from 1ms to 366d"),
            (
                r#"{"key":"k","limit":1,"per":"1m","database":16}"#,
                "database: must be a whole number from 0 to 15",
            ),
            (
                r#"{"key":"k","limit":1,"per":"1m","database":"1"}"#,
                "database: must be a whole number from 0 to 15",
            ),
            (
                r#"{"key":"k","limit":1,"per":"1m","peek":1}"#,
                "peek: must be true or false",
            ),
            (
                r#"{"key":"k","limit":1,"per":"1m","on_failure":"shut"}"#,
                "on_failure: must be local, open or closed",
            ),
            (
                r#"{"key":"k","on_failure":"open","rule":"r"}"#,
                "on_failure: does not go with rule",
            ),
            (r#"{"key":"k","limit":1,"rule":"r"}"#, "limit: does not go with rule"),
            (
                r#"{"key":"k","database":1,"rule":"r"}"#,
                "database: does not go with rule",
            ),
        ] {
            assert_eq!(error(body), expected, "{body}");
        }
        assert!(
            error(r#"{"key":"k","limit":1,"per":"1m","colour":2}"#).starts_with("colour: is unknown; a check has ")
        );
        let long = format!(r#"{{"key":"{}","limit":1,"per":"1m"}}"#, "k".repeat(65));
        assert_eq!(error(&long), "key: is longer than 64 bytes");
    }

    #[test]
    fn what_is_no_object_is_refused() {
        for body in [
            "",
            "{",
            "[]",
            "1",
            "{\"key\":\"a\",\"key\":\"b\"}",
            "{} {}",
            "\u{0}",
            &"[".repeat(10_000),
        ] {
            assert!(
                error(body).starts_with("-: the body is no JSON object of a check: "),
                "{body}"
            );
        }
        let many: Vec<String> = (0..5_000).map(|n| format!("\"f{n}\":0")).collect();
        assert!(error(&format!("{{{}}}", many.join(","))).starts_with("f0: is unknown"));
    }
}
