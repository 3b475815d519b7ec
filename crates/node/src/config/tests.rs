use super::*;
use std::path::{Path, PathBuf};

fn file(text: &str) -> Result<Config, ConfigError> {
    let mut config = Config::default();
    file::apply(&mut config, text, Path::new("cluster.toml"))?;
    config.finish()?;
    Ok(config)
}

fn file_error(text: &str) -> String {
    let text = file(text).unwrap_err().to_string();
    assert!(!text.contains('\n'), "{text}");
    text
}

fn variable(name: &str, value: &str) -> Sources {
    Sources {
        environment: vec![(name.to_owned(), value.to_owned())],
        ..Sources::default()
    }
}

fn set(setting: &str) -> Sources {
    Sources {
        set: vec![setting.to_owned()],
        ..Sources::default()
    }
}

fn flag(flag: &'static str, key: &'static str, value: &str) -> FlagValue {
    FlagValue {
        flag,
        key,
        value: value.to_owned(),
    }
}

fn error(sources: &Sources) -> String {
    let text = Config::load(sources).unwrap_err().to_string();
    assert!(!text.contains('\n'), "{text}");
    text
}

/// A file in a directory of this test's own, removed when dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tollgate-config-{}-{name}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn defaults_are_those_of_the_contract() {
    let config = Config::load(&Sources::default()).unwrap();
    assert_eq!(config.listen.default.to_string(), "127.0.0.1:6379");
    assert_eq!(config.admin.address.to_string(), "127.0.0.1:8379");
    assert_eq!(config.policy.budget_us, 1_000);
    assert_eq!(config.storage.idle_ms, 3_600_000);
    assert_eq!(config.limits.connections, 10_000);
    assert!(config.worker_count() >= 1);
    assert!(!config.node_name().is_empty());
    assert!(config.password.is_none() && config.rules.is_empty());
}

#[test]
fn every_declaration_fits_its_type() {
    let defaults = Config::default();
    for (key, value) in defaults.keys() {
        let mut config = Config::default();
        let text = value.to_string();
        config
            .set(key.section, key.name, Raw::Plain(&text), Origin::Set)
            .unwrap();
        let (_, again) = config.keys().find(|(other, _)| other.path() == key.path()).unwrap();
        assert_eq!(again, value, "{}", key.path());
        assert!(key.meaning.trim().ends_with('.'), "{}", key.path());
    }
    let mut names: Vec<_> = defaults.keys().map(|(key, _)| key.variable()).collect();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count);
}

#[test]
fn flags_then_environment_then_file_then_default() {
    let path = Scratch::new(
        "precedence.toml",
        "[node]\nworkers = 2\nname = \"file\"\ndrain_ms = \"2s\"\n[log]\nlevel = \"warn\"\n",
    );
    let sources = Sources {
        file: Some(path.0.clone()),
        environment: vec![
            ("TOLLGATE_NODE_WORKERS".to_owned(), "3".to_owned()),
            ("TOLLGATE_NODE_NAME".to_owned(), "environment".to_owned()),
            ("PATH".to_owned(), "/bin".to_owned()),
        ],
        set: vec!["limits.connections=5".to_owned(), "limits.connections=7".to_owned()],
        flags: vec![flag("--workers", "node.workers", "4")],
    };
    let config = Config::load(&sources).unwrap();
    assert_eq!(config.node.workers, 4);
    assert_eq!(config.node.name, "environment");
    assert_eq!(config.node.drain_ms, 2_000);
    assert_eq!(config.log.level, "warn");
    assert_eq!(config.limits.connections, 7);
    assert_eq!(config.limits.rules, Config::default().limits.rules);
}

#[test]
fn the_environment_may_name_the_file() {
    let path = Scratch::new("named.toml", "[node]\nname = \"named\"\n");
    let mut sources = variable(VARIABLE_CONFIG, path.0.to_str().unwrap());
    assert_eq!(Config::load(&sources).unwrap().node.name, "named");
    sources.file = Some("/nonexistent/tollgate.toml".into());
    assert!(error(&sources).starts_with("cannot read /nonexistent/tollgate.toml (--config): "));
    let sources = variable(VARIABLE_CONFIG, "/nonexistent/variable.toml");
    assert!(error(&sources).starts_with("cannot read /nonexistent/variable.toml (TOLLGATE_CONFIG): "));
}

