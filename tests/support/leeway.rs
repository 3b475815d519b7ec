//! How far two answers may differ and still count as the same.

use crate::Value;

/// Numbers up to this have to be the same whatever the leeway: they are counts, and not times.
const EXACT_MAX: f64 = 999.0;

/// What may differ. By default nothing but how the two interpreters word an error of an operator or a library function; its place
/// has to be the same.
#[derive(Debug, Clone, Copy, Default)]
pub struct Leeway {
    /// How far apart numbers above 999 may be.
    pub absolute: f64,
    /// How far apart numbers may be as a part of the larger one.
    pub relative: f64,
    /// The elements of arrays, and what is within them, come in any order.
    pub unordered: bool,
    /// An error of one word lacks the `ERR` that Redis 7.0 puts before it.
    pub bare_code: bool,
}

impl Leeway {
    /// Whether the two answers are the same with this leeway.
    pub fn allows(&self, answered: &Value, expected: &Value) -> bool {
        use Value::{Array, Bulk, Double, Error, Int, Map, Set, Simple};
        if answered == expected {
            return true;
        }
        match (answered, expected) {
            (Int(a), Int(b)) => self.near(*a as f64, *b as f64),
            (Double(a), Double(b)) | (Simple(a), Simple(b)) => self.allows_text(a, b),
            (Bulk(a), Bulk(b)) => match (std::str::from_utf8(a), std::str::from_utf8(b)) {
                (Ok(a), Ok(b)) => self.allows_text(a, b),
                _ => false,
            },
            (Error(a), Error(b)) => self.allows_error(a, b),
            (Array(a), Array(b)) | (Set(a), Set(b)) if a.len() == b.len() => {
                let (a, b) = match self.unordered || matches!(answered, Set(_)) {
                    true => (&sorted(a), &sorted(b)),
                    false => (a, b),
                };
                a.iter().zip(b).all(|(a, b)| self.allows(a, b))
            }
            (Map(a), Map(b)) => {
                let flat = |pairs: &[(Value, Value)]| {
                    let pairs = pairs
                        .iter()
                        .map(|(name, value)| Array(vec![name.clone(), value.clone()]));
                    pairs.collect()
                };
                self.allows(&Set(flat(a)), &Set(flat(b)))
            }
            _ => false,
        }
    }

    fn near(&self, a: f64, b: f64) -> bool {
        if a.is_nan() && b.is_nan() {
            // The sign of what is no number is the processor's choice.
            return self.relative > 0.0;
        }
        let apart = (a - b).abs();
        apart <= self.relative * a.abs().max(b.abs()) || a.abs().min(b.abs()) > EXACT_MAX && apart <= self.absolute
    }

    /// Numbers within the text are compared as numbers.
    fn allows_text(&self, answered: &str, expected: &str) -> bool {
        let parts = |text: &str| -> Vec<String> {
            let words = text.split_inclusive(|char: char| ",:; \"[]{}()|".contains(char));
            words.map(str::to_owned).collect()
        };
        let (a, b) = (parts(answered), parts(expected));
        a.len() == b.len()
            && a.iter().zip(&b).all(|(a, b)| {
                let number = |part: &str| {
                    part.trim_end_matches(|char: char| ",:; \"[]{}()|".contains(char))
                        .parse::<f64>()
                };
                a == b || matches!((number(a), number(b)), (Ok(a), Ok(b)) if self.near(a, b))
            })
    }

    fn allows_error(&self, answered: &str, expected: &str) -> bool {
        if self.bare_code && expected.strip_prefix("ERR ") == Some(answered) {
            return true;
        }
        // `ERR user_script:3: attempt to ... script: <sha>, on @user_script:3.`
        let place = |text: &str| -> Option<(String, String)> {
            let start = text.strip_prefix("ERR user_script:")?.split_once(": ")?.0.to_owned();
            Some((start, text.rsplit_once(" script: ")?.1.to_owned()))
        };
        let is_interpreters = ["attempt to ", "bad argument ", "invalid ", "'for' "]
            .iter()
            .any(|words| expected.contains(words));
        is_interpreters && place(answered).is_some() && place(answered) == place(expected)
    }
}

fn sorted(items: &[Value]) -> Vec<Value> {
    let mut items = items.to_vec();
    items.sort_by_key(|item| format!("{item:?}"));
    items
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_may_be_near_where_they_are_large() {
        let leeway = Leeway {
            absolute: 5.0,
            relative: 1e-13,
            ..Leeway::default()
        };
        let bulk = |text: &str| Value::Bulk(text.as_bytes().to_vec());
        assert!(leeway.allows(&Value::Int(2004), &Value::Int(2000)));
        assert!(!leeway.allows(&Value::Int(2006), &Value::Int(2000)));
        assert!(!leeway.allows(&Value::Int(4), &Value::Int(3)));
        assert!(leeway.allows(&bulk("a:0.1234567890123456,x"), &bulk("a:0.12345678901235,x")));
        assert!(!leeway.allows(&bulk("a:0.1234567890123456,x"), &bulk("b:0.12345678901235,x")));
        assert!(!leeway.allows(&bulk("3"), &Value::Int(3)));
    }

    #[test]
    fn errors_of_the_interpreter_are_told_by_their_place() {
        let error = |text: &str| Value::Error(text.to_owned());
        let expected = error("ERR user_script:2: attempt to add a nil value script: ab, on @user_script:2.");
        let other = error("ERR user_script:2: attempt to perform arithmetic script: ab, on @user_script:2.");
        assert!(Leeway::default().allows(&other, &expected));
        let elsewhere = error("ERR user_script:3: attempt to perform arithmetic script: ab, on @user_script:3.");
        assert!(!Leeway::default().allows(&elsewhere, &expected));
        assert!(!Leeway::default().allows(&error("CODE"), &error("ERR CODE")));
        let bare_code = Leeway {
            bare_code: true,
            ..Leeway::default()
        };
        assert!(bare_code.allows(&error("CODE"), &error("ERR CODE")));
    }
}
