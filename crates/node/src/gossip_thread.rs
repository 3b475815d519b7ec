//! Gossip as part of a node.

use crate::cluster::{Cluster, Told};
use crate::config::{Config, PeerListen};
use crate::gossip::{Files, Gossip, GossipConfig, Identity, PeerSockets, Seal, advertised};
use crate::metrics::Metrics;
use crate::peers::{PeerConfig, Refusals, WallSealer};
use crate::server::ServeError;
use std::net::{SocketAddr, TcpListener};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;
use tollgate_cluster::SLOTS;
use tollgate_cluster::wire::{Local, Secret, Versions};

/// The name of every cluster: they are told apart by their secrets and addresses.
const CLUSTER: &str = "tollgate";
/// Versions of the peers' protocol that this build speaks.
const VERSIONS: RangeInclusive<u16> = Versions::OURS.lowest..=Versions::OURS.highest;

/// An address for peers that is taken, and nothing else yet.
#[derive(Debug)]
pub struct Bound {
    sockets: PeerSockets,
    /// What others are told.
    advertised: (String, SocketAddr),
}

/// Takes the address for peers; none if the node is to have none, or if the default one is taken and it joins nobody.
pub fn bind(config: &Config) -> Result<Option<Bound>, ServeError> {
    let cluster = &config.cluster;
    if cluster.peer == PeerListen::Off {
        return Ok(None);
    }
    let address = config.peer_address().socket();
    let sockets = match PeerSockets::bind(address, config.listen.backlog) {
        Ok(sockets) => sockets,
        Err(error)
            if error.kind() == std::io::ErrorKind::AddrInUse
                && cluster.peer == PeerListen::IfFree
                && cluster.join.is_empty() =>
        {
            tracing::warn!(event = "no_peer_address", %address, "it is taken, so no node can join this one; --peer sets another");
            return Ok(None);
        }
        Err(source) => {
            return Err(ServeError::Listen {
                key: "cluster.peer",
                address,
                source,
            });
        }
    };
    let advertised = advertised(&cluster.advertise, sockets.address, &cluster.join).map_err(ServeError::Advertise)?;
    Ok(Some(Bound { sockets, advertised }))
}

impl Bound {
    /// Begins to gossip. `listen` and `redirect_listen` are where clients connect, `files` what rules and policies come to. Answers with
    /// what the node has to do with others, and the listener for their
    /// streams.
    ///
    /// # Errors
    /// The name is taken, or the system has no thread or no randomness.
    pub fn start(
        self,
        config: &Config,
        listen: SocketAddr,
        redirect_listen: Option<SocketAddr>,
        files: Files,
        metrics: &Arc<Metrics>,
    ) -> Result<(Cluster, TcpListener), ServeError> {
        let secret = config
            .cluster_secret
            .as_ref()
            .map(|secret| Secret::new(secret.as_bytes()));
        let seal = match &secret {
            Some(secret) => Some(Arc::new(WallSealer::new(secret, CLUSTER)?) as Arc<dyn Seal>),
            None => None,
        };
        let counters = Arc::clone(&metrics.gossip);
        let workers = config.worker_count();
        let PeerSockets { listener, gossip, .. } = self.sockets;
        let (peer, gossip_address) = self.advertised;
        let cluster = &config.cluster;
        // 64 bits of milliseconds are 584 million years.
        let generation = crate::clock::wall_time().as_millis() as u64;
        let told_to = Told {
            redirect_listen: redirect_listen.map(|listens| redirect_told(&peer, config, listens).into()),
            peer: (&*peer).into(),
        };
        let gossip = Gossip::start(
            GossipConfig {
                name: config.node_name().into(),
                generation,
                identity: Identity {
                    weight: cluster.weight,
                    // At most 256.
                    workers: config.worker_count() as u16,
                    listen: told(&peer, &cluster.advertise, listen).into(),
                    redirect_listen: told_to.redirect_listen.clone(),
                    peer: Arc::clone(&told_to.peer),
                    versions: (*VERSIONS.start(), *VERSIONS.end()),
                },
                files,
                advertised: gossip_address,
                seeds: cluster.join.clone(),
                slots: SLOTS,
                versions: VERSIONS,
                interval: Duration::from_millis(cluster.gossip_interval_ms),
                interval_max: Duration::from_millis(cluster.heartbeat_max_ms),
                phi: cluster.phi as f64,
                silence_min: Duration::from_millis(cluster.silence_min_ms),
                grace: Duration::from_millis(cluster.dead_grace_ms),
                delay_max: Duration::from_millis(cluster.rejoin_delay_max_ms),
                seal,
                lossy: None,
                counters,
            },
            gossip,
        )?;
        let peers = PeerConfig {
            local: Local {
                id: gossip.me().clone(),
                cluster: CLUSTER.into(),
                // At most 256.
                workers: workers as u16,
                frame_bytes_max: config.limits.peer_frame_bytes,
                versions: Versions::OURS,
            },
            secret,
            queue_bytes: config.limits.peer_queue_bytes,
            requests: config.limits.peer_requests,
            handshakes: config.limits.peer_handshakes,
            metrics: Arc::clone(metrics),
            refusals: Refusals::default(),
        };
        let has_seeds = !config.cluster.join.is_empty();
        Ok((
            Cluster::new(gossip, Arc::new(peers), told_to, has_seeds, workers),
            listener,
        ))
    }
}

