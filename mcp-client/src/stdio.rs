//! Servers as child processes, and servers behind any byte stream.
//!
//! [`connect`] starts a process; [`connect_stream`] takes the two ends of a socket, a pipe or memory.

use std::collections::VecDeque;
use std::time::Duration;

use mcp_proto::ChannelEnd;
use mcp_proto::connection::{ChannelKind, Outbound};
use mcp_transport_stdio::{
    ChildInput, ChildReader, FrameReader, LineWriter, Process, ReadEvent, spawn,
};
pub use mcp_transport_stdio::{
    EnvPolicy, Exit, LookUpError, MINIMAL_VARIABLES, NETWORK_VARIABLES, ResolvedEnv, Searched,
    ServerCommand, SpawnError, StderrLines, StdioOptions, StopPhase, StopPolicy, StopReport,
    guardian, look_up,
};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::client::Client;
use crate::error::Error;
use crate::evidence::Evidence;
use crate::options::ClientOptions;
use crate::redact::Redactor;
use crate::transport::{
    Channel, ChannelControl, ChannelOf, CloseReport, Connector, MessageSink, MessageSource,
    OpenError, Received,
};

/// How long a process that closed its output may take to exit before its status is not waited for any more.
const EXIT_AFTER_END: Duration = Duration::from_millis(250);

/// How long the rest of its error output is waited for after that.
const STDERR_AFTER_EXIT: Duration = Duration::from_millis(100);

/// Starts a server and connects to it.
///
/// # Errors
/// When it could not be started, or no agreement came about; its process is gone then.
///
/// # Cancel safety
/// Dropping the future ends the attempt; the process is stopped in the background.
pub async fn connect(command: ServerCommand, options: ClientOptions) -> Result<Client, Error> {
    connect_with(StdioConnector::new(command), options).await
}

/// As [`connect`], with a connector that was set up first.
///
/// # Errors
/// As [`connect`].
///
/// # Cancel safety
/// As [`connect`].
pub async fn connect_with(
    mut connector: StdioConnector,
    options: ClientOptions,
) -> Result<Client, Error> {
    connector.options.max_message_bytes = options.config.limits.max_message_bytes;
    Client::connect(connector, options).await
}

/// Connects to a server behind a byte stream: a socket, a pair of pipes, memory. Closing the connection drops both ends.
///
/// # Errors
/// When no agreement came about.
///
/// # Cancel safety
/// Dropping the future ends the attempt.
pub async fn connect_stream<R, W>(
    reader: R,
    writer: W,
    options: ClientOptions,
) -> Result<Client, Error>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let max_message_bytes = options.config.limits.max_message_bytes;
    Client::connect(
        StreamConnector {
            ends: Some((reader, writer)),
            max_message_bytes,
        },
        options,
    )
    .await
}

/// Starts a server's process whenever a channel is wanted.
#[derive(Debug)]
pub struct StdioConnector {
    command: ServerCommand,
    options: StdioOptions,
    on_stderr: Option<OnStderr>,
}

/// Takes the error output of a server line by line.
struct OnStderr(Box<dyn Fn(&str) + Send + Sync>);

impl std::fmt::Debug for OnStderr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OnStderr")
    }
}

impl StdioConnector {
    /// A connector for this command.
    pub fn new(command: ServerCommand) -> Self {
        Self {
            command,
            options: StdioOptions::default(),
            on_stderr: None,
        }
    }

    /// Sets how the process is stopped.
    #[must_use]
    pub fn with_stop_policy(mut self, policy: StopPolicy) -> Self {
        self.options.stop = policy;
        self
    }

    /// Hands every line of the server's error output to `take` as well, without control characters and the values of
    /// variables that were set for it. It runs on the
    /// runtime and must not block.
    #[must_use]
    pub fn with_stderr(mut self, take: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.on_stderr = Some(OnStderr(Box::new(take)));
        self
    }
}

impl Connector for StdioConnector {
    type Sink = LineSink<ChildInput>;
    type Source = ChildSource;
    type Control = ProcessControl;

    async fn open(&mut self) -> Result<ChannelOf<Self>, OpenError> {
        let transport = spawn(&self.command, &self.options).map_err(OpenError::new)?;
        let redactor = self.redactor();
        let unpassed_network_variables = self.command.resolve_env().unpassed_network_names;
        if let Some(OnStderr(take)) = self.on_stderr.take() {
            let mut lines = transport.process.stderr_lines();
            let redactor = redactor.clone();
            let take = std::sync::Arc::new(take);
            let again = std::sync::Arc::clone(&take);
            // A server that is started again over the probe is heard, too.
            self.on_stderr = Some(OnStderr(Box::new(move |line| again(line))));
            tokio::spawn(async move {
                while let Some(line) = lines.next().await {
                    take(&redactor.redact(&line));
                }
            });
        }
        Ok(Channel {
            kind: ChannelKind::Shared,
            sink: LineSink(transport.writer),
            source: ChildSource(transport.reader),
            control: ProcessControl {
                process: transport.process,
                unpassed_network_variables,
                redactor,
            },
        })
    }

