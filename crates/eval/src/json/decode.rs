//! `cjson.decode`

use std::ffi::c_int;

use super::{DEPTH_MAX, JsonSettings, settings};
use crate::stack::{Fail, Stack};

/// Tokens and escapes between two looks at the clock.
const TICK_TOKENS: u32 = 1024;

pub(super) fn decode(stack: &Stack) -> Result<c_int, Fail> {
    if stack.top() != 1 {
        return Err(Fail::argument(1, "decode", "expected 1 argument"));
    }
    let text = stack.check_bytes(1, "decode")?;
    if text.len() >= 2 && (text[0] == 0 || text[1] == 0) {
        return Err(Fail::text("JSON parser does not support UTF-16 or UTF-32"));
    }
    let mut decoder = Decoder {
        stack,
        settings: settings(stack),
        text,
        at: 0,
        string: Vec::new(),
        until_tick: TICK_TOKENS,
    };
    let first = decoder.next_token()?;
    decoder.value(&first, 0)?;
    let last = decoder.next_token()?;
    if last.kind != Kind::End {
        return Err(expected("the end", &last));
    }
    Ok(1)
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    /// Its text is the decoder's `string`.
    String,
    Number(f64),
    Boolean(bool),
    Null,
    Colon,
    Comma,
    End,
    Error(&'static str),
}

struct Token {
    kind: Kind,
    at: usize,
}

struct Decoder<'a> {
    stack: &'a Stack,
    settings: JsonSettings,
    text: &'a [u8],
    at: usize,
    string: Vec<u8>,
    until_tick: u32,
}

fn expected(what: &str, token: &Token) -> Fail {
    let found = match token.kind {
        Kind::ObjectBegin => "T_OBJ_BEGIN",
        Kind::ObjectEnd => "T_OBJ_END",
        Kind::ArrayBegin => "T_ARR_BEGIN",
        Kind::ArrayEnd => "T_ARR_END",
        Kind::String => "T_STRING",
        Kind::Number(_) => "T_NUMBER",
        Kind::Boolean(_) => "T_BOOLEAN",
        Kind::Null => "T_NULL",
        Kind::Colon => "T_COLON",
        Kind::Comma => "T_COMMA",
        Kind::End => "T_END",
        Kind::Error(message) => message,
    };
    Fail::text(format!(
        "Expected {what} but found {found} at character {}",
        token.at + 1
    ))
}

