//! Addresses to listen on.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};

/// `host:port` to listen on, as written and as resolved. Port 0 takes a free one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenAddress {
    text: String,
    socket: SocketAddr,
}

impl ListenAddress {
    /// Parses `127.0.0.1:6379`, `[::1]:6379` or `name:6379`; a name is looked up at once. The error is a reason that
    /// follows the name of the key.
    pub fn parse(text: &str) -> Result<Self, String> {
        let example = "an address such as 127.0.0.1:6379 or [::1]:6379";
        let port = text.rsplit_once(':').map(|(_, port)| port.parse::<u16>());
        if !matches!(port, Some(Ok(_))) || text.chars().any(|c| c.is_control() || c == ' ') {
            return Err(format!("must be {example}, not {text:?}"));
        }
        if text.starts_with(':') {
            return Err(format!(
                "must be {example}, not {text:?}: give a host, such as 0.0.0.0{text}"
            ));
        }
        let mut resolved = text
            .to_socket_addrs()
            .map_err(|e| format!("must be {example}; cannot resolve {text:?}: {e}"))?;
        let socket = resolved
            .next()
            .ok_or_else(|| format!("must be {example}; {text:?} has no address"))?;
        Ok(Self {
            text: text.to_owned(),
            socket,
        })
    }

    /// The socket address to bind.
    pub fn socket(&self) -> SocketAddr {
        self.socket
    }

    /// Whether only this machine can reach it.
    pub fn is_loopback(&self) -> bool {
        self.socket.ip().to_canonical().is_loopback()
    }
}

/// Whether and where to listen for peers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PeerListen {
    /// At the default address; a node that joins nobody does without if that is taken.
    IfFree,
    /// Not at all: a node that no other can join.
    Off,
    /// There.
    At(ListenAddress),
}

impl From<SocketAddr> for ListenAddress {
    fn from(socket: SocketAddr) -> Self {
        Self {
            text: socket.to_string(),
            socket,
        }
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_loopback() {
        for (text, loopback) in [
            ("127.0.0.1:6379", true),
            ("127.9.9.9:0", true),
            ("[::1]:6379", true),
            ("[::ffff:127.0.0.1]:1", true),
            ("0.0.0.0:6379", false),
            ("[::]:6379", false),
            ("192.0.2.1:6379", false),
        ] {
            let address = ListenAddress::parse(text).unwrap();
            assert_eq!(address.is_loopback(), loopback, "{text}");
            assert_eq!(address.to_string(), text);
        }
        assert!(ListenAddress::parse("localhost:6379").unwrap().is_loopback());
    }

    #[test]
    fn refuses_what_is_no_address() {
        for bad in [
            "",
            "6379",
            "127.0.0.1",
            "127.0.0.1:x",
            "127.0.0.1:65536",
            "::1",
            "a b:1",
            "h:-1",
        ] {
            let reason = ListenAddress::parse(bad).unwrap_err();
            assert!(reason.starts_with("must be an address such as"), "{bad}: {reason}");
            assert!(!reason.contains('\n'));
        }
        assert_eq!(
            ListenAddress::parse(":21390").unwrap_err(),
            "must be an address such as 127.0.0.1:6379 or [::1]:6379, not \":21390\": give a host, such as 0.0.0.0:21390"
        );
    }
}
