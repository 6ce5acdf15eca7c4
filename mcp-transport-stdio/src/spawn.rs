//! Starting a server and taking hold of its pipes.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::pin::Pin;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use mcp_jsonrpc::frame::{DEFAULT_MAX_FRAME_BYTES, NdjsonFrame};
use rustix::process::Pid;
use thiserror::Error;
use tokio::io::AsyncWrite;
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::command::ServerCommand;
use crate::exit::Exit;
use crate::look_up::{LookUpError, look_up};
use crate::process::{Core, Process};
use crate::read::{FrameReader, ReadEvent};
use crate::shutdown::StopPolicy;
use crate::stderr::StderrRing;
use crate::write::LineWriter;

/// Longest message taken from a server by default, in bytes: 16 MiB of payload and 64 KiB for what stands around it.
pub const DEFAULT_MAX_MESSAGE_BYTES: usize = DEFAULT_MAX_FRAME_BYTES;

/// How long the output of a server that has exited may stay quiet before it counts as ended, though a descendant still
/// holds it open.
const QUIET_AFTER_EXIT: Duration = Duration::from_millis(50);

/// How long the output of a server that has exited is read at most.
const DRAIN_AFTER_EXIT: Duration = Duration::from_millis(500);

/// Settings of a server process.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct StdioOptions {
    /// Longest message taken, in bytes; a longer one is skipped and reported.
    pub max_message_bytes: usize,
    /// How the process is stopped.
    pub stop: StopPolicy,
}

impl Default for StdioOptions {
    fn default() -> Self {
        Self {
            max_message_bytes: DEFAULT_MAX_MESSAGE_BYTES,
            stop: StopPolicy::default(),
        }
    }
}

/// Why a server could not be started.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SpawnError {
    /// The folder to start in is missing, or is no folder.
    #[error("the working folder {} {what}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The program was not found.
    #[error(transparent)]
    LookUp(#[from] LookUpError),
    /// The system refused to start it.
    #[error("{} can't be started", program.display())]
    Start {
        /// The program found.
        program: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// This process could not take hold of the pipes or of exit signals.
    #[error("the runtime can't watch the process")]
    Watch(#[source] io::Error),
}

/// A started server in three parts.
#[derive(Debug)]
#[expect(
    clippy::exhaustive_structs,
    reason = "taken apart by whoever drives it"
)]
pub struct ChildTransport {
    /// What it says.
    pub reader: ChildReader,
    /// What it is told.
    pub writer: LineWriter<ChildInput>,
    /// The process.
    pub process: Process,
}

/// Starts a server. Must run on a tokio runtime with I/O and time enabled; the process is watched by a task there.
///
/// # Errors
/// When it could not be started; then nothing is left behind.
pub fn spawn(
    command: &ServerCommand,
    options: &StdioOptions,
) -> Result<ChildTransport, SpawnError> {
    let env = command.resolve_env();
    if let Some(path) = command.folder().filter(|path| !path.is_dir()) {
        let what = if path.exists() {
            "is no folder"
        } else {
            "does not exist"
        };
        return Err(SpawnError::Folder {
            path: path.to_owned(),
            what,
        });
    }
    let home = std::env::home_dir();
    let program = look_up(
        command.program(),
        env.path(),
        command.folder(),
        home.as_deref(),
    )?;
    // Before the start, so that no exit can be missed.
    let exits = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::child())
        .map_err(SpawnError::Watch)?;
    let mut start = Command::new(&program);
    start
        .arg0(command.program())
        .args(command.arguments())
        .env_clear()
        .envs(&env.variables);
    if let Some(folder) = command.folder() {
        start.current_dir(folder);
    }
    start
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    let mut child = start
        .spawn()
        .map_err(|source| SpawnError::Start { program, source })?;
    let pipes = take_pipes(&mut child);
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let (Ok((input, output, errors)), Some(pid)) = (pipes, pid) else {
        // Nobody has heard of it yet, so it can be ended without ceremony.
        let _ = child.kill();
        let _ = child.wait();
        return Err(SpawnError::Watch(io::Error::other(
            "the pipes of the process can't be used",
        )));
    };
    let stderr = StderrRing::new();
    let reading = tokio::spawn(stderr.clone().fill_from(errors)).abort_handle();
    let process = Process::watch(child, pid, input, (stderr, reading), options.stop, exits);
    tracing::debug!(target: "mcp_transport_stdio", pid = process.pid(), %command, "started");
    let exit = process.exit_watch();
    Ok(ChildTransport {
        reader: ChildReader {
            frames: FrameReader::new(output, options.max_message_bytes),
            exit,
            drain_until: None,
            ended: false,
        },
        writer: LineWriter::new(ChildInput(Arc::clone(process.core()))),
        process,
    })
}

fn take_pipes(
    child: &mut std::process::Child,
) -> io::Result<(ChildStdin, ChildStdout, ChildStderr)> {
    let missing = || io::Error::other("a pipe is missing");
    Ok((
        ChildStdin::from_std(child.stdin.take().ok_or_else(missing)?)?,
        ChildStdout::from_std(child.stdout.take().ok_or_else(missing)?)?,
        ChildStderr::from_std(child.stderr.take().ok_or_else(missing)?)?,
    ))
}

/// Reads the frames of a server process. Ends soon after the process exited, even if a descendant keeps the pipe open.
#[derive(Debug)]
pub struct ChildReader {
    frames: FrameReader<ChildStdout>,
    exit: watch::Receiver<Option<Exit>>,
    drain_until: Option<Instant>,
    ended: bool,
}

impl ChildReader {
    /// The next frame, or the end. After the end, the end again.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub async fn recv(&mut self) -> ReadEvent {
        if self.ended {
            return ReadEvent::End(Ok(()));
        }
        let event = loop {
            if let Some(until) = self.drain_until {
                let quiet = (Instant::now() + QUIET_AFTER_EXIT).min(until);
                break tokio::time::timeout_at(quiet, self.frames.recv())
                    .await
                    .unwrap_or(ReadEvent::End(Ok(())));
            }
            tokio::select! {
                biased;
                event = self.frames.recv() => break event,
                // It fails when the process is gone and nobody holds it any more: the same.
                _ = self.exit.wait_for(Option::is_some) => self.drain_until = Some(Instant::now() + DRAIN_AFTER_EXIT),
            }
        };
        self.ended = matches!(event, ReadEvent::End(_));
        event
    }

    /// A frame that was read already.
    pub fn try_recv(&mut self) -> Option<NdjsonFrame> {
        self.frames.try_recv()
    }
}

/// A server's input. It is closed by the stop ladder, or when this and the [`Process`] are dropped.
#[derive(Debug)]
pub struct ChildInput(Arc<Core>);

impl ChildInput {
    fn poll<R>(
        &self,
        context: &mut Context<'_>,
        poll: impl FnOnce(Pin<&mut ChildStdin>, &mut Context<'_>) -> Poll<io::Result<R>>,
    ) -> Poll<io::Result<R>> {
        let waker = context.waker().clone();
        self.0.with_input(
            |input| match input {
                Some(input) => poll(Pin::new(input), context),
                None => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
            },
            &waker,
        )
    }
}

impl AsyncWrite for ChildInput {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll(context, |input, context| input.poll_write(context, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll(context, |input, context| {
            input.poll_write_vectored(context, slices)
        })
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll(context, |input, context| input.poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.close_input();
        Poll::Ready(Ok(()))
    }
}

impl Drop for ChildInput {
    fn drop(&mut self) {
        self.0.close_input();
    }
}
