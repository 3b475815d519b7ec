//! Finding a command by its name, and checking that a request fits it.

use crate::table::{ALL, Run, Spec};
use crate::{CommandError, Face};
use rapidhash::RapidHashMap;
use std::sync::LazyLock;
use tollgate_protocol::Request;

/// The longest name of a command or subcommand.
const NAME_MAX_BYTES: usize = 32;

/// The command that was found last, by its name as the client wrote it: most requests ask for the same as the one before.
#[derive(Debug, Clone, Copy, Default)]
pub struct LastCommand {
    name: [u8; NAME_MAX_BYTES],
    name_bytes: usize,
    spec: Option<&'static Spec>,
}

impl LastCommand {
    /// Whether this is the command of that name, as it was written then.
    #[inline]
    pub(crate) fn is(&self, name: &[u8]) -> bool {
        name == &self.name[..self.name_bytes]
    }

    #[inline]
    pub(crate) fn find(&mut self, table: &CommandTable, name: &[u8]) -> Option<&'static Spec> {
        if self.is(name) {
            return self.spec;
        }
        let spec = table.find(name)?;
        // A name that is longer is not found.
        self.name[..name.len()].copy_from_slice(name);
        self.name_bytes = name.len();
        self.spec = Some(spec);
        self.spec
    }
}

/// All commands by lower-case name.
#[derive(Debug, Clone)]
pub struct CommandTable {
    by_name: RapidHashMap<&'static [u8], &'static Spec>,
}

impl Default for CommandTable {
    fn default() -> Self {
        Self {
            by_name: ALL.iter().map(|spec| (spec.name.as_bytes(), spec)).collect(),
        }
    }
}

/// What is declared otherwise for the redirecting face: scripts, which know that they come from it, and PUBSUB, which is about the node
/// that is asked.
static REDIRECTING: LazyLock<Vec<Spec>> = LazyLock::new(|| {
    let declared = ALL.iter().filter_map(|spec| match spec.run {
        Run::Script(_) => Some(Spec {
            face: Face::Redirect,
            ..*spec
        }),
        _ if spec.name == PUBSUB => Some(Spec {
            subcommands: &LISTENERS,
            ..*spec
        }),
        _ => None,
    });
    declared.collect()
});

static LISTENERS: LazyLock<Vec<Spec>> = LazyLock::new(|| {
    let pubsub = ALL.iter().filter(|spec| spec.name == PUBSUB);
    let subcommands = pubsub.flat_map(|spec| spec.subcommands);
    subcommands.map(|spec| Spec { wide: None, ..*spec }).collect()
});

const PUBSUB: &str = "pubsub";

impl CommandTable {
    /// The commands of a face. What a [`LastCommand`] remembers is of one of them.
    pub fn of(face: Face) -> Self {
        let mut table = Self::default();
        if face.redirects() {
            let others = REDIRECTING.iter().map(|spec| (spec.name.as_bytes(), spec));
            table.by_name.extend(others);
        }
        table
    }

    /// The command of that name, in any case. Not a subcommand.
    #[inline]
    pub fn find(&self, name: &[u8]) -> Option<&'static Spec> {
        if name.len() > NAME_MAX_BYTES {
            return None;
        }
        let mut lower = [0u8; NAME_MAX_BYTES];
        let lower = &mut lower[..name.len()];
        lower.copy_from_slice(name);
        lower.make_ascii_lowercase();
        self.by_name.get(&*lower).copied()
    }

    /// What a request asks for, down to the subcommand, and the position of its first key if it has keys. `last` is the same from
    /// call to call, and at first its default.
    ///
    /// # Errors
    /// No such command or subcommand, or a number of arguments that it does not take. Then the request does nothing.
    #[inline]
    pub fn resolve(
        &self,
        request: Request<'_>,
        last: &mut LastCommand,
    ) -> Result<(&'static Spec, Option<usize>), CommandError> {
        let Some(mut spec) = last.find(self, request.arg(0)) else {
            return Err(unknown_command(request));
        };
        if !spec.subcommands.is_empty()
            && let Some(name) = request.get(1)
        {
            spec = find_subcommand(spec, name).ok_or_else(|| unknown_subcommand(spec, name))?;
        }
        if !spec.takes(request.len()) || matches!(spec.run, Run::Container) {
            return Err(CommandError::Arity(spec.name.to_owned()));
        }
        Ok((spec, spec.first_key()))
    }

    /// A command or, as `container|name`, a subcommand, in any case.
    pub(crate) fn find_full(&self, name: &[u8]) -> Option<&'static Spec> {
        let mut parts = name.splitn(2, |&byte| byte == b'|');
        let spec = self.find(parts.next()?)?;
        match parts.next() {
            Some(own) => find_subcommand(spec, own),
            None => Some(spec),
        }
    }
}

