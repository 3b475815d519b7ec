//! Whether nodes have the same rules and policies: each gossips a hash of its own, and says whose differ.

use std::collections::BTreeMap;
use tollgate_cluster::Incarnation;
use tollgate_eval::sha1_hex;
use tollgate_limiter::RuleSet;
use tollgate_script::PolicySource;

/// Hashes of what the operator gives a node in files. They are the same on every machine and in every build.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Files {
    /// Of the rules, in whichever order they are written.
    pub rules: u64,
    /// Of the policies' names and texts, the built-in ones included.
    pub policies: u64,
}

impl Files {
    /// The hashes of these.
    pub fn of(rules: &RuleSet, policies: &[PolicySource]) -> Self {
        let mut rules: Vec<String> = rules
            .iter()
            // A rule that cannot be written would be as one that is missing; text and numbers always can.
            .map(|rule| serde_json::to_string(rule).unwrap_or_default())
            .collect();
        rules.sort_unstable();
        let mut policies: Vec<String> = policies
            .iter()
            .map(|policy| format!("{} {}\n{}", policy.name, policy.text.len(), policy.text))
            .collect();
        policies.sort_unstable();
        Self {
            rules: hash(&rules),
            policies: hash(&policies),
        }
    }

    /// The value of the key `files`.
    pub(super) fn write(self) -> String {
        format!("{:x} {:x}", self.rules, self.policies)
    }

    /// Reads such a value.
    pub(super) fn read(text: &str) -> Option<Self> {
        let (rules, policies) = text.split_once(' ')?;
        Some(Self {
            rules: u64::from_str_radix(rules, 16).ok()?,
            policies: u64::from_str_radix(policies, 16).ok()?,
        })
    }
}

fn hash(parts: &[String]) -> u64 {
    // 16 of its 40 hexadecimal digits.
    u64::from_str_radix(&sha1_hex(parts.join("\n").as_bytes())[..16], 16).unwrap_or_default()
}

/// Members that have other files than this node, and what they had when that was said.
#[derive(Debug, Default)]
pub(super) struct Differing(BTreeMap<Incarnation, Files>);

impl Differing {
    /// Takes what the other members have. Returns of whom it is to be said that theirs differ: each is named once, and again when its
    /// files have changed.
    pub(super) fn see(
        &mut self,
        own: Files,
        others: impl Iterator<Item = (Incarnation, Files)>,
    ) -> Vec<(Incarnation, Files)> {
        let now: BTreeMap<Incarnation, Files> = others.filter(|(_, files)| *files != own).collect();
        let new = now
            .iter()
            .filter(|(id, files)| self.0.get(*id) != Some(*files))
            .map(|(id, files)| (id.clone(), *files))
            .collect();
        self.0 = now;
        new
    }

    /// How many members have other rules, and how many other policies.
    pub(super) fn counts(&self, own: Files) -> (u64, u64) {
        let count = |differs: fn(Files, Files) -> bool| self.0.values().filter(|files| differs(own, **files)).count();
        (
            count(|own, other| own.rules != other.rules) as u64,
            count(|own, other| own.policies != other.policies) as u64,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(json: &str) -> RuleSet {
        RuleSet::new(serde_json::from_str(json).unwrap()).unwrap()
    }

    fn policy(name: &str, text: &str) -> PolicySource {
        PolicySource {
            name: name.to_owned(),
            text: text.to_owned(),
        }
    }

    #[test]
    fn what_means_the_same_has_one_hash() {
        let a = r#"{"id":"a","limit":1,"window":"60s"}"#;
        let b = r#"{"id":"b","limit":2,"window":"1h","policy":"token_bucket"}"#;
        let files = |text: &str| Files::of(&rules(text), &[]).rules;
        let both = files(&format!("[{a},{b}]"));
        assert_eq!(both, files(&format!("[{b},{}]", a.replace("60s", "1m"))));
        for other in [
            format!("[{a}]"),
            "[]".to_owned(),
            format!("[{a},{}]", b.replace('2', "3")),
        ] {
            assert_ne!(both, files(&other), "{other}");
        }
        let policies = |sources: &[PolicySource]| Files::of(&RuleSet::default(), sources).policies;
        let (p, q) = (policy("p", "x"), policy("q", "y"));
        assert_eq!(policies(&[p.clone(), q.clone()]), policies(&[q.clone(), p.clone()]));
        assert_ne!(policies(&[p.clone(), q]), policies(&[p, policy("q", "z")]));
        // Fixed, since nodes of several versions compare them.
        assert_eq!(
            Files::of(&rules("[]"), &[]),
            Files {
                rules: 0xda39_a3ee_5e6b_4b0d,
                policies: 0xda39_a3ee_5e6b_4b0d
            }
        );
    }

    #[test]
    fn what_is_written_is_read() {
        let files = Files {
            rules: u64::MAX,
            policies: 7,
        };
        assert_eq!(Files::read(&files.write()), Some(files));
        for bad in ["", "1", "x 1", "1 2 3", "10000000000000000 1"] {
            assert_eq!(Files::read(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn each_is_named_once() {
        let id = |name: &str, generation| Incarnation {
            name: name.into(),
            generation,
        };
        let files = |rules, policies| Files { rules, policies };
        let own = files(1, 1);
        let mut differing = Differing::default();
        let mut see = |others: &[(Incarnation, Files)]| {
            let new = differing.see(own, others.iter().cloned());
            let names: Vec<u64> = new.iter().map(|(id, _)| id.generation).collect();
            (names, differing.counts(own))
        };
        let (same, other) = ((id("a", 1), own), (id("b", 2), files(2, 1)));
        assert_eq!(see(std::slice::from_ref(&same)), (vec![], (0, 0)));
        assert_eq!(see(&[same.clone(), other.clone()]), (vec![2], (1, 0)));
        assert_eq!(see(&[same.clone(), other.clone()]), (vec![], (1, 0)));
        let changed = (other.0.clone(), files(2, 3));
        assert_eq!(see(&[changed]), (vec![2], (1, 1)));
        assert_eq!(see(&[(id("b", 5), own)]), (vec![], (0, 0)));
        assert_eq!(see(&[other]), (vec![2], (1, 0)), "it is back");
    }
}
