//! Patterns of KEYS, SCAN and CONFIG GET.

/// A pattern, prepared for many texts. It matches byte by byte, as Redis's `stringmatchlen` decides: `*` is anything, `?` any
/// byte, `[a-c]` and `[^a-c]` one byte of a class, and `\` takes the next byte as it is. A class that is not closed ends with
/// the pattern.
///
/// Every way to match is followed at once, one bit for each: bit i is set while the text so far can match the first i elements
/// (those besides stars) of the pattern. So a byte of the text costs a few operations for each 64 elements, whatever the
/// pattern; trying one way after the other costs as many steps as the pattern is long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Glob {
    /// Words of 64 bits that a set of positions takes.
    words: usize,
    /// For each byte, and each word: the elements that match it.
    takes: Box<[u64]>,
    /// The positions at which a star takes whatever comes.
    stars: Box<[u64]>,
    /// The position after the last element.
    end: usize,
}

const WORD_BITS: usize = u64::BITS as usize;

impl Glob {
    pub(crate) fn new(pattern: &[u8], case: Case) -> Self {
        // As many positions as elements and one more; an element has at least one byte.
        let words = pattern.len() / WORD_BITS + 1;
        let mut takes = vec![0; 256 * words].into_boxed_slice();
        let mut stars = vec![0; words].into_boxed_slice();
        let (mut at, mut end) = (0, 0);
        while at < pattern.len() {
            let (word, bit) = (end / WORD_BITS, 1 << (end % WORD_BITS));
            if pattern[at] == b'*' {
                stars[word] |= bit;
                at += 1;
                continue;
            }
            let (element, len) = Element::parse(&pattern[at..]);
            for byte in 0..=u8::MAX {
                if element.takes(byte, case) {
                    takes[usize::from(byte) * words + word] |= bit;
                }
            }
            at += len;
            end += 1;
        }
        Self {
            words,
            takes,
            stars,
            end,
        }
    }

    /// Whether the whole text matches.
    pub(crate) fn matches(&self, text: &[u8]) -> bool {
        if self.words == 1 {
            return self.matches_narrow(text);
        }
        let mut reached: smallvec::SmallVec<[u64; 16]> = smallvec::smallvec![0; self.words];
        reached[0] = 1;
        for &byte in text {
            let takes = &self.takes[usize::from(byte) * self.words..][..self.words];
            let (mut carry, mut any) = (0, 0);
            for ((reached, takes), stars) in reached.iter_mut().zip(takes).zip(&self.stars) {
                let moved = *reached & takes;
                *reached = moved << 1 | carry | *reached & stars;
                carry = moved >> (WORD_BITS - 1);
                any |= *reached;
            }
            if any == 0 {
                return false;
            }
        }
        reached[self.end / WORD_BITS] >> (self.end % WORD_BITS) & 1 == 1
    }

    fn matches_narrow(&self, text: &[u8]) -> bool {
        let stars = self.stars[0];
        let mut reached: u64 = 1;
        for &byte in text {
            reached = (reached & self.takes[usize::from(byte)]) << 1 | reached & stars;
            if reached == 0 {
                return false;
            }
        }
        reached >> self.end & 1 == 1
    }

    /// What a text of that length costs at most, in words looked at.
    pub(crate) fn cost(&self, text_bytes: usize) -> usize {
        text_bytes * self.words
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

/// What matches one byte.
#[derive(Debug, Clone, Copy)]
enum Element<'a> {
    Any,
    Literal(u8),
    /// What is between the brackets.
    Class {
        members: &'a [u8],
        negated: bool,
    },
}

impl<'a> Element<'a> {
    /// The element at the start of a pattern that is not empty and no `*`, and how many bytes it takes.
    fn parse(pattern: &'a [u8]) -> (Self, usize) {
        match *pattern {
            [b'?', ..] => (Self::Any, 1),
            [b'[', ..] => Self::parse_class(pattern),
            [b'\\', literal, ..] => (Self::Literal(literal), 2),
            _ => (Self::Literal(pattern[0]), 1),
        }
    }

