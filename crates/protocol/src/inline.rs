//! Inline commands: one line of words, as typed into a terminal. The quoting is that of Redis's `sdssplitargs`.

use memchr::memchr2;

use crate::error::ProtocolError;
use crate::request::ArgRange;

/// Where the bytes of the arguments are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ArgBytes {
    /// In the read buffer.
    Buffer,
    /// Unescaped in the scanner's scratch space.
    Scratch,
}

/// C's `isspace`: what may stand before a word and after a closing quote.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | 0x0b | 0x0c | b'\r')
}

/// What ends a word outside quotes. Narrower than [`is_space`]: Redis takes a vertical tab inside a word as part of it.
fn ends_word(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// Splits `line`, which is without its line end, into words. A line without quotes is split in place; with quotes, all its words
/// are written to `scratch`, which is empty at the start.
///
/// More than `max_args` words is an error before the next one is kept.
pub(crate) fn split_line(
    line: &[u8],
    max_args: usize,
    args: &mut Vec<ArgRange>,
    scratch: &mut Vec<u8>,
) -> Result<ArgBytes, ProtocolError> {
    if memchr2(b'"', b'\'', line).is_none() {
        split_plain(line, max_args, args)?;
        return Ok(ArgBytes::Buffer);
    }
    split_quoted(line, max_args, args, scratch)?;
    Ok(ArgBytes::Scratch)
}

/// The words of a line, quoted as in an inline command; `None` if the quotes are not right or there are more than `max_words`.
pub fn split_words(line: &[u8], max_words: usize) -> Option<Vec<Box<[u8]>>> {
    let (mut words, mut scratch) = (Vec::new(), Vec::new());
    let bytes = match split_line(line, max_words, &mut words, &mut scratch).ok()? {
        ArgBytes::Buffer => line,
        ArgBytes::Scratch => &scratch,
    };
    let words = words
        .iter()
        .map(|word| bytes[word.start as usize..word.end as usize].into());
    Some(words.collect())
}

fn push_arg(args: &mut Vec<ArgRange>, max_args: usize, arg: ArgRange) -> Result<(), ProtocolError> {
    if args.len() >= max_args {
        return Err(ProtocolError::InvalidMultibulkLength);
    }
    args.push(arg);
    Ok(())
}

fn split_plain(line: &[u8], max_args: usize, args: &mut Vec<ArgRange>) -> Result<(), ProtocolError> {
    let mut at = 0;
    loop {
        while at < line.len() && is_space(line[at]) {
            at += 1;
        }
        if at == line.len() {
            return Ok(());
        }
        let start = at;
        while at < line.len() && !ends_word(line[at]) {
            at += 1;
        }
        push_arg(args, max_args, ArgRange::new(start, at))?;
    }
}

fn split_quoted(
    line: &[u8],
    max_args: usize,
    args: &mut Vec<ArgRange>,
    scratch: &mut Vec<u8>,
) -> Result<(), ProtocolError> {
    let mut rest = line;
    loop {
        let blanks = rest.iter().take_while(|byte| is_space(**byte)).count();
        rest = &rest[blanks..];
        if rest.is_empty() {
            return Ok(());
        }
        let start = scratch.len();
        rest = take_word(rest, scratch)?;
        push_arg(args, max_args, ArgRange::new(start, scratch.len()))?;
    }
}

/// Unescapes the word at the start of `rest` into `scratch` and returns what follows it. A quote may open in the middle of a
/// word, and its closing quote ends the word.
fn take_word<'a>(mut rest: &'a [u8], scratch: &mut Vec<u8>) -> Result<&'a [u8], ProtocolError> {
    while let [byte, tail @ ..] = rest {
        match *byte {
            b'"' => return take_double_quoted(tail, scratch),
            b'\'' => return take_single_quoted(tail, scratch),
            byte if ends_word(byte) => return Ok(tail),
            byte => scratch.push(byte),
        }
        rest = tail;
    }
    Ok(rest)
}

fn take_double_quoted<'a>(mut rest: &'a [u8], scratch: &mut Vec<u8>) -> Result<&'a [u8], ProtocolError> {
    loop {
        let (byte, tail) = match rest {
            [b'"', tail @ ..] => return after_closing_quote(tail),
            [b'\\', b'x', high, low, tail @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                (hex_value(*high) << 4 | hex_value(*low), tail)
            }
            [b'\\', escaped, tail @ ..] => (unescape(*escaped), tail),
            [byte, tail @ ..] => (*byte, tail),
            [] => return Err(ProtocolError::UnbalancedQuotes),
        };
        scratch.push(byte);
        rest = tail;
    }
}

fn take_single_quoted<'a>(mut rest: &'a [u8], scratch: &mut Vec<u8>) -> Result<&'a [u8], ProtocolError> {
    loop {
        let (byte, tail) = match rest {
            [b'\'', tail @ ..] => return after_closing_quote(tail),
            [b'\\', b'\'', tail @ ..] => (b'\'', tail),
            [byte, tail @ ..] => (*byte, tail),
            [] => return Err(ProtocolError::UnbalancedQuotes),
        };
        scratch.push(byte);
        rest = tail;
    }
}

/// A closing quote must be followed by a blank or nothing.
fn after_closing_quote(rest: &[u8]) -> Result<&[u8], ProtocolError> {
    match rest.first() {
        Some(byte) if !is_space(*byte) => Err(ProtocolError::UnbalancedQuotes),
        _ => Ok(rest),
    }
}

fn unescape(byte: u8) -> u8 {
    match byte {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 0x08,
        b'a' => 0x07,
        other => other,
    }
}

/// `digit` is a hexadecimal digit.
fn hex_value(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        _ => digit - b'A' + 10,
    }
}
