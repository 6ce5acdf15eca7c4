//! What a server gets of the host's environment.
//!
//! By default a short list of names (D8, D20): what programs need to run, and what they need to reach the network from
//! behind a proxy or a private CA. Everything else, cloud keys and tokens first of all, stays with the host (C020).

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;

/// Names that a server always gets, if the host has them. `*` at the end stands for any rest.
pub const MINIMAL_VARIABLES: &[&str] = &[
    "HOME",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TEMP",
    "TERM",
    "TMP",
    "TMPDIR",
    "TZ",
    "USER",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
    "XDG_STATE_HOME",
];

/// Names that decide whether a server reaches the network; it gets these, too, in both letter cases (C021).
pub const NETWORK_VARIABLES: &[&str] = &[
    "ALL_PROXY",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NODE_EXTRA_CA_CERTS",
    "NO_PROXY",
    "PIP_CERT",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
];

/// What a server gets besides the variables that are set for it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum EnvPolicy {
    /// Everything that the host has.
    All,
    /// The [`MINIMAL_VARIABLES`] and [`NETWORK_VARIABLES`].
    #[default]
    Minimal,
    /// Those, and these names.
    Names(Vec<String>),
}

/// The environment of a server, worked out. `Debug` shows names only.
#[derive(Clone, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct ResolvedEnv {
    /// All variables the server gets.
    pub variables: BTreeMap<OsString, OsString>,
    /// Names that look as if they mattered for network access, exist in the host, and are not passed on.
    pub unpassed_network_names: Vec<String>,
}

impl ResolvedEnv {
    /// Works it out: what `policy` lets through of `parent`, then `set`, where `None` takes a variable away.
    pub(crate) fn new(
        policy: &EnvPolicy,
        set: &BTreeMap<OsString, Option<OsString>>,
        parent: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Self {
        let mut resolved = Self::default();
        for (name, value) in parent {
            let text = name.to_string_lossy();
            let passes = match policy {
                EnvPolicy::All => true,
                EnvPolicy::Minimal => is_minimal(&text),
                EnvPolicy::Names(names) => {
                    is_minimal(&text) || names.iter().any(|wanted| *wanted == text)
                }
            };
            // An exported shell function is code, not a value.
            let function = value.as_encoded_bytes().starts_with(b"()");
            if passes && !(function && *policy != EnvPolicy::All) {
                resolved.variables.insert(name, value);
            } else if looks_like_network(&text) && !set.contains_key(&name) {
                resolved.unpassed_network_names.push(text.into_owned());
            }
        }
        for (name, value) in set {
            match value {
                Some(value) => resolved.variables.insert(name.clone(), value.clone()),
                None => resolved.variables.remove(name),
            };
        }
        resolved.unpassed_network_names.sort();
        resolved
    }

    /// The search path for programs.
    pub fn path(&self) -> Option<&OsStr> {
        self.variables
            .get(OsStr::new("PATH"))
            .map(OsString::as_os_str)
    }
}

impl fmt::Debug for ResolvedEnv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.variables.keys()).finish()
    }
}

fn is_minimal(name: &str) -> bool {
    let in_list = |pattern: &&str| match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == *pattern,
    };
    MINIMAL_VARIABLES.iter().any(in_list)
        || NETWORK_VARIABLES
            .iter()
            .any(|known| name.eq_ignore_ascii_case(known))
}

/// A guess, for a hint when a server does not answer: proxies, certificates, package registries.
fn looks_like_network(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    [
        "PROXY",
        "CA_CERT",
        "CACERT",
        "CAINFO",
        "CA_BUNDLE",
        "CA_FILE",
        "SSL",
        "TLS",
        "REGISTRY",
        "INDEX_URL",
    ]
    .iter()
    .any(|part| name.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(
        policy: &EnvPolicy,
        set: &[(&str, Option<&str>)],
        parent: &[(&str, &str)],
    ) -> (Vec<String>, Vec<String>) {
        let set = set
            .iter()
            .map(|(name, value)| (name.into(), value.map(Into::into)))
            .collect();
        let parent = parent
            .iter()
            .map(|(name, value)| (name.into(), value.into()));
        let resolved = ResolvedEnv::new(policy, &set, parent);
        let shown = resolved
            .variables
            .iter()
            .map(|(name, value)| format!("{}={}", name.display(), value.display()));
        (shown.collect(), resolved.unpassed_network_names)
    }

    #[test]
    fn c020_c021_what_passes() {
        let parent = [
            ("PATH", "/bin"),
            ("LC_ALL", "C"),
            ("AWS_SECRET_ACCESS_KEY", "s3cret"),
            ("HTTPS_PROXY", "http://p"),
            ("no_proxy", "localhost"),
            ("NODE_EXTRA_CA_CERTS", "/ca.pem"),
            ("npm_config_registry", "http://r"),
            ("TERM", "() { :; }"),
            ("EXTRA", "1"),
        ];
        let (minimal, hidden) = resolve(&EnvPolicy::Minimal, &[], &parent);
        assert_eq!(
            minimal,
            [
                "HTTPS_PROXY=http://p",
                "LC_ALL=C",
                "NODE_EXTRA_CA_CERTS=/ca.pem",
                "PATH=/bin",
                "no_proxy=localhost"
            ]
        );
        assert_eq!(hidden, ["npm_config_registry"]);
        let (named, _) = resolve(&EnvPolicy::Names(vec!["EXTRA".to_owned()]), &[], &parent);
        assert!(named.contains(&"EXTRA=1".to_owned()) && named.len() == minimal.len() + 1);
        let (all, hidden) = resolve(
            &EnvPolicy::All,
            &[("EXTRA", None), ("PATH", Some("/own"))],
            &parent,
        );
        assert_eq!((all.len(), hidden.len()), (parent.len() - 1, 0));
        assert!(all.contains(&"PATH=/own".to_owned()));
        let (set, hidden) = resolve(
            &EnvPolicy::Minimal,
            &[("npm_config_registry", Some("x"))],
            &parent,
        );
        assert!(set.contains(&"npm_config_registry=x".to_owned()) && hidden.is_empty());
    }

    #[test]
    fn values_are_not_shown() {
        let set = BTreeMap::from([("TOKEN".into(), Some("s3cret".into()))]);
        let shown = format!("{:?}", ResolvedEnv::new(&EnvPolicy::Minimal, &set, []));
        assert_eq!(shown, "{\"TOKEN\"}");
    }
}
