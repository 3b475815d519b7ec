//! What a configuration key is, and the macro that declares a section of them.
//!
//! A section is declared once, with [`section!`]: the file reader, the environment names, `--set`, `--print-config` and
//! the texts of errors all read that declaration.

use super::address::{ListenAddress, PeerListen};
use super::log_filter;
use std::fmt;
use tollgate_limiter::parse_duration;
use toml::de::DeArray;

/// One configuration key.
#[derive(Debug, PartialEq, Eq)]
pub struct Key {
    /// Its section in the file.
    pub section: &'static str,
    /// Its name in the section.
    pub name: &'static str,
    /// Which values it takes.
    pub kind: Kind,
    /// What its number counts; empty if it is no number.
    pub unit: &'static str,
    /// What it does.
    pub meaning: &'static str,
}

impl Key {
    /// `section.name`, as `--set` and messages write it.
    pub fn path(&self) -> String {
        format!("{}.{}", self.section, self.name)
    }

    /// `TOLLGATE_SECTION_NAME`.
    pub fn variable(&self) -> String {
        format!("TOLLGATE_{}_{}", self.section, self.name).to_ascii_uppercase()
    }
}

/// Which values a key takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Any text.
    Text,
    /// The path of a file or directory; empty means none.
    Path,
    /// `host:port` to listen on.
    Address,
    /// `host:port` to listen on, or empty.
    OptionalAddress,
    /// `host:port` to listen on for peers, `off`, or empty.
    PeerAddress,
    /// A host's name or address, without a port; may be empty.
    Host,
    /// The same, with or without a port.
    Endpoint,
    /// `host:port` of other nodes: an array, or text with commas between them.
    Seeds,
    /// A level of logging, or a filter by module.
    LogFilter,
    /// `true` or `false`.
    Flag,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A whole number in this range.
    Count(u64, u64),
    /// A number of bytes in this range: a whole number, or text such as `"64MiB"`.
    Bytes(u64, u64),
    /// A number of milliseconds in this range: a whole number, or text such as `"10s"`.
    Millis(u64, u64),
    /// A number of microseconds in this range: a whole number, or text such as `"1ms"`.
    Micros(u64, u64),
}

/// A value as it was written.
#[derive(Debug, Clone, Copy)]
pub enum Raw<'a> {
    /// From the environment or the command line, where everything is text.
    Plain(&'a str),
    /// A TOML string.
    String(&'a str),
    /// A TOML integer.
    Integer(i64),
    /// A TOML boolean.
    Flag(bool),
    /// A TOML array.
    List(&'a DeArray<'a>),
    /// Something that no key takes; its TOML type's name.
    Other(&'static str),
}

/// A checked value.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Of a [`Kind::Text`], [`Kind::Path`], [`Kind::Host`], [`Kind::Endpoint`], [`Kind::LogFilter`] or [`Kind::Choice`], and of a
    /// [`Kind::OptionalAddress`] or [`Kind::PeerAddress`] that is no address.
    Text(String),
    /// Of a [`Kind::Address`], a [`Kind::OptionalAddress`] or a [`Kind::PeerAddress`].
    Address(ListenAddress),
    /// Of a [`Kind::Seeds`].
    List(Vec<String>),
    /// Of a [`Kind::Flag`].
    Flag(bool),
    /// Of all kinds that are numbers.
    Number(u64),
}

impl Value {
    /// The value as TOML.
    pub fn to_toml(&self) -> String {
        match self {
            Value::Text(text) => toml::Value::String(text.clone()).to_string(),
            Value::Address(address) => toml::Value::String(address.to_string()).to_string(),
            Value::List(items) => {
                let items: Vec<String> = items
                    .iter()
                    .map(|item| toml::Value::String(item.clone()).to_string())
                    .collect();
                format!("[{}]", items.join(", "))
            }
            Value::Flag(flag) => flag.to_string(),
            Value::Number(number) => number.to_string(),
        }
    }
}

/// The bare value, without the quotes of TOML.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Text(text) => f.write_str(text),
            Value::Address(address) => address.fmt(f),
            Value::List(items) => f.write_str(&items.join(",")),
            Value::Flag(flag) => flag.fmt(f),
            Value::Number(number) => number.fmt(f),
        }
    }
}

