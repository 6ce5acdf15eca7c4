//! A channel without bytes: the server is a function from messages to messages.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use mcp_client::mcp_jsonrpc::frame::NdjsonFrame;
use mcp_client::mcp_proto::ChannelEnd;
use mcp_client::mcp_proto::connection::Outbound;
use mcp_client::transport::{
    Channel, ChannelControl, ChannelOf, CloseReport, Connector, MessageSink, MessageSource,
    OpenError, Received,
};
use mcp_client::{Client, ClientOptions};
use mcp_testkit::pair::{Act, Reaction, say};
use serde_json::{Value, json};
use tokio::sync::mpsc;

/// Every version, the oldest first.
pub(crate) const VERSIONS: [&str; 5] = [
    "2024-11-05",
    "2025-03-26",
    "2025-06-18",
    "2025-11-25",
    "2026-07-28",
];

/// Answers a request.
pub(crate) fn result(id: &Value, result: &Value) -> Reaction {
    say(json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string())
}

type Script = Box<dyn FnMut(&Value) -> Vec<Reaction> + Send>;

/// Opens channels to a scripted server, and remembers what happened on them.
pub(crate) struct Scripted {
    script: Arc<Mutex<Script>>,
    log: Arc<Log>,
}

/// What happened on the channels of one [`Scripted`].
#[derive(Default)]
pub(crate) struct Log {
    pub(crate) received: Mutex<Vec<Value>>,
    pub(crate) opened: Mutex<usize>,
    pub(crate) closed: Mutex<usize>,
    to_client: Mutex<Option<mpsc::UnboundedSender<Received>>>,
}

impl Log {
    /// How many messages with this method arrived.
    pub(crate) fn count(&self, method: &str) -> usize {
        self.received
            .lock()
            .unwrap()
            .iter()
            .filter(|message| message["method"] == method)
            .count()
    }

    /// The server says something by itself.
    pub(crate) fn say(&self, line: &str) {
        let line = Received::Frame(NdjsonFrame::Line(Bytes::copy_from_slice(line.as_bytes())));
        self.to_client
            .lock()
            .unwrap()
            .as_ref()
            .unwrap()
            .send(line)
            .unwrap();
    }

    /// The server ends the channel.
    pub(crate) fn end(&self, why: &str) {
        let _ = self
            .to_client
            .lock()
            .unwrap()
            .as_ref()
            .unwrap()
            .send(Received::End(ChannelEnd::new(why)));
    }

    pub(crate) fn closed(&self) -> usize {
        *self.closed.lock().unwrap()
    }
}

impl Scripted {
    pub(crate) fn new(
        script: impl FnMut(&Value) -> Vec<Reaction> + Send + 'static,
    ) -> (Self, Arc<Log>) {
        let log = Arc::new(Log::default());
        (
            Self {
                script: Arc::new(Mutex::new(Box::new(script))),
                log: Arc::clone(&log),
            },
            log,
        )
    }
}

/// Connects to a scripted server.
pub(crate) async fn connect(
    script: impl FnMut(&Value) -> Vec<Reaction> + Send + 'static,
) -> (Client, Arc<Log>) {
    let (connector, log) = Scripted::new(script);
    (Client::connect(connector, options()).await.unwrap(), log)
}

/// As [`connect`], with options.
pub(crate) async fn connect_with(
    options: ClientOptions,
    script: impl FnMut(&Value) -> Vec<Reaction> + Send + 'static,
) -> (Client, Arc<Log>) {
    let (connector, log) = Scripted::new(script);
    (Client::connect(connector, options).await.unwrap(), log)
}

pub(crate) fn options() -> ClientOptions {
    ClientOptions::new("test", "1.0").with_name("scripted")
}

pub(crate) struct Sink(
    Arc<Mutex<Script>>,
    Arc<Log>,
    mpsc::UnboundedSender<Received>,
);
pub(crate) struct Source(mpsc::UnboundedReceiver<Received>);
pub(crate) struct Control(Arc<Log>);

impl Connector for Scripted {
    type Sink = Sink;
    type Source = Source;
    type Control = Control;

    async fn open(&mut self) -> Result<ChannelOf<Self>, OpenError> {
        *self.log.opened.lock().unwrap() += 1;
        let (sender, receiver) = mpsc::unbounded_channel();
        *self.log.to_client.lock().unwrap() = Some(sender.clone());
        Ok(Channel {
            kind: mcp_proto::connection::ChannelKind::Shared,
            sink: Sink(Arc::clone(&self.script), Arc::clone(&self.log), sender),
            source: Source(receiver),
            control: Control(Arc::clone(&self.log)),
        })
    }

    fn target(&self) -> String {
        "scripted".to_owned()
    }
}

impl MessageSink for Sink {
    async fn send(&mut self, messages: &mut VecDeque<Outbound>) -> Result<(), ChannelEnd> {
        for message in messages.drain(..) {
            let message: Value = serde_json::from_slice(&message.body()).unwrap();
            self.1.received.lock().unwrap().push(message.clone());
            for (delay, act) in (self.0.lock().unwrap())(&message) {
                let received = match act {
                    Act::Say(line) => Received::Frame(NdjsonFrame::Line(line.into())),
                    Act::End(why) => Received::End(ChannelEnd::new(why)),
                    other => panic!("{other:?} needs bytes"),
                };
                let sender = self.2.clone();
                if delay == Duration::ZERO {
                    let _ = sender.send(received);
                } else {
                    tokio::spawn(async move {
                        tokio::time::sleep(delay).await;
                        let _ = sender.send(received);
                    });
                }
            }
        }
        Ok(())
    }
}

impl MessageSource for Source {
    async fn recv(&mut self) -> Received {
        self.0
            .recv()
            .await
            .unwrap_or_else(|| Received::End(ChannelEnd::new("the script ended")))
    }
}

impl ChannelControl for Control {
    async fn close(&self) -> CloseReport {
        *self.0.closed.lock().unwrap() += 1;
        CloseReport::new("the scripted server was closed", false, false)
    }
}
