//! What the scripted MCP servers accept and refuse.

use serde_json::{Value, json};
use tokio::time::Instant;

use super::mcp::{LegacyServer, ModernServer, Style, echo_tool, rpc_error, rpc_result};
use super::{Push, Reply, Request};

type Header<'a> = (&'a str, &'a str);

const ACCEPT: (&str, &str) = ("Accept", "application/json, text/event-stream");
const TYPE: (&str, &str) = ("content-type", "application/json; charset=utf-8");

fn request(method: &str, headers: &[(&str, &str)], body: &Value) -> Request {
    let headers = headers
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Request {
        method: method.to_owned(),
        target: "/mcp".to_owned(),
        headers: headers.collect(),
        body: if body.is_null() {
            Vec::new()
        } else {
            body.to_string().into_bytes()
        },
        connection: 0,
        sequence: 0,
        at: Instant::now(),
    }
}

/// A POST with the two headers that every one has.
fn post(headers: &[(&str, &str)], body: &Value) -> Request {
    request("POST", &[&[ACCEPT, TYPE], headers].concat(), body)
}

/// A well-formed modern request.
fn modern(method: &str, headers: &[(&str, &str)], mut params: Value) -> Request {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}
    });
    let own = [
        ("MCP-Protocol-Version", "2026-07-28"),
        ("Mcp-Method", method),
    ];
    let body = json!({"jsonrpc": "2.0", "id": "a", "method": method, "params": params});
    post(&[&own, headers].concat(), &body)
}

/// A reply's status, head and JSON body, which is null if there is none.
fn read(reply: &Reply) -> (u16, String, Value) {
    let wire = String::from_utf8(reply.wire()).unwrap();
    let (head, body) = wire.split_once("\r\n\r\n").unwrap();
    let status = head["HTTP/1.1 ".len()..][..3].parse().unwrap();
    (
        status,
        head.to_owned(),
        serde_json::from_str(body).unwrap_or_default(),
    )
}

/// A reply's status and the code of the error in it.
fn refusal(reply: &Reply) -> (u16, Option<i64>) {
    let (status, _, body) = read(reply);
    (status, body["error"]["code"].as_i64())
}

