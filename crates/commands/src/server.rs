//! TIME, ROLE, CONFIG GET.

use crate::glob::{Case, Glob};
use crate::node_view::ConnectionCall;
use crate::slowlog::SLOWLOG_ENTRIES_MAX;
use crate::{CommandError, Env};
use tollgate_protocol::parse_integer;

impl Env {
    /// The time of the command as Unix time in microseconds.
    pub fn unix_us(&self) -> u64 {
        self.now_us.saturating_add_signed(self.wall_offset_us)
    }
}

/// `TIME`
pub(crate) fn time(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    let unix_us = call.env.unix_us();
    let mut reply = call.reply();
    reply.array(2);
    // Both are far below 2^63.
    reply.bulk_int((unix_us / 1_000_000) as i64);
    reply.bulk_int((unix_us % 1_000_000) as i64);
    Ok(())
}

/// `ROLE`
pub(crate) fn role(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    let mut reply = call.reply();
    reply.array(3);
    reply.bulk(b"master");
    reply.int(0);
    reply.array(0);
    Ok(())
}

/// `CONFIG GET parameter [parameter ...]`; a parameter may be a pattern, and is compared in any case.
pub(crate) fn config_get(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    let patterns: Vec<&[u8]> = call.request.iter().skip(2).collect();
    let bytes_max = call.node.about().pattern_bytes_max;
    // Together, since each is compared with every name; an empty one takes memory, too.
    if patterns.iter().map(|pattern| pattern.len().max(1)).sum::<usize>() > bytes_max {
        return Err(CommandError::PatternTooLong(bytes_max));
    }
    let globs: Vec<Glob> = patterns
        .iter()
        .map(|pattern| Glob::new(pattern, Case::Insensitive))
        .collect();
    let mut settings = call.node.settings();
    settings.retain(|(name, _)| globs.iter().any(|glob| glob.matches(name.as_bytes())));
    let mut reply = call.reply();
    reply.map(settings.len());
    for (name, value) in &settings {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    }
    Ok(())
}

/// `CONFIG SET parameter value [parameter value ...]`: all of them, or none. What can be set is about SLOWLOG and LATENCY.
pub(crate) fn config_set(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    let request = call.request;
    if !request.len().is_multiple_of(2) {
        return Err(CommandError::Syntax);
    }
    let settings = call.node.settings();
    let mut found: Vec<(&str, &[u8])> = Vec::new();
    for at in (2..request.len()).step_by(2) {
        let name = request.arg(at);
        let setting = settings
            .iter()
            .find(|(setting, _)| name.eq_ignore_ascii_case(setting.as_bytes()));
        let Some((name, _)) = setting else {
            let name = String::from_utf8_lossy(&name[..name.len().min(128)]);
            let refused = format!("Unknown option or number of arguments for CONFIG SET - '{name}'");
            return Err(CommandError::Other(refused));
        };
        if !matches!(name.as_str(), SLOWER_THAN | ENTRIES_MAX | LATENCY_THRESHOLD) {
            return Err(cannot_set(name, "can't set immutable config"));
        }
        if found.iter().any(|(other, _)| other == name) {
            return Err(cannot_set(name, "duplicate parameter"));
        }
        found.push((name, request.arg(at + 1)));
    }
    let mut numbers = Vec::new();
    for &(name, value) in &found {
        let (least, most) = match name {
            SLOWER_THAN => (-1, i64::MAX),
            LATENCY_THRESHOLD => (0, i64::MAX),
            _ => (0, SLOWLOG_ENTRIES_MAX as i64),
        };
        let number = parse_integer(value);
        let number = number.ok_or_else(|| cannot_set(name, "argument couldn't be parsed into an integer"))?;
        if !(least..=most).contains(&number) {
            let range = format!("argument must be between {least} and {most} inclusive");
            return Err(cannot_set(name, &range));
        }
        numbers.push(number);
    }
    for ((name, _), number) in found.into_iter().zip(numbers) {
        match name {
            SLOWER_THAN => call.node.slowlog().set_slower_than(number),
            // Neither is negative, as just seen.
            LATENCY_THRESHOLD => call.node.latency().set_threshold_ms(number as u64),
            _ => call.node.slowlog().set_entries_max(number as usize),
        }
    }
    call.reply().ok();
    Ok(())
}

