//! Which addresses are asked and opened (AUTH-35, AUTH-36, SEC-01, SEC-02, C197, C198).
//!
//! Metadata comes from whoever runs the MCP server, and it names addresses that the client then asks from inside the
//! user's network. So: https only, except on loopback; no user or password; and no private, loopback or link-local
//! address, unless the MCP server itself is in that part of the network. A name is judged again by what it resolves to
//! ([`FetchPolicy::judge_addresses`]); whoever connects must connect to an address that was judged. Every redirect hop is
//! judged like the first address.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use url::{Host, Url};

use crate::policy::AuthPolicy;

/// Bytes of an address that are accepted.
pub const MAX_URL_BYTES: usize = 8 * 1024;

/// Which part of the network an address is in.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[non_exhaustive]
pub enum Reach {
    /// Routed on the internet.
    Public,
    /// A private network, carrier-grade NAT and unique local addresses included.
    Private,
    /// This machine. The unspecified address counts as well: connecting to it means this machine.
    Loopback,
    /// This link: cloud metadata services live here.
    LinkLocal,
    /// Nothing that a server has: multicast, documentation, reserved ranges.
    Unroutable,
}

impl Reach {
    /// Of an address, with IPv4 addresses inside of IPv6 ones unwrapped.
    pub fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => Self::of_v4(address),
            IpAddr::V6(address) => Self::of_v6(address),
        }
    }

    fn of_v4(address: Ipv4Addr) -> Self {
        match address.octets() {
            [0, ..] | [127, ..] => Self::Loopback,
            [10, ..] | [192, 168, ..] => Self::Private,
            [172, second, ..] if second & 0xf0 == 16 => Self::Private,
            [100, second, ..] if second & 0xc0 == 64 => Self::Private,
            [169, 254, ..] => Self::LinkLocal,
            [192, 0, 0 | 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => Self::Unroutable,
            [198, 18 | 19, ..] => Self::Private,
            [first, ..] if first >= 224 => Self::Unroutable,
            _ => Self::Public,
        }
    }

    fn of_v6(address: Ipv6Addr) -> Self {
        let parts = address.segments();
        let v4 = |high: u16, low: u16| {
            let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
            Self::of_v4(Ipv4Addr::new(a, b, c, d))
        };
        match parts {
            [0, 0, 0, 0, 0, 0, 0, 0 | 1] => Self::Loopback,
            // Mapped, compatible, translated (RFC 6052) and 6to4 addresses lead to the IPv4 address in them.
            [0, 0, 0, 0, 0, 0 | 0xffff, high, low] => v4(high, low),
            [0x64, 0xff9b, 0, 0, 0, 0, high, low] => v4(high, low),
            [0x2002, high, low, ..] => v4(high, low),
            [0x64, 0xff9b, 1, ..] => Self::Private,
            [first, ..] if first & 0xfe00 == 0xfc00 => Self::Private,
            [first, ..] if first & 0xffc0 == 0xfec0 => Self::Private,
            [first, ..] if first & 0xffc0 == 0xfe80 => Self::LinkLocal,
            [0x2001, 0xdb8, ..] => Self::Unroutable,
            // Teredo hides an address in a way that only its relays read.
            [0x2001, 0, ..] => Self::Unroutable,
            [first, ..] if first & 0xe000 == 0x2000 => Self::Public,
            _ => Self::Unroutable,
        }
    }

    /// Of the host of an address: `None` for a name that must be resolved to know. `localhost` is loopback (RFC 6761).
    pub fn of_host(url: &Url) -> Option<Self> {
        match url.host()? {
            Host::Ipv4(address) => Some(Self::of_v4(address)),
            Host::Ipv6(address) => Some(Self::of_v6(address)),
            Host::Domain(name) => {
                let name = name.trim_end_matches('.').to_ascii_lowercase();
                (name == "localhost" || name.ends_with(".localhost")).then_some(Self::Loopback)
            }
        }
    }
}

impl fmt::Display for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Public => "a public address",
            Self::Private => "a private address",
            Self::Loopback => "a loopback address",
            Self::LinkLocal => "a link-local address",
            Self::Unroutable => "an address that no server has",
        })
    }
}

