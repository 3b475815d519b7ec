//! Patterns of KEYS, SCAN and CONFIG GET.

/// Whether `text` matches `pattern`, byte by byte, as Redis's `stringmatchlen` decides: `*` is anything, `?` any byte,
/// `[a-c]` and `[^a-c]` one byte of a class, and `\` takes the next byte as it is. A class that is not closed ends with the
/// pattern.
///
/// Takes at most `pattern` times `text` steps and no stack: on a mismatch only the last `*` needs to be tried again, since
/// whatever an earlier one could take more, the last one can take too.
pub(crate) fn matches(pattern: &[u8], text: &[u8], case: Case) -> bool {
    let (mut p, mut t) = (0, 0);
    // Where to go on when a byte does not match: after the last `*`, with one more byte of the text taken by it.
    let mut retry: Option<(usize, usize)> = None;
    loop {
        if pattern.get(p) == Some(&b'*') {
            p += 1;
            retry = Some((p, t));
            continue;
        }
        let Some(&byte) = text.get(t) else {
            // Only stars may be left, and they have been passed.
            return p >= pattern.len();
        };
        match match_one(&pattern[p..], byte, case) {
            Some(len) => {
                p += len;
                t += 1;
            }
            None => {
                let Some((after_star, taken)) = retry else { return false };
                p = after_star;
                t = taken + 1;
                retry = Some((p, t));
            }
        }
    }
}

/// Whether letters match in the other case too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Case {
    Sensitive,
    Insensitive,
}

impl Case {
    fn fold(self, byte: u8) -> u8 {
        match self {
            Case::Sensitive => byte,
            Case::Insensitive => byte.to_ascii_lowercase(),
        }
    }
}

/// How many bytes at the start of the pattern, which is no `*`, match that byte; nothing if they do not.
fn match_one(pattern: &[u8], byte: u8, case: Case) -> Option<usize> {
    let equal = |literal: u8| case.fold(literal) == case.fold(byte);
    match *pattern.first()? {
        b'?' => Some(1),
        b'[' => match_class(pattern, byte, case),
        b'\\' if pattern.len() >= 2 => equal(pattern[1]).then_some(2),
        literal => equal(literal).then_some(1),
    }
}

fn match_class(pattern: &[u8], byte: u8, case: Case) -> Option<usize> {
    let byte = case.fold(byte);
    let negated = pattern.get(1) == Some(&b'^');
    let mut at = if negated { 2 } else { 1 };
    let mut found = false;
    while at < pattern.len() && pattern[at] != b']' {
        if pattern[at] == b'\\' && at + 1 < pattern.len() {
            found |= case.fold(pattern[at + 1]) == byte;
            at += 2;
        } else if at + 2 < pattern.len() && pattern[at + 1] == b'-' {
            let (a, b) = (case.fold(pattern[at]), case.fold(pattern[at + 2]));
            found |= (a.min(b)..=a.max(b)).contains(&byte);
            at += 3;
        } else {
            found |= case.fold(pattern[at]) == byte;
            at += 1;
        }
    }
    // The closing bracket, if there is one.
    let len = (at + 1).min(pattern.len());
    (found != negated).then_some(len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn is_match(pattern: &str, text: &str) -> bool {
        matches(pattern.as_bytes(), text.as_bytes(), Case::Sensitive)
    }

    #[test]
    fn the_examples_of_redis() {
        for (pattern, text) in [
            ("h?llo", "hello"),
            ("h*llo", "hllo"),
            ("h*llo", "heeeello"),
            ("h[ae]llo", "hallo"),
            ("h[^e]llo", "hallo"),
            ("h[a-b]llo", "hbllo"),
            ("h[b-a]llo", "hbllo"),
            ("*", ""),
            ("", ""),
            ("**a**", "xxa"),
            ("a\\*b", "a*b"),
            ("a\\", "a\\"),
            ("[\\]]", "]"),
            ("[a-", "-"),
            ("[a", "a"),
            ("[^", "x"),
            ("*[", ""),
        ] {
            let expected = pattern != "*[";
            assert_eq!(is_match(pattern, text), expected, "{pattern} {text}");
        }
        for (pattern, text) in [
            ("h?llo", "hllo"),
            ("h[ae]llo", "hillo"),
            ("h[^e]llo", "hello"),
            ("a\\*b", "axb"),
            ("", "a"),
            ("a", ""),
            ("a*b", "a"),
            ("?", ""),
            ("[]a]", "a"),
        ] {
            assert!(!is_match(pattern, text), "{pattern} {text}");
        }
    }

    #[test]
    fn case_can_be_ignored() {
        assert!(matches(b"MAX[A-Z]em*", b"maxmemory", Case::Insensitive));
        assert!(!matches(b"MAXmem*", b"maxmemory", Case::Sensitive));
    }

    #[test]
    fn many_stars_do_not_explode() {
        let pattern = "a*".repeat(2_000) + "b";
        let text = "a".repeat(4_000);
        assert!(!is_match(&pattern, &text));
    }

    /// The definition: try everything that a star could take.
    fn slow(pattern: &[u8], text: &[u8]) -> bool {
        match pattern.first() {
            None => text.is_empty(),
            Some(b'*') => (0..=text.len()).any(|taken| slow(&pattern[1..], &text[taken..])),
            Some(_) => {
                let head = text.first().and_then(|&byte| match_one(pattern, byte, Case::Sensitive));
                head.is_some_and(|len| slow(&pattern[len..], &text[1..]))
            }
        }
    }

    proptest! {
        #[test]
        fn one_retry_is_enough(pattern in "[ab*?\\[\\]^\\\\-]{0,9}", text in "[ab]{0,9}") {
            prop_assert_eq!(is_match(&pattern, &text), slow(pattern.as_bytes(), text.as_bytes()), "{} {}", pattern, text);
        }
    }
}
