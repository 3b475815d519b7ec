//! All that a server holds, compared with what another does.

use std::collections::BTreeMap;

use crate::differential::difference;
use crate::{Client, Leeway, Servers, Value};

/// How far apart the times left of a key may be, in milliseconds: the servers are asked one after the other.
const TTL_APART_MS: i64 = 5_000;

/// Times left beyond this, 285,000 years, count as the same: a node's clock goes up to about twice as much.
const TTL_MAX_MS: i64 = 9_000_000_000_000_000;

/// What a key holds, and the milliseconds that it has left.
type Held = (Value, i64);

fn held(client: &mut Client) -> BTreeMap<Vec<u8>, Held> {
    let Value::Array(keys) = client.line("KEYS *") else {
        panic!("KEYS answers an array");
    };
    let keys: Vec<Vec<u8>> = keys
        .into_iter()
        .map(|key| match key {
            Value::Bulk(key) => key,
            other => panic!("{other:?} is no key"),
        })
        .collect();
    let of_each = |client: &mut Client, command: &'static [u8]| {
        client.pipeline(&keys.iter().map(|key| vec![command, key]).collect::<Vec<_>>())
    };
    let types = of_each(client, b"TYPE");
    let left_ms = of_each(client, b"PTTL");
    let reads: Vec<Vec<&[u8]>> = types
        .iter()
        .zip(&keys)
        .map(|(kind, key)| -> Vec<&[u8]> {
            match kind.text() {
                "string" => vec![b"GET", key],
                "hash" => vec![b"HGETALL", key],
                "set" => vec![b"SMEMBERS", key],
                "list" => vec![b"LRANGE", key, b"0", b"-1"],
                "zset" => vec![b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"],
                // Gone in the meantime, or none that Redis has.
                _ => vec![b"TYPE", key],
            }
        })
        .collect();
    let values = client
        .pipeline(&reads)
        .into_iter()
        .zip(&types)
        .map(|(value, kind)| match (kind.text(), value) {
            // Neither has an order that is promised.
            ("hash", Value::Array(items)) => Value::Map(
                items
                    .chunks_exact(2)
                    .map(|pair| (pair[0].clone(), pair[1].clone()))
                    .collect(),
            ),
            ("set", Value::Array(items)) => Value::Set(items),
            (_, value) => value,
        });
    let left_ms = left_ms.iter().map(|left_ms| left_ms.int().min(TTL_MAX_MS));
    keys.iter().cloned().zip(values.zip(left_ms)).collect()
}

/// The number of keys, if both servers hold the same, or what is wrong.
pub(crate) fn compare_states(servers: &mut Servers<'_>, leeway: &Leeway) -> Result<Value, String> {
    let expected = held(servers.reference);
    let found = held(servers.tested);
    for (key, (value, left_ms)) in &expected {
        let name = key.escape_ascii();
        let Some((other, other_ms)) = found.get(key) else {
            return Err(format!("{name} is not there; redis-server has {value:?}"));
        };
        if !leeway.allows(other, value) {
            return Err(format!("the value of {name}: {}", difference(other, value)));
        }
        let is_near = *left_ms >= 0 && *other_ms >= 0 && (left_ms - other_ms).abs() <= TTL_APART_MS;
        if left_ms != other_ms && !is_near {
            return Err(format!("{name} has {other_ms} ms left; {left_ms} in redis-server"));
        }
    }
    match found.keys().find(|key| !expected.contains_key(*key)) {
        Some(key) => Err(format!(
            "{} is there; redis-server does not have it",
            key.escape_ascii()
        )),
        None => Ok(Value::Int(found.len() as i64)),
    }
}
