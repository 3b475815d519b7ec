//! Accepting peers, shaking hands with them, and giving them to the workers that they mean.

use super::outgoing::CONNECT_TIMEOUT;
use super::socket::{Failed, shake_hands};
use super::{PeerConfig, PeerError, random};
use crate::limits::Bound;
use std::cell::Cell;
use std::net::TcpListener;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tollgate_cluster::wire::{Established, Handshake, Refusal};

/// How long to wait after an error such as too many open files.
const RETRY: Duration = Duration::from_millis(20);

/// A connection of a peer after its handshake, on its way to the worker that it means.
#[derive(Debug)]
pub struct Accepted {
    /// The socket.
    pub stream: std::net::TcpStream,
    /// Who is there, and its frames.
    pub established: Box<Established>,
}

impl Accepted {
    /// The worker that it is for.
    pub fn to_worker(&self) -> u16 {
        self.established.peer.to_worker
    }
}

/// Accepts peers for as long as it is polled, on worker 0; `place` takes those that have shaken hands. Handshakes are bounded in time and
/// number, so that whoever connects and says nothing costs a little for a little while.
pub async fn accept(config: Arc<PeerConfig>, listener: TcpListener, place: impl Fn(Accepted) + 'static) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::error!(event = "accept_failed", %error);
            return;
        }
    };
    let place = Rc::new(place);
    let under_way = Rc::new(Cell::new(0));
    loop {
        match listener.accept().await {
            Ok((stream, from)) => {
                if under_way.get() >= config.handshakes {
                    config.counters(0).limit_hit(Bound::PeerHandshakes);
                    continue;
                }
                under_way.set(under_way.get() + 1);
                let (config, place, under_way) = (Arc::clone(&config), Rc::clone(&place), Rc::clone(&under_way));
                tokio::task::spawn_local(async move {
                    let accepted = tokio::time::timeout(CONNECT_TIMEOUT, greet(&config, stream));
                    match accepted.await {
                        Ok(Ok(accepted)) => {
                            config.refusals.forget(&accepted.established.peer.id.name);
                            place(accepted);
                        }
                        Ok(Err(Failed::Refused(refusal))) => refuse(&config, from.ip(), &refusal),
                        Ok(Err(Failed::Lost(why))) => {
                            tracing::debug!(event = "peer_lost", peer = %from, %why);
                        }
                        Err(_) => refuse(&config, from.ip(), &Refusal::Silent),
                    }
                    under_way.set(under_way.get() - 1);
                });
            }
            Err(error) => {
                tracing::warn!(event = "accept_failed", %error);
                tokio::time::sleep(RETRY).await;
            }
        }
    }
}

async fn greet(config: &PeerConfig, stream: TcpStream) -> Result<Accepted, Failed> {
    let system = |error: std::io::Error| Failed::Lost(PeerError::from(error));
    stream.set_nodelay(true).map_err(system)?;
    let nonce = random().map_err(system)?;
    let handshake = Handshake::accept(config.local.clone(), config.secret.clone(), nonce);
    let established = shake_hands(&stream, handshake, Vec::new()).await?;
    let stream = stream.into_std().map_err(system)?;
    Ok(Accepted { stream, established })
}

fn refuse(config: &PeerConfig, from: std::net::IpAddr, refusal: &Refusal) {
    config.counters(0).peer_refused(refusal.reason());
    config.refusals.log(&from.to_string(), refusal);
}
