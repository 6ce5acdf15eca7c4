//! Resources and prompts in the terminal.

use mcp_testkit::http::{ModernServer, Reply, Request};
use serde_json::{Value, json};

use crate::program::Place;
use crate::remote::Server;

/// A server with two resources, a template and a prompt.
fn server() -> Server {
    let result = |request: &Request, result: Value| {
        let id = request.rpc_id();
        Some(Reply::json(
            200,
            &json!({"jsonrpc": "2.0", "id": id, "result": result}),
        ))
    };
    let modern = ModernServer::new()
        .on("server/discover", move |request| {
            result(request, json!({"resultType": "complete", "supportedVersions": ["2026-07-28"],
                "capabilities": {"resources": {}, "prompts": {}}}))
        })
        .on("resources/list", move |request| {
            result(request, json!({"resources": [
                {"uri": "note://tide", "name": "tide", "mimeType": "text/plain", "size": 12,
                    "description": "When the water is high. More."},
                {"uri": "note://chart", "name": "chart"}, {"name": "without an address"}]}))
        })
        .on("resources/templates/list", move |request| {
            result(request, json!({"resourceTemplates": [{"uriTemplate": "note://{id}", "name": "notes"}]}))
        })
        .on("resources/read", move |request| {
            let contents = match request.json()["params"]["uri"].as_str() {
                Some("note://tide") => json!([{"uri": "note://tide", "text": "high at\u{1b}[31m noon"}]),
                Some("note://chart") => json!([{"uri": "note://chart", "mimeType": "image/png", "blob": "aGk="}]),
                _ => {
                    let error = json!({"code": -32602, "message": "no such resource"});
                    let answer = json!({"jsonrpc": "2.0", "id": request.rpc_id(), "error": error});
                    return Some(Reply::json(200, &answer));
                }
            };
            result(request, json!({"contents": contents}))
        })
        .on("prompts/list", move |request| {
            result(request, json!({"prompts": [{"name": "greet", "title": "Greet somebody",
                "arguments": [{"name": "who", "required": true}, {"name": "how"}]}]}))
        })
        .on("prompts/get", move |request| {
            let who = request.json()["params"]["arguments"]["who"].clone();
            let text = format!("Say hello to {}.", who.as_str().unwrap_or("?"));
            result(request, json!({"messages": [
                {"role": "user", "content": {"type": "text", "text": text}},
                {"role": "assistant", "content": {"type": "image", "data": "aGk=", "mimeType": "image/png"}}]}))
        });
    Server::start(modern.handler())
}

#[test]
fn resources_are_listed_and_read() {
    let place = Place::new("resources");
    let server = server();
    let url = server.url();
    let ran = place.run(&["resources", "--url", &url]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    for part in [
        "note://tide",
        "text/plain",
        "12 bytes",
        "When the water is high.",
        "note://{id}",
        "template",
    ] {
        assert!(ran.out.contains(part), "{part}: {}", ran.out);
    }
    assert!(
        ran.err
            .contains("a resource that can't be told from others was left out"),
        "{}",
        ran.err
    );
    let ran = place.run(&["resources", "--url", &url, "--json"]);
    let listed = &ran.json()["servers"][0];
    assert_eq!(listed["resources"][0]["uri"], "note://tide");
    assert_eq!(listed["templates"][0]["uriTemplate"], "note://{id}");

    let ran = place.run(&["read", "note://tide", "--url", &url]);
    // In a pipe data is exact; a terminal gets no control characters.
    assert_eq!(
        (ran.code, ran.out.as_str()),
        (0, "high at\u{1b}[31m noon\n")
    );
    let ran = place.run(&["read", "note://chart", "--url", &url]);
    assert!(ran.out.contains("image/png, 2 bytes"), "{}", ran.out);
    let ran = place.run(&["read", "note://chart", "--url", &url, "--json"]);
    assert_eq!(ran.json()["contents"][0]["blob"], "aGk=");
    let ran = place.run(&["read", "note://gone", "--url", &url]);
    assert_eq!(ran.code, 5);
    assert!(
        ran.err.contains("no such resource") && ran.err.contains("mcpline resources"),
        "{}",
        ran.err
    );
}

#[test]
fn prompts_are_listed_and_got() {
    let place = Place::new("prompts");
    let server = server();
    let url = server.url();
    let ran = place.run(&["prompts", "--url", &url]);
    assert!(
        ran.out.contains("/greet(who, [how])") && ran.out.contains("Greet somebody"),
        "{}",
        ran.out
    );
    let ran = place.run(&["prompt", "greet", "who=Ada", "--url", &url]);
    assert_eq!(
        ran.out, "user: Say hello to Ada.\nassistant: [image/png]\n",
        "{}",
        ran.err
    );
    let ran = place.run(&["prompt", "greet", "--url", &url]);
    assert_eq!(ran.code, 6);
    assert!(ran.err.contains("it needs who"), "{}", ran.err);
    let ran = place.run(&["prompt", "greet", "Ada", "--url", &url]);
    assert_eq!(ran.code, 2);
    let ran = place.run(&["prompt", "greet", "who=Ada", "--url", &url, "--json"]);
    assert_eq!(ran.json()["messages"][0]["role"], "user");
}

#[test]
fn servers_without_them_have_none_and_say_so() {
    let place = Place::new("no-resources");
    for command in ["resources", "prompts"] {
        let ran = place.run(&[command, "--demo"]);
        assert_eq!((ran.code, ran.out.trim()), (0, ""), "{}", ran.err);
        assert_eq!(ran.err.matches("does not offer").count(), 2, "{}", ran.err);
    }
    let ran = place.run(&["read", "x:", "--demo"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("which one is meant"), "{}", ran.err);
}
