//! Addresses of nodes that this one was told of. Names are resolved again and again: behind one there may be others tomorrow.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::lookup_host;
use tokio::sync::watch;

/// How often names are resolved.
const RESOLVE_INTERVAL: Duration = Duration::from_secs(5);

/// How long one look-up may take.
const RESOLVE_LIMIT: Duration = Duration::from_secs(5);

/// The most addresses that are kept; the rest is ignored.
const ADDRESSES_MAX: usize = 256;

/// The addresses of the seeds now. A name that cannot be resolved is left out, and logged if `warn`.
pub(super) async fn resolve(seeds: &[String], warn: bool) -> HashSet<SocketAddr> {
    let mut addresses = HashSet::new();
    for seed in seeds {
        if let Ok(address) = seed.parse() {
            addresses.insert(address);
            continue;
        }
        let found = tokio::time::timeout(RESOLVE_LIMIT, lookup_host(seed.as_str())).await;
        match found {
            Ok(Ok(found)) => addresses.extend(found),
            Ok(Err(error)) if warn => tracing::warn!(event = "seed_not_resolved", seed, %error),
            Err(_) if warn => tracing::warn!(event = "seed_not_resolved", seed, error = "timed out"),
            _ => {}
        }
        if addresses.len() >= ADDRESSES_MAX {
            break;
        }
    }
    addresses.into_iter().take(ADDRESSES_MAX).collect()
}

/// Goes on resolving, if there is a name among the seeds, until nobody wants to know.
pub(super) async fn keep(seeds: Vec<String>, addresses: watch::Sender<HashSet<SocketAddr>>) {
    if seeds.iter().all(|seed| seed.parse::<SocketAddr>().is_ok()) {
        return;
    }
    loop {
        tokio::select! {
            () = addresses.closed() => return,
            () = tokio::time::sleep(RESOLVE_INTERVAL) => {}
        }
        let mut found = resolve(&seeds, false).await;
        addresses.send_if_modified(|known| {
            // A name server that fails is no reason to forget.
            if found.is_empty() || *known == found {
                return false;
            }
            tracing::info!(event = "seeds_changed", addresses = ?found);
            std::mem::swap(known, &mut found);
            true
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn addresses_are_taken_and_names_looked_up() {
        let seeds = ["127.0.0.1:7379", "localhost:7380", "[::1]:1", "no.such.name.invalid:1"].map(str::to_owned);
        let found = resolve(&seeds, true).await;
        for expected in ["127.0.0.1:7379", "[::1]:1"] {
            assert!(found.contains(&expected.parse().unwrap()), "{found:?}");
        }
        assert!(
            found
                .iter()
                .any(|address| address.port() == 7380 && address.ip().is_loopback()),
            "{found:?}"
        );
    }
}
