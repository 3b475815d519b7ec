//! LATENCY GRAPH: the samples of an event as a picture of letters, laid out as Redis lays it out.

use super::Sample;

/// Samples beside each other; more go below.
const COLUMNS: usize = 80;
/// Lines of one picture.
const ROWS: usize = 4;
/// The top of a column, by how much of its line it fills.
const TOPS: [u8; 3] = *b"_o#";
/// A line that a column goes through.
const FILLED: u8 = b'|';
/// Where one sample is in height: as many steps as there are tops in all lines.
const STEPS: usize = ROWS * TOPS.len();

/// The picture: a headline, a rule, the columns, and below each how long ago it was, from top to bottom.
pub(super) fn draw(event: &str, samples: &[Sample], max_ms: u64, now_s: u64) -> String {
    let latencies = samples.iter().map(|sample| sample.latency_ms);
    let (low, high) = (
        latencies.clone().min().unwrap_or_default(),
        latencies.max().unwrap_or_default(),
    );
    let mut text = format!("{event} - high {high} ms, low {low} ms (all time high {max_ms} ms)\n");
    text.push_str(&"-".repeat(COLUMNS));
    text.push('\n');
    for (part, samples) in samples.chunks(COLUMNS).enumerate() {
        if part > 0 {
            text.push('\n');
        }
        let steps: Vec<usize> = samples
            .iter()
            .map(|sample| step_of(sample.latency_ms, low, high))
            .collect();
        for row in 0..ROWS {
            let line = steps.iter().map(|&step| cell(step, row));
            push_line(&mut text, line);
        }
        let ages: Vec<String> = samples
            .iter()
            .map(|sample| age(now_s.saturating_sub(sample.unix_s)))
            .collect();
        let longest = ages.iter().map(String::len).max().unwrap_or_default();
        // A line between the columns and what is below them.
        push_line(&mut text, ages.iter().map(|_| b' '));
        for row in 0..longest {
            let line = ages.iter().map(|age| age.as_bytes().get(row).copied().unwrap_or(b' '));
            push_line(&mut text, line);
        }
    }
    text
}

fn push_line(text: &mut String, line: impl Iterator<Item = u8>) {
    text.extend(line.map(char::from));
    text.push('\n');
}

/// How high the column of a sample is.
fn step_of(latency_ms: u64, low: u64, high: u64) -> usize {
    let range = (high - low).max(1);
    // Both differences are below 2^64, and there are few steps.
    let step = u128::from(latency_ms - low) * STEPS as u128 / u128::from(range);
    (step as usize).min(STEPS - 1)
}

/// What a column that high has in a line, counted from the top.
fn cell(step: usize, row: usize) -> u8 {
    let below = (ROWS - row - 1) * TOPS.len();
    match step.checked_sub(below) {
        None => b' ',
        Some(above) => TOPS.get(above).copied().unwrap_or(FILLED),
    }
}

/// A time in one unit.
fn age(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..86_400 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(latencies: &[u64]) -> Vec<Sample> {
        let numbered = latencies.iter().enumerate();
        numbered
            .map(|(number, &latency_ms)| Sample {
                unix_s: 1_000 + number as u64,
                latency_ms,
            })
            .collect()
    }

    #[test]
    fn columns_and_ages() {
        let text = draw("command", &samples(&[100, 200, 300, 400, 500]), 600, 1_063);
        let rule = "-".repeat(80);
        let expected = format!(
            "command - high 500 ms, low 100 ms (all time high 600 ms)\n{rule}\n   _#\n  _||\n _|||\n_||||\n     \n11115\nmmmm9\n    s\n"
        );
        assert_eq!(text, expected);
        let flat = draw("command", &samples(&[7]), 7, 1_000 + 7_200);
        assert!(flat.ends_with("\n \n \n \n_\n \n2\nh\n"), "{flat}");
    }

    #[test]
    fn many_go_below_each_other() {
        let text = draw("command", &samples(&(0..100).collect::<Vec<_>>()), 99, 500_000);
        let widths: Vec<usize> = text.lines().map(str::len).collect();
        assert_eq!(
            &widths[1..],
            [80, 80, 80, 80, 80, 80, 80, 80, 0, 20, 20, 20, 20, 20, 20, 20]
        );
        assert!(text.ends_with("d\n"));
    }
}