impl Kind {
    /// Checks a value. The error says what it must be and what it is.
    pub fn check(self, raw: Raw<'_>) -> Result<Value, String> {
        if let (Kind::Address, Raw::Plain(text) | Raw::String(text)) = (self, raw) {
            return ListenAddress::parse(text).map(Value::Address);
        }
        if let (Kind::OptionalAddress, Raw::Plain(text) | Raw::String(text)) = (self, raw)
            && !text.is_empty()
        {
            return ListenAddress::parse(text).map(Value::Address);
        }
        if let (Kind::PeerAddress, Raw::Plain(text) | Raw::String(text)) = (self, raw)
            && !matches!(text, "" | PEER_OFF)
        {
            return ListenAddress::parse(text).map(Value::Address);
        }
        if let (Kind::LogFilter, Raw::Plain(text) | Raw::String(text)) = (self, raw) {
            log_filter::parse_log_filter(text)?;
        }
        self.parse(raw)
            .ok_or_else(|| format!("must be {}, not {}", self.expected(), raw.show()))
    }

    /// What a value of this kind is, for people.
    pub fn expected(self) -> String {
        match self {
            Kind::Text => "text on one line".to_owned(),
            Kind::Path => "a path".to_owned(),
            Kind::Address => "an address such as 127.0.0.1:6379".to_owned(),
            Kind::OptionalAddress => "an address such as 127.0.0.1:6380, or empty".to_owned(),
            Kind::PeerAddress => "an address such as 127.0.0.1:7379, off or empty".to_owned(),
            Kind::Host => "a host name or an IP address, without a port".to_owned(),
            Kind::Endpoint => "a host name or an IP address, with or without a port".to_owned(),
            Kind::Seeds => "addresses such as node-1:7379, with commas between them or as an array".to_owned(),
            Kind::LogFilter => log_filter::EXPECTED.to_owned(),
            Kind::Flag => "true or false".to_owned(),
            Kind::Choice(words) => words.join(" or "),
            Kind::Count(min, max) => format!("a whole number from {min} to {max}"),
            Kind::Bytes(min, max) => {
                format!("a number of bytes from {min} to {max}, or text such as 64MiB")
            }
            Kind::Millis(min, max) => {
                format!("a number of milliseconds from {min} to {max}, or text such as 10s")
            }
            Kind::Micros(min, max) => {
                format!("a number of microseconds from {min} to {max}, or text such as 1ms")
            }
        }
    }

    fn parse(self, raw: Raw<'_>) -> Option<Value> {
        match self {
            // A line break or a NUL in a name or a path is a mistake, and would break one-line messages.
            Kind::Text | Kind::Path | Kind::LogFilter => raw
                .text()
                .filter(|text| !text.chars().any(char::is_control))
                .map(|text| Value::Text(text.to_owned())),
            Kind::Choice(words) => {
                let text = raw.text()?;
                let word = words.iter().find(|word| **word == text)?;
                Some(Value::Text((*word).to_owned()))
            }
            // `check` has parsed those that are text.
            Kind::Address => None,
            // And here those that are addresses.
            Kind::OptionalAddress => {
                let text = raw.text().filter(|text| text.is_empty())?;
                Some(Value::Text(text.to_owned()))
            }
            Kind::PeerAddress => {
                let text = raw.text().filter(|text| matches!(*text, "" | PEER_OFF))?;
                Some(Value::Text(text.to_owned()))
            }
            Kind::Host => raw
                .text()
                .filter(|text| is_host(text))
                .map(|text| Value::Text(text.to_owned())),
            Kind::Endpoint => raw
                .text()
                .filter(|text| is_host(text) || is_seed(text))
                .map(|text| Value::Text(text.to_owned())),
            Kind::Seeds => raw.seeds().map(Value::List),
            Kind::Flag => match raw {
                Raw::Flag(flag) => Some(Value::Flag(flag)),
                Raw::Plain(text) => text.parse().ok().map(Value::Flag),
                _ => None,
            },
            Kind::Count(min, max) => raw.number(min..=max, |_| None),
            Kind::Bytes(min, max) => raw.number(min..=max, parse_bytes),
            Kind::Millis(min, max) => raw.number(min..=max, |text| parse_time(text, 1_000)),
            Kind::Micros(min, max) => raw.number(min..=max, |text| parse_time(text, 1)),
        }
    }
}

