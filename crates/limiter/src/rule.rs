//! Rules: named limits held by the servers.

use crate::{Burst, DEFAULT_POLICY, Limit, Quota, QuotaError, Terms, Window};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use thiserror::Error;

/// The most rules a set may hold.
pub const RULES_MAX: usize = 100_000;
/// The longest rule id in bytes.
const ID_MAX_BYTES: usize = 128;

/// What a check does when the holder of its slot cannot be asked. A single node is always its own holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnFailure {
    /// Decide on a local share of the limit.
    #[default]
    Local,
    /// Admit.
    Open,
    /// Deny.
    Closed,
}

impl OnFailure {
    /// Parses the word, in any case.
    pub fn parse(text: &[u8]) -> Option<Self> {
        [Self::Local, Self::Open, Self::Closed]
            .into_iter()
            .find(|v| text.eq_ignore_ascii_case(v.as_str().as_bytes()))
    }

    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Open => "open",
            Self::Closed => "closed",
        }
    }
}

/// A rule that is not acceptable; the text names the rule, the field and what is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RuleError {
    /// A field's value is out of range or malformed.
    #[error("rule '{id}': {field} {reason}")]
    Field {
        /// The rule's id as written.
        id: String,
        /// The field's name.
        field: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// Two rules have one id.
    #[error("rule '{0}' is defined twice")]
    Duplicate(String),
    /// More rules than [`RULES_MAX`].
    #[error("more than {RULES_MAX} rules")]
    TooMany,
}

/// A rule as written in TOML or JSON. Unknown fields are errors that name the field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleText {
    id: String,
    limit: u64,
    window: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    burst: Option<u64>,
    #[serde(default = "default_policy")]
    policy: String,
    #[serde(default)]
    on_failure: OnFailure,
}

fn default_policy() -> String {
    DEFAULT_POLICY.to_owned()
}

/// A checked rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "RuleText", into = "RuleText")]
pub struct Rule {
    /// Its name: 1 to 128 letters, digits and `_ - . : /`.
    pub id: String,
    /// Tokens per window.
    pub limit: Limit,
    /// The window.
    pub window: Window,
    /// The capacity, if the rule gives one.
    pub burst: Option<Burst>,
    /// The policy's name.
    pub policy: String,
    /// What to do when the holder cannot be asked.
    pub on_failure: OnFailure,
}

impl TryFrom<RuleText> for Rule {
    type Error = RuleError;

    fn try_from(text: RuleText) -> Result<Self, RuleError> {
        let fail = |field, reason: String| RuleError::Field {
            id: text.id.clone(),
            field,
            reason,
        };
        let id_byte = |b: u8| b.is_ascii_alphanumeric() || b"_-.:/".contains(&b);
        if text.id.is_empty() || text.id.len() > ID_MAX_BYTES || !text.id.bytes().all(id_byte) {
            return Err(fail(
                "id",
                format!("must be 1 to {ID_MAX_BYTES} letters, digits and _ - . : /"),
            ));
        }
        // The amount's own text starts with the name of the field in capitals; here the field is named already.
        let amount = |e: crate::AmountError| format!("must be a whole number from {} to {}", e.min, crate::AMOUNT_MAX);
        let limit = Limit::new(text.limit).map_err(|e| fail("limit", amount(e)))?;
        let burst = text
            .burst
            .map(Burst::new)
            .transpose()
            .map_err(|e| fail("burst", amount(e)))?;
        let window = Window::parse(text.window.as_bytes()).map_err(|e| fail("window", e.to_string()))?;
        Ok(Rule {
            id: text.id,
            limit,
            window,
            burst,
            policy: text.policy,
            on_failure: text.on_failure,
        })
    }
}

impl From<Rule> for RuleText {
    fn from(rule: Rule) -> Self {
        RuleText {
            id: rule.id,
            limit: rule.limit.get(),
            window: crate::format_duration_us(rule.window.as_us()),
            burst: rule.burst.map(Burst::get),
            policy: rule.policy,
            on_failure: rule.on_failure,
        }
    }
}