impl Decoder<'_> {
    /// Pushes the value that begins with this token.
    fn value(&mut self, token: &Token, depth: u32) -> Result<(), Fail> {
        let stack = self.stack;
        stack.require(4);
        match token.kind {
            Kind::String => stack.push_bytes(&self.string),
            Kind::Number(number) => stack.push_number(number),
            Kind::Boolean(value) => stack.push_boolean(value),
            Kind::Null => stack.push_null(),
            Kind::ObjectBegin => self.object(depth + 1)?,
            Kind::ArrayBegin => self.array(depth + 1)?,
            _ => return Err(expected("value", token)),
        }
        Ok(())
    }

    fn descend(&self, depth: u32) -> Result<(), Fail> {
        if depth > self.settings.decode_depth.min(DEPTH_MAX) {
            return Err(Fail::text(format!(
                "Found too many nested data structures ({depth}) at character {}",
                self.at
            )));
        }
        Ok(())
    }

    fn object(&mut self, depth: u32) -> Result<(), Fail> {
        self.descend(depth)?;
        self.stack.new_table(0, 0);
        let mut token = self.next_token()?;
        if token.kind == Kind::ObjectEnd {
            return Ok(());
        }
        loop {
            if token.kind != Kind::String {
                return Err(expected("object key string", &token));
            }
            self.stack.push_bytes(&self.string);
            token = self.next_token()?;
            if token.kind != Kind::Colon {
                return Err(expected("colon", &token));
            }
            token = self.next_token()?;
            self.value(&token, depth)?;
            self.stack.set_pair(-3);
            token = self.next_token()?;
            match token.kind {
                Kind::ObjectEnd => return Ok(()),
                Kind::Comma => token = self.next_token()?,
                _ => return Err(expected("comma or object end", &token)),
            }
        }
    }

    fn array(&mut self, depth: u32) -> Result<(), Fail> {
        self.descend(depth)?;
        self.stack.new_table(0, 0);
        let mut token = self.next_token()?;
        if token.kind == Kind::ArrayEnd {
            return Ok(());
        }
        for item in 1.. {
            self.value(&token, depth)?;
            self.stack.set_item(-2, item);
            token = self.next_token()?;
            match token.kind {
                Kind::ArrayEnd => return Ok(()),
                Kind::Comma => token = self.next_token()?,
                _ => return Err(expected("comma or array end", &token)),
            }
        }
        Ok(())
    }

    fn count(&mut self) -> Result<(), Fail> {
        self.until_tick -= 1;
        if self.until_tick == 0 {
            self.until_tick = TICK_TOKENS;
            self.stack.shared().tick()?;
        }
        Ok(())
    }

    fn next_token(&mut self) -> Result<Token, Fail> {
        self.count()?;
        let rest = &self.text[self.at..];
        let blanks = rest.iter().take_while(|byte| b" \t\n\r".contains(byte)).count();
        self.at += blanks;
        let at = self.at;
        let rest = &rest[blanks..];
        let single = |kind| (kind, 1);
        let (kind, len) = match rest.first() {
            // The text ends like a string of C.
            None | Some(0) => (Kind::End, 0),
            Some(b'{') => single(Kind::ObjectBegin),
            Some(b'}') => single(Kind::ObjectEnd),
            Some(b'[') => single(Kind::ArrayBegin),
            Some(b']') => single(Kind::ArrayEnd),
            Some(b',') => single(Kind::Comma),
            Some(b':') => single(Kind::Colon),
            Some(b'"') => return self.string_token(),
            Some(b'-' | b'0'..=b'9') if self.settings.decode_invalid || !is_invalid_number(rest) => number_token(rest),
            Some(b'-' | b'0'..=b'9') => (Kind::Error("invalid number"), 0),
            _ if rest.starts_with(b"true") => (Kind::Boolean(true), 4),
            _ if rest.starts_with(b"false") => (Kind::Boolean(false), 5),
            _ if rest.starts_with(b"null") => (Kind::Null, 4),
            _ if self.settings.decode_invalid && is_invalid_number(rest) => number_token(rest),
            _ => (Kind::Error("invalid token"), 0),
        };
        self.at += len;
        Ok(Token { kind, at })
    }

    /// Reads a string, from its quote, to `self.string`.
    fn string_token(&mut self) -> Result<Token, Fail> {
        let start = self.at;
        self.string.clear();
        self.at += 1;
        let fail = |kind, at| {
            Ok(Token {
                kind: Kind::Error(kind),
                at,
            })
        };
        loop {
            self.count()?;
            let rest = &self.text[self.at..];
            let plain = rest
                .iter()
                .position(|byte| matches!(byte, b'"' | b'\\' | 0))
                .unwrap_or(rest.len());
            self.string.extend_from_slice(&rest[..plain]);
            self.at += plain;
            match rest.get(plain..).unwrap_or_default() {
                [b'"', ..] => {
                    self.at += 1;
                    return Ok(Token {
                        kind: Kind::String,
                        at: start,
                    });
                }
                [b'\\', b'u', ..] => {
                    let Some((code, len)) = unicode_escape(&rest[plain..]) else {
                        return fail("invalid unicode escape code", self.at);
                    };
                    let mut utf8 = [0; 4];
                    self.string.extend_from_slice(code.encode_utf8(&mut utf8).as_bytes());
                    self.at += len;
                }
                [b'\\', escaped, ..] => {
                    let byte = match escaped {
                        b'"' | b'\\' | b'/' => *escaped,
                        b'b' => 8,
                        b'f' => 12,
                        b'n' => b'\n',
                        b'r' => b'\r',
                        b't' => b'\t',
                        _ => return fail("invalid escape code", self.at),
                    };
                    self.string.push(byte);
                    self.at += 2;
                }
                [b'\\'] => return fail("invalid escape code", self.at),
                _ => return fail("unexpected end of string", self.at),
            }
        }
    }
}