#[test]
fn what_is_printed_gives_the_same_configuration() {
    let text = "[node]\nname = \"a \\\"quoted\\\" näme\"\nworkers = 3\nlua_dir = \"/\"\n[storage]\nwhen_full = \
                \"refuse\"\nmax_memory_bytes = \"2GiB\"\n[log]\nformat = \"json\"\n[limits]\nadmin_request_ms = \
                \"1s\"\n[[rules]]\nid = \"free\"\nlimit = 50\nwindow = \"1m\"\n[[rules]]\nid = \"b\"\nlimit = 5\nwindow = \
                \"250ms\"\nburst = 9\npolicy = \"leaky_bucket\"\non_failure = \"closed\"\n";
    let config = file(text).unwrap();
    assert_eq!(config.storage.max_memory_bytes, 2 << 30);
    let printed = config.to_toml();
    let again = file(&printed).unwrap_or_else(|error| panic!("{error}\n{printed}"));
    assert!(config.keys().eq(again.keys()));
    assert!(config.rules.iter().eq(again.rules.iter()));
    assert_eq!(printed, again.to_toml());
    let defaults = Config::default();
    assert!(file(&defaults.to_toml()).unwrap().keys().eq(defaults.keys()));
}

#[test]
fn every_key_is_printed_with_meaning_default_and_unit() {
    let printed = Config::default().to_toml();
    for (key, value) in Config::default().keys() {
        assert!(
            printed.contains(&format!("\n{} = {}\n", key.name, value.to_toml())),
            "{}",
            key.path()
        );
    }
    assert!(printed.contains(
        "# Client connections at one time. From 1 to 1000000. Default: 10000 connections.\nconnections = 10000\n"
    ));
    assert!(printed.lines().all(|line| line.chars().count() <= 120), "{printed}");
}

#[test]
fn unknown_names_are_errors_that_name_the_nearest() {
    assert_eq!(
        file_error("[limits]\n\nconections = 1\n"),
        "cluster.toml:3: there is no key 'limits.conections'; did you mean 'limits.connections'?"
    );
    assert_eq!(
        file_error("[node]\nname = \"x\"\n[lisen]\ndefault = 1\n"),
        "cluster.toml:3: there is no section 'lisen'; did you mean 'listen'?"
    );
    assert_eq!(
        file_error("[node]\nmax_memory_bytes = 1\n"),
        "cluster.toml:2: there is no key 'node.max_memory_bytes'; did you mean 'storage.max_memory_bytes'?"
    );
    assert_eq!(file_error("[zzz]\n"), "cluster.toml:1: there is no section 'zzz'");
    assert_eq!(
        error(&variable("TOLLGATE_NODE_WORKER", "1")),
        "environment variable TOLLGATE_NODE_WORKER: there is no key for 'TOLLGATE_NODE_WORKER'; did you mean \
         'TOLLGATE_NODE_WORKERS'?"
    );
    assert_eq!(
        error(&set("node.wokers=1")),
        "--set: there is no key 'node.wokers'; did you mean 'node.workers'?"
    );
    assert_eq!(
        error(&set("federation.join=a:1")),
        "--set: there is no section 'federation'"
    );
}

#[test]
fn a_key_without_its_section_is_told_where_it_belongs() {
    assert_eq!(
        file_error("# a node\nname = \"x\"\n"),
        "cluster.toml:2: 'name' must be in a section: [node] name"
    );
    assert_eq!(
        file_error("worker = 1\n"),
        "cluster.toml:1: there is no key 'worker'; did you mean 'node.workers'?"
    );
    assert_eq!(file_error("zzz = 1\n"), "cluster.toml:1: there is no key 'zzz'");
}

