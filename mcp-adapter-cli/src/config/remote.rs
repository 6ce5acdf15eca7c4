//! Servers that are reached by a URL: what an entry says, and what comes of it once variables are filled in.

use std::path::PathBuf;

use sha2::{Digest, Sha256};

use super::expand::Origin;
use super::fill::Filler;
use super::launch::{hash_one, hex};
use super::locate::Folders;
use super::model::{Entry, Limits, Problem};
use crate::secret::Secret;

/// A server over HTTP, as written: expansions are not done yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct RemoteServer {
    /// It may hold a key in its query.
    pub(crate) url: Secret,
    /// In the file's order.
    pub(crate) headers: Vec<(String, Secret)>,
    /// A variable that holds a token.
    pub(crate) bearer_token_env: Option<String>,
    pub(crate) transport: Transport,
    /// A file with certificates to trust as well.
    pub(crate) ca_file: Option<String>,
    /// A proxy, or `none`.
    pub(crate) proxy: Option<Secret>,
    pub(crate) limits: Limits,
}

/// Which transport an entry names.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum Transport {
    /// It is found out.
    #[default]
    Auto,
    /// HTTP+SSE of 2024-11-05.
    Sse,
    /// Streamable HTTP.
    Streamable,
}

impl RemoteServer {
    /// The URL without what may be secret: user, query, and what is filled in.
    pub(crate) fn shown_url(&self) -> String {
        shown_url(self.url.reveal())
    }
}

/// A URL without user, query and fragment.
pub(crate) fn shown_url(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        // Not yet a URL: a variable that will be one, or a mistake.
        return url.split('?').next().unwrap_or_default().to_owned();
    };
    let end = rest.find(['?', '#']).unwrap_or(rest.len());
    let rest = rest.get(..end).unwrap_or_default();
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = authority.rsplit('@').next().unwrap_or_default();
    format!("{scheme}://{host}{path}")
}

/// A server ready to be reached.
#[derive(Clone, Debug)]
pub(crate) struct Remote {
    pub(crate) url: Secret,
    pub(crate) headers: Vec<(String, Secret)>,
    pub(crate) transport: Transport,
    pub(crate) ca_file: Option<PathBuf>,
    pub(crate) proxy: Option<Secret>,
    pub(crate) limits: Limits,
    /// Variables filled in: key of the entry, name, origin.
    pub(crate) expansions: Vec<(String, String, Origin)>,
}

impl Remote {
    /// Values that must not be shown.
    pub(crate) fn secrets(&self) -> Vec<Secret> {
        let headers = self.headers.iter().map(|(_, value)| value.clone());
        headers.chain(self.proxy.clone()).collect()
    }
}

