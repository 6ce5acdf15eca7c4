//! Servers that are reached by a URL: from options and entries to what the client takes, and advice when it fails.

use mcp_client::Error;
use mcp_client::http::{HttpServer, HttpTransport, ProxyChoice};
use mcp_client::mcp_proto::http::HttpFailureKind;

use crate::app::App;
use crate::cli::TransportChoice;
use crate::config::{Remote, Transport, expand_text, shown_url};
use crate::failure::Failure;
use crate::secret::Secret;

/// A server of the command line.
pub(crate) struct AdHoc {
    pub(crate) id: String,
    pub(crate) place: String,
    pub(crate) server: Box<HttpServer>,
}

/// The server that `--url` and what belongs to it describe.
///
/// # Errors
/// When they can't be used.
pub(crate) fn ad_hoc(app: &App, url: &str) -> Result<AdHoc, Failure> {
    let filled = |text: &str, option: &str| {
        expand_text(text, &|name| std::env::var(name).ok())
            .map_err(|error| Failure::usage(format!("{option}: {error}")))
    };
    let mut headers = Vec::new();
    for header in &app.global.header {
        let (name, value) = header
            .split_once(':')
            .ok_or_else(|| Failure::usage("--header wants \"NAME: VALUE\""))?;
        let value = filled(value.trim(), &format!("--header {}", name.trim()))?;
        headers.push((name.trim().to_owned(), Secret::new(value)));
    }
    if let Some(name) = &app.global.bearer_env {
        let token = filled(&format!("${{{name}}}"), "--bearer-env")?;
        headers.push((
            "Authorization".to_owned(),
            Secret::new(format!("Bearer {token}")),
        ));
    }
    let remote = Remote {
        url: Secret::new(filled(url, "--url")?),
        headers,
        transport: Transport::Auto,
        ca_file: None,
        proxy: None,
        limits: Default::default(),
        expansions: Vec::new(),
    };
    let server = server(app, &remote).map_err(Failure::usage)?;
    let place = shown_url(url);
    let host = place.split("://").nth(1).unwrap_or(&place);
    let host = host.split(['/', ':']).next().unwrap_or_default();
    Ok(AdHoc {
        id: host.replace('.', "-"),
        place,
        server: Box::new(server),
    })
}

/// Refuses options that only make sense with `--url`.
///
/// # Errors
/// When one of them was given.
pub(crate) fn refuse_unused(app: &App) -> Result<(), Failure> {
    let unused = [
        (!app.global.header.is_empty(), "--header"),
        (app.global.bearer_env.is_some(), "--bearer-env"),
        (app.global.transport.is_some(), "--transport"),
    ];
    match unused.iter().find(|(given, _)| *given) {
        Some((_, option)) => Err(Failure::usage(format!("{option} is for a server of --url"))),
        None => Ok(()),
    }
}

/// The server as the client takes it; options of the command line count more than the entry.
///
/// # Errors
/// What can't be used, without what may be secret.
pub(crate) fn server(app: &App, remote: &Remote) -> Result<HttpServer, String> {
    let mut server =
        HttpServer::new(remote.url.reveal()).map_err(|error| format!("url: {error}"))?;
    for (name, value) in &remote.headers {
        server = server
            .header(name, value.reveal())
            .map_err(|error| format!("headers: {error}"))?;
    }
    let transport = app
        .global
        .transport
        .map_or(remote.transport, |choice| match choice {
            TransportChoice::Auto => Transport::Auto,
            TransportChoice::Sse => Transport::Sse,
            TransportChoice::Streamable => Transport::Streamable,
        });
    server.transport = match transport {
        Transport::Auto => HttpTransport::Auto,
        Transport::Sse => HttpTransport::OldSse,
        Transport::Streamable => HttpTransport::Streamable,
    };
    let option = app.global.ca_file.clone();
    let option = option.map(|file| app.folders.current.join(file));
    if let Some(file) = option.as_ref().or(remote.ca_file.as_ref()) {
        let text =
            std::fs::read(file).map_err(|error| format!("caFile {}: {error}", file.display()))?;
        server.connect.tls.extra_roots_pem.push(text.into());
    }
    let proxy = app.global.proxy.as_deref();
    server.connect.proxy = match proxy.or_else(|| remote.proxy.as_ref().map(Secret::reveal)) {
        None => ProxyChoice::Environment,
        Some("none") => ProxyChoice::None,
        Some(url) => ProxyChoice::Url(url.to_owned()),
    };
    Ok(server)
}

/// Adds what a person can do about a server that does not let this client in, or is not there.
pub(crate) fn advise(error: &Error, failure: &mut Failure) {
    let Some(http) = error.as_http() else {
        return;
    };
    let notes: &[&str] = match http.kind {
        HttpFailureKind::Unauthorized => &[
            "it wants a token: give one with --bearer-env VAR, or \"bearerTokenEnv\" in the entry",
        ],
        HttpFailureKind::NotFound | HttpFailureKind::MethodNotAllowed => {
            &["paths that are usual: /mcp, and /sse for older servers"]
        }
        HttpFailureKind::ServerError => {
            &["some older servers fail at the first question: --era legacy leaves it out"]
        }
        _ => &[],
    };
    failure.notes.extend(notes.iter().map(ToString::to_string));
}
