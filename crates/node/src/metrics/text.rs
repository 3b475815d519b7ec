//! The Prometheus text format, version 0.0.4.

use super::histogram::HistogramSnapshot;
use std::fmt::{Display, Write};

/// The content type of the format.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What a metric is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricType {
    /// It only grows.
    Counter,
    /// It goes up and down.
    Gauge,
    /// Durations in buckets.
    Histogram,
}

/// Text in the making: families one after the other, each with its samples.
#[derive(Debug, Default)]
pub struct Exposition {
    out: String,
}

impl Exposition {
    /// Starts a family; its samples follow.
    pub fn family(&mut self, name: &str, metric_type: MetricType, help: &str) {
        let metric_type = match metric_type {
            MetricType::Counter => "counter",
            MetricType::Gauge => "gauge",
            MetricType::Histogram => "histogram",
        };
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        self.line(format_args!("# HELP {name} {help}"));
        self.line(format_args!("# TYPE {name} {metric_type}"));
    }

    /// Writes a sample.
    pub fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.out.push_str(name);
        for (index, (label, text)) in labels.iter().enumerate() {
            let open = if index == 0 { '{' } else { ',' };
            // Writing to a string cannot fail.
            let _ = write!(self.out, "{open}{label}=\"");
            for c in text.chars() {
                match c {
                    '\\' => self.out.push_str("\\\\"),
                    '"' => self.out.push_str("\\\""),
                    '\n' => self.out.push_str("\\n"),
                    c => self.out.push(c),
                }
            }
            self.out.push('"');
        }
        if !labels.is_empty() {
            self.out.push('}');
        }
        self.line(format_args!(" {value}"));
    }

    /// A family of one sample without labels.
    pub fn single(&mut self, name: &str, metric_type: MetricType, help: &str, value: impl Display) {
        self.family(name, metric_type, help);
        self.sample(name, &[], value);
    }

    /// A family of one histogram, in seconds.
    pub fn histogram(&mut self, name: &str, help: &str, snapshot: &HistogramSnapshot) {
        self.family(name, MetricType::Histogram, help);
        let bucket = format!("{name}_bucket");
        let mut events = 0;
        for (bound_ns, count) in snapshot.cumulative() {
            match bound_ns {
                Some(bound_ns) => self.sample(&bucket, &[("le", &seconds(bound_ns).to_string())], count),
                None => self.sample(&bucket, &[("le", "+Inf")], count),
            }
            events = count;
        }
        self.sample(&format!("{name}_sum"), &[], seconds(snapshot.sum_ns()));
        self.sample(&format!("{name}_count"), &[], events);
    }

    /// The text.
    pub fn finish(self) -> String {
        self.out
    }

    fn line(&mut self, text: std::fmt::Arguments<'_>) {
        let _ = writeln!(self.out, "{text}");
    }
}

/// Nanoseconds in seconds.
pub fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_labels_and_help() {
        let mut text = Exposition::default();
        text.family("a_total", MetricType::Counter, "back\\slash\nand line");
        text.sample("a_total", &[("one", "q\"b\\n\nz"), ("two", "é")], 3);
        text.single("b", MetricType::Gauge, "A gauge.", 0.5);
        assert_eq!(
            text.finish(),
            "# HELP a_total back\\\\slash\\nand line\n# TYPE a_total counter\na_total{one=\"q\\\"b\\\\n\\nz\",two=\"é\"} 3\n\
             # HELP b A gauge.\n# TYPE b gauge\nb 0.5\n"
        );
    }
}
