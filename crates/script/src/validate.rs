//! Checks that what a policy file returned is a policy.

use mlua::{Lua, Table, Value};

use crate::batch::FIELDS_MAX;
use crate::info::{BurstRule, Fields, PolicyInfo};

/// Largest whole number that an f64 holds exactly together with all below it.
const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;

/// The members that are functions, and whether a policy must have them.
const FUNCTIONS: [(&str, bool); 7] = [
    ("check", true),
    ("full_at", true),
    ("give", false),
    ("take", false),
    ("resize", false),
    ("split", false),
    ("merge", false),
];

/// The other members.
const VALUES: [&str; 5] = ["version", "fields", "burst", "max_limit", "max_bytes"];

/// Reads the policy's own description and returns it with a table of what the driver needs: the functions, and `fields`,
/// their number. The policy's own tables are made read-only.
pub(crate) fn validate(lua: &Lua, name: &str, value: Value, trusted: bool) -> Result<(PolicyInfo, Table), String> {
    let Value::Table(policy) = value else {
        return Err(format!("returns {} where a table is expected", shown(&value)));
    };
    unknown_member(&policy)?;
    let version = match member(&policy, "version")? {
        Value::Nil => return Err(missing("version", "a positive integer")),
        value => whole(&value, u32::MAX.into()).ok_or_else(|| mistyped("version", "a positive integer", &value))?,
    };
    let fields = fields(&policy)?;
    let burst = burst(&policy)?;
    let limit_max = match member(&policy, "max_limit")? {
        Value::Nil => None,
        value => Some(whole(&value, WHOLE_MAX).ok_or_else(|| mistyped("max_limit", "a positive integer", &value))?),
    };
    let functions = lua.create_table().map_err(|error| error.to_string())?;
    let set = |key: &str, value: Value| functions.raw_set(key, value).map_err(|error| error.to_string());
    let mut has = [false; FUNCTIONS.len()];
    for (i, (key, required)) in FUNCTIONS.into_iter().enumerate() {
        match member(&policy, key)? {
            function @ Value::Function(_) => {
                has[i] = true;
                set(key, function)?;
            }
            Value::Nil if required => return Err(missing(key, "a function")),
            Value::Nil => {}
            other => return Err(mistyped(key, "a function", &other)),
        }
    }
    match (member(&policy, "max_bytes")?, &fields) {
        (function @ Value::Function(_), Fields::Buffer) => set("max_bytes", function)?,
        (Value::Nil, Fields::Buffer) => {
            return Err(missing("max_bytes", "a function, since `fields` is \"buffer\""));
        }
        (Value::Nil, Fields::Numbers(_)) => {}
        (_, Fields::Numbers(_)) => {
            return Err("`max_bytes` is only for `fields = \"buffer\"`".to_owned());
        }
        (other, Fields::Buffer) => return Err(mistyped("max_bytes", "a function", &other)),
    }
    let [_, _, has_give, has_take, has_resize, has_split, has_merge] = has;
    let info = PolicyInfo {
        name: name.to_owned(),
        version: version as u32,
        fields,
        burst,
        limit_max,
        has_give,
        has_take,
        has_resize,
        has_split,
        has_merge,
        trusted,
    };
    set("fields", Value::Number(info.number_fields() as f64))?;
    policy.set_readonly(true);
    Ok((info, functions))
}

fn unknown_member(policy: &Table) -> Result<(), String> {
    for pair in policy.pairs::<Value, Value>() {
        let (key, _) = pair.map_err(|error| error.to_string())?;
        let known = key
            .as_string()
            .and_then(|key| key.to_str().ok())
            .is_some_and(|key| VALUES.contains(&&*key) || FUNCTIONS.iter().any(|(name, _)| *name == &*key));
        if !known {
            return Err(format!("unknown member {}", shown(&key)));
        }
    }
    Ok(())
}

fn fields(policy: &Table) -> Result<Fields, String> {
    const EXPECTED: &str = "a list of 1 to 4 names or \"buffer\"";
    let list = match member(policy, "fields")? {
        Value::Nil => return Err(missing("fields", EXPECTED)),
        Value::String(text) if text.as_bytes() == b"buffer".as_slice() => {
            return Ok(Fields::Buffer);
        }
        Value::Table(list) => list,
        other => return Err(mistyped("fields", EXPECTED, &other)),
    };
    let mut names: Vec<String> = Vec::new();
    let mut members = 0;
    for pair in list.pairs::<Value, Value>() {
        pair.map_err(|error| error.to_string())?;
        members += 1;
    }
    let count = list.raw_len();
    if count == 0 || members != count {
        return Err(format!("`fields` must be {EXPECTED}"));
    }
    if count > FIELDS_MAX {
        return Err(format!("`fields` has {count} names; a state has at most {FIELDS_MAX}"));
    }
    for i in 1..=count {
        let value: Value = list.raw_get(i).map_err(|error| error.to_string())?;
        let field = value
            .as_string()
            .and_then(|text| text.to_str().ok())
            .filter(|text| !text.is_empty())
            .ok_or_else(|| format!("`fields[{i}]` is {} where a name is expected", shown(&value)))?;
        if names.iter().any(|name| *name == *field) {
            return Err(format!("`fields` names {} twice", shown(&value)));
        }
        names.push(field.to_owned());
    }
    list.set_readonly(true);
    Ok(Fields::Numbers(names))
}

fn burst(policy: &Table) -> Result<BurstRule, String> {
    const EXPECTED: &str = "\"limit\", \"none\" or a whole number of tokens";
    match member(policy, "burst")? {
        Value::Nil => Err(missing("burst", EXPECTED)),
        Value::String(text) if text.as_bytes() == b"limit".as_slice() => Ok(BurstRule::Limit),
        Value::String(text) if text.as_bytes() == b"none".as_slice() => Ok(BurstRule::None),
        value => whole(&value, WHOLE_MAX)
            .map(BurstRule::Tokens)
            .ok_or_else(|| mistyped("burst", EXPECTED, &value)),
    }
}

fn member(policy: &Table, key: &str) -> Result<Value, String> {
    policy.raw_get(key).map_err(|error| error.to_string())
}

/// The value as a whole number from 1 to `max`.
fn whole(value: &Value, max: f64) -> Option<u64> {
    let number = match *value {
        Value::Number(number) => number,
        Value::Integer(integer) => integer as f64,
        _ => return None,
    };
    (number >= 1.0 && number <= max && number.fract() == 0.0).then_some(number as u64)
}

fn missing(key: &str, expected: &str) -> String {
    format!("`{key}` is missing: {expected}")
}

fn mistyped(key: &str, expected: &str, value: &Value) -> String {
    format!("`{key}` is {} where {expected} is expected", shown(value))
}

/// A value as an error shows it.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{:?}", text.to_string_lossy()),
        Value::Number(number) => number.to_string(),
        Value::Integer(integer) => integer.to_string(),
        Value::Boolean(boolean) => boolean.to_string(),
        Value::Nil => "nothing".to_owned(),
        other => format!("a {}", other.type_name()),
    }
}
