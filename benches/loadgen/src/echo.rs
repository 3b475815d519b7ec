//! The floor: a server on the same runtime as a Tollgate worker that reads and writes as many bytes as `RL.CHECK` does,
//! and does nothing between.

use crate::server::{Scratch, Server, Serving, free_port};
use crate::{Error, Result};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// What a check of a bucket in use answers.
pub const REPLY: &[u8] = b"*6\r\n:1\r\n:100\r\n:99\r\n:0\r\n:1727314860123\r\n$5\r\nowner\r\n";
/// Bytes read at once, as a worker's.
const READ_BYTES: usize = 64 * 1024;
/// The first argument that turns a bench into the echo server.
const ROLE: &str = "serve-echo";

/// Runs this program again as an echo server that takes every `request_bytes` bytes for one request.
pub fn start(request_bytes: usize) -> Result<Server> {
    let program = std::env::current_exe().map_err(Error::io("find this program"))?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?));
    let mut command = Command::new(program);
    command.args([ROLE, &address.to_string(), &request_bytes.to_string()]);
    Server::start("echo", command, Scratch::new()?, |_| {
        std::net::TcpStream::connect(address).ok()?;
        Some(Serving {
            address,
            admin: None,
            peer: None,
        })
    })
}

/// Every bench calls this first: in the process that [`start`] started, it serves and does not return.
pub fn serve_if_asked() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [role, address, request_bytes] = arguments.as_slice() else {
        return;
    };
    if role != ROLE {
        return;
    }
    let served = match (address.parse(), request_bytes.parse()) {
        (Ok(address), Ok(request_bytes)) if request_bytes > 0 => serve(address, request_bytes),
        _ => Err(std::io::Error::other("an address and a size are needed")),
    };
    if let Err(error) = served {
        eprintln!("{ROLE}: {error}");
    }
    std::process::exit(1);
}

fn serve(address: SocketAddr, request_bytes: usize) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async {
        let listener = TcpListener::bind(address).await?;
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            tokio::task::spawn_local(echo(stream, request_bytes));
        }
    })
}

async fn echo(mut stream: TcpStream, request_bytes: usize) -> std::io::Result<()> {
    let mut buffer = vec![0; READ_BYTES];
    let replies = REPLY.repeat(READ_BYTES / request_bytes + 1);
    let mut carried_bytes = 0;
    loop {
        // Not `try_read`: it costs a second system call to find the socket empty.
        let read = stream.read(&mut buffer).await?;
        if read == 0 {
            return Ok(());
        }
        carried_bytes += read;
        let requests = carried_bytes / request_bytes;
        carried_bytes %= request_bytes;
        stream.write_all(&replies[..requests * REPLY.len()]).await?;
    }
}
