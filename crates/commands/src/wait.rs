//! WAIT and WAITAOF: how many replicas have what was written. This server has no replicas and no append-only file.

use crate::CommandError;
use crate::blocking::timeout_ms_of;
use crate::table::WorkerCommand;
use std::time::Duration;
use tollgate_protocol::{ReplyWriter, Request, parse_integer};

/// What WAIT or WAITAOF asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait {
    /// Whether it asks for nothing that is not there.
    pub is_satisfied: bool,
    /// How long it waits otherwise; nothing for ever.
    pub timeout: Option<Duration>,
    with_file: bool,
}

impl Wait {
    /// Reads the arguments of `WAIT numreplicas timeout` or `WAITAOF numlocal numreplicas timeout`.
    ///
    /// # Errors
    /// What Redis says of arguments that it does not take.
    pub fn parse(command: WorkerCommand, request: Request<'_>) -> Result<Self, CommandError> {
        if command != WorkerCommand::WaitAof {
            let replicas = parse_integer(request.arg(1)).ok_or(CommandError::NotAnInteger)?;
            return Ok(Self {
                is_satisfied: replicas <= 0,
                timeout: timeout_ms_of(request.arg(2))?,
                with_file: false,
            });
        }
        let local = parse_integer(request.arg(1)).ok_or(CommandError::NotAnInteger)?;
        if !(0..=1).contains(&local) {
            return Err(CommandError::Refused(
                "value is out of range, value must between 0 and 1",
            ));
        }
        let replicas = parse_integer(request.arg(2)).ok_or(CommandError::NotAnInteger)?;
        if replicas < 0 {
            return Err(CommandError::Refused("value is out of range, must be positive"));
        }
        let timeout = timeout_ms_of(request.arg(3))?;
        if local > 0 {
            return Err(CommandError::Refused(
                "WAITAOF cannot be used when numlocal is set but appendonly is disabled.",
            ));
        }
        Ok(Self {
            is_satisfied: replicas == 0,
            timeout,
            with_file: true,
        })
    }

    /// Writes the reply: none has anything.
    pub fn write(self, reply: &mut ReplyWriter<'_>) {
        if self.with_file {
            reply.array(2);
            reply.int(0);
        }
        reply.int(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_request::with_line;

    fn parse(line: &str) -> Result<(bool, Option<u64>), String> {
        let command = match line.starts_with("WAITAOF") {
            true => WorkerCommand::WaitAof,
            false => WorkerCommand::Wait,
        };
        with_line(line, |request| Wait::parse(command, request))
            .map(|wait| {
                (
                    wait.is_satisfied,
                    wait.timeout.map(|timeout| timeout.as_millis() as u64),
                )
            })
            .map_err(|error| error.to_string())
    }

    #[test]
    fn arguments() {
        assert_eq!(parse("WAIT 0 10"), Ok((true, Some(10))));
        assert_eq!(parse("WAIT -3 0"), Ok((true, None)));
        assert_eq!(parse("WAIT 1 0"), Ok((false, None)));
        assert_eq!(parse("WAITAOF 0 0 5"), Ok((true, Some(5))));
        assert_eq!(parse("WAITAOF 0 2 0"), Ok((false, None)));
        for (line, error) in [
            ("WAIT x 1", "ERR value is not an integer or out of range"),
            ("WAIT 1 x", "ERR timeout is not an integer or out of range"),
            ("WAIT 1 1.5", "ERR timeout is not an integer or out of range"),
            ("WAIT 1 -1", "ERR timeout is negative"),
            ("WAITAOF 2 0 0", "ERR value is out of range, value must between 0 and 1"),
            ("WAITAOF 0 -1 0", "ERR value is out of range, must be positive"),
            ("WAITAOF 0 0 -1", "ERR timeout is negative"),
            (
                "WAITAOF 1 0 0",
                "ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.",
            ),
        ] {
            assert_eq!(parse(line), Err(error.to_owned()), "{line}");
        }
    }
}