    fn parse_class(pattern: &'a [u8]) -> (Self, usize) {
        let negated = pattern.get(1) == Some(&b'^');
        let start = if negated { 2 } else { 1 };
        let mut end = start;
        while end < pattern.len() && pattern[end] != b']' {
            end += member_len(&pattern[end..]);
        }
        let members = &pattern[start..end];
        // The closing bracket, if there is one.
        (Self::Class { members, negated }, (end + 1).min(pattern.len()))
    }

    fn takes(self, byte: u8, case: Case) -> bool {
        match self {
            Self::Any => true,
            Self::Literal(literal) => case.fold(literal) == case.fold(byte),
            Self::Class { members, negated } => is_member(members, case.fold(byte), case) != negated,
        }
    }
}

/// How many bytes the first member of a class takes: `\x`, `a-z` or one byte.
fn member_len(members: &[u8]) -> usize {
    match members {
        [b'\\', _, ..] => 2,
        [_, b'-', _, ..] => 3,
        _ => 1,
    }
}

fn is_member(mut members: &[u8], byte: u8, case: Case) -> bool {
    while !members.is_empty() {
        let (member, rest) = members.split_at(member_len(members));
        let found = match *member {
            [_, literal] => case.fold(literal) == byte,
            [a, _, b] => {
                let (a, b) = (case.fold(a), case.fold(b));
                (a.min(b)..=a.max(b)).contains(&byte)
            }
            _ => case.fold(member[0]) == byte,
        };
        if found {
            return true;
        }
        members = rest;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn is_match(pattern: &str, text: &str) -> bool {
        Glob::new(pattern.as_bytes(), Case::Sensitive).matches(text.as_bytes())
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
        assert!(Glob::new(b"MAX[A-Z]em*", Case::Insensitive).matches(b"maxmemory"));
        assert!(!Glob::new(b"MAXmem*", Case::Sensitive).matches(b"maxmemory"));
    }

    #[test]
    fn many_stars_do_not_explode() {
        let pattern = "a*".repeat(2_000) + "b";
        let text = "a".repeat(4_000);
        assert!(!is_match(&pattern, &text));
        assert!(is_match(&pattern, &(text + "b")));
    }

    #[test]
    fn the_longest_keys_cost_a_few_operations_a_byte() {
        // A matcher that tries again after each star takes 65,000 times 500 steps for each of these.
        let glob = Glob::new(format!("*{}b", "a".repeat(500)).as_bytes(), Case::Sensitive);
        let text = vec![b'a'; 65_535];
        assert!(glob.cost(text.len()) < 10 * text.len());
        let started = std::time::Instant::now();
        for _ in 0..20 {
            assert!(!glob.matches(&text));
        }
        let ms = started.elapsed().as_millis() / 20;
        assert!(ms < 10, "{ms} ms for one key");
    }

    /// The definition: try everything that a star could take.
    fn slow(pattern: &[u8], text: &[u8]) -> bool {
        match pattern.first() {
            None => text.is_empty(),
            Some(b'*') => (0..=text.len()).any(|taken| slow(&pattern[1..], &text[taken..])),
            Some(_) => {
                let (element, len) = Element::parse(pattern);
                let taken = text.first().is_some_and(|&byte| element.takes(byte, Case::Sensitive));
                taken && slow(&pattern[len..], &text[1..])
            }
        }
    }

    proptest! {
        #[test]
        fn all_ways_at_once_are_every_way(pattern in "[ab*?\\[\\]^\\\\-]{0,9}", text in "[ab]{0,9}") {
            prop_assert_eq!(is_match(&pattern, &text), slow(pattern.as_bytes(), text.as_bytes()), "{} {}", pattern, text);
        }

        /// Beyond one word of positions.
        #[test]
        fn long_patterns_match_too(before in "[ab]{60,70}", middle in "[ab?]{0,70}", after in "[ab]{0,9}", cut in 0_usize..9) {
            let pattern = format!("{before}*{middle}*{after}");
            let text = format!("{before}ab{}ba{after}", middle.replace('?', "a"));
            prop_assert!(is_match(&pattern, &text));
            let cut = &text[..text.len() - cut];
            prop_assert_eq!(is_match(&pattern, cut), slow(pattern.as_bytes(), cut.as_bytes()));
        }
    }
}
