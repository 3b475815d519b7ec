//! TIME, ROLE, CONFIG GET, and the refusal of cluster commands.

use crate::glob::{Case, Glob};
use crate::node_view::ConnectionCall;
use crate::{CommandError, Env};

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

/// Everything that only a cluster has.
pub(crate) fn cluster_disabled(_call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    Err(CommandError::ClusterDisabled)
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

/// `CONFIG HELP`
pub(crate) fn config_help(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    call.write_help(
        "CONFIG",
        &[
            "GET <pattern>",
            "    Return parameters matching the glob-like <pattern> and their values.",
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
            "-ERR unknown subcommand 'SET'. Try CONFIG HELP.\r\n"
        );
    }

    #[test]
    fn there_is_no_cluster() {
        for line in ["CLUSTER SLOTS", "CLUSTER HELP", "READONLY", "READWRITE", "ASKING"] {
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
        for container in ["CLIENT", "COMMAND", "CONFIG", "MEMORY", "OBJECT", "RL.RULE"] {
            let help = run_alone(Resp2, &format!("{container} HELP"));
            let lines = help.lines().count() - 1;
            assert!(help.starts_with(&format!(
                "*{lines}\r\n+{container} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:\r\n"
            )));
            assert!(help.ends_with("+HELP\r\n+    Prints this help.\r\n"));
        }
    }
}
