//! Processes that listen on loopback.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::time::Instant;

use crate::MARK;

/// Ports below those that the system gives to outgoing connections.
const PORTS: std::ops::Range<u16> = 21_000..32_000;

/// How long a process may take until it listens.
const START: Duration = Duration::from_secs(60);

/// How long it may take to end when it is asked to.
const STOP: Duration = Duration::from_secs(3);

/// Bytes of a process's output that an error shows.
const MAX_SHOWN_BYTES: usize = 600;

/// A process that listens. It ends with this value at the latest.
#[derive(Debug)]
pub(crate) struct Listening {
    child: Child,
    pub(crate) address: SocketAddr,
}

/// A port of loopback that is free at this moment.
pub(crate) fn free_port() -> Result<u16, String> {
    let start = u16::try_from(std::process::id() % 1000).unwrap_or_default();
    PORTS
        .skip(usize::from(start) * 7)
        .find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
        .ok_or_else(|| format!("no port of {PORTS:?} is free"))
}

impl Listening {
    /// Starts a process and waits until it accepts connections; its output goes to a file.
    pub(crate) async fn start(
        mut command: Command,
        port: u16,
        output: PathBuf,
        mark: &str,
    ) -> Result<Self, String> {
        let shown = |what: &str| format!("{what}; its output: {}", tail(&output));
        let file = std::fs::File::create(&output).map_err(|error| error.to_string())?;
        let errors = file.try_clone().map_err(|error| error.to_string())?;
        let mut child = command
            .env(MARK, mark)
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(errors)
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("{:?}: {error}", command.as_std().get_program()))?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let by = Instant::now() + START;
        loop {
            if TcpStream::connect(address).await.is_ok() {
                return Ok(Self { child, address });
            }
            if let Ok(Some(status)) = child.try_wait() {
                return Err(shown(&format!("it ended with {status} before it listened")));
            }
            if Instant::now() >= by {
                return Err(shown(&format!(
                    "it does not listen on {address} after {START:?}"
                )));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Ends the process: with a signal, then with force.
    pub(crate) async fn stop(mut self) {
        if let Some(pid) = self.child.id() {
            let _ = Command::new("kill").arg(pid.to_string()).status().await;
        }
        if tokio::time::timeout(STOP, self.child.wait()).await.is_err() {
            let _ = self.child.kill().await;
        }
    }
}

fn tail(file: &Path) -> String {
    let text = std::fs::read(file).unwrap_or_default();
    let start = text.len().saturating_sub(MAX_SHOWN_BYTES);
    let text = text.get(start..).unwrap_or_default();
    String::from_utf8_lossy(text).trim().replace('\n', " | ")
}
