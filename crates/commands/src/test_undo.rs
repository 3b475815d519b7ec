//! Runs of random commands that are taken back, for the tests of the families.

use crate::UndoLog;
use crate::draws::Draws;
use crate::test_shard::TestShards;

/// What can be seen of a key: its type, its encoding, when it expires, and its elements; those of a hashtable in any order.
fn seen(shards: &mut TestShards, key: &str) -> Vec<String> {
    let kind = shards.run(&format!("TYPE {key}"));
    let encoding = shards.run(&format!("OBJECT ENCODING {key}"));
    let (ask, lines_each) = match kind.as_str() {
        "+hash\r\n" => ("HGETALL", 4),
        "+set\r\n" => ("SMEMBERS", 2),
        "+string\r\n" => ("GET", 2),
        "+none\r\n" => ("EXISTS", 1),
        other => panic!("a {other}"),
    };
    let reply = shards.run(&format!("{ask} {key}"));
    let lines: Vec<&str> = reply.lines().collect();
    let mut elements: Vec<String> = lines[1..].chunks(lines_each).map(|lines| lines.join(" ")).collect();
    if encoding.contains("hashtable") {
        elements.sort_unstable();
    }
    elements.extend([kind, encoding, shards.run(&format!("PTTL {key}")), lines[0].to_owned()]);
    elements
}

/// Runs random commands that are taken back, some at a time, and asserts that nothing of them is left.
pub(crate) fn assert_runs_are_undone(setup: &[String], keys: &[&str], command: impl Fn(&mut Draws) -> String) {
    let mut shards = TestShards::new(1);
    for line in setup {
        assert!(!shards.run(line).starts_with('-'), "{line}");
    }
    let before: Vec<_> = keys.iter().map(|key| seen(&mut shards, key)).collect();
    let mut draws = Draws::new(1);
    let mut changed = 0;
    for round in 0..60 {
        shards.shards[0].undo = Some(UndoLog::default());
        let lines: Vec<String> = (0..1 + draws.below(30)).map(|_| command(&mut draws)).collect();
        for line in &lines {
            shards.run(line);
        }
        let log = shards.shards[0].undo.take().unwrap();
        let during: Vec<_> = keys.iter().map(|key| seen(&mut shards, key)).collect();
        changed += usize::from(during != before);
        shards.shards[0].roll_back(log);
        for (key, before) in keys.iter().zip(&before) {
            let after = seen(&mut shards, key);
            assert_eq!(after.len(), before.len(), "{key} in round {round} after {lines:?}");
            if let Some(at) = (0..after.len()).find(|&at| after[at] != before[at]) {
                panic!(
                    "{key} in round {round}: {} was {} before {lines:?}",
                    after[at], before[at]
                );
            }
        }
    }
    assert!(changed > 40, "only {changed} rounds changed anything");
}
