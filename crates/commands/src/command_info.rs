//! COMMAND, COMMAND COUNT, COMMAND GETKEYS, COMMAND INFO, COMMAND LIST: the command table, as clients read it.

use crate::glob::{Case, Glob};
use crate::node_view::ConnectionCall;
use crate::table::{ALL, Run, Spec};
use crate::{CommandError, CommandTable};
use tollgate_protocol::{ReplyWriter, Request};

/// `COMMAND`
pub(crate) fn all(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    let mut reply = call.reply();
    reply.array(ALL.len());
    for spec in &ALL {
        write_spec(&mut reply, spec);
    }
    Ok(())
}

/// `COMMAND COUNT`
pub(crate) fn count(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    call.reply().int(ALL.len() as i64);
    Ok(())
}

/// `COMMAND INFO [command-name [command-name ...]]`
pub(crate) fn info(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    if call.request.len() == 2 {
        return all(call);
    }
    let request = call.request;
    let table = CommandTable::default();
    let mut reply = call.reply();
    reply.array(request.len() - 2);
    for name in request.iter().skip(2) {
        match table.find_full(name) {
            Some(spec) => write_spec(&mut reply, spec),
            None => reply.null(),
        }
    }
    Ok(())
}

/// The ten elements of a command (<https://redis.io/docs/latest/commands/command/>).
fn write_spec(reply: &mut ReplyWriter<'_>, spec: &Spec) {
    reply.array(10);
    reply.bulk(spec.name.as_bytes());
    reply.int(i64::from(spec.arity));
    write_set(reply, spec.flags.iter().copied());
    let has_channels = spec.channels != (0, 0, 0);
    let (first, last, step) = if has_channels { spec.channels } else { spec.keys };
    for position in [first, last, step] {
        reply.int(i64::from(position));
    }
    let categories = categories(spec);
    reply.set(categories.len());
    for category in categories {
        reply.simple(&format!("@{category}"));
    }
    reply.set(spec.tips.len());
    for tip in spec.tips {
        reply.bulk(tip.as_bytes());
    }
    let fixed = spec.first_key().is_some();
    let has_later = !spec.later_key_use.is_empty();
    reply.set(key_specs(spec) + usize::from(has_channels));
    let (first, last, step) = spec.keys;
    if has_later {
        write_key_spec(reply, (first, first, 1), spec.key_use);
        write_key_spec(reply, (first + 1, last, step), spec.later_key_use);
    } else if fixed {
        write_key_spec(reply, spec.keys, spec.key_use);
    }
    if spec.counted > 0 {
        write_counted_keys(reply, spec);
    }
    if has_channels {
        write_key_spec(reply, spec.channels, &["not_key"]);
    }
    // Redis writes an empty set, but an array where there are some.
    match spec.subcommands.len() {
        0 => reply.set(0),
        len => reply.array(len),
    }
    for sub in spec.subcommands {
        write_spec(reply, sub);
    }
}

/// How many key specifications a command has.
pub(crate) fn key_specs(spec: &Spec) -> usize {
    let has = [
        spec.first_key().is_some(),
        !spec.later_key_use.is_empty(),
        spec.counted > 0,
    ];
    has.into_iter().filter(|&has| has).count()
}

fn write_set(reply: &mut ReplyWriter<'_>, words: impl ExactSizeIterator<Item = &'static str>) {
    reply.set(words.len());
    for word in words {
        reply.simple(word);
    }
}

/// Where the keys are: from the first one on, to `last` positions after it or before the end.
fn write_key_spec(reply: &mut ReplyWriter<'_>, (first, last, step): (i16, i16, i16), key_use: &[&'static str]) {
    let last_from_first = if last > 0 { last - first } else { last };
    reply.map(3);
    reply.bulk(b"flags");
    write_set(reply, key_use.iter().copied());
    reply.bulk(b"begin_search");
    write_search(reply, "index", &[("index", first)]);
    reply.bulk(b"find_keys");
    write_search(
        reply,
        "range",
        &[("lastkey", last_from_first), ("keystep", step), ("limit", 0)],
    );
}

/// What happens to keys whose number is given where there are fixed keys besides: those are written to, as by `*STORE`.
const COUNTED_AFTER_FIXED_USE: &[&str] = &["RO", "access"];

