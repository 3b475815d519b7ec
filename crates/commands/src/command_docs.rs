//! COMMAND DOCS: the command table, for people and for clients that complete commands.

use crate::command_info::key_specs;
use crate::node_view::ConnectionCall;
use crate::syntax::{self, Argument, Kind};
use crate::table::{ALL, Spec};
use crate::{CommandError, CommandTable};
use tollgate_protocol::ReplyWriter;

/// `COMMAND DOCS [command-name [command-name ...]]`. Names that do not exist are left out.
pub(crate) fn docs(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    let request = call.request;
    let specs: Vec<&'static Spec> = if request.len() == 2 {
        ALL.iter().collect()
    } else {
        let table = CommandTable::default();
        request
            .iter()
            .skip(2)
            .filter_map(|name| table.find_full(name))
            .collect()
    };
    let mut reply = call.reply();
    write_map(&mut reply, &specs);
    Ok(())
}

fn write_map(reply: &mut ReplyWriter<'_>, specs: &[&Spec]) {
    reply.map(specs.len());
    for spec in specs {
        reply.bulk(spec.name.as_bytes());
        write_docs(reply, spec);
    }
}

fn write_docs(reply: &mut ReplyWriter<'_>, spec: &Spec) {
    let arguments = syntax::parse(spec.syntax);
    reply.map(4 + usize::from(!arguments.is_empty()) + usize::from(!spec.subcommands.is_empty()));
    for (field, text) in [
        ("summary", spec.summary),
        ("since", spec.since),
        ("group", spec.group),
        ("complexity", spec.complexity),
    ] {
        write_text(reply, field, text);
    }
    if !arguments.is_empty() {
        write_arguments(reply, &arguments, &mut KeySpecs::of(spec));
    }
    if !spec.subcommands.is_empty() {
        reply.bulk(b"subcommands");
        let subcommands: Vec<&Spec> = spec.subcommands.iter().collect();
        write_map(reply, &subcommands);
    }
}

fn write_text(reply: &mut ReplyWriter<'_>, field: &str, text: &str) {
    reply.bulk(field.as_bytes());
    reply.bulk(text.as_bytes());
}

/// The key specifications of a command, as its arguments come to them: a key belongs to the next one, as long as there is one.
struct KeySpecs {
    next: usize,
    count: usize,
}

impl KeySpecs {
    fn of(spec: &Spec) -> Self {
        Self {
            next: 0,
            count: key_specs(spec),
        }
    }

    fn take(&mut self) -> usize {
        let index = self.next.min(self.count.saturating_sub(1));
        self.next += 1;
        index
    }
}

fn write_arguments(reply: &mut ReplyWriter<'_>, arguments: &[Argument], key_specs: &mut KeySpecs) {
    reply.bulk(b"arguments");
    reply.array(arguments.len());
    for argument in arguments {
        let (kind, inner) = match &argument.kind {
            Kind::Value(kind) => (*kind, &[][..]),
            Kind::OneOf(inner) => ("oneof", &inner[..]),
            Kind::Block(inner) => ("block", &inner[..]),
        };
        // Where no key is meant, as in CLUSTER KEYSLOT, it is a text.
        let kind = if key_specs.count == 0 && kind == "key" {
            "string"
        } else {
            kind
        };
        let is_key = kind == "key";
        let has_flags = argument.optional || argument.multiple;
        let optional_fields = [is_key, argument.token.is_some(), has_flags, !inner.is_empty()];
        reply.map(2 + optional_fields.into_iter().filter(|&there| there).count());
        write_text(reply, "name", &argument.name);
        write_text(reply, "type", kind);
        if is_key {
            reply.bulk(b"key_spec_index");
            // One of a few.
            reply.int(key_specs.take() as i64);
        }
        if let Some(token) = argument.token {
            write_text(reply, "token", token);
        }
        if has_flags {
            reply.bulk(b"flags");
            reply.set(usize::from(argument.optional) + usize::from(argument.multiple));
            if argument.optional {
                reply.simple("optional");
            }
            if argument.multiple {
                reply.simple("multiple");
            }
        }
        if !inner.is_empty() {
            write_arguments(reply, inner, key_specs);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::test_node::run_alone;
    use tollgate_protocol::Proto::{Resp2, Resp3};

    #[test]
    fn documents_arguments() {
        assert_eq!(
            run_alone(Resp3, "COMMAND DOCS ping nothing"),
            "%1\r\n$4\r\nping\r\n%5\r\n$7\r\nsummary\r\n$29\r\nReturns PONG, or the message.\r\n$5\r\nsince\r\n$5\r\n1.0.0\r\n\
             $5\r\ngroup\r\n$10\r\nconnection\r\n$10\r\ncomplexity\r\n$4\r\nO(1)\r\n$9\r\narguments\r\n*1\r\n\
             %3\r\n$4\r\nname\r\n$7\r\nmessage\r\n$4\r\ntype\r\n$6\r\nstring\r\n$5\r\nflags\r\n~1\r\n+optional\r\n"
        );
        assert!(run_alone(Resp2, "COMMAND DOCS ttl").contains("*6\r\n$4\r\nname\r\n$3\r\nkey\r\n"));
        assert_eq!(run_alone(Resp2, "COMMAND DOCS nothing"), "*0\r\n");
    }

    #[test]
    fn documents_subcommands() {
        let docs = run_alone(Resp2, "COMMAND DOCS memory");
        assert!(
            docs.contains("$11\r\nsubcommands\r\n*4\r\n$11\r\nmemory|help\r\n"),
            "{docs}"
        );
        assert!(run_alone(Resp2, "COMMAND DOCS client|id").starts_with("*2\r\n$9\r\nclient|id\r\n*8\r\n"));
    }
}
