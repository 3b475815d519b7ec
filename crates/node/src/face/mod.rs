//! The face of Redis Cluster: a listener whose clients are sent to the node that has a key, and the nodes as CLUSTER shows them.
//!
//! A slot that has no holder, or one that clients cannot be sent to, is served as on the default face, by whichever node is asked.

mod redirect;
mod topology;

pub use topology::topology;

/// Host and port of `host:port`, the host without brackets. What is no port is 0.
fn split_address(address: &str) -> (&str, u16) {
    let (host, port) = address.rsplit_once(':').unwrap_or((address, ""));
    let host = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .unwrap_or(host);
    (host, port.parse().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_shown_without_brackets() {
        assert_eq!(split_address("127.0.0.1:6380"), ("127.0.0.1", 6380));
        assert_eq!(split_address("[::1]:6380"), ("::1", 6380));
        assert_eq!(split_address("node-1.example:1"), ("node-1.example", 1));
        assert_eq!(split_address("nothing"), ("nothing", 0));
    }
}
