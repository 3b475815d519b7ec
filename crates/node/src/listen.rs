//! Listening sockets.

use std::net::{SocketAddr, TcpListener};

/// Listens on an address, non-blocking. A port of 0 takes a free one.
pub fn bind(address: SocketAddr, backlog: u32) -> std::io::Result<TcpListener> {
    let socket = socket2::Socket::new(socket2::Domain::for_address(address), socket2::Type::STREAM, None)?;
    // As every server does: a restart must not wait for old connections to time out.
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(i32::try_from(backlog).unwrap_or(i32::MAX))?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}