impl Rule {
    /// The parameters of this rule's buckets, given what its policy says of them.
    ///
    /// # Errors
    /// The field that the policy does not take.
    pub fn quota(&self, terms: &Terms<'_>) -> Result<Quota, RuleError> {
        Quota::new(self.limit, self.window, self.burst, terms).map_err(|error| {
            let (field, reason) = match error {
                QuotaError::Burst { policy } => ("burst", format!("is not taken by policy '{policy}'")),
                QuotaError::Limit { policy, limit_max } => {
                    ("limit", format!("must be at most {limit_max} for policy '{policy}'"))
                }
            };
            RuleError::Field {
                id: self.id.clone(),
                field,
                reason,
            }
        })
    }
}

/// All rules of a node, by id. A rule's number is its index in this set and names its buckets in the store.
#[derive(Debug, Clone, Default)]
pub struct RuleSet {
    rules: Vec<Rule>,
    by_id: BTreeMap<String, u32>,
}

impl RuleSet {
    /// Builds a set; ids must be distinct.
    pub fn new(rules: Vec<Rule>) -> Result<Self, RuleError> {
        if rules.len() > RULES_MAX {
            return Err(RuleError::TooMany);
        }
        let mut by_id = BTreeMap::new();
        for (number, rule) in rules.iter().enumerate() {
            // RULES_MAX is far below u32::MAX.
            if by_id.insert(rule.id.clone(), number as u32).is_some() {
                return Err(RuleError::Duplicate(rule.id.clone()));
            }
        }
        Ok(Self { rules, by_id })
    }

    /// The rule of that id and its number.
    pub fn get(&self, id: &[u8]) -> Option<(u32, &Rule)> {
        let number = *self.by_id.get(std::str::from_utf8(id).ok()?)?;
        Some((number, self.rules.get(number as usize)?))
    }

    /// The rule of that number.
    pub fn by_number(&self, number: u32) -> Option<&Rule> {
        self.rules.get(number as usize)
    }

    /// All rules in the order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = &Rule> {
        self.by_id
            .values()
            .filter_map(|&number| self.rules.get(number as usize))
    }

    /// How many rules there are.
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from_json(json: &str) -> Result<Rule, String> {
        serde_json::from_str(json).map_err(|e| e.to_string())
    }

    #[test]
    fn json_and_toml_say_the_same() {
        let json = from_json(r#"{"id":"free","limit":50,"window":"1m"}"#).unwrap();
        let toml: Rule = toml::from_str("id = \"free\"\nlimit = 50\nwindow = \"1m\"\n").unwrap();
        assert_eq!(json, toml);
        assert_eq!(json.policy, "token_bucket");
        let back: Rule = serde_json::from_str(&serde_json::to_string(&json).unwrap()).unwrap();
        assert_eq!(back, json);
    }

    #[test]
    fn errors_name_the_field() {
        let error = |json: &str| from_json(json).unwrap_err();
        assert!(error(r#"{"id":"a","limit":1,"window":"1m","colour":1}"#).contains("unknown field `colour`"));
        assert!(
            error(r#"{"id":"a","limit":0,"window":"1m"}"#).contains("rule 'a': limit must be a whole number from 1")
        );
        assert!(error(r#"{"id":"a","limit":1,"window":"0s"}"#).contains("rule 'a': window must be from 1ms to 366d"));
        assert!(error(r#"{"id":"a b","limit":1,"window":"1s"}"#).contains("rule 'a b': id must be"));
        assert!(error(r#"{"id":"a","limit":1,"window":"1s","burst":0}"#).contains("rule 'a': burst must be"));
        assert!(error(r#"{"id":"a","limit":-1,"window":"1s"}"#).contains("invalid value"));
        assert!(error(r#"{"id":"a","limit":1.5,"window":"1s"}"#).contains("invalid type"));
        assert!(error(r#"{"id":"a","window":"1s"}"#).contains("missing field `limit`"));
    }

    #[test]
    fn sets_refuse_duplicates() {
        let rule = from_json(r#"{"id":"a","limit":1,"window":"1s"}"#).unwrap();
        assert_eq!(
            RuleSet::new(vec![rule.clone(), rule.clone()]).unwrap_err().to_string(),
            "rule 'a' is defined twice"
        );
        let set = RuleSet::new(vec![rule]).unwrap();
        assert_eq!(set.get(b"a").unwrap().0, 0);
        assert!(set.get(b"b").is_none());
        assert!(set.get(b"\xff").is_none());
    }
}