#[test]
fn a_level_that_is_none_is_an_error() {
    let expected = "must be error, warn, info, debug, trace or off, or a filter such as info,tollgate_node=debug";
    assert_eq!(
        file_error("[log]\nlevel = \"warning\"\n"),
        format!("cluster.toml:2: log.level {expected}, not \"warning\"; did you mean 'warn'?")
    );
    assert_eq!(
        error(&set("log.level=loud")),
        format!("--set: log.level {expected}, not \"loud\"")
    );
    assert_eq!(
        file_error("[log]\nlevel = 3\n"),
        format!("cluster.toml:2: log.level {expected}, not 3")
    );
    assert!(file("[log]\nlevel = \"info,tollgate_node=debug\"\n").is_ok());
}

#[test]
fn values_are_checked() {
    assert_eq!(
        file_error("[node]\nworkers = \"many\"\n"),
        "cluster.toml:2: node.workers must be a whole number from 0 to 256, not \"many\""
    );
    assert_eq!(
        file_error("[node]\nworkers = 257\n"),
        "cluster.toml:2: node.workers must be a whole number from 0 to 256, not 257"
    );
    assert_eq!(
        file_error("[node]\nworkers = 1.5\n"),
        "cluster.toml:2: node.workers must be a whole number from 0 to 256, not a TOML float"
    );
    assert_eq!(
        file_error("[auth]\ninsecure = \"yes\"\n"),
        "cluster.toml:2: auth.insecure must be true or false, not \"yes\""
    );
    assert_eq!(
        file_error("[storage]\nwhen_full = \"drop\"\n"),
        "cluster.toml:2: storage.when_full must be shed or refuse, not \"drop\""
    );
    assert_eq!(
        error(&variable("TOLLGATE_STORAGE_IDLE_MS", "-1")),
        "environment variable TOLLGATE_STORAGE_IDLE_MS: storage.idle_ms must be a number of milliseconds from 1 to \
         31622400000, or text such as 10s, not \"-1\""
    );
    assert_eq!(
        error(&set("policy.budget_us=1us")),
        "--set: policy.budget_us must be a number of microseconds from 10 to 1000000, or text such as 1ms, not \"1us\""
    );
    assert_eq!(
        error(&set("storage.max_memory_bytes=12xb")),
        "--set: storage.max_memory_bytes must be a number of bytes from 0 to 1125899906842624, or text such as 64MiB, \
         not \"12xb\""
    );
    assert_eq!(
        error(&Sources {
            flags: vec![flag("--listen", "listen.default", "6379")],
            ..Sources::default()
        }),
        "--listen: listen.default must be an address such as 127.0.0.1:6379 or [::1]:6379, not \"6379\""
    );
    assert_eq!(
        error(&set("node.name=a\nb")),
        "--set: node.name must be text on one line, not \"a\\nb\""
    );
    assert_eq!(
        error(&set("workers=1")),
        "--set takes section.key=value, not \"workers=1\""
    );
    assert_eq!(
        error(&set("node.workers")),
        "--set takes section.key=value, not \"node.workers\""
    );
    assert!(error(&set(&format!("node.workers={}", "9".repeat(5_000)))).len() < 250);
}

#[test]
fn values_may_carry_units() {
    for (setting, bytes) in [
        ("1024", 1_024),
        ("64kb", 65_536),
        ("64 KiB", 65_536),
        ("1gb", 1 << 30),
        ("3B", 3),
    ] {
        let config = Config::load(&set(&format!("storage.max_memory_bytes={setting}"))).unwrap();
        assert_eq!(config.storage.max_memory_bytes, bytes);
    }
    for (setting, ms) in [("250", 250), ("250ms", 250), ("2h", 7_200_000)] {
        assert_eq!(
            Config::load(&set(&format!("storage.idle_ms={setting}")))
                .unwrap()
                .storage
                .idle_ms,
            ms
        );
    }
    assert_eq!(
        Config::load(&set("policy.budget_us=2ms")).unwrap().policy.budget_us,
        2_000
    );
    assert!(Config::load(&set("auth.insecure=true")).unwrap().auth.insecure);
}

