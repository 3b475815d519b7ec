//! A library, and its first line.

use crate::CommandError;
use tollgate_eval::ScriptFlags;

/// Bytes that a function is counted with beside its name and description.
const FUNCTION_BYTES: usize = 256;

/// A library that has been loaded.
#[derive(Debug)]
pub(crate) struct Library {
    pub(crate) name: Box<str>,
    /// The whole text.
    pub(crate) text: Box<[u8]>,
    /// Where the text goes on behind its first line, at the end of that.
    code_start: usize,
    /// In the order of their names.
    pub(crate) functions: Vec<Function>,
}

/// A function of a library.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) name: Box<str>,
    pub(crate) description: Option<Box<[u8]>>,
    pub(crate) flags: ScriptFlags,
}

impl Function {
    /// What it is counted with, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        FUNCTION_BYTES + self.name.len() + self.description.as_ref().map_or(0, |text| text.len())
    }
}

impl Library {
    pub(crate) fn new(header: Header, text: Box<[u8]>, mut functions: Vec<Function>) -> Self {
        functions.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Self {
            name: header.name,
            text,
            code_start: header.code_start,
            functions,
        }
    }

    /// The text without its first line, but with that line's end: lines keep their numbers.
    pub(crate) fn code(&self) -> &[u8] {
        &self.text[self.code_start..]
    }

    /// What it is counted with, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let functions: usize = self.functions.iter().map(Function::bytes).sum();
        self.text.len() + functions
    }
}

/// What the first line of a library says: `#!lua name=mylib`.
#[derive(Debug)]
pub(crate) struct Header {
    pub(crate) name: Box<str>,
    /// Where the text goes on, at the end of the line.
    pub(crate) code_start: usize,
}

impl Header {
    /// Reads the first line of a text.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn read(text: &[u8]) -> Result<Self, CommandError> {
        const INVALID: CommandError = CommandError::Refused("Invalid library metadata");
        if !text.starts_with(b"#!") {
            return Err(CommandError::Refused("Missing library metadata"));
        }
        let code_start = text.iter().position(|&byte| byte == b'\n').ok_or(INVALID)?;
        let words = tollgate_protocol::split_words(&text[..code_start], WORDS_MAX).ok_or(INVALID)?;
        let mut words = words.iter().map(|word| String::from_utf8_lossy(word).into_owned());
        let engine = words.next().unwrap_or_default();
        let mut name = None;
        for word in words {
            let value = word.get(..5).filter(|key| key.eq_ignore_ascii_case("name="));
            if value.is_none() {
                return Err(CommandError::Other(format!("Invalid metadata value given: {word}")));
            }
            if name.replace(word[5..].into()).is_some() {
                return Err(CommandError::Refused(
                    "Invalid metadata value, name argument was given multiple times",
                ));
            }
        }
        let name: Box<str> = name.ok_or(CommandError::Refused("Library name was not given"))?;
        check_name(name.as_bytes())?;
        match engine.strip_prefix("#!") {
            Some(engine) if engine.eq_ignore_ascii_case("lua") => Ok(Self { name, code_start }),
            engine => {
                let engine = engine.unwrap_or_default();
                Err(CommandError::Other(format!("Engine '{engine}' not found")))
            }
        }
    }
}

/// Words of a first line that are looked at.
const WORDS_MAX: usize = 16;

/// What Redis says of a name of other bytes, of a library or of a function.
pub(crate) const WRONG_NAME: &str =
    "Library names can only contain letters, numbers, or underscores(_) and must be at least one character long";

/// Checks the name of a library or function.
pub(crate) fn check_name(name: &[u8]) -> Result<(), CommandError> {
    let is_right = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    if name.is_empty() || !name.iter().all(is_right) {
        return Err(CommandError::Refused(WRONG_NAME));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_lines() {
        let read = |text: &str| {
            let header = Header::read(text.as_bytes()).map_err(|error| error.to_string());
            header.map(|header| (header.name.into_string(), header.code_start))
        };
        assert_eq!(read("#!lua name=a\nx"), Ok(("a".to_owned(), 12)));
        assert_eq!(read("#!LUA   NAME=a_1 \n"), Ok(("a_1".to_owned(), 17)));
        assert_eq!(read("#!lua name=\"a\"\n"), Ok(("a".to_owned(), 14)));
        for (text, error) in [
            ("", "ERR Missing library metadata"),
            ("x", "ERR Missing library metadata"),
            ("#!lua name=a", "ERR Invalid library metadata"),
            ("#!lua \"name=a b\n", "ERR Invalid library metadata"),
            ("#!\n", "ERR Library name was not given"),
            ("#! \n", "ERR Library name was not given"),
            ("#!lua\n", "ERR Library name was not given"),
            ("#!foo name=a\n", "ERR Engine 'foo' not found"),
            (
                "#!lua name=a name=b\n",
                "ERR Invalid metadata value, name argument was given multiple times",
            ),
            ("#!lua name=a foo=b\n", "ERR Invalid metadata value given: foo=b"),
            ("#!lua näme=a\n", "ERR Invalid metadata value given: näme=a"),
        ] {
            assert_eq!(read(text), Err(error.to_owned()), "{text:?}");
        }
        for name in ["", "a-b", "ä", "a.b", "'a b'"] {
            assert_eq!(read(&format!("#!lua name={name}\n")), Err(format!("ERR {WRONG_NAME}")));
        }
    }
}
