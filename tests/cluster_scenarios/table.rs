//! The table of all scenarios: each writes its rows, to its own output and, if `SCENARIO_TABLE` names a directory, to a file there.

use std::io::Write;

use crate::oracle::Source;
use crate::outcome::Outcome;

/// As the runner prints them above the table.
const TITLES: [&str; 14] = [
    "scenario",
    "client",
    "checks",
    "admitted",
    "model",
    "excess",
    "of limits",
    "heir",
    "local",
    "errors of checks",
    "other errors",
    "values lost",
    "slowest ms",
    "CPU %",
];

/// Writes the row of an outcome.
pub fn write(outcome: &Outcome) {
    let sums = outcome.sums();
    let faults = |of_checks: bool| outcome.faults().filter(|fault| fault.is_check == of_checks).count();
    let cells = [
        outcome.scenario.clone(),
        outcome.client.to_owned(),
        outcome.checks().to_string(),
        sums.admitted.to_string(),
        sums.model.to_string(),
        sums.excess.to_string(),
        format!("{:.2} %", 100.0 * outcome.excess_part()),
        outcome.decided_by(Source::Heir).to_string(),
        outcome.decided_by(Source::Local).to_string(),
        faults(true).to_string(),
        faults(false).to_string(),
        outcome
            .records
            .lost
            .iter()
            .map(|(_, count)| count)
            .sum::<u64>()
            .to_string(),
        format!("{:.1}", outcome.slowest().as_secs_f64() * 1e3),
        format!("{:.0}", 100.0 * outcome.cpu),
    ];
    for (title, cell) in TITLES.iter().zip(&cells) {
        print!("{title} {cell}; ");
    }
    println!(
        "short {}; waits for processors {:.0} ms",
        sums.short,
        outcome.delays.as_secs_f64() * 1e3
    );
    if let Some(directory) = std::env::var_os("SCENARIO_TABLE") {
        let path = std::path::Path::new(&directory).join(format!("{}.{}.row", outcome.scenario, outcome.client));
        let mut file = std::fs::File::create(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        writeln!(file, "| {} |", cells.join(" | ")).expect("a file can be written to");
    }
}
