//! The arguments of a command, read from the text that the table has.
//!
//! A word in capitals is written as it is, one in small letters stands for a value, `a|b` for one of them, `[…]` for
//! something that may be left out, and `[...]` after something that it may come again. A word in capitals before a value
//! belongs to it; `< … | … >` is one of several sequences, and `< … >` one sequence that comes as a whole.

/// An argument, in the terms of `COMMAND DOCS`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Argument {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// The word that goes before it, or that it is.
    pub token: Option<&'static str>,
    /// It may be left out.
    pub optional: bool,
    /// It may come more than once.
    pub multiple: bool,
}

/// What an argument is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A value of the type that `COMMAND DOCS` calls so.
    Value(&'static str),
    /// One of these.
    OneOf(Vec<Argument>),
    /// All of these.
    Block(Vec<Argument>),
}

impl Argument {
    fn new(name: impl Into<String>, kind: Kind) -> Self {
        Self {
            name: name.into(),
            kind,
            token: None,
            optional: false,
            multiple: false,
        }
    }

    fn token(word: &'static str) -> Self {
        Self {
            token: Some(word),
            ..Self::new(word.to_ascii_lowercase(), Kind::Value("pure-token"))
        }
    }

    fn value(word: &'static str) -> Self {
        Self::new(word, Kind::Value(value_type(word)))
    }

    /// One word of the text.
    fn word(word: &'static str) -> Self {
        let of = |word: &'static str| {
            if is_token(word) {
                Self::token(word)
            } else {
                Self::value(word)
            }
        };
        if word.contains('|') {
            let name = word.to_ascii_lowercase().replace('|', "_or_");
            Self::new(name, Kind::OneOf(word.split('|').map(of).collect()))
        } else {
            of(word)
        }
    }
}

fn is_token(word: &str) -> bool {
    word.bytes()
        .all(|byte| byte.is_ascii_uppercase() || byte == b'_' || byte == b'-')
}

fn value_type(name: &str) -> &'static str {
    match name {
        "dst" | "key" | "key1" | "key2" | "newkey" | "source" | "src" | "destination" | "destkey" => "key",
        "pattern" => "pattern",
        "amount" | "b" | "c" | "client-id" | "count" | "cursor" | "increment" | "index" | "limit" | "numkeys"
        | "max_burst" | "n" | "numlocal" | "numreplicas" | "period" | "protover" | "quantity" | "seconds" => "integer",
        _ => "string",
    }
}

/// The arguments that a text describes.
pub(crate) fn parse(syntax: &'static str) -> Vec<Argument> {
    let mut words = Words { text: syntax };
    words.sequence("")
}

struct Words {
    text: &'static str,
}

impl Words {
    /// The next word or bracket.
    fn next(&mut self) -> Option<&'static str> {
        self.text = self.text.trim_start();
        let first = self.text.bytes().next()?;
        let is_bracket = |byte: u8| matches!(byte, b'[' | b']' | b'<' | b'>');
        let len = if is_bracket(first) {
            1
        } else {
            let ends = |byte: u8| byte == b' ' || is_bracket(byte);
            self.text.bytes().position(ends).unwrap_or(self.text.len())
        };
        let (word, rest) = self.text.split_at(len);
        self.text = rest;
        Some(word)
    }

    fn peek(&self) -> Option<&'static str> {
        Words { text: self.text }.next()
    }

    /// Everything up to the closing word, which is taken.
    fn sequence(&mut self, end: &str) -> Vec<Argument> {
        let mut arguments: Vec<Argument> = Vec::new();
        while let Some(word) = self.next() {
            match word {
                word if word == end => break,
                "[" if self.text.starts_with("...]") => {
                    self.text = &self.text["...]".len()..];
                    if let Some(last) = arguments.last_mut() {
                        last.multiple = true;
                    }
                }
                "[" => {
                    let mut inner = grouped(self.sequence("]"));
                    inner.optional = true;
                    arguments.push(inner);
                }
                "<" => arguments.push(self.alternatives()),
                token
                    if is_token(token)
                        && self.peek().is_some_and(|next| {
                            next.starts_with(|c: char| c.is_ascii_alphabetic()) && !is_token(next)
                        }) =>
                {
                    // A value follows, since the condition has seen a word.
                    let value = self.next().unwrap_or_default();
                    arguments.push(Argument {
                        token: Some(token),
                        ..Argument::word(value)
                    });
                }
                word => arguments.push(Argument::word(word)),
            }
        }
        arguments
    }

    /// The sequences up to `>`, parted by `|`.
    fn alternatives(&mut self) -> Argument {
        let mut sequences = vec![Vec::new()];
        loop {
            let part = self.text;
            let depth_end = alternative_end(part);
            let (text, rest) = part.split_at(depth_end);
            self.text = rest;
            if let Some(last) = sequences.last_mut() {
                *last = parse(text);
            }
            match self.next() {
                Some("|") => sequences.push(Vec::new()),
                _ => break,
            }
        }
        let mut arguments: Vec<Argument> = sequences.into_iter().map(grouped).collect();
        if arguments.len() == 1 {
            // Not empty, as just seen.
            return arguments.remove(0);
        }
        let name = arguments
            .iter()
            .map(|argument| argument.name.as_str())
            .collect::<Vec<_>>()
            .join("_or_");
        Argument::new(name, Kind::OneOf(arguments))
    }
}

