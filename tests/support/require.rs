use std::path::PathBuf;

/// Looks for a program on `PATH`.
pub fn find_tool(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|dir| dir.join(name))
        .find(|candidate| candidate.is_file())
}

/// True when one of `tools` is missing, in which case the test should return at once: the line printed here makes
/// `tests/run.py` count it as skipped, by name. With `CI=1` or `CI=true` a missing tool is a failure instead.
///
/// ```ignore
/// if skip_without(&["redis-server"]) {
///     return;
/// }
/// ```
pub fn skip_without(tools: &[&str]) -> bool {
    let missing: Vec<&str> = tools.iter().copied().filter(|tool| find_tool(tool).is_none()).collect();
    if missing.is_empty() {
        return false;
    }
    let in_ci = std::env::var("CI").is_ok_and(|value| value == "1" || value == "true");
    assert!(
        !in_ci,
        "needs {}, which is missing; in CI nothing is skipped",
        missing.join(", ")
    );
    println!("SKIPPED: needs {}", missing.join(", "));
    true
}