#[test]
fn broken_toml_names_the_line() {
    let text = file_error("[node]\nname = \"x\"\nworkers = = 3\n");
    assert!(text.starts_with("cluster.toml:3: "), "{text}");
    let text = file_error("[node]\nname = \"x\"\nname = \"y\"\n");
    assert!(text.starts_with("cluster.toml:3: duplicate key"), "{text}");
    assert_eq!(
        file_error("node = 3\n"),
        "cluster.toml:1: 'node' is a section: write [node]"
    );
    assert_eq!(
        file_error("[[node]]\n"),
        "cluster.toml:1: 'node' is a section: write [node]"
    );
}

#[test]
fn rules_name_line_rule_and_field() {
    let ok = "[[rules]]\nid = \"a\"\nlimit = 1\nwindow = \"1s\"\n";
    assert_eq!(file(ok).unwrap().rules.len(), 1);
    let text = file_error(&format!(
        "{ok}[[rules]]\nid = \"b\"\nlimit = 1\nwindow = \"1s\"\ncolour = 3\n"
    ));
    assert!(
        text.starts_with("cluster.toml:9: rule 'b': there is no field 'colour'; a rule has id, limit, window, "),
        "{text}"
    );
    let text = file_error(&format!("{ok}[[rules]]\nid = \"b\"\nlimit = 0\nwindow = \"1s\"\n"));
    assert!(
        text.starts_with("cluster.toml:5: rule 'b': limit must be a whole number"),
        "{text}"
    );
    let text = file_error(&format!("{ok}{ok}"));
    assert_eq!(text, "cluster.toml:5: rule 'a' is defined twice");
    let text = file_error(&format!("{ok}\n[[rules]]\nid = \"b\"\nlimit = 1\n"));
    assert_eq!(
        text,
        "cluster.toml:6: rule 'b': window is missing: it is text, such as \"1m\""
    );
    let text = file_error(&format!("{ok}[[rules]]\nlimit = 1\nwindow = \"1s\"\n"));
    assert_eq!(
        text,
        "cluster.toml:5: rule 2: id is missing: it is text, such as \"login\""
    );
    for (line, reason) in [
        ("limit = \"5\"", "limit must be a whole number, such as 5, not \"5\""),
        ("limit = -1", "limit must be a whole number, such as 5, not -1"),
        (
            "limit = 1.5",
            "limit must be a whole number, such as 5, not a TOML float",
        ),
        ("window = 60", "window must be text, such as \"1m\", not 60"),
        ("burst = true", "burst must be a whole number, such as 5, not true"),
        (
            "polcy = \"sliding_log\"",
            "there is no field 'polcy'; did you mean 'policy'?",
        ),
        (
            "on_failure = \"shut\"",
            "on_failure must be \"local\", \"open\" or \"closed\", not \"shut\"",
        ),
    ] {
        let name = line.split(' ').next().unwrap_or_default();
        let others: String = ["limit = 1\n", "window = \"1s\"\n"]
            .into_iter()
            .filter(|other| !other.starts_with(name))
            .collect();
        assert_eq!(
            file_error(&format!("{ok}[[rules]]\nid = \"b\"\n{line}\n{others}")),
            format!("cluster.toml:7: rule 'b': {reason}")
        );
    }
    assert_eq!(
        file_error("rules = [3]\n"),
        "cluster.toml:1: rules are written as [[rules]]"
    );
    assert_eq!(
        file_error("[[rule]]\nid = \"b\"\n"),
        "cluster.toml:1: there is no section 'rule'; did you mean 'rules'?"
    );
    assert_eq!(
        file_error("[rules]\nid = \"a\"\n"),
        "cluster.toml:1: rules are written as [[rules]]"
    );
    let two = ok.replace("\"a\"", "\"b\"");
    assert_eq!(
        file_error(&format!("[limits]\nrules = 1\n{ok}{two}")),
        "cluster.toml:7: there are 2 rules, more than limits.rules = 1"
    );
}

