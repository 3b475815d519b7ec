//! What a server says of itself on `/metrics` (Prometheus text).

use crate::{Error, Result};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// The samples of one scrape.
#[derive(Clone, Debug)]
pub struct Metrics(Vec<(String, f64)>);

impl Metrics {
    /// Asks for them.
    pub fn scrape(admin: SocketAddr) -> Result<Self> {
        let scraping = || format!("scrape http://{admin}/metrics");
        let mut stream = TcpStream::connect(admin).map_err(Error::io(scraping()))?;
        stream
            .set_read_timeout(Some(Duration::from_secs(10)))
            .map_err(Error::io(scraping()))?;
        write!(stream, "GET /metrics HTTP/1.0\r\nHost: {admin}\r\n\r\n").map_err(Error::io(scraping()))?;
        let mut text = String::new();
        stream.read_to_string(&mut text).map_err(Error::io(scraping()))?;
        match text.split_once("\r\n\r\n") {
            Some((head, body)) if head.split(' ').nth(1) == Some("200") => Ok(Self::parse(body)),
            _ => Err(Error::Setup(format!("{} gave {text:?}", scraping()))),
        }
    }

    fn parse(body: &str) -> Self {
        let samples = body.lines().filter(|line| !line.starts_with('#'));
        Self(
            samples
                .filter_map(|line| {
                    let (name, value) = line.rsplit_once(' ')?;
                    Some((name.trim().to_owned(), value.parse().ok()?))
                })
                .collect(),
        )
    }

    /// The values of a metric, one a set of labels.
    pub fn values(&self, name: &str) -> impl Iterator<Item = f64> {
        self.0
            .iter()
            .filter(move |(sample, _)| sample.split('{').next() == Some(name))
            .map(|(_, value)| *value)
    }

    /// The sum of a metric over its labels.
    ///
    /// # Errors
    ///
    /// When the server has no such metric.
    pub fn sum(&self, name: &str) -> Result<f64> {
        self.reduced(name, |a, b| a + b)
    }

    /// The largest of a metric over its labels.
    ///
    /// # Errors
    ///
    /// When the server has no such metric.
    pub fn max(&self, name: &str) -> Result<f64> {
        self.reduced(name, f64::max)
    }

    fn reduced(&self, name: &str, with: impl Fn(f64, f64) -> f64) -> Result<f64> {
        self.values(name)
            .reduce(with)
            .ok_or_else(|| Error::Setup(format!("the server has no metric {name}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_found_by_name_whatever_their_labels() {
        let metrics = Metrics::parse("# HELP a b\n# TYPE a gauge\na{shard=\"0\"} 2\na{shard=\"1\"} 3.5\nab 7\n");
        assert_eq!(metrics.sum("a").unwrap(), 5.5);
        assert_eq!(metrics.max("a").unwrap(), 3.5);
        assert_eq!(metrics.sum("ab").unwrap(), 7.0);
        assert!(metrics.sum("b").is_err());
    }
}
