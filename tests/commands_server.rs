//! The server's commands over a socket: INFO, CONFIG GET, COMMAND, TIME, RL.INFO, RL.RULE.

use std::time::{SystemTime, UNIX_EPOCH};
use tollgate_suite::{Client, Node, ScratchDir, Value, until};

fn info_field(info: &Value, field: &str) -> String {
    let value = info
        .text()
        .lines()
        .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    value
        .unwrap_or_else(|| panic!("no {field} in {}", info.text()))
        .to_owned()
}

fn number(client: &mut Client, field: &str) -> u64 {
    info_field(&client.line("INFO"), field).parse().expect("a number")
}

#[test]
fn info_tells_the_truth() {
    let node = Node::start(&["--workers", "2", "--name", "gate-1"]);
    let mut client = node.client();
    let info = client.line("INFO");
    for (field, value) in [
        ("redis_version", "7.2.4"),
        ("redis_mode", "standalone"),
        ("loading", "0"),
        ("role", "master"),
        ("master_repl_offset", "0"),
        ("cluster_enabled", "0"),
        ("connected_slaves", "0"),
        ("node_name", "gate-1"),
        ("workers", "2"),
        ("connected_clients", "1"),
    ] {
        assert_eq!(info_field(&info, field), value, "{field}");
    }
    assert_eq!(info_field(&info, "tcp_port"), node.listen().port().to_string());
    assert_eq!(info_field(&info, "process_id"), node.pid().to_string());
    let run_id = info_field(&info, "run_id");
    assert!(
        run_id.len() == 40 && run_id.bytes().all(|byte| byte.is_ascii_hexdigit()),
        "{run_id}"
    );
    assert!(!info.text().contains("db0:"));
    let before = number(&mut client, "total_commands_processed");
    let _second = node.client().line("PING");
    client.line("RL.CHECK k LIMIT 2 PER 1h COST 2");
    client.line("RL.CHECK k LIMIT 2 PER 1h");
    client.line("RL.CHECK k2 LIMIT 2 PER 1h POLICY fixed_window");
    assert!(number(&mut client, "total_commands_processed") >= before + 4);
    assert!(number(&mut client, "total_connections_received") >= 2);
    // Counters of the shards are published a moment later.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(5);
    while number(&mut client, "buckets") != 2 {
        assert!(std::time::Instant::now() < deadline, "{}", client.line("INFO").text());
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let info = client.line("INFO");
    assert_eq!(info_field(&info, "db0"), "keys=2,expires=2,avg_ttl=0");
    assert_eq!(info_field(&info, "checks_allowed"), "2");
    assert_eq!(info_field(&info, "checks_denied"), "1");
    let (used, resident) = (
        number(&mut client, "used_memory"),
        number(&mut client, "used_memory_rss"),
    );
    assert!(resident > 1 << 20 && used < resident && used >= number(&mut client, "used_memory_dataset"));
    assert!(matches!(node.client().line("INFO Server Clients").text(), text if text.matches("# ").count() == 2));
}

#[test]
fn config_get_shows_what_the_node_runs_with() {
    let node = Node::start(&[
        "--set",
        "storage.max_memory_bytes=64MiB",
        "--set",
        "storage.when_full=refuse",
    ]);
    let mut client = node.client();
    let config = client.line("CONFIG GET maxmemory* port save appendonly databases storage.when_full");
    for (name, value) in [
        ("maxmemory", "67108864"),
        ("maxmemory-policy", "noeviction"),
        ("port", &node.listen().port().to_string()),
        ("save", ""),
        ("appendonly", "no"),
        ("databases", "16"),
    ] {
        assert_eq!(config.field(name).text(), value, "{name}");
    }
    assert!(config.field("storage.when_full").text().contains("refuse"));
    client.hello3();
    assert!(matches!(client.line("CONFIG GET *"), Value::Map(pairs) if pairs.len() > 20));
    assert_eq!(
        client.line("CONFIG SET maxmemory 0").error(),
        "ERR CONFIG SET failed (possibly related to argument 'maxmemory') - can't set immutable config"
    );
}

#[test]
fn time_is_the_wall_clock() {
    let node = Node::start(&[]);
    let time = node.client().line("TIME");
    let [seconds, micros] = [0, 1].map(|index: usize| time.items()[index].text().parse::<i64>().unwrap());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64;
    assert!((now - seconds).abs() <= 1, "{seconds} at {now}");
    assert!((0..1_000_000).contains(&micros));
}

#[test]
fn every_command_is_in_command() {
    let node = Node::start(&[]);
    let mut client = node.client();
    let all = client.line("COMMAND");
    assert_eq!(client.line("COMMAND COUNT").int(), all.items().len() as i64);
    for command in all.items() {
        let fields = command.items();
        assert_eq!(fields.len(), 10);
        let name = fields[0].text();
        let docs = client.line(&format!("COMMAND DOCS {name}"));
        assert!(!docs.field(name).field("summary").text().is_empty());
        // Called with nothing, each answers, or names itself in the error about its arguments.
        if !["quit", "reset"].contains(&name) && fields[1].int().abs() > 1 {
            assert_eq!(
                client.line(name).error(),
                format!("ERR wrong number of arguments for '{name}' command")
            );
        }
    }
    assert_eq!(
        client.line("COMMAND GETKEYS RL.CHECK k LIMIT 1 PER 1s").items()[0].text(),
        "k"
    );
    assert_eq!(client.line("COMMAND GETKEYS DEL a b").items().len(), 2);
}

#[test]
fn rules_can_be_read() {
    let dir = ScratchDir::new("rules");
    let file = dir.path().join("cluster.toml");
    let rules = "[[rules]]\nid = \"free\"\nlimit = 50\nwindow = \"1m\"\n\n[[rules]]\nid = \"tight\"\nlimit = 5\nwindow = \"1s\"\nburst = 7\npolicy = \"leaky_bucket\"\n";
    std::fs::write(&file, rules).unwrap();
    let node = Node::start(&["--config", file.to_str().unwrap(), "--workers", "2"]);
    let mut client = node.client();
    let rule = client.line("RL.RULE GET tight");
    for (field, text) in [
        ("id", "tight"),
        ("window", "1s"),
        ("policy", "leaky_bucket"),
        ("on_failure", "local"),
    ] {
        assert_eq!(rule.field(field).text(), text);
    }
    assert_eq!(rule.field("limit").int(), 5);
    assert_eq!(rule.field("burst").int(), 7);
    assert!(client.line("RL.RULE GET nothing").is_null());
    assert_eq!(client.line("RL.RULE LIST").field("free").field("limit").int(), 50);
    assert_eq!(client.line("RL.INFO").field("rules").int(), 2);
    let check = client.line("RL.CHECK k RULE free");
    assert_eq!(check.items()[1].int(), 50);
    // Buckets of rules are no keys; FLUSHALL reaches them.
    assert_eq!(client.line("EXISTS k").int(), 0);
    assert_eq!(client.line("DBSIZE").int(), 0);
    assert_eq!(client.line("FLUSHDB").text(), "OK");
    assert_eq!(client.line("RL.CHECK k RULE free PEEK").items()[2].int(), 49);
    assert_eq!(client.line("FLUSHALL").text(), "OK");
    assert_eq!(client.line("RL.CHECK k RULE free PEEK").items()[2].int(), 50);
}

#[test]
fn the_node_in_short() {
    let node = Node::start(&["--workers", "2", "--name", "gate-1"]);
    let mut client = node.client();
    client.hello3();
    let info = client.line("RL.INFO");
    assert_eq!(info.field("name").text(), "gate-1");
    assert_eq!(info.field("workers").int(), 2);
    assert_eq!(info.field("connections").int(), 1);
    assert_eq!(info.field("policies").field("token_bucket").int(), 1);
    assert!(info.field("uptime_s").int() < 60);
}

#[test]
fn values_and_their_expiries_are_counted_apart_from_buckets() {
    let node = Node::start(&["--workers", "2"]);
    let mut client = node.client();
    for number in 0..20 {
        client.line(&format!("RL.CHECK bucket:{number} LIMIT 2 PER 1h"));
        client.line(&format!("SET lasting:{number} x"));
        client.line(&format!("SET for_a_while:{number} x EX 1000"));
        client.line(&format!("SADD no_more:{number} x"));
        client.line(&format!("EXPIRE no_more:{number} 1000"));
        client.line(&format!("PERSIST no_more:{number}"));
    }
    client.line("DEL lasting:0 for_a_while:0 bucket:0");
    until("the counts are published", || {
        let info = client.line("INFO");
        info.text().contains("\r\ndb0:keys=77,expires=38,avg_ttl=0\r\n")
            && info_field(&info, "buckets") == "19"
            && info_field(&info, "values") == "58"
            && node.metric("tollgate_buckets{") == Some(19.0)
            && node.metric("tollgate_values{") == Some(58.0)
    });
}

#[test]
fn a_setting_with_two_names_has_one_value() {
    let node = Node::start(&[]);
    let mut client = node.client();
    assert_eq!(
        client
            .line("CONFIG SET slowlog-log-slower-than 77 slowlog-max-len 9")
            .text(),
        "OK"
    );
    for (name, value) in [
        ("slowlog-log-slower-than", "77"),
        ("slowlog.slower_than_us", "77"),
        ("slowlog-max-len", "9"),
        ("limits.slowlog_entries", "9"),
    ] {
        assert_eq!(
            client.line(&format!("CONFIG GET {name}")).items()[1].text(),
            value,
            "{name}"
        );
    }
}
