//! TIME, ROLE, CONFIG GET, and the refusal of cluster commands.

use crate::glob::{self, Case};
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
    let request = call.request;
    let mut settings = call.node.settings();
    settings.retain(|(name, _)| {
        let mut patterns = request.iter().skip(2);
        patterns.any(|pattern| glob::matches(pattern, name.as_bytes(), Case::Insensitive))
    });
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
