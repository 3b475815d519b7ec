//! Medians and tables.

use std::fmt::Write as _;

/// The middle of some figures; of an even number of them, the mean of the two in the middle.
///
/// # Panics
///
/// When there are none.
pub fn median(figures: &[f64]) -> f64 {
    assert!(!figures.is_empty(), "a median needs a figure");
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 {
        sorted[middle]
    } else {
        (sorted[middle - 1] + sorted[middle]) / 2.0
    }
}

/// The smallest and the largest of some figures.
pub fn range(figures: &[f64]) -> (f64, f64) {
    figures
        .iter()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &f| {
            (low.min(f), high.max(f))
        })
}

/// A table with its first column to the left and the others to the right, as Markdown.
pub fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        rows.iter()
            .map(|row| row[column].chars().count())
            .chain([header[column].chars().count(), 3])
            .max()
            .unwrap_or(3)
    };
    let widths: Vec<usize> = (0..header.len()).map(width).collect();
    let mut out = String::new();
    let mut line = |cells: &[String]| {
        for (column, (cell, width)) in cells.iter().zip(&widths).enumerate() {
            let pad = " ".repeat(width - cell.chars().count());
            // Writing to a string cannot fail.
            let _ = if column == 0 {
                write!(out, "| {cell}{pad} ")
            } else {
                write!(out, "| {pad}{cell} ")
            };
        }
        out.push_str("|\n");
    };
    line(&header.iter().map(|&h| h.to_owned()).collect::<Vec<_>>());
    let rule = widths.iter().enumerate().map(|(column, &width)| {
        if column == 0 {
            "-".repeat(width)
        } else {
            "-".repeat(width - 1) + ":"
        }
    });
    line(&rule.collect::<Vec<_>>());
    for row in rows {
        line(row);
    }
    out
}

/// A figure with three significant digits.
pub fn digits3(figure: f64) -> String {
    let magnitude = figure.abs();
    if magnitude >= 100.0 || magnitude == 0.0 {
        format!("{figure:.0}")
    } else if magnitude >= 10.0 {
        format!("{figure:.1}")
    } else if magnitude >= 1.0 {
        format!("{figure:.2}")
    } else {
        format!("{figure:.3}")
    }
}

/// Nanoseconds as microseconds with three significant digits.
pub fn us(nanoseconds: u64) -> String {
    digits3(nanoseconds as f64 / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(range(&[3.0, 1.0, 2.0]), (1.0, 3.0));
    }

    #[test]
    fn a_table_is_aligned_markdown() {
        let rows = [vec!["echo".to_owned(), "0.33".to_owned()]];
        assert_eq!(
            table(&["target", "us"], &rows),
            "| target |   us |\n| ------ | ---: |\n| echo   | 0.33 |\n"
        );
    }

    #[test]
    fn three_digits_whatever_the_size() {
        let shown = [1234.4, 100.0, 12.34, 1.234, 0.1234, 0.0].map(digits3);
        assert_eq!(shown, ["1234", "100", "12.3", "1.23", "0.123", "0"]);
    }
}