#[test]
fn a_modern_server_answers_what_is_well_formed() {
    let server = ModernServer::new();
    let (status, head, discovered) =
        read(&server.reply(&modern("server/discover", &[], json!({}))));
    assert_eq!(status, 200);
    assert!(head.contains("Content-Type: application/json"));
    assert_eq!(discovered["id"], "a");
    assert_eq!(
        discovered["result"]["supportedVersions"],
        json!(["2026-07-28"])
    );
    assert_eq!(discovered["result"]["resultType"], "complete");
    assert_eq!(
        discovered["result"]["capabilities"]["tools"]["listChanged"],
        true
    );

    let (_, _, listed) = read(&server.reply(&modern("tools/list", &[], json!({}))));
    assert_eq!(listed["result"]["tools"], json!([echo_tool()]));
    for (arguments, text) in [
        (json!({"text": "hi"}), "hi"),
        (json!({"a": 1}), r#"{"a":1}"#),
    ] {
        let params = json!({"name": "echo", "arguments": arguments});
        let (_, _, called) =
            read(&server.reply(&modern("tools/call", &[("Mcp-Name", "echo")], params)));
        assert_eq!(
            called["result"]["content"],
            json!([{"type": "text", "text": text}])
        );
    }
    let note = json!({"jsonrpc": "2.0", "method": "notifications/x"});
    let headers = [
        ("MCP-Protocol-Version", "2026-07-28"),
        ("Mcp-Method", "notifications/x"),
    ];
    assert_eq!(read(&server.reply(&post(&headers, &note))).0, 202);
}

#[test]
fn a_modern_server_refuses_the_rest() {
    let server = ModernServer::new();
    let good = modern(
        "tools/call",
        &[("Mcp-Name", "echo")],
        json!({"name": "echo"}),
    );
    let with = |name: &str, value: Option<&str>| {
        let mut changed = good.clone();
        changed
            .headers
            .retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        changed
            .headers
            .extend(value.map(|value| (name.to_owned(), value.to_owned())));
        changed
    };
    let body = |change: fn(&mut Value)| {
        let (mut changed, mut message) = (good.clone(), good.json());
        change(&mut message);
        changed.body = message.to_string().into_bytes();
        changed
    };
    let other_version = |message: &mut Value| {
        message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2027-01-01".into();
    };
    let mut newer = body(other_version);
    newer.headers.iter_mut().for_each(|(name, value)| {
        if name == "MCP-Protocol-Version" {
            "2027-01-01".clone_into(value);
        }
    });
    let cases = [
        (good.clone(), (200, None)),
        (request("GET", &[ACCEPT], &Value::Null), (405, None)),
        (request("DELETE", &[], &Value::Null), (405, None)),
        (
            with("accept", Some("application/json")),
            (406, Some(-32600)),
        ),
        (with("content-type", None), (415, Some(-32600))),
        (body(|message| *message = json!([])), (400, Some(-32600))),
        (
            body(|message| *message = json!({"jsonrpc": "2.0", "id": 1, "result": {}})),
            (400, Some(-32600)),
        ),
        (
            body(|message| message["params"]["_meta"] = json!({})),
            (400, Some(-32602)),
        ),
        (body(other_version), (400, Some(-32020))),
        (newer.clone(), (400, Some(-32022))),
        (with("mcp-protocol-version", None), (400, Some(-32020))),
        (with("mcp-method", Some("tools/List")), (400, Some(-32020))),
        (with("mcp-name", None), (400, Some(-32020))),
        (with("mcp-name", Some("Echo")), (400, Some(-32020))),
        (
            modern("tools/list", &[("Mcp-Name", "x")], json!({})),
            (400, Some(-32020)),
        ),
        (
            modern("tools/call", &[("Mcp-Name", "x")], json!({"name": "x"})),
            (200, Some(-32602)),
        ),
        (modern("initialize", &[], json!({})), (404, Some(-32601))),
    ];
    for (request, expected) in cases {
        assert_eq!(refusal(&server.reply(&request)), expected, "{request:?}");
    }
    let (_, _, told) = read(&server.reply(&newer));
    assert_eq!(
        told["error"]["data"],
        json!({"supported": ["2026-07-28"], "requested": "2027-01-01"})
    );
}

/// HTTPM-20 to HTTPM-25.
#[test]
fn mirrored_parameters_are_checked() {
    let server = ModernServer::new().tools(vec![json!({"name": "größe", "inputSchema": {"properties": {
        "tenant": {"type": "string", "x-mcp-header": "Tenant"},
        "inner": {"type": "object", "properties": {"n": {"type": "integer", "x-mcp-header": "N"}}},
        "x-mcp-header": {"type": "string"}
    }}})]);
    let name = ("Mcp-Name", "=?base64?Z3LDtsOfZQ==?=");
    let cases: [(&[Header<'_>], Value, u16); 9] = [
        (&[], json!({}), 200),
        (&[], json!({"tenant": null, "x-mcp-header": "plain"}), 200),
        (
            &[("mcp-param-tenant", "acme")],
            json!({"tenant": "acme"}),
            200,
        ),
        (
            &[("Mcp-Param-Tenant", "=?base64?w6k=?=")],
            json!({"tenant": "é"}),
            200,
        ),
        (&[("Mcp-Param-Tenant", "")], json!({"tenant": ""}), 200),
        (&[("Mcp-Param-N", "42")], json!({"inner": {"n": 42.0}}), 200),
        (&[], json!({"tenant": "acme"}), 400),
        (&[("Mcp-Param-N", "1")], json!({"inner": {"n": 2}}), 400),
        (&[("Mcp-Param-N", "1")], json!({}), 400),
    ];
    for (headers, arguments, status) in cases {
        let params = json!({"name": "größe", "arguments": arguments});
        let request = modern("tools/call", &[&[name], headers].concat(), params);
        assert_eq!(read(&server.reply(&request)).0, status, "{request:?}");
    }
    // What the client knows of the tool may be out of date.
    server.set_tools(vec![json!({"name": "größe", "inputSchema": {}})]);
    let params = json!({"name": "größe", "arguments": {"tenant": "acme"}});
    assert_eq!(
        read(&server.reply(&modern("tools/call", &[name], params))).0,
        200
    );
}

#[test]
fn a_legacy_server_shakes_hands_and_keeps_sessions() {
    let server = LegacyServer::new();
    let initialize = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {}});
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let note = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let answer = json!({"jsonrpc": "2.0", "id": 1, "result": {}});
    let version = ("MCP-Protocol-Version", "2025-11-25");
    let session = ("mcp-session-ID", "session-1");

    // A probe of a modern client tells it that this is none.
    let probe = modern("server/discover", &[], json!({}));
    assert_eq!(refusal(&server.reply(&probe)), (400, Some(-32000)));
    let (status, head, shaken) = read(&server.reply(&post(&[], &initialize)));
    assert_eq!(status, 200);
    assert!(head.contains("Mcp-Session-Id: session-1\r\n"));
    assert_eq!(shaken["result"]["protocolVersion"], "2025-11-25");
    assert_eq!(server.sessions(), ["session-1"]);

    let cases = [
        (post(&[session, version], &note), 202),
        (post(&[session, version], &answer), 202),
        (post(&[session, version], &list), 200),
        (post(&[session], &list), 400),
        (
            post(&[session, ("MCP-Protocol-Version", "2025-06-18")], &list),
            400,
        ),
        (post(&[version], &list), 400),
        (
            post(&[("Mcp-Session-Id", "session-2"), version], &list),
            404,
        ),
        (post(&[session], &initialize), 400),
        (request("POST", &[ACCEPT, session, version], &list), 415),
        (
            request(
                "GET",
                &[("Accept", "text/event-stream"), session, version],
                &Value::Null,
            ),
            405,
        ),
        (request("DELETE", &[version], &Value::Null), 400),
        (request("DELETE", &[session, version], &Value::Null), 200),
        (request("DELETE", &[session, version], &Value::Null), 404),
        (post(&[session, version], &list), 404),
    ];
    for (request, status) in cases {
        assert_eq!(read(&server.reply(&request)).0, status, "{request:?}");
    }
    assert_eq!(server.deleted(), ["session-1"]);

    let (_, head, _) = read(&server.reply(&post(&[], &initialize)));
    assert!(head.contains("Mcp-Session-Id: session-2\r\n"));
    server.forget_sessions();
    assert_eq!(
        read(&server.reply(&post(&[("Mcp-Session-Id", "session-2"), version], &list))).0,
        404
    );
}

#[test]
fn a_legacy_server_may_have_an_old_version_and_no_sessions() {
    let server = LegacyServer::new().version("2025-03-26").without_sessions();
    let initialize = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize"});
    let (_, head, shaken) = read(&server.reply(&post(&[], &initialize)));
    assert!(!head.contains("Mcp-Session-Id"));
    assert_eq!(shaken["result"]["protocolVersion"], "2025-03-26");
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "echo", "arguments": {"text": "hi"}}});
    let (status, _, called) = read(&server.reply(&post(&[], &call)));
    assert_eq!(
        (status, &called["result"]["content"][0]["text"]),
        (200, &json!("hi"))
    );
    assert_eq!(
        read(&server.reply(&request("DELETE", &[], &Value::Null))).0,
        405
    );
    for server in [server, LegacyServer::new().without_sessions()] {
        let probe = modern("server/discover", &[], json!({}));
        assert_eq!(refusal(&server.reply(&probe)), (200, Some(-32601)));
    }
}