/// Where the number of keys is, with the keys behind it.
fn write_counted_keys(reply: &mut ReplyWriter<'_>, spec: &Spec) {
    let flags = match spec.first_key() {
        Some(_) => COUNTED_AFTER_FIXED_USE,
        None => spec.key_use,
    };
    reply.map(3);
    reply.bulk(b"flags");
    write_set(reply, flags.iter().copied());
    reply.bulk(b"begin_search");
    write_search(reply, "index", &[("index", spec.counted as i16)]);
    reply.bulk(b"find_keys");
    write_search(reply, "keynum", &[("keynumidx", 0), ("firstkey", 1), ("keystep", 1)]);
}

fn write_search(reply: &mut ReplyWriter<'_>, kind: &str, numbers: &[(&str, i16)]) {
    reply.map(2);
    reply.bulk(b"type");
    reply.bulk(kind.as_bytes());
    reply.bulk(b"spec");
    reply.map(numbers.len());
    for (name, number) in numbers {
        reply.bulk(name.as_bytes());
        reply.int(i64::from(*number));
    }
}

/// The ACL categories: what the group and the flags say, and what the command adds.
fn categories(spec: &Spec) -> Vec<&'static str> {
    let mut categories = Vec::new();
    if !matches!(spec.run, Run::Container) {
        match spec.group {
            "generic" if !matches!(spec.run, Run::Worker(_)) => categories.push("keyspace"),
            "bitmap" | "string" | "hash" | "list" | "set" => categories.push(spec.group),
            "sorted-set" => categories.push("sortedset"),
            "connection" => categories.push("connection"),
            _ => {}
        }
    }
    for (flag, category) in [
        ("write", "write"),
        ("readonly", "read"),
        ("admin", "admin"),
        ("admin", "dangerous"),
    ] {
        // What a script does, its flags do not say.
        if spec.has_flag(flag) && !(flag == "readonly" && spec.group == "scripting") {
            categories.push(category);
        }
    }
    categories.push(if spec.has_flag("fast") { "fast" } else { "slow" });
    categories.extend(spec.categories);
    categories
}

/// `COMMAND LIST [FILTERBY MODULE module-name|ACLCAT category|PATTERN pattern]`
pub(crate) fn list(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    let request = call.request;
    let filter = match request.len() {
        2 => None,
        5 if request.arg(2).eq_ignore_ascii_case(b"FILTERBY") => Some(ListFilter::parse(
            request.arg(3),
            request.arg(4),
            call.node.about().pattern_bytes_max,
        )?),
        _ => return Err(CommandError::Syntax),
    };
    // With a filter Redis leaves containers' subcommands to the filter too; without one it lists everything.
    let every = ALL
        .iter()
        .flat_map(|spec| std::iter::once(spec).chain(spec.subcommands));
    let names: Vec<&str> = every
        .filter(|spec| filter.as_ref().is_none_or(|filter| filter.takes(spec)))
        .map(|spec| spec.name)
        .collect();
    let mut reply = call.reply();
    reply.array(names.len());
    for name in names {
        reply.bulk(name.as_bytes());
    }
    Ok(())
}

enum ListFilter<'a> {
    /// Of a module; there are none.
    Module,
    Category(&'a [u8]),
    Pattern(Glob),
}

impl<'a> ListFilter<'a> {
    fn parse(kind: &[u8], value: &'a [u8], pattern_bytes_max: usize) -> Result<Self, CommandError> {
        match kind {
            kind if kind.eq_ignore_ascii_case(b"MODULE") => Ok(Self::Module),
            kind if kind.eq_ignore_ascii_case(b"ACLCAT") => Ok(Self::Category(value)),
            kind if kind.eq_ignore_ascii_case(b"PATTERN") => {
                if value.len() > pattern_bytes_max {
                    return Err(CommandError::PatternTooLong(pattern_bytes_max));
                }
                Ok(Self::Pattern(Glob::new(value, Case::Insensitive)))
            }
            _ => Err(CommandError::Syntax),
        }
    }