impl Raw<'_> {
    fn text(&self) -> Option<&str> {
        match self {
            Raw::Plain(text) | Raw::String(text) => Some(text),
            _ => None,
        }
    }

    fn seeds(&self) -> Option<Vec<String>> {
        let seeds: Vec<&str> = match self {
            Raw::Plain("") | Raw::String("") => Vec::new(),
            Raw::Plain(text) | Raw::String(text) => text.split(',').map(str::trim).collect(),
            Raw::List(items) => items
                .iter()
                .map(|item| item.get_ref().as_str())
                .collect::<Option<_>>()?,
            _ => return None,
        };
        let usable = seeds.len() <= SEEDS_MAX && seeds.iter().all(|seed| is_seed(seed));
        usable.then(|| seeds.into_iter().map(str::to_owned).collect())
    }

    /// A whole number in the range; text goes through `with_unit` unless it is plain digits from outside a file.
    fn number(self, range: std::ops::RangeInclusive<u64>, with_unit: impl Fn(&str) -> Option<u64>) -> Option<Value> {
        let number = match self {
            Raw::Integer(number) => u64::try_from(number).ok(),
            Raw::Plain(text) => parse_digits(text).or_else(|| with_unit(text)),
            Raw::String(text) => with_unit(text),
            Raw::Flag(_) | Raw::List(_) | Raw::Other(_) => None,
        }?;
        range.contains(&number).then_some(Value::Number(number))
    }

    /// The value for a message: bounded, on one line.
    pub(super) fn show(self) -> String {
        const SHOWN_CHARS_MAX: usize = 80;
        match self {
            Raw::Plain(text) | Raw::String(text) => {
                let shown: String = text.chars().take(SHOWN_CHARS_MAX).collect();
                let more = if shown.len() < text.len() { "..." } else { "" };
                format!("{shown:?}{more}")
            }
            Raw::Integer(number) => number.to_string(),
            Raw::Flag(flag) => flag.to_string(),
            Raw::List(_) => "a TOML array".to_owned(),
            Raw::Other(kind) => format!("a TOML {kind}"),
        }
    }
}

/// What turns the listener for peers off.
const PEER_OFF: &str = "off";
/// The most nodes that can be named to join.
const SEEDS_MAX: usize = 64;
/// The longest host name.
const HOST_BYTES_MAX: usize = 255;

fn is_host(text: &str) -> bool {
    let inside = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'))
        .unwrap_or(text);
    inside.parse::<std::net::IpAddr>().is_ok()
        || text.len() <= HOST_BYTES_MAX
            && text
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
}

/// `host:port`, the port not 0.
fn is_seed(text: &str) -> bool {
    text.rsplit_once(':').is_some_and(|(host, port)| {
        let port = parse_digits(port).is_some_and(|port| (1..=65_535).contains(&port));
        port && !host.is_empty() && is_host(host) && (!host.contains(':') || host.starts_with('['))
    })
}

/// Plain digits: no sign, no blank. `u64::from_str` takes a plus sign, so it is not enough.
fn parse_digits(text: &str) -> Option<u64> {
    (text.bytes().all(|byte| byte.is_ascii_digit()))
        .then(|| text.parse().ok())
        .flatten()
}

/// `64MiB`, `1 GB`, `512kb`: binary units, as Redis's `mb` and `gb` are, in any case.
fn parse_bytes(text: &str) -> Option<u64> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let shift = match text[digits..].trim_start().to_ascii_lowercase().as_str() {
        "b" => 0,
        "kb" | "kib" => 10,
        "mb" | "mib" => 20,
        "gb" | "gib" => 30,
        "tb" | "tib" => 40,
        _ => return None,
    };
    parse_digits(&text[..digits])?.checked_mul(1 << shift)
}

/// A duration in text, in units of `unit_us`; `None` if it is not a whole number of them.
fn parse_time(text: &str, unit_us: u64) -> Option<u64> {
    let us = parse_duration(text.as_bytes()).ok()?;
    us.is_multiple_of(unit_us).then_some(us / unit_us)
}

/// A field of a section: how a checked value becomes it, and back.
pub trait Field: Sized {
    /// Takes a checked value. `None` if the key's kind does not fit the field's type: a mistake in the declaration,
    /// which a test finds.
    fn from_value(value: Value) -> Option<Self>;
    /// The field as a value.
    fn to_value(&self) -> Value;
}

impl Field for String {
    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    fn to_value(&self) -> Value {
        Value::Text(self.clone())
    }
}

/// A path that may be absent; empty text in the file.
impl Field for Option<std::path::PathBuf> {
    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Text(text) => Some((!text.is_empty()).then(|| text.into())),
            _ => None,
        }
    }

    fn to_value(&self) -> Value {
        let text = self.as_ref().map(|path| path.to_string_lossy().into_owned());
        Value::Text(text.unwrap_or_default())
    }
}

impl Field for bool {
    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Flag(flag) => Some(flag),
            _ => None,
        }
    }

    fn to_value(&self) -> Value {
        Value::Flag(*self)
    }
}

impl Field for u64 {
    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Number(number) => Some(number),
            _ => None,
        }
    }

    fn to_value(&self) -> Value {
        Value::Number(*self)
    }
}

