//! Where peers reach a node: one number for TCP and for UDP, and the address that they are told.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, ToSocketAddrs, UdpSocket};

/// How often a free number is tried that turns out to be taken for the other protocol.
const ATTEMPTS_MAX: usize = 64;

/// A TCP listener and a UDP socket on the same address.
#[derive(Debug)]
pub struct PeerSockets {
    /// For streams between peers; non-blocking.
    pub listener: TcpListener,
    /// For gossip; non-blocking.
    pub gossip: UdpSocket,
    /// Where both are.
    pub address: SocketAddr,
}

impl PeerSockets {
    /// Takes an address for both. A port of 0 takes one that is free for both.
    ///
    /// # Errors
    /// What the system says.
    pub fn bind(address: SocketAddr, backlog: u32) -> io::Result<Self> {
        let mut attempts = 1;
        loop {
            let listener = crate::listen::bind(address, backlog)?;
            let taken = listener.local_addr()?;
            match UdpSocket::bind(taken) {
                Ok(gossip) => {
                    gossip.set_nonblocking(true)?;
                    return Ok(Self {
                        listener,
                        gossip,
                        address: taken,
                    });
                }
                Err(error)
                    if address.port() == 0 && error.kind() == io::ErrorKind::AddrInUse && attempts < ATTEMPTS_MAX =>
                {
                    attempts += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// The address that others are told: `host` if there is one, else where the node listens; and if that is every address of the machine,
/// the one from which it reaches its first seed. Text as `host:port`, and resolved.
///
/// # Errors
/// A reason on one line: `host` has no address, or there is nothing to tell.
pub fn advertised(host: &str, listens: SocketAddr, seeds: &[String]) -> Result<(String, SocketAddr), String> {
    let port = listens.port();
    if !host.is_empty() {
        let text = if host.contains(':') && !host.starts_with('[') {
            format!("[{host}]:{port}")
        } else {
            format!("{host}:{port}")
        };
        let found: Vec<SocketAddr> = match text.to_socket_addrs() {
            Ok(found) => found.collect(),
            Err(error) => return Err(format!("cannot resolve {host:?}: {error}")),
        };
        // A socket of one family reaches no address of the other.
        let found = found
            .iter()
            .find(|found| found.is_ipv4() == listens.is_ipv4())
            .or(found.first());
        return match found {
            Some(found) => Ok((text, *found)),
            None => Err(format!("{host:?} has no address")),
        };
    }
    if !listens.ip().is_unspecified() {
        return Ok((listens.to_string(), listens));
    }
    let reached = seeds.iter().find_map(|seed| {
        let seed = seed
            .to_socket_addrs()
            .ok()?
            .find(|seed| seed.is_ipv4() == listens.is_ipv4())?;
        source_of(seed)
    });
    match reached {
        Some(ip) => {
            let address = SocketAddr::new(ip, port);
            Ok((address.to_string(), address))
        }
        None => Err(format!(
            "must say what peers are told, since this node listens on every address ({listens})"
        )),
    }
}

/// The address from which this machine would send to another; nothing is sent.
fn source_of(to: SocketAddr) -> Option<IpAddr> {
    let any: SocketAddr = if to.is_ipv4() {
        ([0, 0, 0, 0], 0).into()
    } else {
        ([0_u16; 8], 0).into()
    };
    let socket = UdpSocket::bind(any).ok()?;
    socket.connect(to).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_protocols_have_one_number() {
        let first = PeerSockets::bind("127.0.0.1:0".parse().unwrap(), 16).unwrap();
        assert_ne!(first.address.port(), 0);
        assert_eq!(first.gossip.local_addr().unwrap(), first.listener.local_addr().unwrap());
        let error = PeerSockets::bind(first.address, 16).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        // Taken for one of them is taken.
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let error = PeerSockets::bind(udp.local_addr().unwrap(), 16).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    }

    #[test]
    fn what_others_are_told() {
        let at = |listens: &str, host: &str, seeds: &[&str]| {
            let seeds: Vec<String> = seeds.iter().map(|seed| (*seed).to_owned()).collect();
            advertised(host, listens.parse().unwrap(), &seeds).map(|(text, address)| format!("{text} {address}"))
        };
        assert_eq!(at("127.0.0.1:7379", "", &[]).unwrap(), "127.0.0.1:7379 127.0.0.1:7379");
        assert_eq!(
            at("0.0.0.0:7379", "10.1.2.3", &[]).unwrap(),
            "10.1.2.3:7379 10.1.2.3:7379"
        );
        assert_eq!(
            at("0.0.0.0:7379", "localhost", &[]).unwrap(),
            "localhost:7379 127.0.0.1:7379"
        );
        assert_eq!(at("[::]:7379", "::1", &[]).unwrap(), "[::1]:7379 [::1]:7379");
        assert_eq!(
            at("0.0.0.0:7379", "", &["127.0.0.1:1"]).unwrap(),
            "127.0.0.1:7379 127.0.0.1:7379"
        );
        for (listens, host) in [("0.0.0.0:7379", ""), ("127.0.0.1:1", "no.such.name.invalid")] {
            let reason = at(listens, host, &[]).unwrap_err();
            assert!(!reason.contains('\n'), "{reason}");
        }
    }
}