/// Why an address is not asked or opened.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum UrlRefusal {
    /// No absolute address with a host.
    #[error("it can't be read")]
    Unreadable,
    /// Past [`MAX_URL_BYTES`].
    #[error("it has more than {MAX_URL_BYTES} bytes")]
    TooLong,
    /// A scheme other than https.
    #[error("its scheme is `{0}`, and only https is taken, or http on loopback")]
    Scheme(String),
    /// It has a user or a password.
    #[error("it holds a user or a password")]
    UserInfo,
    /// A part of the network where the MCP server is not.
    #[error("it is {found}, and the MCP server is not there")]
    Reach {
        /// Where the address is.
        found: Reach,
    },
}

/// Judges addresses on behalf of one MCP server.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FetchPolicy {
    allowed: Vec<Reach>,
}

impl FetchPolicy {
    /// For a server at `endpoint`. `resolved` is what its name resolved to, as far as it is known; it is not known if a
    /// proxy resolves names.
    pub fn new(endpoint: &Url, resolved: &[IpAddr], policy: &AuthPolicy) -> Self {
        let mut allowed = vec![Reach::Public];
        if policy.allow_private_network {
            allowed.extend([Reach::Private, Reach::Loopback, Reach::LinkLocal]);
        }
        let by_name = Reach::of_host(endpoint);
        let by_address = resolved.iter().map(|address| Reach::of(*address));
        for reach in by_name.into_iter().chain(by_address) {
            if !allowed.contains(&reach) && reach != Reach::Unroutable {
                allowed.push(reach);
            }
        }
        Self { allowed }
    }

    /// Judges an address that is to be asked, as it stands in a document, a header field or a redirect.
    ///
    /// # Errors
    ///
    /// Why it is refused.
    pub fn judge(&self, address: &str) -> Result<Url, UrlRefusal> {
        let url = read(address)?;
        self.judge_url(&url)?;
        Ok(url)
    }

    /// The same for an address that was read already.
    ///
    /// # Errors
    ///
    /// Why it is refused.
    pub fn judge_url(&self, url: &Url) -> Result<(), UrlRefusal> {
        judge_form(url)?;
        match Reach::of_host(url) {
            Some(reach) => self.judge_reach(reach),
            None => Ok(()),
        }
    }

    /// Judges what a name resolved to. All must be fine, or a server could hide one among others.
    ///
    /// # Errors
    ///
    /// The first that is refused.
    pub fn judge_addresses(&self, addresses: &[IpAddr]) -> Result<(), UrlRefusal> {
        addresses
            .iter()
            .try_for_each(|address| self.judge_reach(Reach::of(*address)))
    }

    fn judge_reach(&self, found: Reach) -> Result<(), UrlRefusal> {
        if self.allowed.contains(&found) {
            return Ok(());
        }
        Err(UrlRefusal::Reach { found })
    }
}

/// Whether tokens may be sent to a server at all: over https, or on loopback (C228).
pub(crate) fn takes_tokens(endpoint: &Url) -> bool {
    endpoint.scheme() == "https" || Reach::of_host(endpoint) == Some(Reach::Loopback)
}

/// Judges an address that is to be opened in a browser: only its form, since a person looks at it (AUTH-36, C197). Open
/// it without a shell: it may hold any character that an address can hold.
///
/// # Errors
///
/// Why it is refused.
pub fn judge_for_browser(address: &str) -> Result<Url, UrlRefusal> {
    let url = read(address)?;
    judge_form(&url)?;
    Ok(url)
}

/// Whether an address is one that codes may be sent to: https, or http on loopback, or a private scheme with a dot in it,
/// as RFC 8252 has it for native apps (AUTH-35).
pub(crate) fn is_redirect_uri(address: &str) -> bool {
    match Url::parse(address) {
        Ok(url) if url.fragment().is_some() => false,
        Ok(url) if matches!(url.scheme(), "http" | "https") => judge_form(&url).is_ok(),
        Ok(url) => url.scheme().contains('.'),
        Err(_) => false,
    }
}

