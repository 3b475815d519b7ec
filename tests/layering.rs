//! The walls between the crates, read from `cargo metadata`: see the code map in ARCHITECTURE.md.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::{Value, json};

/// A crate may depend on those before it, never on those after it.
const LAYERS: &[&str] = &[
    "tollgate-protocol",
    "tollgate-limiter",
    "tollgate-values",
    "tollgate-script",
    "tollgate-eval",
    "tollgate-store",
    "tollgate-commands",
    "tollgate-cluster",
    "tollgate-node",
    "tollgate",
];

/// Workspace members beside the layers: the load generator and the package of tests and benches. No layer may depend on
/// them.
const OUTSIDE: &[&str] = &["tollgate-loadgen", "tollgate-suite"];

/// External crates that only the named members may use, for whatever purpose (tests and build scripts too).
const RESERVED: &[(&[&str], &[&str])] = &[
    (&["mlua", "mlua-sys"], &["tollgate-script", "tollgate-eval"]),
    (&["bincode", "hashring"], &["tollgate-cluster"]),
    (&["chitchat"], &["tollgate-node"]),
    (
        &["tokio", "tokio-util", "hyper", "hyper-util", "axum", "mio", "socket2"],
        &["tollgate-node", "tollgate", "tollgate-loadgen", "tollgate-suite"],
    ),
];

/// Every dependency in `metadata` that crosses a wall, as a sentence.
fn violations(metadata: &Value) -> Vec<String> {
    let dependencies: BTreeMap<&str, Vec<&str>> = metadata["packages"]
        .as_array()
        .expect("cargo metadata has packages")
        .iter()
        .map(|package| {
            let names = package["dependencies"].as_array().expect("a package has dependencies");
            let names = names.iter().map(|dependency| text(dependency, "name")).collect();
            (text(package, "name"), names)
        })
        .collect();
    let rank = |name: &str| LAYERS.iter().position(|layer| *layer == name);
    let mut found = Vec::new();
    for (name, needs) in &dependencies {
        if rank(name).is_none() && !OUTSIDE.contains(name) {
            found.push(format!("{name} has no place in the list of layers"));
        }
        for need in needs {
            match (rank(name), rank(need)) {
                (Some(own), Some(other)) if own <= other => found.push(format!("{name} depends on {need}, below it")),
                (Some(_), None) if OUTSIDE.contains(need) => {
                    found.push(format!("{name} depends on {need}, which is for tests and benches"));
                }
                _ => {}
            }
            for (reserved, users) in RESERVED {
                if reserved.contains(need) && !users.contains(name) {
                    found.push(format!("{name} depends on {need}, reserved for {}", users.join(", ")));
                }
            }
        }
    }
    found
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_else(|| panic!("no {field} in {value}"))
}

fn workspace_metadata() -> Value {
    let output = Command::new(option_env!("CARGO").unwrap_or("cargo"))
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo can be run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON")
}

#[test]
fn no_crate_depends_on_one_below_it() {
    let metadata = workspace_metadata();
    let members = metadata["packages"].as_array().map_or(0, Vec::len);
    assert!(
        members >= LAYERS.len() + OUTSIDE.len(),
        "only {members} members: the list names crates that are gone"
    );
    let found = violations(&metadata);
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn the_layers_are_those_of_the_code_map() {
    let architecture = include_str!("../ARCHITECTURE.md");
    let rows: Vec<&str> = architecture
        .lines()
        .skip_while(|line| !line.starts_with("## Code map"))
        .skip(1)
        .take_while(|line| !line.starts_with("## "))
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next())
        .collect();
    let layers: Vec<&str> = LAYERS
        .iter()
        .map(|name| name.strip_prefix("tollgate-").unwrap_or(name))
        .collect();
    assert_eq!(rows, layers);
}

/// Made-up metadata: each member with what it depends on.
fn metadata_of(members: &[(&str, &[&str])]) -> Value {
    let packages: Vec<Value> = members
        .iter()
        .map(|(name, needs)| {
            let needs: Vec<Value> = needs.iter().map(|need| json!({"name": need, "kind": "dev"})).collect();
            json!({"name": name, "dependencies": needs})
        })
        .collect();
    json!({ "packages": packages })
}

#[test]
fn the_checker_lets_the_allowed_pass() {
    let metadata = metadata_of(&[
        ("tollgate-protocol", &["bytes"]),
        ("tollgate-script", &["tollgate-limiter", "mlua"]),
        ("tollgate-node", &["tollgate-commands", "tokio", "axum"]),
        ("tollgate-loadgen", &["tollgate-protocol", "tokio"]),
        ("tollgate-suite", &["tollgate", "tollgate-loadgen"]),
    ]);
    assert_eq!(violations(&metadata), Vec::<String>::new());
}

#[test]
fn the_checker_finds_each_kind_of_violation() {
    let cases: &[(&str, &str, &str)] = &[
        (
            "tollgate-protocol",
            "tollgate-store",
            "tollgate-protocol depends on tollgate-store, below it",
        ),
        (
            "tollgate-store",
            "tollgate-store",
            "tollgate-store depends on tollgate-store, below it",
        ),
        (
            "tollgate-commands",
            "tokio",
            "tollgate-commands depends on tokio, reserved for",
        ),
        (
            "tollgate-commands",
            "mlua",
            "tollgate-commands depends on mlua, reserved for tollgate-script",
        ),
        (
            "tollgate-node",
            "mlua",
            "tollgate-node depends on mlua, reserved for tollgate-script",
        ),
        (
            "tollgate",
            "tollgate-suite",
            "tollgate depends on tollgate-suite, which is for tests",
        ),
        (
            "tollgate-utils",
            "bytes",
            "tollgate-utils has no place in the list of layers",
        ),
    ];
    for (name, need, message) in cases {
        let found = violations(&metadata_of(&[(name, &[need])]));
        assert!(
            matches!(&found[..], [only] if only.starts_with(message)),
            "{name} on {need}: {found:?}"
        );
    }
}

/// Luau reports errors as C++ exceptions that pass through Rust frames: with `panic = "abort"` the first script that
/// overruns its budget or its memory ends the process. The binary's panic hook aborts instead.
#[test]
fn errors_of_luau_can_unwind_in_every_profile() {
    let manifest = include_str!("../Cargo.toml");
    assert!(!manifest.lines().any(|line| line.trim() == r#"panic = "abort""#));
}
