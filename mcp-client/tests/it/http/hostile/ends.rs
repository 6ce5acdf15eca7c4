//! What is given up, dropped or closed leaves nothing behind.

use mcp_testkit::http::{HttpPeer, LegacyServer, ModernServer, Reply, Request, Step};
use tokio::time::Instant;

use super::{SECOND, count};
use crate::http::{connect, connect_to, echo, options, server};

#[tokio::test(start_paused = true)]
async fn c239_an_attempt_to_connect_that_is_dropped_leaves_nothing_open() {
    type Stage = fn() -> HttpPeer;
    fn stuck(method: &'static str) -> HttpPeer {
        HttpPeer::memory(
            LegacyServer::new()
                .on(method, |_| Some(Reply::never()))
                .handler(),
        )
    }
    let stages: &[Stage] = &[
        || stuck("server/discover"),
        || stuck("initialize"),
        || {
            HttpPeer::memory(|request: Request| match request.method.as_str() {
                "GET" => Reply::sse().step(Step::Never),
                _ => Reply::status(405),
            })
        },
        || {
            let refuse = |_: &Request| Some(Reply::status(429).header("Retry-After", "30"));
            HttpPeer::memory(LegacyServer::new().on("initialize", refuse).handler())
        },
        || {
            let primer = |_: &Request| Some(Reply::sse().chunk("id: 1\nretry: 20000\ndata:\n\n"));
            HttpPeer::memory(LegacyServer::new().on("initialize", primer).handler())
        },
    ];
    for (number, stage) in stages.iter().enumerate() {
        let peer = stage();
        let attempt = connect_to(server(&peer), options());
        let given_up = tokio::time::timeout(2 * SECOND, attempt).await;
        assert!(
            given_up.is_err(),
            "stage {number}: {:?}",
            given_up.map(drop)
        );
        peer.wait_closed(5 * SECOND).await;
        let before = peer.requests().len();
        tokio::time::sleep(600 * SECOND).await;
        assert_eq!(peer.requests().len(), before, "stage {number}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_frees_its_exchange_at_every_stage() {
    type Make = fn(&Request) -> Reply;
    let stages: &[Make] = &[
        |_| Reply::never(),
        |_| Reply::sse().step(Step::Never),
        |_| Reply::status(200).step(Step::Never),
        |_| {
            Reply::status(200)
                .header("Content-Type", "application/json")
                .chunk("{")
                .step(Step::Never)
        },
        |_| Reply::status(500).chunk("oops").step(Step::Never),
        |_| Reply::status(429).header("Retry-After", "59"),
        |_| Reply::sse().chunk("id: 1\nretry: 59000\ndata:\n\n"),
    ];
    for legacy in [false, true] {
        for (number, make) in stages.iter().enumerate() {
            let peer = if legacy {
                HttpPeer::memory(
                    LegacyServer::new()
                        .on("tools/call", move |request| Some(make(request)))
                        .handler(),
                )
            } else {
                HttpPeer::memory(
                    ModernServer::new()
                        .on("tools/call", move |request| Some(make(request)))
                        .handler(),
                )
            };
            let client = connect(&peer).await;
            tokio::time::sleep(5 * SECOND).await;
            let begun = count(&peer, "tools/call");
            let call = echo(&client, "a");
            let _ = tokio::time::timeout(2 * SECOND, call).await;
            assert_eq!(count(&peer, "tools/call"), begun + 1);
            assert_eq!(client.in_flight(), 0);
            tokio::time::sleep(SECOND).await;
            let record = peer.record();
            let pending = record.with(mcp_testkit::http::Outcome::Pending);
            assert_eq!(pending.count(), 0, "stage {number}: {record}");
            tokio::time::sleep(120 * SECOND).await;
            assert_eq!(count(&peer, "tools/call"), begun + 1, "stage {number}");
            client.close().await;
            drop(client);
            peer.wait_closed(5 * SECOND).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn closing_ends_soon_whatever_is_under_way() {
    let peer = HttpPeer::memory(|request: Request| {
        let inner = LegacyServer::new();
        match (request.method.as_str(), request.rpc_method().as_deref()) {
            (_, Some("server/discover")) => Reply::status(400),
            (_, Some("initialize")) => inner.reply(&request),
            (_, Some("tools/call")) => Reply::sse().chunk("id: 1\nretry: 0\ndata:\n\n"),
            ("GET", _) => Reply::never(),
            ("DELETE", _) => Reply::status(429).header("Retry-After", "1"),
            _ => Reply::never(),
        }
    });
    let client = connect(&peer).await;
    let calls: Vec<_> = (0..64)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { echo(&client, "a").await })
        })
        .collect();
    tokio::time::sleep(31 * SECOND).await;
    let begun = Instant::now();
    client.close().await;
    assert!(begun.elapsed() <= 3 * SECOND, "{:?}", begun.elapsed());
    for call in calls {
        assert!(call.await.unwrap().is_err());
    }
    peer.wait_closed(5 * SECOND).await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_is_dropped_leaves_nothing_open() {
    for era in 0..3 {
        let never = |_: &Request| Some(Reply::sse().step(Step::Never));
        let peer = match era {
            0 => HttpPeer::memory(
                ModernServer::new()
                    .on("subscriptions/listen", never)
                    .on("tools/call", never)
                    .handler(),
            ),
            1 => HttpPeer::memory(
                LegacyServer::new()
                    .on("GET", never)
                    .on("tools/call", never)
                    .handler(),
            ),
            _ => HttpPeer::memory(
                LegacyServer::new()
                    .on("GET", |_| Some(Reply::never()))
                    .on("DELETE", |_| Some(Reply::never()))
                    .on("notifications/initialized", |_| Some(Reply::never()))
                    .handler(),
            ),
        };
        let client = connect(&peer).await;
        let call = tokio::spawn({
            let client = client.clone();
            async move { echo(&client, "a").await }
        });
        tokio::time::sleep(5 * SECOND).await;
        call.abort();
        drop(client);
        let _ = call.await;
        peer.wait_closed(5 * SECOND).await;
    }
}

#[tokio::test(start_paused = true)]
async fn c239_a_session_that_is_half_opened_is_deleted_when_connecting_is_dropped() {
    let legacy = LegacyServer::new()
        .on("initialize", |_| {
            let primer = Reply::sse().header("Mcp-Session-Id", "half");
            Some(primer.chunk("id: 1\ndata:\n\n").step(Step::Never))
        })
        .on("DELETE", |_| Some(Reply::status(200)));
    let peer = HttpPeer::memory(legacy.handler());
    let attempt = connect_to(server(&peer), options());
    assert!(tokio::time::timeout(2 * SECOND, attempt).await.is_err());
    peer.wait_closed(5 * SECOND).await;
    let requests = peer.requests();
    let delete = requests.iter().find(|request| request.method == "DELETE");
    assert_eq!(delete.unwrap().header("mcp-session-id"), Some("half"));
}
