//! Which proxy is used, if any.

use http::{HeaderValue, Uri};
use hyper_util::client::proxy::matcher::Matcher;

use super::error::{SendError, SetupError};
use super::options::ProxyChoice;
use super::resolve::{address_of, port_of};
use crate::endpoint::Endpoint;

/// A proxy. Shows no credentials: the header's value is marked as sensitive.
#[derive(Debug)]
pub(super) struct Proxy {
    /// Where it is, without credentials.
    pub(super) uri: Uri,
    /// What to send as `Proxy-Authorization`.
    pub(super) authorization: Option<HeaderValue>,
    /// Host and port.
    address: String,
    /// Where it was set, for errors.
    setting: String,
}

impl Proxy {
    /// Reads a proxy's URL with the rules of the environment: `http` if it has no scheme, credentials percent-encoded.
    fn parse(setting: &str, value: &str) -> Result<Self, SetupError> {
        let wrong = |reason: String| SetupError::Proxy {
            setting: setting.to_owned(),
            reason,
        };
        // Any target will do: there is only one proxy in this matcher.
        let found = Matcher::builder()
            .all(value.trim())
            .build()
            .intercept(&Uri::from_static("http://target.invalid/"))
            // An `@` in a password leaves half of it to the host.
            .filter(|found| found.uri().authority().is_none_or(|a| !a.as_str().contains('@')))
            .ok_or_else(|| {
                wrong(
                    "not the URL of a proxy; expected http://host:port or http://user:password@host:port, with \
                     everything but letters and digits in user and password percent-encoded"
                        .to_owned(),
                )
            })?;
        let scheme = found.uri().scheme_str().unwrap_or_default();
        if scheme != "http" {
            return Err(wrong(format!(
                "{scheme}: proxies are not supported; only http: proxies are"
            )));
        }
        Ok(Self {
            address: address_of(found.uri()),
            authorization: found.basic_auth().cloned(),
            setting: setting.to_owned(),
            uri: found.uri().clone(),
        })
    }

    /// Host and port, without credentials.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// An error that names this proxy and where it was set.
    pub(super) fn failed(&self, status: Option<u16>, reason: impl Into<String>) -> SendError {
        SendError::Proxy {
            proxy: self.address.clone(),
            setting: self.setting.clone(),
            status,
            reason: reason.into(),
        }
    }
}

/// The proxy for an endpoint at `target`. `variable` reads the environment.
pub(super) fn choose(
    choice: &ProxyChoice,
    endpoint: &Endpoint,
    target: &Uri,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Option<Proxy>, SetupError> {
    match choice {
        ProxyChoice::None => Ok(None),
        ProxyChoice::Url(url) => Proxy::parse("the proxy option", url).map(Some),
        // No proxy can reach what is on this machine (C120).
        ProxyChoice::Environment if endpoint.is_loopback() => Ok(None),
        ProxyChoice::Environment => from_environment(endpoint, target, variable),
    }
}

fn from_environment(
    endpoint: &Endpoint,
    target: &Uri,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Option<Proxy>, SetupError> {
    let set = |name: &&'static str| {
        let value = variable(name).filter(|value| !value.trim().is_empty())?;
        Some((*name, value))
    };
    let names: &[&str] = if endpoint.is_https() {
        &["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"]
    } else if variable("REQUEST_METHOD").is_some() {
        // In a CGI program, `HTTP_PROXY` is the header `Proxy` of whoever called it.
        &["http_proxy", "ALL_PROXY", "all_proxy"]
    } else {
        &["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"]
    };
    let Some((name, value)) = names.iter().find_map(set) else {
        return Ok(None);
    };
    if let Some((_, exceptions)) = ["NO_PROXY", "no_proxy"].iter().find_map(set)
        && is_excepted(target, &exceptions)
    {
        return Ok(None);
    }
    Proxy::parse(name, &value).map(Some)
}

/// Whether `NO_PROXY` names the target.
fn is_excepted(target: &Uri, exceptions: &str) -> bool {
    let port = port_of(target);
    let entries: Vec<&str> = exceptions
        .split(',')
        .map(str::trim)
        .filter_map(|entry| match entry.rsplit_once(':') {
            // `host:port` is for that port only. An IPv6 address has more colons than that one.
            Some((host, number)) if !host.contains(':') => {
                (number.parse() == Ok(port)).then_some(host)
            }
            _ => Some(entry),
        })
        .map(|entry| entry.strip_prefix("*.").unwrap_or(entry))
        .collect();
    Matcher::builder()
        .all("http://proxy.invalid")
        .no(entries.join(","))
        .build()
        .intercept(target)
        .is_none()
}