impl Field for usize {
    fn from_value(value: Value) -> Option<Self> {
        u64::from_value(value)?.try_into().ok()
    }

    fn to_value(&self) -> Value {
        Value::Number(*self as u64)
    }
}

impl Field for u32 {
    fn from_value(value: Value) -> Option<Self> {
        u64::from_value(value)?.try_into().ok()
    }

    fn to_value(&self) -> Value {
        Value::Number(u64::from(*self))
    }
}

impl Field for ListenAddress {
    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Address(address) => Some(address),
            _ => None,
        }
    }

    fn to_value(&self) -> Value {
        Value::Address(self.clone())
    }
}

/// An address that may be absent; empty text in the file.
impl Field for Option<ListenAddress> {
    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Address(address) => Some(Some(address)),
            Value::Text(text) => text.is_empty().then_some(None),
            _ => None,
        }
    }

    fn to_value(&self) -> Value {
        match self {
            Some(address) => Value::Address(address.clone()),
            None => Value::Text(String::new()),
        }
    }
}

impl Field for Vec<String> {
    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::List(items) => Some(items),
            _ => None,
        }
    }

    fn to_value(&self) -> Value {
        Value::List(self.clone())
    }
}

impl Field for PeerListen {
    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Address(address) => Some(Self::At(address)),
            Value::Text(text) if text.is_empty() => Some(Self::IfFree),
            Value::Text(text) if text == PEER_OFF => Some(Self::Off),
            _ => None,
        }
    }

    fn to_value(&self) -> Value {
        match self {
            Self::IfFree => Value::Text(String::new()),
            Self::Off => Value::Text(PEER_OFF.to_owned()),
            Self::At(address) => Value::Address(address.clone()),
        }
    }
}

/// A section of the configuration, by name.
pub trait Section {
    /// Its keys, in the order in which they are printed.
    fn keys(&self) -> &'static [Key];
    /// The value of its `index`th key.
    fn get(&self, index: usize) -> Option<Value>;
    /// Sets its `index`th key. `false` if the declaration's kind and type disagree or there is no such key.
    fn set(&mut self, index: usize, value: Value) -> bool;
}

/// Declares a section: a struct with one public field a key, its defaults, and its table of keys. The doc comment of a
/// field is the key's meaning.
macro_rules! section {
    (
        $(#[$attribute:meta])*
        $section:ident: $name:literal {
            $($(#[doc = $meaning:literal])+ $field:ident: $type:ty = $default:expr, $kind:expr, $unit:literal;)*
        }
    ) => {
        $(#[$attribute])*
        #[derive(Debug, Clone, PartialEq)]
        pub struct $section {
            $($(#[doc = $meaning])+ pub $field: $type,)*
        }

        impl Default for $section {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }

        impl $section {
            /// Every key of this section.
            pub const KEYS: &'static [$crate::config::Key] = &[$($crate::config::Key {
                section: $name,
                name: stringify!($field),
                kind: $kind,
                unit: $unit,
                meaning: concat!($($meaning),+),
            }),*];
        }

        impl $crate::config::key::Section for $section {
            fn keys(&self) -> &'static [$crate::config::Key] {
                Self::KEYS
            }

            fn get(&self, index: usize) -> Option<$crate::config::key::Value> {
                use $crate::config::key::Field;
                match Self::KEYS.get(index)?.name {
                    $(stringify!($field) => Some(self.$field.to_value()),)*
                    _ => None,
                }
            }

            fn set(&mut self, index: usize, value: $crate::config::key::Value) -> bool {
                use $crate::config::key::Field;
                match Self::KEYS.get(index).map(|key| key.name) {
                    $(Some(stringify!($field)) => match Field::from_value(value) {
                        Some(value) => { self.$field = value; true }
                        None => false,
                    },)*
                    _ => false,
                }
            }
        }
    };
}
pub(crate) use section;

/// Declares an enum whose variants are the words of a [`Kind::Choice`].
macro_rules! choice {
    ($(#[$attribute:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$attribute])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name {
            $($(#[$doc])* $variant,)+
        }

        impl $name {
            /// The words, as they are written.
            pub const WORDS: &'static [&'static str] = &[$($word),+];
        }

        impl $crate::config::key::Field for $name {
            fn from_value(value: $crate::config::key::Value) -> Option<Self> {
                match value {
                    $($crate::config::key::Value::Text(text) if text == $word => Some(Self::$variant),)+
                    _ => None,
                }
            }

            fn to_value(&self) -> $crate::config::key::Value {
                $crate::config::key::Value::Text(match self { $(Self::$variant => $word),+ }.to_owned())
            }
        }
    };
}
pub(crate) use choice;