/// The character of `\uXXXX`, or of a pair of surrogates, and the bytes that it takes.
fn unicode_escape(text: &[u8]) -> Option<(char, usize)> {
    let unit = |at: usize| {
        let digits = std::str::from_utf8(text.get(at..at + 4)?).ok()?;
        digits.bytes().all(|digit| digit.is_ascii_hexdigit()).then_some(())?;
        u32::from_str_radix(digits, 16).ok()
    };
    let first = unit(2)?;
    if first & 0xf800 != 0xd800 {
        return Some((char::from_u32(first)?, 6));
    }
    if first & 0x400 != 0 || text.get(6..8)? != b"\\u" {
        return None;
    }
    let second = unit(8)?;
    if second & 0xfc00 != 0xdc00 {
        return None;
    }
    let code = 0x1_0000 + ((first & 0x3ff) << 10 | second & 0x3ff);
    Some((char::from_u32(code)?, 12))
}

/// What `strtod` reads and JSON does not have: signs, leading zeros, hexadecimal, NaN, infinities.
fn is_invalid_number(text: &[u8]) -> bool {
    let text = match text {
        [b'+', ..] => return true,
        [b'-', rest @ ..] => rest,
        _ => text,
    };
    match text {
        [b'0', next, ..] => matches!(next, b'x' | b'X') || next.is_ascii_digit(),
        [b'0'..=b'9', ..] => false,
        _ => starts_with_word(text, b"inf") || starts_with_word(text, b"nan"),
    }
}

fn starts_with_word(text: &[u8], word: &[u8]) -> bool {
    text.get(..word.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(word))
}

/// What C's `strtod` reads.
fn number_token(text: &[u8]) -> (Kind, usize) {
    let sign = usize::from(matches!(text, [b'+' | b'-', ..]));
    let is_negative = text[0] == b'-';
    let rest = &text[sign..];
    let signed = |value: f64| Kind::Number(if is_negative { -value } else { value });
    if starts_with_word(rest, b"infinity") {
        return (signed(f64::INFINITY), sign + 8);
    }
    if starts_with_word(rest, b"inf") {
        return (signed(f64::INFINITY), sign + 3);
    }
    if starts_with_word(rest, b"nan") {
        return (signed(f64::NAN), sign + 3);
    }
    if let [b'0', b'x' | b'X', digits @ ..] = rest {
        let len = digits.iter().take_while(|digit| digit.is_ascii_hexdigit()).count();
        if len > 0 {
            let value = digits[..len]
                .iter()
                .fold(0.0, |value, &digit| value * 16.0 + f64::from(hex_value(digit)));
            return (signed(value), sign + 2 + len);
        }
    }
    let digits = |from: usize| {
        rest[from.min(rest.len())..]
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count()
    };
    let mut len = digits(0);
    let mut significant = len;
    if rest.get(len) == Some(&b'.') {
        let fraction = digits(len + 1);
        significant += fraction;
        len += 1 + fraction;
    }
    if significant == 0 {
        return (Kind::Error("invalid number"), 0);
    }
    if matches!(rest.get(len), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(rest.get(len + 1), Some(b'+' | b'-')));
        let exponent = digits(len + 1 + sign);
        if exponent > 0 {
            len += 1 + sign + exponent;
        }
    }
    let value = std::str::from_utf8(&rest[..len])
        .ok()
        .and_then(|text| text.parse().ok());
    match value {
        Some(value) => (signed(value), sign + len),
        None => (Kind::Error("invalid number"), 0),
    }
}

fn hex_value(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        _ => digit - b'A' + 10,
    }
}