/// What clients are told of an address that the node listens on: with the host that peers are told, if one is configured or if it
/// listens on every address.
fn told(peer: &str, advertise: &str, listens: SocketAddr) -> String {
    if advertise.is_empty() && !listens.ip().is_unspecified() {
        return listens.to_string();
    }
    let host = peer.rsplit_once(':').map_or(peer, |(host, _)| host);
    format!("{host}:{}", listens.port())
}

/// What clients of Redis Cluster are told.
fn redirect_told(peer: &str, config: &Config, listens: SocketAddr) -> String {
    let wanted = &*config.listen.redirect_advertise;
    let port = listens.port();
    // The configuration knows hosts with a port, hosts without, and addresses of version 6 with neither brackets nor port.
    match wanted.rsplit_once(':') {
        _ if wanted.is_empty() => told(peer, &config.cluster.advertise, listens),
        _ if wanted.parse::<std::net::Ipv6Addr>().is_ok() => format!("[{wanted}]:{port}"),
        Some(_) if !wanted.ends_with(']') => wanted.to_owned(),
        _ => format!("{wanted}:{port}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Sources;

    fn config(settings: &[String]) -> Config {
        let set = settings.to_vec();
        Config::load(&Sources {
            set,
            ..Sources::default()
        })
        .unwrap()
    }

    #[test]
    fn clients_are_told_what_peers_are() {
        let told = |peer, advertise, listens: &str| told(peer, advertise, listens.parse().unwrap());
        assert_eq!(told("127.0.0.1:7379", "", "127.0.0.1:6379"), "127.0.0.1:6379");
        assert_eq!(told("node-1:7379", "node-1", "127.0.0.1:6379"), "node-1:6379");
        assert_eq!(told("[::1]:7379", "::1", "[::]:6379"), "[::1]:6379");
        assert_eq!(told("10.0.0.1:7379", "", "0.0.0.0:6379"), "10.0.0.1:6379");
    }

    #[test]
    fn clients_of_a_cluster_are_told_what_is_configured() {
        let told = |advertise: &str| {
            let config = config(&[
                "cluster.peer=127.0.0.1:0".to_owned(),
                format!("listen.redirect_advertise={advertise}"),
            ]);
            redirect_told("node-1:7379", &config, "0.0.0.0:6380".parse().unwrap())
        };
        assert_eq!(told(""), "node-1:6380");
        assert_eq!(told("front.example"), "front.example:6380");
        assert_eq!(told("front.example:16380"), "front.example:16380");
        assert_eq!(told("::1"), "[::1]:6380");
        assert_eq!(told("[::1]"), "[::1]:6380");
        assert_eq!(told("[::1]:1"), "[::1]:1");
    }

    #[test]
    fn an_address_that_was_asked_for_must_be_free() {
        let taken = bind(&config(&["cluster.peer=127.0.0.1:0".to_owned()]))
            .unwrap()
            .unwrap();
        let address = taken.sockets.address;
        let error = bind(&config(&[format!("cluster.peer={address}")]))
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with(&format!("cannot listen on {address} (cluster.peer): ")),
            "{error}"
        );
        assert!(!error.contains('\n'));
        assert!(bind(&config(&["cluster.peer=off".to_owned()])).unwrap().is_none());
    }

    #[test]
    fn a_node_starts_to_gossip_and_is_a_cluster_of_its_own() {
        let config = config(&["cluster.peer=127.0.0.1:0".to_owned(), "cluster.weight=7".to_owned()]);
        let bound = bind(&config).unwrap().unwrap();
        let metrics = Arc::new(Metrics::new(String::new(), 1, Vec::new()));
        let (cluster, listener) = bound
            .start(
                &config,
                "127.0.0.1:6379".parse().unwrap(),
                None,
                Files::default(),
                &metrics,
            )
            .unwrap();
        let me = cluster.me.clone();
        let mut view = cluster.view();
        while view.borrow_and_update().members().is_empty() {
            std::thread::yield_now();
        }
        let member = view.borrow().members()[0].clone();
        assert_eq!((member.id, member.weight), (me, 7));
        assert_eq!(
            (&*member.peer, &*member.listen),
            (&*listener.local_addr().unwrap().to_string(), "127.0.0.1:6379")
        );
    }
}