#[test]
fn the_password_file_is_read_and_not_printed() {
    let path = Scratch::new("password", "s3cret word\n");
    let mut config = Config::load(&set(&format!("auth.password_file={}", path.0.display()))).unwrap();
    assert!(config.password.as_ref().unwrap().matches(b"s3cret word"));
    assert!(!config.to_toml().contains("s3cret") && !format!("{config:?}").contains("s3cret"));
    for (content, reason) in [
        ("\n", "holds no password"),
        ("a\nb\n", "must hold the password on one line"),
        (&*"x".repeat(513), "holds a password of more than 512 bytes"),
    ] {
        std::fs::write(&path.0, content).unwrap();
        assert_eq!(
            config.finish().unwrap_err().to_string(),
            format!("{} (auth.password_file): {reason}", path.0.display())
        );
    }
}

#[test]
fn the_cluster_secret_is_read_and_not_printed() {
    let path = Scratch::new("secret", "0123456789abcdef\n");
    let mut config = Config::load(&set(&format!("cluster.secret_file={}", path.0.display()))).unwrap();
    assert_eq!(config.cluster_secret.as_ref().unwrap().as_bytes(), b"0123456789abcdef");
    assert!(!config.to_toml().contains("0123") && !format!("{config:?}").contains("0123"));
    for (content, reason) in [
        ("", "holds no cluster secret"),
        ("0123456789\nabcdef", "must hold the cluster secret on one line"),
        ("0123456789abcde", "holds a cluster secret of less than 16 bytes"),
    ] {
        std::fs::write(&path.0, content).unwrap();
        assert_eq!(
            config.finish().unwrap_err().to_string(),
            format!("{} (cluster.secret_file): {reason}", path.0.display())
        );
    }
}

#[test]
fn nodes_to_join_are_a_list() {
    let seeds = |config: Config| config.cluster.join;
    let expected = ["node-1:7379", "127.0.0.1:2", "[::1]:3"];
    let text = "node-1:7379, 127.0.0.1:2,[::1]:3";
    assert_eq!(
        seeds(Config::load(&set(&format!("cluster.join={text}"))).unwrap()),
        expected
    );
    assert_eq!(
        seeds(Config::load(&variable("TOLLGATE_CLUSTER_JOIN", text)).unwrap()),
        expected
    );
    assert_eq!(
        seeds(file(&format!("[cluster]\njoin = {expected:?}\n")).unwrap()),
        expected
    );
    assert_eq!(seeds(file(&format!("[cluster]\njoin = {text:?}\n")).unwrap()), expected);
    assert_eq!(seeds(file("[cluster]\njoin = []\n").unwrap()), [""; 0]);
    for bad in [
        "node-1",
        ":7379",
        "node-1:0",
        "node-1:65536",
        "a b:1",
        "::1:7379",
        "a:1,,b:2",
    ] {
        let text = error(&set(&format!("cluster.join={bad}")));
        assert_eq!(
            text,
            format!(
                "--set: cluster.join must be addresses such as node-1:7379, with commas between them or as an array, not {bad:?}"
            )
        );
    }
    let text = file_error("[cluster]\njoin = [7379]\n");
    assert!(
        text.starts_with("cluster.toml:2: cluster.join must be addresses"),
        "{text}"
    );
}

#[test]
fn the_address_for_peers_is_one_or_off_or_none() {
    let peer = |text: &str| Config::load(&set(&format!("cluster.peer={text}"))).unwrap();
    assert_eq!(peer("").cluster.peer, PeerListen::IfFree);
    assert_eq!(peer("").peer_address().to_string(), "127.0.0.1:7379");
    assert_eq!(peer("off").cluster.peer, PeerListen::Off);
    assert_eq!(peer("127.0.0.1:0").peer_address().to_string(), "127.0.0.1:0");
    let text = error(&set("cluster.peer=on"));
    assert!(
        text.starts_with("--set: cluster.peer must be an address such as"),
        "{text}"
    );
    let text = error(&set("cluster.advertise=host:7379"));
    assert_eq!(
        text,
        "--set: cluster.advertise must be a host name or an IP address, without a port, not \"host:7379\""
    );
}