#[test]
fn answers_may_be_streams() {
    let answer = r#"data: {"id":"a","jsonrpc":"2.0","result":"#;
    let probe = modern("server/discover", &[], json!({}));
    let wire = ModernServer::new().style(Style::Sse).reply(&probe).wire();
    let wire = String::from_utf8(wire).unwrap();
    assert!(wire.contains("Content-Type: text/event-stream\r\n"));
    assert!(
        wire.contains(answer) && wire.ends_with("\n\n\r\n0\r\n\r\n"),
        "{wire}"
    );

    let initialize = json!({"jsonrpc": "2.0", "id": "a", "method": "initialize"});
    let wire = LegacyServer::new()
        .style(Style::Sse)
        .reply(&post(&[], &initialize))
        .wire();
    let wire = String::from_utf8(wire).unwrap();
    assert!(wire.contains("Mcp-Session-Id: session-1\r\n"));
    assert!(
        wire.contains(answer) && wire.ends_with("\n\n\r\n0\r\n\r\n"),
        "{wire}"
    );
}

#[test]
fn overrides_come_first_and_the_latest_of_them_before_the_others() {
    let answering = |status: u16| move |_: &Request| Some(Reply::status(status));
    let push = Push::new();
    let server = LegacyServer::new()
        .on("tools/list", answering(500))
        .on("tools/list", |request| {
            let error = rpc_error(request, -1, "no", &json!({"a": 1}));
            (request.rpc_id() == 1).then(|| Reply::json(200, &error))
        })
        .on("tools/list", |_| None)
        .on("GET", move |_| Some(push.reply()))
        .on("POST", answering(418));
    let list = |id: i64| {
        post(
            &[],
            &json!({"jsonrpc": "2.0", "id": id, "method": "tools/list"}),
        )
    };
    let (status, _, body) = read(&server.reply(&list(1)));
    assert_eq!(status, 200);
    assert_eq!(
        body,
        json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -1, "message": "no", "data": {"a": 1}}})
    );
    assert_eq!(read(&server.reply(&list(2))).0, 500);
    assert_eq!(
        read(&server.reply(&request("GET", &[], &Value::Null))).0,
        200
    );
    // The client's answer to a request of the server has no method of its own.
    assert_eq!(
        read(&server.reply(&post(
            &[],
            &json!({"jsonrpc": "2.0", "id": 1, "result": {}})
        )))
        .0,
        418
    );

    let server = ModernServer::new().on("server/discover", |request| {
        Some(Reply::json(200, &rpc_result(request, &json!(7))))
    });
    let (_, _, body) = read(&server.reply(&modern("server/discover", &[], json!({}))));
    assert_eq!(body["result"], 7);
}

#[tokio::test]
async fn servers_are_handlers() {
    let server = LegacyServer::new();
    let peer = super::HttpPeer::memory(server.clone().handler());
    let body = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize"}).to_string();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream;q=1,application/json\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    let mut stream = peer.dial();
    tokio::io::AsyncWriteExt::write_all(&mut stream, head.as_bytes())
        .await
        .unwrap();
    let mut answer = String::new();
    tokio::io::AsyncReadExt::read_to_string(&mut stream, &mut answer)
        .await
        .unwrap();
    assert!(answer.contains("Mcp-Session-Id: session-1"), "{answer}");
    assert_eq!(server.sessions(), ["session-1"]);
}