fn read(address: &str) -> Result<Url, UrlRefusal> {
    if address.len() > MAX_URL_BYTES {
        return Err(UrlRefusal::TooLong);
    }
    Url::parse(address).map_err(|_| UrlRefusal::Unreadable)
}

fn judge_form(url: &Url) -> Result<(), UrlRefusal> {
    let loopback = Reach::of_host(url) == Some(Reach::Loopback);
    match url.scheme() {
        "https" => {}
        "http" if loopback => {}
        scheme => return Err(UrlRefusal::Scheme(crate::evidence::shown(scheme))),
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(UrlRefusal::UserInfo);
    }
    if url.as_str().len() > MAX_URL_BYTES {
        return Err(UrlRefusal::TooLong);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn policy_at(endpoint: &str, resolved: &[&str]) -> FetchPolicy {
        let resolved: Vec<IpAddr> = resolved.iter().map(|text| text.parse().unwrap()).collect();
        let endpoint = Url::parse(endpoint).unwrap();
        FetchPolicy::new(&endpoint, &resolved, &AuthPolicy::default())
    }

    #[test]
    fn sec_02_addresses_are_told_apart() {
        for (address, expected) in [
            ("8.8.8.8", Reach::Public),
            ("100.63.0.1", Reach::Public),
            ("100.64.0.1", Reach::Private),
            ("172.15.0.1", Reach::Public),
            ("172.31.255.255", Reach::Private),
            ("192.168.1.1", Reach::Private),
            ("10.0.0.1", Reach::Private),
            ("198.18.0.1", Reach::Private),
            ("169.254.169.254", Reach::LinkLocal),
            ("127.9.9.9", Reach::Loopback),
            ("0.0.0.0", Reach::Loopback),
            ("192.0.2.1", Reach::Unroutable),
            ("224.0.0.1", Reach::Unroutable),
            ("255.255.255.255", Reach::Unroutable),
            ("::1", Reach::Loopback),
            ("::", Reach::Loopback),
            ("::ffff:10.0.0.1", Reach::Private),
            ("::ffff:8.8.8.8", Reach::Public),
            ("::127.0.0.1", Reach::Loopback),
            ("64:ff9b::a9fe:a9fe", Reach::LinkLocal),
            ("64:ff9b:1::1", Reach::Private),
            ("2002:7f00:1::1", Reach::Loopback),
            ("2001::1", Reach::Unroutable),
            ("2001:db8::1", Reach::Unroutable),
            ("fd00::1", Reach::Private),
            ("fe80::1", Reach::LinkLocal),
            ("ff02::1", Reach::Unroutable),
            ("2606:4700::1111", Reach::Public),
        ] {
            assert_eq!(Reach::of(address.parse().unwrap()), expected, "{address}");
        }
    }

    #[test]
    fn c198_a_public_server_leads_nowhere_inside() {
        let policy = policy_at("https://mcp.example/mcp", &["93.184.216.34"]);
        for address in [
            "https://auth.example/",
            "https://auth.example:8443/t",
            "https://8.8.8.8/",
        ] {
            assert!(policy.judge(address).is_ok(), "{address}");
        }
        let inside = |found| Err(UrlRefusal::Reach { found });
        for (address, expected) in [
            ("https://169.254.169.254/latest", inside(Reach::LinkLocal)),
            // Other ways to write addresses.
            ("https://0xa9fea9fe/", inside(Reach::LinkLocal)),
            ("https://2852039166/", inside(Reach::LinkLocal)),
            ("https://127.1/", inside(Reach::Loopback)),
            ("https://[::ffff:192.168.0.1]/", inside(Reach::Private)),
            ("https://localhost./", inside(Reach::Loopback)),
            ("http://a.LOCALHOST:80/", inside(Reach::Loopback)),
            (
                "http://auth.example/",
                Err(UrlRefusal::Scheme("http".to_owned())),
            ),
            (
                "http://169.254.169.254/",
                Err(UrlRefusal::Scheme("http".to_owned())),
            ),
            (
                "file:///etc/passwd",
                Err(UrlRefusal::Scheme("file".to_owned())),
            ),
            ("https://u@auth.example/", Err(UrlRefusal::UserInfo)),
            ("https://:p@auth.example/", Err(UrlRefusal::UserInfo)),
            ("/relative", Err(UrlRefusal::Unreadable)),
            ("https://", Err(UrlRefusal::Unreadable)),
        ] {
            assert_eq!(policy.judge(address).map(|_| ()), expected, "{address}");
        }
        let long = format!("https://a.example/{}", "x".repeat(MAX_URL_BYTES));
        assert_eq!(policy.judge(&long), Err(UrlRefusal::TooLong));
    }

    #[test]
    fn c198_a_name_is_judged_by_all_that_it_resolves_to() {
        let policy = policy_at("https://mcp.example/mcp", &[]);
        let addresses = |list: &[&str]| -> Vec<IpAddr> {
            list.iter().map(|text| text.parse().unwrap()).collect()
        };
        assert_eq!(
            policy.judge_addresses(&addresses(&["8.8.8.8", "2606:4700::1"])),
            Ok(())
        );
        assert_eq!(
            policy.judge_addresses(&addresses(&["8.8.8.8", "10.0.0.1"])),
            Err(UrlRefusal::Reach {
                found: Reach::Private
            })
        );
    }

    #[test]
    fn a_server_inside_may_lead_to_where_it_is_itself() {
        let local = policy_at("http://localhost:3000/mcp", &[]);
        assert!(local.judge("http://127.0.0.1:9000/").is_ok());
        assert!(local.judge("http://[::1]:9000/").is_ok());
        assert!(local.judge("https://auth.example/").is_ok());
        assert!(local.judge("https://10.0.0.1/").is_err());
        assert!(local.judge("https://169.254.169.254/").is_err());
        let company = policy_at("https://mcp.corp/mcp", &["10.1.2.3"]);
        assert!(company.judge("https://10.9.9.9/").is_ok());
        assert!(company.judge("http://10.9.9.9/").is_err());
        assert!(company.judge("https://127.0.0.1/").is_err());
    }

    #[test]
    fn an_override_opens_the_network_but_not_plain_http() {
        let policy = AuthPolicy {
            allow_private_network: true,
            ..AuthPolicy::default()
        };
        let endpoint = Url::parse("https://mcp.example/").unwrap();
        let policy = FetchPolicy::new(&endpoint, &[], &policy);
        assert!(policy.judge("https://10.0.0.1/").is_ok());
        assert!(policy.judge("http://10.0.0.1/").is_err());
        assert!(policy.judge("https://224.0.0.1/").is_err());
    }

    #[test]
    fn c197_only_web_addresses_are_opened() {
        for address in [
            "https://h.example/?a=$(calc)&b",
            "http://127.0.0.1:8000/authorize",
            "http://localhost/authorize",
        ] {
            assert!(judge_for_browser(address).is_ok(), "{address}");
        }
        for address in [
            "file:///c:/x.exe",
            "javascript:alert(1)",
            "ms-settings:x",
            "http://h.example/",
            "https://u:p@h.example/",
            "data:text/html,x",
            "-flag",
        ] {
            assert!(judge_for_browser(address).is_err(), "{address}");
        }
    }

    #[test]
    fn auth_35_codes_are_sent_to_https_loopback_or_an_app() {
        for (address, expected) in [
            ("http://127.0.0.1:7777/callback", true),
            ("http://localhost/cb", true),
            ("https://app.example/cb", true),
            ("com.example.app:/cb", true),
            ("http://app.example/cb", false),
            ("javascript:alert(1)", false),
            ("https://app.example/cb#part", false),
            ("", false),
        ] {
            assert_eq!(is_redirect_uri(address), expected, "{address}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_judged(text in "\\PC{0,60}") {
            let policy = policy_at("https://mcp.example/mcp", &[]);
            if let Ok(url) = policy.judge(&text) {
                prop_assert_eq!(url.scheme(), "https");
            }
        }

        #[test]
        fn a_mapped_address_is_where_its_inner_one_is(bits in any::<u32>()) {
            let v4 = Ipv4Addr::from(bits);
            prop_assert_eq!(Reach::of(v4.to_ipv6_mapped().into()), Reach::of(v4.into()));
        }
    }
}
