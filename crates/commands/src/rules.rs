//! RL.RULE and RL.INFO.

use crate::node_view::ConnectionCall;
use crate::{CommandError, info};
use tollgate_limiter::{Rule, format_duration_us};
use tollgate_protocol::ReplyWriter;

/// `RL.RULE GET id`: the rule's fields as in a rules file, or null.
pub(crate) fn get(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    let rules = call.node.rules();
    match rules.get(call.request.arg(2)) {
        Some((_, rule)) => write_rule(&mut call.reply(), rule),
        None => call.reply().null(),
    }
    Ok(())
}

/// `RL.RULE LIST`: a map of every rule's id to its fields, in the order of the ids.
pub(crate) fn list(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    let rules = call.node.rules();
    let mut reply = call.reply();
    reply.map(rules.len());
    for rule in rules.iter() {
        reply.bulk(rule.id.as_bytes());
        write_rule(&mut reply, rule);
    }
    Ok(())
}

/// `RL.RULE HELP`
pub(crate) fn help(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    call.write_help(
        "RL.RULE",
        &[
            "GET <id>",
            "    Return the fields of the rule, or null.",
            "LIST",
            "    Return the fields of every rule, by id.",
        ],
    )
}

fn write_rule(reply: &mut ReplyWriter<'_>, rule: &Rule) {
    reply.map(5 + usize::from(rule.burst.is_some()));
    let texts = [
        ("id", rule.id.as_str()),
        ("window", &format_duration_us(rule.window.as_us())),
        ("policy", &rule.policy),
        ("on_failure", rule.on_failure.as_str()),
    ];
    for (field, text) in texts {
        reply.bulk(field.as_bytes());
        reply.bulk(text.as_bytes());
    }
    let limit = Some(rule.limit.get());
    for (field, tokens) in [("limit", limit), ("burst", rule.burst.map(|burst| burst.get()))] {
        if let Some(tokens) = tokens {
            reply.bulk(field.as_bytes());
            // At most 10^12.
            reply.int(tokens as i64);
        }
    }
}

/// `RL.INFO`: a map of what there is to know about the node in short.
pub(crate) fn node_info(call: &mut ConnectionCall<'_>) -> Result<(), CommandError> {
    let about = call.node.about();
    let totals = call.node.totals();
    let policies = call.node.policies();
    let uptime_s = call.env.now_us.saturating_sub(about.started_us) / 1_000_000;
    let numbers = [
        ("uptime_s", uptime_s),
        ("workers", about.workers as u64),
        ("connections", totals.connections),
        ("connections_max", about.connections_max as u64),
        ("commands", totals.commands),
        ("buckets", totals.buckets()),
        ("values", totals.values),
        ("rule_buckets", totals.rule_buckets),
        ("stored_bytes", totals.store_bytes),
        ("max_memory_bytes", about.max_memory_bytes),
        ("checks_allowed", totals.checks_allowed),
        ("checks_denied", totals.checks_denied),
        ("checks_failed", totals.checks_failed),
        ("rules", call.node.rules().len() as u64),
    ];
    let mut reply = call.reply();
    reply.map(numbers.len() + 4);
    for (field, text) in [
        ("name", about.name.as_str()),
        ("version", about.version),
        ("memory_policy", info::memory_policy(about.when_full)),
    ] {
        reply.bulk(field.as_bytes());
        reply.bulk(text.as_bytes());
    }
    for (field, number) in numbers {
        reply.bulk(field.as_bytes());
        reply.int(i64::try_from(number).unwrap_or(i64::MAX));
    }
    reply.bulk(b"policies");
    reply.map(policies.len());
    for policy in &policies {
        reply.bulk(policy.name.as_bytes());
        reply.int(i64::from(policy.version));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::test_node::{TestNode, run, session};
    use crate::test_request::with_line;
    use std::sync::Arc;
    use tollgate_limiter::RuleSet;
    use tollgate_protocol::Proto;

    fn say(proto: Proto, line: &str) -> String {
        let rules = r#"[
            {"id":"tight","limit":5,"window":"1s","burst":7,"policy":"leaky_bucket","on_failure":"closed"},
            {"id":"free","limit":50,"window":"1m"}
        ]"#;
        let rules = RuleSet::new(serde_json::from_str(rules).unwrap()).unwrap();
        let node = TestNode {
            rules: Arc::new(rules),
            ..TestNode::default()
        };
        let mut session = session(&node, 1);
        session.proto = proto;
        with_line(line, |request| run(&node, &mut session, request))
    }

    const FREE: &str = "$2\r\nid\r\n$4\r\nfree\r\n$6\r\nwindow\r\n$2\r\n1m\r\n$6\r\npolicy\r\n$12\r\ntoken_bucket\r\n$10\r\non_failure\r\n$5\r\nlocal\r\n$5\r\nlimit\r\n:50\r\n";

    #[test]
    fn rules_by_id() {
        assert_eq!(say(Proto::Resp2, "RL.RULE GET free"), format!("*10\r\n{FREE}"));
        assert_eq!(say(Proto::Resp3, "rl.rule get free"), format!("%5\r\n{FREE}"));
        assert!(say(Proto::Resp3, "RL.RULE GET tight").ends_with("$5\r\nlimit\r\n:5\r\n$5\r\nburst\r\n:7\r\n"));
        assert_eq!(say(Proto::Resp2, "RL.RULE GET nothing"), "$-1\r\n");
        assert_eq!(say(Proto::Resp3, "RL.RULE GET nothing"), "_\r\n");
        assert_eq!(
            say(Proto::Resp2, "RL.RULE SET a b"),
            "-ERR unknown subcommand 'SET'. Try RL.RULE HELP.\r\n"
        );
    }

    #[test]
    fn all_rules_in_the_order_of_their_ids() {
        let list = say(Proto::Resp3, "RL.RULE LIST");
        assert!(
            list.starts_with(&format!("%2\r\n$4\r\nfree\r\n%5\r\n{FREE}$5\r\ntight\r\n%6\r\n")),
            "{list}"
        );
    }

    #[test]
    fn the_node_in_short() {
        let info = say(Proto::Resp3, "RL.INFO");
        assert!(info.starts_with("%18\r\n$4\r\nname\r\n$6\r\nnode-1\r\n"));
        for pair in [
            "$8\r\nuptime_s\r\n:4\r\n",
            "$7\r\nbuckets\r\n:3\r\n",
            "$5\r\nrules\r\n:2\r\n",
        ] {
            assert!(info.contains(pair), "{pair:?}");
        }
        assert!(info.ends_with("$8\r\npolicies\r\n%1\r\n$12\r\ntoken_bucket\r\n:1\r\n"));
        assert!(say(Proto::Resp2, "RL.INFO").starts_with("*36\r\n"));
    }
}
