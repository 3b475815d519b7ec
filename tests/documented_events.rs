//! The events that a node logs, as docs/operations.md lists them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The levels whose events are promised; the others are for finding faults.
const LEVELS: [&str; 3] = ["error", "warn", "info"];

/// All source files of a crate but those of its tests.
fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        if path.is_dir() {
            if name != "tests" && name != "simulation" {
                sources(&path, found);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") && !name.ends_with("tests") {
            found.push(path);
        }
    }
}

/// The events of a text by their names, with their level.
fn events(text: &str) -> Vec<(String, &'static str)> {
    let own = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let mut found = Vec::new();
    for level in LEVELS {
        for call in own.split(&format!("tracing::{level}!(")).skip(1) {
            let name = call
                .trim_start()
                .strip_prefix("event = \"")
                .and_then(|rest| rest.split('"').next())
                .unwrap_or_else(|| {
                    panic!(
                        "an event at level {level} without a name: {}",
                        &call[..call.len().min(80)]
                    )
                });
            found.push((name.to_owned(), level));
        }
    }
    found
}

#[test]
fn events_are_read() {
    let text = "tracing::info!(event = \"a\", x); tracing::warn!(\n    event = \"b\",\n); tracing::debug!(x)\n\
                #[cfg(test)]\nmod tests { tracing::error!(event = \"c\") }";
    assert_eq!(events(text), [("b".to_owned(), "warn"), ("a".to_owned(), "info")]);
}

#[test]
fn the_operators_table_lists_every_event() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut in_source: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for entry in std::fs::read_dir(root.join("crates")).expect("the crates") {
        let mut files = Vec::new();
        sources(&entry.expect("an entry").path().join("src"), &mut files);
        for file in files {
            for (name, level) in events(&std::fs::read_to_string(&file).expect("a text")) {
                let levels = in_source.entry(name).or_default();
                if !levels.contains(&level) {
                    levels.push(level);
                }
            }
        }
    }
    let docs = std::fs::read_to_string(root.join("docs/operations.md")).expect("the docs");
    let section = docs.split("### Events\n").nth(1).expect("a section on events");
    let section = section.split("\n#").next().unwrap_or_default();
    let mut documented: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for row in section.lines().filter(|line| line.starts_with("| `")) {
        let mut cells = row.trim_matches('|').split('|').map(str::trim);
        let (names, levels) = (cells.next().unwrap_or_default(), cells.next().unwrap_or_default());
        for name in names.split(", ") {
            let mut levels: Vec<&str> = levels.split(", ").collect();
            levels.sort_by_key(|level| LEVELS.iter().position(|known| known == level));
            let twice = documented.insert(name.trim_matches('`').to_owned(), levels);
            assert!(twice.is_none(), "{name} is listed twice");
        }
    }
    for levels in in_source.values_mut() {
        levels.sort_by_key(|level| LEVELS.iter().position(|known| known == level));
    }
    assert_eq!(
        documented, in_source,
        "docs/operations.md, Events (left), and the source"
    );
}