/// The settings that can be changed.
const SLOWER_THAN: &str = "slowlog-log-slower-than";
const ENTRIES_MAX: &str = "slowlog-max-len";
const LATENCY_THRESHOLD: &str = "latency-monitor-threshold";

fn cannot_set(name: &str, reason: &str) -> CommandError {
    CommandError::Other(format!(
        "CONFIG SET failed (possibly related to argument '{name}') - {reason}"
    ))
}

/// `CONFIG HELP`
pub(crate) fn config_help(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    call.write_help(
        "CONFIG",
        &[
            "GET <pattern>",
            "    Return parameters matching the glob-like <pattern> and their values.",
            "SET <directive> <value>",
            "    Set the configuration <directive> to <value>.",
        ],
    )
}

#[cfg(test)]
mod tests {
    use crate::test_node::run_alone;
    use tollgate_protocol::Proto::{Resp2, Resp3};

    #[test]
    fn time_and_role() {
        assert_eq!(run_alone(Resp2, "TIME"), "*2\r\n$10\r\n1000000005\r\n$1\r\n0\r\n");
        assert_eq!(run_alone(Resp3, "ROLE"), "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n");
    }

    #[test]
    fn config_get_takes_names_and_patterns() {
        assert_eq!(
            run_alone(Resp2, "CONFIG GET MAXMEM*"),
            "*2\r\n$9\r\nmaxmemory\r\n$1\r\n0\r\n"
        );
        assert_eq!(
            run_alone(Resp3, "config get save storage.* nothing"),
            "%2\r\n$4\r\nsave\r\n$0\r\n\r\n$15\r\nstorage.idle_ms\r\n$7\r\n3600000\r\n"
        );
        assert_eq!(run_alone(Resp2, "CONFIG GET nothing"), "*0\r\n");
        assert_eq!(
            run_alone(Resp2, "CONFIG SET maxmemory 1"),
            "-ERR CONFIG SET failed (possibly related to argument 'maxmemory') - can't set immutable config\r\n"
        );
    }

    #[test]
    fn there_is_no_cluster() {
        for line in [
            "CLUSTER SLOTS",
            "CLUSTER SHARDS",
            "CLUSTER NODES",
            "CLUSTER INFO",
            "CLUSTER MYID",
            "CLUSTER MYSHARDID",
            "CLUSTER KEYSLOT k",
            "CLUSTER REPLICAS x",
            "CLUSTER HELP",
            "READONLY",
            "READWRITE",
            "ASKING",
        ] {
            assert_eq!(
                run_alone(Resp2, line),
                "-ERR This instance has cluster support disabled\r\n",
                "{line}"
            );
        }
        assert_eq!(
            run_alone(Resp2, "CLUSTER MEET"),
            "-ERR unknown subcommand 'MEET'. Try CLUSTER HELP.\r\n"
        );
        assert_eq!(
            run_alone(Resp2, "CLUSTER KEYSLOT"),
            "-ERR wrong number of arguments for 'cluster|keyslot' command\r\n"
        );
    }

    #[test]
    fn help_lists_itself_last() {
        for container in [
            "CLIENT", "COMMAND", "CONFIG", "LATENCY", "MEMORY", "OBJECT", "RL.RULE", "SLOWLOG",
        ] {
            let help = run_alone(Resp2, &format!("{container} HELP"));
            let lines = help.lines().count() - 1;
            assert!(help.starts_with(&format!(
                "*{lines}\r\n+{container} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:\r\n"
            )));
            assert!(help.ends_with("+HELP\r\n+    Prints this help.\r\n"));
        }
    }
}
