//! Answers that are odd, early, repeated or broken.

use std::io::Write as _;
use std::sync::{Arc, Mutex};

use mcp_client::http::HttpServer;
use mcp_testkit::http::{Gate, HttpPeer, LegacyServer, ModernServer, Reply, Request, Step};
use serde_json::json;

use super::SECOND;
use crate::http::{connect, connect_to, echo, options, text};

#[tokio::test(start_paused = true)]
async fn a_packed_answer_may_have_several_members() {
    use flate2::{Compression, write::GzEncoder};
    let pack = |bytes: &[u8]| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    };
    let peer = HttpPeer::memory(
        ModernServer::new()
            .on("tools/call", move |request| {
                let body = text(request, "hi").to_string().into_bytes();
                let (a, b) = body.split_at(20);
                let reply = Reply::status(200)
                    .header("Content-Type", "application/json")
                    .header("Content-Encoding", "gzip");
                let mut packed = [pack(a), pack(b)].concat();
                if request.json()["params"]["arguments"]["text"] == "cut" {
                    packed.truncate(packed.len() - 5);
                }
                Some(reply.body(packed))
            })
            .handler(),
    );
    let client = connect(&peer).await;
    assert_eq!(echo(&client, "a").await, Ok("hi".to_owned()));
    let error = echo(&client, "cut").await.unwrap_err();
    assert!(error.contains("gzip data is broken"), "{error}");
}

#[tokio::test]
async fn an_answer_before_the_request_was_read_is_heard() {
    // A refusal of a large body, and the end of the connection, before any of the body was read.
    let peer = HttpPeer::builder(ModernServer::new().handler())
        .on_head(|request| {
            let length = request.header("content-length")?.parse::<usize>().ok()?;
            (length > 100_000).then(|| Reply::status(413).closing().body("too large"))
        })
        .tcp()
        .await;
    let client = connect_to(HttpServer::new(&peer.url("/mcp")).unwrap(), options())
        .await
        .unwrap();
    for _ in 0..20 {
        let error = echo(&client, &"x".repeat(8 * 1024 * 1024))
            .await
            .unwrap_err();
        assert!(error.contains("HTTP 413"), "{error}");
    }
    assert_eq!(echo(&client, "a").await, Ok("a".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn odd_but_valid_http_is_understood() {
    type Make = fn(&str) -> String;
    let forms: &[(&str, Make)] = &[
        ("early hints", |body| {
            format!(
                "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Type: \
                 application/json\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            )
        }),
        ("HTTP/1.0", |body| {
            format!("HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n{body}")
        }),
        ("chunk extensions and trailers", |body| {
            format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n{:x};a=\"b\"\r\n\
                 {body}\r\n0;c\r\nX-Sum: 1\r\n\r\n",
                body.len()
            )
        }),
        ("two content types", |body| {
            format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            )
        }),
        ("a folded list of types", |body| {
            format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json, application/json\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            )
        }),
        ("a session id that is none of this answer's", |body| {
            format!(
                "HTTP/1.1 200 OK\r\nMcp-Session-Id: other\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            )
        }),
        ("SSE over HTTP/1.0", |body| {
            format!("HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: {body}\n\n")
        }),
        ("no reason, odd spaces", |body| {
            format!(
                "HTTP/1.1 200\r\ncontent-type:application/json \r\nCONTENT-LENGTH:  {}\r\n\r\n{body}",
                body.len()
            )
        }),
    ];
    for (name, form) in forms {
        for legacy in [false, true] {
            let make = move |request: &Request| {
                let raw = form(&text(request, "hi").to_string());
                let reply = Reply::raw(raw.clone());
                Some(if raw.contains("HTTP/1.0") {
                    reply.step(Step::CloseConnection)
                } else {
                    reply
                })
            };
            let peer = if legacy {
                HttpPeer::memory(LegacyServer::new().on("tools/call", make).handler())
            } else {
                HttpPeer::memory(ModernServer::new().on("tools/call", make).handler())
            };
            let client = connect(&peer).await;
            for _ in 0..3 {
                assert_eq!(echo(&client, "a").await, Ok("hi".to_owned()), "{name}");
            }
            let sessions: Vec<_> = peer
                .requests()
                .iter()
                .filter_map(|request| request.header("mcp-session-id").map(str::to_owned))
                .collect();
            assert!(sessions.iter().all(|session| session == "session-1"));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn c072_answers_find_their_calls_whatever_stream_they_come_on() {
    // Each of two calls is answered on the other's stream, twice, in either era.
    for legacy in [false, true] {
        let first: Arc<Mutex<Option<Request>>> = Arc::default();
        let gate = Gate::new();
        let handler = move |request: &Request| {
            let mut first = first.lock().unwrap();
            Some(match first.take() {
                None => {
                    *first = Some(request.clone());
                    Reply::sse()
                        .step(Step::Until(gate.clone()))
                        .step(Step::Never)
                }
                Some(other) => {
                    let answer = |request: &Request| {
                        let own = request.json()["params"]["arguments"]["text"].clone();
                        text(request, own.as_str().unwrap())
                    };
                    Reply::sse()
                        .event(None, &answer(&other))
                        .event(None, &answer(&other))
                        .event(None, &answer(request))
                        .event(None, &answer(request))
                }
            })
        };
        let peer = if legacy {
            HttpPeer::memory(LegacyServer::new().on("tools/call", handler).handler())
        } else {
            HttpPeer::memory(ModernServer::new().on("tools/call", handler).handler())
        };
        let client = connect(&peer).await;
        let (a, b) = tokio::join!(echo(&client, "a"), echo(&client, "b"));
        assert_eq!((a, b), (Ok("a".to_owned()), Ok("b".to_owned())));
        tokio::time::sleep(5 * SECOND).await;
        assert_eq!(client.diagnostics().stray_answers, 2);
        assert_eq!(client.in_flight(), 0);
        let record = peer.record();
        let pending = record.with(mcp_testkit::http::Outcome::Pending).count();
        assert_eq!(pending, 0, "{record}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_follows_an_answer_on_its_connection_answers_no_other_call() {
    let forged = |request: &Request, wanted: &str| {
        let body = text(request, wanted).to_string();
        let length = body.len();
        format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        )
    };
    let peer = HttpPeer::memory(
        ModernServer::new()
            .on("tools/call", move |request| {
                let mut next = request.clone();
                let mut message = request.json();
                message["id"] = json!(request.rpc_id().as_i64().unwrap() + 1);
                next.body = message.to_string().into_bytes();
                let both = [forged(request, "own"), forged(&next, "forged")].concat();
                Some(Reply::raw(both))
            })
            .handler(),
    );
    let client = connect(&peer).await;
    for _ in 0..10 {
        assert_eq!(echo(&client, "a").await, Ok("own".to_owned()));
    }
}