fn find_subcommand(container: &'static Spec, name: &[u8]) -> Option<&'static Spec> {
    let mut subcommands = container.subcommands.iter();
    subcommands.find(|sub| name.eq_ignore_ascii_case(sub.own_name().as_bytes()))
}

/// Text from a client as Redis shows it in errors: as it is, but only so much of it.
fn shown(bytes: &[u8], max_bytes: usize) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(max_bytes)]).into_owned()
}

/// Bytes of a name, and of all arguments together, that an error repeats (Redis, `commandCheckExistence`).
const SHOWN_MAX_BYTES: usize = 128;

fn unknown_command(request: Request<'_>) -> CommandError {
    let mut args = String::new();
    for arg in request.iter().skip(1) {
        if args.len() >= SHOWN_MAX_BYTES {
            break;
        }
        args.push('\'');
        args.push_str(&shown(arg, SHOWN_MAX_BYTES.saturating_sub(args.len())));
        args.push_str("' ");
    }
    CommandError::UnknownCommand {
        name: shown(request.arg(0), SHOWN_MAX_BYTES),
        args,
    }
}

fn unknown_subcommand(container: &Spec, name: &[u8]) -> CommandError {
    CommandError::UnknownSubcommand {
        name: shown(name, SHOWN_MAX_BYTES),
        container: container.name.to_ascii_uppercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_request::with_line;

    fn resolve(line: &str) -> Result<(&'static str, Option<usize>), String> {
        with_line(line, |request| {
            let mut last = LastCommand::default();
            CommandTable::default()
                .resolve(request, &mut last)
                .map(|(spec, key)| (spec.name, key))
                .map_err(|error| error.to_string())
        })
    }

    #[test]
    fn finds_commands_and_subcommands_in_any_case() {
        assert_eq!(resolve("pInG"), Ok(("ping", None)));
        assert_eq!(resolve("RL.CHECK k LIMIT 1"), Ok(("rl.check", Some(1))));
        assert_eq!(resolve("client SETname x"), Ok(("client|setname", None)));
        assert_eq!(resolve("OBJECT encoding k"), Ok(("object|encoding", Some(2))));
        assert_eq!(resolve("del a b c"), Ok(("del", Some(1))));
        assert_eq!(resolve("COMMAND"), Ok(("command", None)));
    }

    #[test]
    fn scripts_know_the_face_that_they_come_from() {
        for face in [Face::Default, Face::Redirect] {
            let table = CommandTable::of(face);
            assert_eq!(table.by_name.len(), ALL.len());
            for name in ["eval", "evalsha", "eval_ro", "evalsha_ro", "fcall", "fcall_ro"] {
                assert_eq!(table.find(name.as_bytes()).map(|spec| spec.face), Some(face), "{name}");
            }
            let listeners = table.find(b"pubsub").map_or(&[][..], |spec| spec.subcommands);
            assert!(listeners.len() > 3);
            assert_eq!(listeners.iter().all(|spec| spec.wide.is_none()), face.redirects());
        }
    }

    #[test]
    fn the_last_command_is_told_from_the_next() {
        let table = CommandTable::default();
        let mut last = LastCommand::default();
        for line in [
            "", "PING", "PING", "ping", "PIN", "PINGS", "", "TTL k", "PTTL k", "TTL k", "PING",
        ] {
            let found = |last: &mut LastCommand| {
                let resolved = with_line(line, |request| table.resolve(request, last));
                resolved
                    .map(|(spec, key)| (spec.name, key))
                    .map_err(|error| error.to_string())
            };
            assert_eq!(found(&mut last), found(&mut LastCommand::default()), "{line}");
        }
    }

    #[test]
    fn refuses_with_the_texts_of_redis() {
        let refused = |line| resolve(line).unwrap_err();
        assert_eq!(
            refused("foo a b"),
            "ERR unknown command 'foo', with args beginning with: 'a' 'b' "
        );
        assert_eq!(refused("foo"), "ERR unknown command 'foo', with args beginning with: ");
        assert_eq!(
            refused("client nope"),
            "ERR unknown subcommand 'nope'. Try CLIENT HELP."
        );
        assert_eq!(
            refused("client evict on"),
            "ERR unknown subcommand 'evict'. Try CLIENT HELP."
        );
        assert_eq!(refused("client"), "ERR wrong number of arguments for 'client' command");
        assert_eq!(
            refused("client setname"),
            "ERR wrong number of arguments for 'client|setname' command"
        );
        assert_eq!(refused("PTTL"), "ERR wrong number of arguments for 'pttl' command");
    }

    #[test]
    fn long_names_and_arguments_are_cut() {
        let error = resolve(&format!("{} {} tail", "n".repeat(300), "a".repeat(300))).unwrap_err();
        assert_eq!(
            error,
            format!(
                "ERR unknown command '{}', with args beginning with: '{}' ",
                "n".repeat(128),
                "a".repeat(127)
            )
        );
    }
}