#[test]
fn listening_for_peers_beyond_loopback_needs_a_secret() {
    let exposed = "cluster.peer = 0.0.0.0:0 can be reached from other machines, and there is no cluster secret: give \
                   --cluster-secret-file, listen on 127.0.0.1, or say --insecure";
    let mut sources = set("cluster.peer=0.0.0.0:0");
    assert_eq!(error(&sources), exposed);
    sources.flags = vec![flag("--insecure", "auth.insecure", "true")];
    assert!(Config::load(&sources).is_ok());
    let path = Scratch::new("exposed-secret", "0123456789abcdef");
    sources.flags = vec![flag(
        "--cluster-secret-file",
        "cluster.secret_file",
        path.0.to_str().unwrap(),
    )];
    assert!(Config::load(&sources).unwrap().cluster_secret.is_some());
}

#[test]
fn who_cannot_be_reached_cannot_join() {
    assert_eq!(
        error(&set("cluster.join=127.0.0.1:1,192.0.2.7:7379")),
        "cluster.join names 192.0.2.7:7379, and cluster.peer = 127.0.0.1:7379 can only be reached from this machine: give --peer"
    );
    assert!(Config::load(&set("cluster.join=127.0.0.1:1,node-2:7379")).is_ok());
    let mut sources = set("cluster.join=127.0.0.1:1");
    sources.flags = vec![flag("--peer", "cluster.peer", "off")];
    assert_eq!(
        error(&sources),
        "cluster.join names 127.0.0.1:1, and cluster.peer is off"
    );
}

#[test]
fn what_cannot_be_read_is_named_with_its_key() {
    for key in ["auth.password_file", "cluster.secret_file", "node.lua_dir"] {
        let text = error(&set(&format!("{key}=/nonexistent/p")));
        assert!(
            text.starts_with(&format!("cannot read /nonexistent/p ({key}): ")),
            "{text}"
        );
    }
}

#[test]
fn listening_beyond_loopback_needs_a_password() {
    let expected = |key: &str, address: &str| {
        format!(
            "{key} = {address} can be reached from other machines, and there is no password: give --password-file, \
             listen on 127.0.0.1, or say --insecure"
        )
    };
    assert_eq!(
        error(&set("listen.default=0.0.0.0:0")),
        expected("listen.default", "0.0.0.0:0")
    );
    assert_eq!(error(&set("admin.address=[::]:0")), expected("admin.address", "[::]:0"));
    let mut sources = set("listen.default=0.0.0.0:0");
    sources.flags = vec![flag("--insecure", "auth.insecure", "true")];
    assert!(Config::load(&sources).is_ok());
    let path = Scratch::new("exposed", "pw");
    sources.flags = vec![flag("--password-file", "auth.password_file", path.0.to_str().unwrap())];
    assert!(Config::load(&sources).unwrap().password.is_some());
}

#[test]
fn one_key_is_not_set_twice_on_the_command_line() {
    let mut sources = set("node.workers=1");
    sources.flags = vec![flag("--workers", "node.workers", "2")];
    assert_eq!(error(&sources), "node.workers is set by both --workers and --set");
}

#[test]
fn variables_of_kubernetes_services_are_not_ours() {
    for name in [
        "SERVICE_HOST",
        "SERVICE_PORT",
        "SERVICE_PORT_RESP",
        "PORT",
        "PORT_6379_TCP",
        "PORT_6379_TCP_ADDR",
        "ADMIN_SERVICE_HOST",
        "ADMIN_PORT",
        "ADMIN_PORT_8379_TCP_PORT",
    ] {
        assert!(
            Config::load(&variable(&format!("TOLLGATE_{name}"), "x")).is_ok(),
            "{name}"
        );
    }
    for (key, _) in Config::default().keys() {
        assert!(!sources::is_service_link(
            key.variable().strip_prefix(VARIABLE_PREFIX).unwrap()
        ));
    }
    assert_eq!(
        error(&variable("TOLLGATE_PORTS", "1")),
        "environment variable TOLLGATE_PORTS: there is no key for 'TOLLGATE_PORTS'"
    );
}

#[test]
fn the_example_loads_and_changes_no_default() {
    let example = file(include_str!("../../../../cluster.toml")).unwrap();
    let mut defaults = Config::default();
    defaults.node.name = "node-1".to_owned();
    assert!(example.keys().eq(defaults.keys()));
    assert_eq!(example.rules.len(), 3);
}