    fn takes(&self, spec: &Spec) -> bool {
        match self {
            Self::Module => false,
            Self::Category(name) => categories(spec)
                .iter()
                .any(|category| name.eq_ignore_ascii_case(category.as_bytes())),
            Self::Pattern(glob) => glob.matches(spec.name.as_bytes()),
        }
    }
}

/// `COMMAND GETKEYS command [arg [arg ...]]`
pub(crate) fn get_keys(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    let (_, keys) = find_keys(call.request)?;
    let mut reply = call.reply();
    reply.array(keys.len());
    for key in keys {
        reply.bulk(key);
    }
    Ok(())
}

/// `COMMAND GETKEYSANDFLAGS command [arg [arg ...]]`
pub(crate) fn get_keys_and_flags(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    let (spec, keys) = find_keys(call.request)?;
    let in_call = spec.use_in_call.map(|of| of(call.request.from_arg(FIRST)));
    let mut reply = call.reply();
    reply.array(keys.len());
    for (number, key) in keys.into_iter().enumerate() {
        reply.array(2);
        reply.bulk(key);
        let key_use = match number {
            0 => in_call.unwrap_or(spec.key_use),
            _ if spec.counted > 0 && spec.first_key().is_some() => COUNTED_AFTER_FIXED_USE,
            _ if spec.later_key_use.is_empty() => spec.key_use,
            _ => spec.later_key_use,
        };
        write_set(&mut reply, key_use.iter().copied());
    }
    Ok(())
}

/// Where the command starts whose keys are asked for.
const FIRST: usize = 2;

/// The keys of that command.
fn find_keys(request: Request<'_>) -> Result<(&'static Spec, Vec<&[u8]>), CommandError> {
    let table = CommandTable::default();
    let mut spec = table
        .find(request.arg(FIRST))
        .ok_or(CommandError::Refused("Invalid command specified"))?;
    if let Some(name) = request.get(FIRST + 1)
        && !spec.subcommands.is_empty()
    {
        let sub = spec
            .subcommands
            .iter()
            .find(|sub| name.eq_ignore_ascii_case(sub.own_name().as_bytes()));
        spec = sub.ok_or(CommandError::Refused("Invalid command specified"))?;
    }
    if spec.first_key().is_none() && spec.counted == 0 {
        return Err(CommandError::Refused("The command has no key arguments"));
    }
    let asked = request.from_arg(FIRST);
    if !spec.takes(asked.len()) {
        return Err(CommandError::Refused(
            "Invalid number of arguments specified for command",
        ));
    }
    let keys: Vec<&[u8]> = spec.key_positions(asked).map(|position| asked.arg(position)).collect();
    // A number of keys that is none, or too large; scripts may have none.
    let counts_some = spec.counted == 0 || keys.len() > usize::from(spec.first_key().is_some());
    if !counts_some && !spec.has_flag("no_mandatory_keys") {
        return Err(CommandError::Refused("Invalid arguments specified for command"));
    }
    Ok((spec, keys))
}