/// Where an alternative ends: at a bar or closing bracket of its own level.
fn alternative_end(text: &str) -> usize {
    let mut depth = 0;
    let bytes = text.as_bytes();
    for (at, &byte) in bytes.iter().enumerate() {
        match byte {
            b'[' | b'<' => depth += 1,
            b']' => depth -= 1,
            b'>' if depth > 0 => depth -= 1,
            b'>' => return at,
            b'|' if depth == 0 && at > 0 && bytes[at - 1] == b' ' => return at,
            _ => {}
        }
    }
    text.len()
}

/// One argument for a sequence.
fn grouped(mut sequence: Vec<Argument>) -> Argument {
    match sequence.len() {
        1 => sequence.remove(0),
        _ => {
            let name = sequence.first().map_or("", |first| first.token.unwrap_or(&first.name));
            Argument::new(name.to_ascii_lowercase(), Kind::Block(sequence))
        }
    }
}

/// The fewest and the most words that arguments take; no most where something repeats.
#[cfg(test)]
pub(crate) fn bounds(arguments: &[Argument]) -> (usize, Option<usize>) {
    let add = |(low, high): (usize, Option<usize>), (l, h): (usize, Option<usize>)| {
        (low + l, high.zip(h).map(|(a, b)| a + b))
    };
    let one = |argument: &Argument| {
        let is_token = argument.kind == Kind::Value("pure-token");
        let token = usize::from(argument.token.is_some() && !is_token);
        let (low, high) = match &argument.kind {
            Kind::Value(_) => (1, Some(1)),
            Kind::Block(inner) => bounds(inner),
            Kind::OneOf(inner) => inner
                .iter()
                .map(|one| bounds(std::slice::from_ref(one)))
                .fold((usize::MAX, Some(0)), |(low, high), (l, h)| {
                    (low.min(l), high.zip(h).map(|(a, b)| a.max(b)))
                }),
        };
        let (low, high) = add((token, Some(token)), (low, high));
        (
            if argument.optional { 0 } else { low },
            if argument.multiple { None } else { high },
        )
    };
    arguments.iter().map(one).fold((0, Some(0)), add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_values_options_and_repetition() {
        let arguments = parse("key [MATCH pattern] [NX|XX] [ID client-id [...]] [AUTH username password]");
        let names: Vec<_> = arguments.iter().map(|argument| argument.name.as_str()).collect();
        assert_eq!(names, ["key", "pattern", "nx_or_xx", "client-id", "auth"]);
        assert_eq!(arguments[0], Argument::value("key"));
        assert_eq!((arguments[1].token, arguments[1].optional), (Some("MATCH"), true));
        assert!(matches!(&arguments[2].kind, Kind::OneOf(inner) if inner[1].token == Some("XX")));
        assert!(arguments[3].multiple && arguments[3].optional);
        assert!(matches!(&arguments[4].kind, Kind::Block(inner) if inner[0].token == Some("AUTH") && inner.len() == 2));
        assert_eq!(bounds(&arguments), (1, None));
    }

    #[test]
    fn alternatives() {
        let arguments = parse("key <LIMIT n [BURST b] | RULE id> [PEEK]");
        assert_eq!(arguments.len(), 3);
        let Kind::OneOf(forms) = &arguments[1].kind else {
            panic!("{arguments:?}")
        };
        assert!(matches!(&forms[0].kind, Kind::Block(inner) if inner.len() == 2));
        assert_eq!(forms[1].token, Some("RULE"));
        assert_eq!(arguments[2].token, Some("PEEK"));
        assert_eq!(bounds(&arguments), (3, Some(6)));
    }
}