    fn redactor(&self) -> Redactor {
        Redactor::new(
            self.command
                .set_values()
                .map(|value| value.to_string_lossy().into_owned()),
        )
    }

    fn target(&self) -> String {
        self.command.to_string()
    }
}

struct StreamConnector<R, W> {
    ends: Option<(R, W)>,
    max_message_bytes: usize,
}

impl<R, W> Connector for StreamConnector<R, W>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Sink = LineSink<W>;
    type Source = StreamSource<R>;
    type Control = StreamControl;

    async fn open(&mut self) -> Result<ChannelOf<Self>, OpenError> {
        // A stream that ended over the probe can't be had again; the host would have to connect anew.
        let (reader, writer) = self
            .ends
            .take()
            .ok_or_else(|| OpenError::new("the stream has ended"))?;
        Ok(Channel {
            kind: ChannelKind::Shared,
            sink: LineSink(LineWriter::new(writer)),
            source: StreamSource(FrameReader::new(reader, self.max_message_bytes)),
            control: StreamControl,
        })
    }

    fn target(&self) -> String {
        "stream".to_owned()
    }
}

/// Sends messages as lines.
#[derive(Debug)]
pub struct LineSink<W>(LineWriter<W>);

impl<W: AsyncWrite + Send + Unpin + 'static> MessageSink for LineSink<W> {
    async fn send(&mut self, messages: &mut VecDeque<Outbound>) -> Result<(), ChannelEnd> {
        for message in messages.drain(..) {
            self.0.push(message.line().clone());
        }
        self.0
            .flush()
            .await
            .map_err(|error| ChannelEnd::new(format!("the server takes no more input ({error})")))
    }
}

/// Receives frames from a process.
#[derive(Debug)]
pub struct ChildSource(ChildReader);

impl MessageSource for ChildSource {
    async fn recv(&mut self) -> Received {
        received(self.0.recv().await)
    }

    fn try_recv(&mut self) -> Option<Received> {
        self.0.try_recv().map(Received::Frame)
    }
}

/// Receives frames from a byte stream.
#[derive(Debug)]
pub(crate) struct StreamSource<R>(FrameReader<R>);

impl<R: AsyncRead + Send + Unpin + 'static> MessageSource for StreamSource<R> {
    async fn recv(&mut self) -> Received {
        received(self.0.recv().await)
    }

    fn try_recv(&mut self) -> Option<Received> {
        self.0.try_recv().map(Received::Frame)
    }
}

fn received(event: ReadEvent) -> Received {
    match event {
        ReadEvent::Frame(frame) => Received::Frame(frame),
        ReadEvent::End(Ok(())) => Received::End(ChannelEnd::new("the server closed its output")),
        ReadEvent::End(Err(error)) => Received::End(ChannelEnd::new(format!(
            "the server's output can't be read ({error})"
        ))),
    }
}

/// The process behind a channel.
#[derive(Debug)]
pub struct ProcessControl {
    process: Process,
    unpassed_network_variables: Vec<String>,
    redactor: Redactor,
}

impl ChannelControl for ProcessControl {
    async fn close(&self) -> CloseReport {
        let report = self.process.stop().await;
        let exit = report
            .exit
            .map_or_else(|| "did not end".to_owned(), |exit| exit.to_string());
        let forced = report.phase >= StopPhase::Terminated;
        let unchecked = if report.unchecked {
            "; its process group could not be checked"
        } else {
            ""
        };
        let summary = format!("{exit} {}{unchecked}", report.phase);
        CloseReport::new(summary, forced, !report.leftovers.is_empty())
    }

    async fn explain_end(&self, end: ChannelEnd) -> ChannelEnd {
        match tokio::time::timeout(EXIT_AFTER_END, self.process.exited()).await {
            Ok(exit) => {
                // The last words of a dying server are its best explanation; a descendant may hold them back.
                let _ = tokio::time::timeout(STDERR_AFTER_EXIT, self.process.stderr_ended()).await;
                ChannelEnd::new(format!("the server {exit}"))
            }
            Err(_) => end,
        }
    }

    fn evidence(&self) -> Evidence {
        let exit = self.process.exit();
        Evidence {
            exit: exit.map(|exit| exit.to_string()),
            exit_status: exit.and_then(Exit::status),
            stderr: self.redactor.redact(&self.process.stderr_tail()),
            unpassed_network_variables: self.unpassed_network_variables.clone(),
        }
    }
}

/// A byte stream has nothing to close but its ends.
#[derive(Debug)]
pub(crate) struct StreamControl;

impl ChannelControl for StreamControl {
    async fn close(&self) -> CloseReport {
        CloseReport::new("the stream was closed", false, false)
    }
}