/// Resolves an entry.
///
/// # Errors
/// Names the key and the variable that has no value.
pub(crate) fn resolve_remote(
    entry: &Entry,
    server: &RemoteServer,
    folders: &Folders,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Remote, Problem> {
    let mut filler = Filler::new(entry, folders, variable);
    let url = filler.fill("url", server.url.reveal())?;
    let mut headers = Vec::new();
    for (name, value) in &server.headers {
        let value = filler.fill(&format!("headers.{name}"), value.reveal())?;
        headers.push((name.clone(), Secret::new(value)));
    }
    if let Some(name) = &server.bearer_token_env {
        let token = filler.fill("bearerTokenEnv", &format!("${{{name}}}"))?;
        headers.push((
            "Authorization".to_owned(),
            Secret::new(format!("Bearer {token}")),
        ));
    }
    let ca_file = match &server.ca_file {
        Some(file) => Some(filler.folder().join(filler.fill("caFile", file)?)),
        None => None,
    };
    let proxy = match &server.proxy {
        Some(proxy) => Some(Secret::new(filler.fill("proxy", proxy.reveal())?)),
        None => None,
    };
    Ok(Remote {
        url: Secret::new(url),
        headers,
        transport: server.transport,
        ca_file,
        proxy,
        limits: server.limits,
        expansions: filler.into_expansions(),
    })
}

/// Identifies where an entry sends what: URL, proxy, headers and trust as written. A change of any of them asks again (C218).
pub(crate) fn remote_fingerprint(server: &RemoteServer) -> String {
    let mut hasher = Sha256::new();
    let mut add = |tag: &str, value: &str| hash_one(&mut hasher, tag, value);
    add("version", "1");
    add("url", server.url.reveal());
    for (name, value) in &server.headers {
        add("name", name);
        add("value", value.reveal());
    }
    add(
        "bearer",
        server.bearer_token_env.as_deref().unwrap_or_default(),
    );
    add("ca", server.ca_file.as_deref().unwrap_or_default());
    add("proxy", server.proxy.as_ref().map_or("", Secret::reveal));
    hex(hasher)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::model::{Place, Scope, Server};

    fn entry(server: RemoteServer) -> Entry {
        Entry {
            id: "a".to_owned(),
            place: Place {
                file: "/wrk/.mcp.json".into(),
                line: 3,
            },
            scope: Scope::Project,
            disabled: false,
            server: Ok(Server::Http(server)),
            notes: Vec::new(),
        }
    }

    fn resolved(server: &RemoteServer) -> Result<Remote, Problem> {
        let variable = |name: &str| (name == "TOKEN").then(|| "s3cret-token".to_owned());
        resolve_remote(
            &entry(server.clone()),
            server,
            &Folders::default(),
            &variable,
        )
    }

    fn server() -> RemoteServer {
        RemoteServer {
            url: Secret::new("https://u:p@host:8/mcp?key=${TOKEN}#x"),
            headers: vec![("X-Key".to_owned(), Secret::new("k ${TOKEN}"))],
            bearer_token_env: Some("TOKEN".to_owned()),
            ca_file: Some("ca.pem".to_owned()),
            ..RemoteServer::default()
        }
    }

    #[test]
    fn variables_are_filled_in_and_nothing_is_shown() {
        let remote = resolved(&server()).unwrap();
        assert_eq!(
            remote.url.reveal(),
            "https://u:p@host:8/mcp?key=s3cret-token#x"
        );
        let headers: Vec<_> = remote
            .headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.reveal()))
            .collect();
        assert_eq!(
            headers,
            [
                ("X-Key", "k s3cret-token"),
                ("Authorization", "Bearer s3cret-token")
            ]
        );
        assert_eq!(remote.ca_file.as_deref(), Some(Path::new("/wrk/ca.pem")));
        let shown = format!("{remote:?} {:?} {}", server(), server().shown_url());
        for secret in ["s3cret", "u:p", "key="] {
            assert!(!shown.contains(secret), "{shown}");
        }
        assert_eq!(server().shown_url(), "https://host:8/mcp");
    }

    #[test]
    fn c210_a_variable_without_a_value_is_named_with_its_key() {
        let mut other = server();
        other.bearer_token_env = Some("GONE".to_owned());
        assert_eq!(
            resolved(&other).unwrap_err().to_string(),
            "/wrk/.mcp.json:3: bearerTokenEnv: GONE is not set; set it, or write ${GONE:-default}"
        );
    }

    #[test]
    fn c218_any_change_changes_the_fingerprint() {
        let changes: [&dyn Fn(&mut RemoteServer); 6] = [
            &|_| {},
            &|server| server.url = Secret::new("https://other"),
            &|server| server.headers[0].0.push('2'),
            &|server| server.headers[0].1 = Secret::new("x"),
            &|server| server.bearer_token_env = None,
            &|server| server.proxy = Some(Secret::new("http://p")),
        ];
        let prints: std::collections::BTreeSet<_> = changes
            .iter()
            .map(|change| {
                let mut server = server();
                change(&mut server);
                remote_fingerprint(&server)
            })
            .collect();
        assert_eq!(prints.len(), changes.len());
    }
}
