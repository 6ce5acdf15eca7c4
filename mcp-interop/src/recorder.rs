//! Stands between client and server, passes everything on unchanged, and remembers what was asked.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// Where the recording is kept.
#[derive(Clone, Debug, Default)]
struct Tape(Arc<Mutex<Record>>);

/// What was seen.
#[derive(Debug, Default)]
struct Record {
    connections: usize,
    /// Everything that the client sent, connection by connection.
    sent: Vec<Vec<u8>>,
}

/// A recording proxy. It ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Recorder {
    pub(crate) address: SocketAddr,
    tape: Tape,
    _accepting: JoinSet<()>,
}

impl Recorder {
    /// Listens on loopback for connections to `server`.
    pub(crate) async fn start(server: SocketAddr) -> Result<Self, String> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .map_err(|error| error.to_string())?;
        let address = listener.local_addr().map_err(|error| error.to_string())?;
        let tape = Tape::default();
        let mut accepting = JoinSet::new();
        accepting.spawn(accept(listener, server, tape.clone()));
        Ok(Self {
            address,
            tape,
            _accepting: accepting,
        })
    }

    /// How many connections the client made.
    pub(crate) fn connections(&self) -> usize {
        self.tape.lock().connections
    }

    /// The lines that start requests with this method, each with its headers.
    pub(crate) fn heads(&self, method: &str) -> Vec<Vec<String>> {
        let start = format!("{method} /");
        let mut heads = Vec::new();
        for sent in &self.tape.lock().sent {
            let text = String::from_utf8_lossy(sent);
            // Bodies are JSON on one line: none holds a line that looks like the start of a request.
            let mut lines = text.split("\r\n");
            while let Some(line) = lines.next() {
                let begins = line.rfind(&start).and_then(|at| line.get(at..));
                if let Some(begins) = begins.filter(|line| line.ends_with("HTTP/1.1")) {
                    let headers = lines.by_ref().take_while(|line| !line.is_empty());
                    heads.push(
                        [begins.to_owned()]
                            .into_iter()
                            .chain(headers.map(str::to_owned))
                            .collect(),
                    );
                }
            }
        }
        heads
    }

    /// The session that requests with this method named.
    pub(crate) fn session(&self, method: &str) -> Option<String> {
        let heads = self.heads(method);
        heads.iter().flatten().find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("mcp-session-id")
                .then(|| value.to_owned())
        })
    }
}

impl Tape {
    fn lock(&self) -> std::sync::MutexGuard<'_, Record> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn accept(listener: TcpListener, server: SocketAddr, tape: Tape) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        let Ok(upstream) = TcpStream::connect(server).await else {
            continue;
        };
        let number = {
            let mut record = tape.lock();
            record.connections += 1;
            record.sent.push(Vec::new());
            record.sent.len() - 1
        };
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = upstream.into_split();
        let there = tape.clone();
        connections.spawn(pass_on(from_client, to_server, move |bytes| {
            if let Some(sent) = there.lock().sent.get_mut(number) {
                sent.extend_from_slice(bytes);
            }
        }));
        connections.spawn(pass_on(from_server, to_client, |_| {}));
    }
}

async fn pass_on(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, seen: impl Fn(&[u8])) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(read) = from.read(&mut buffer).await {
        let bytes = buffer.get(..read).unwrap_or_default();
        seen(bytes);
        if bytes.is_empty() || to.write_all(bytes).await.is_err() {
            break;
        }
    }
    let _ = to.shutdown().await;
}