/// `COMMAND HELP`
pub(crate) fn help(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    call.write_help(
        "COMMAND",
        &[
            "(no subcommand)",
            "    Return details about all commands.",
            "COUNT",
            "    Return the total number of commands in this server.",
            "LIST",
            "    Return a list of all commands in this server.",
            "INFO [<command-name> ...]",
            "    Return details about multiple commands.",
            "    If no command names are given, documentation details for all",
            "    commands are returned.",
            "DOCS [<command-name> ...]",
            "    Return documentation details about multiple commands.",
            "    If no command names are given, documentation details for all",
            "    commands are returned.",
            "GETKEYS <full-command>",
            "    Return the keys from a full command.",
            "GETKEYSANDFLAGS <full-command>",
            "    Return the keys and the access flags from a full command.",
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_node::run_alone;
    use tollgate_protocol::Proto::{Resp2, Resp3};

    #[test]
    fn a_command_has_ten_elements() {
        assert_eq!(
            run_alone(Resp3, "COMMAND INFO del"),
            "*1\r\n*10\r\n$3\r\ndel\r\n:-2\r\n~1\r\n+write\r\n:1\r\n:-1\r\n:1\r\n~3\r\n+@keyspace\r\n+@write\r\n+@slow\r\n~2\r\n\
             $26\r\nrequest_policy:multi_shard\r\n$23\r\nresponse_policy:agg_sum\r\n~1\r\n%3\r\n$5\r\nflags\r\n~2\r\n+RM\r\n+delete\r\n\
             $12\r\nbegin_search\r\n%2\r\n$4\r\ntype\r\n$5\r\nindex\r\n$4\r\nspec\r\n%1\r\n$5\r\nindex\r\n:1\r\n$9\r\nfind_keys\r\n\
             %2\r\n$4\r\ntype\r\n$5\r\nrange\r\n$4\r\nspec\r\n%3\r\n$7\r\nlastkey\r\n:-1\r\n$7\r\nkeystep\r\n:1\r\n$5\r\nlimit\r\n:0\r\n~0\r\n"
        );
    }

    #[test]
    fn subcommands_and_names_that_do_not_exist() {
        let reply = run_alone(Resp2, "COMMAND INFO nothing client|id client|nothing memory");
        assert!(reply.starts_with(
            "*4\r\n$-1\r\n*10\r\n$9\r\nclient|id\r\n:2\r\n*3\r\n+noscript\r\n+loading\r\n+stale\r\n:0\r\n:0\r\n:0\r\n*2\r\n\
             +@connection\r\n+@slow\r\n*0\r\n*0\r\n*0\r\n$-1\r\n*10\r\n$6\r\nmemory\r\n"
        ));
        assert!(reply.contains("*2\r\n*10\r\n$11\r\nmemory|help\r\n"));
    }

    #[test]
    fn count_list_and_all_agree() {
        let all = run_alone(Resp2, "COMMAND");
        assert!(all.starts_with(&format!("*{}\r\n", ALL.len())));
        assert_eq!(run_alone(Resp2, "COMMAND COUNT"), format!(":{}\r\n", ALL.len()));
        assert_eq!(run_alone(Resp2, "COMMAND INFO"), all);
        let every = ALL.len() + ALL.iter().map(|spec| spec.subcommands.len()).sum::<usize>();
        assert!(run_alone(Resp2, "COMMAND LIST").starts_with(&format!("*{every}\r\n")));
    }

    #[test]
    fn list_filters() {
        assert_eq!(
            run_alone(Resp2, "COMMAND LIST FILTERBY PATTERN P?TL"),
            "*1\r\n$4\r\npttl\r\n"
        );
        assert_eq!(run_alone(Resp2, "COMMAND LIST FILTERBY MODULE x"), "*0\r\n");
        assert_eq!(run_alone(Resp2, "COMMAND LIST FILTERBY ACLCAT nothing"), "*0\r\n");
        assert!(run_alone(Resp2, "command list filterby aclcat WRITE").contains("$8\r\nrl.check\r\n"));
        for bad in ["foo", "FILTERBY", "FILTERBY foo bar"] {
            assert_eq!(
                run_alone(Resp2, &format!("COMMAND LIST {bad}")),
                "-ERR syntax error\r\n"
            );
        }
    }

    #[test]
    fn keys_of_a_command() {
        assert_eq!(
            run_alone(Resp2, "COMMAND GETKEYS del a b"),
            "*2\r\n$1\r\na\r\n$1\r\nb\r\n"
        );
        assert_eq!(
            run_alone(Resp2, "COMMAND GETKEYS rl.check k LIMIT 1 PER 1s"),
            "*1\r\n$1\r\nk\r\n"
        );
        assert_eq!(
            run_alone(Resp2, "COMMAND GETKEYS object encoding k"),
            "*1\r\n$1\r\nk\r\n"
        );
        assert_eq!(
            run_alone(Resp3, "COMMAND GETKEYSANDFLAGS ttl k"),
            "*1\r\n*2\r\n$1\r\nk\r\n~2\r\n+RO\r\n+access\r\n"
        );
        for (line, error) in [
            ("nothing a", "Invalid command specified"),
            ("config nothing a", "Invalid command specified"),
            ("ping a", "The command has no key arguments"),
            ("ttl a b", "Invalid number of arguments specified for command"),
        ] {
            assert_eq!(
                run_alone(Resp2, &format!("COMMAND GETKEYS {line}")),
                format!("-ERR {error}\r\n")
            );
        }
    }
}
