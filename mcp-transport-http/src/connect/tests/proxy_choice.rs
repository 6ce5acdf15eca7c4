//! Which proxy is used, if any (C120).

use std::collections::HashMap;

use http::Uri;

use super::kit::endpoint;
use crate::connect::ProxyChoice;
use crate::connect::proxy::choose;

/// Which proxy is chosen for a URL: its address.
fn chosen(
    choice: &ProxyChoice,
    url: &str,
    variables: &[(&str, &str)],
) -> Result<Option<String>, String> {
    let variables: HashMap<&str, &str> = variables.iter().copied().collect();
    let variable = |name: &str| variables.get(name).map(ToString::to_string);
    let endpoint = endpoint(url);
    let target: Uri = format!("{}/", endpoint.origin()).parse().unwrap();
    choose(choice, &endpoint, &target, variable)
        .map(|proxy| proxy.map(|proxy| proxy.address().to_owned()))
        .map_err(|error| error.to_string())
}

#[test]
fn c120_the_environment_is_read_in_both_cases() {
    type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], Option<&'a str>);
    let (http, https) = ("http://server.test/", "https://server.test/");
    let cases: &[Case<'_>] = &[
        (http, &[], None),
        (http, &[("HTTP_PROXY", "http://p:3128")], Some("p:3128")),
        (http, &[("http_proxy", "http://p:3128")], Some("p:3128")),
        (https, &[("HTTP_PROXY", "http://p:3128")], None),
        (https, &[("HTTPS_PROXY", "http://p:3128")], Some("p:3128")),
        (https, &[("https_proxy", "http://p:3128")], Some("p:3128")),
        (http, &[("https_proxy", "http://p:3128")], None),
        (http, &[("ALL_PROXY", "p:3128")], Some("p:3128")),
        (https, &[("all_proxy", "p")], Some("p:80")),
        // What is more special wins, what is empty is not there.
        (
            https,
            &[("ALL_PROXY", "all"), ("https_proxy", "p")],
            Some("p:80"),
        ),
        (
            https,
            &[("HTTPS_PROXY", " "), ("https_proxy", "p")],
            Some("p:80"),
        ),
        (
            https,
            &[("HTTPS_PROXY", "http://[::1]:3128")],
            Some("[::1]:3128"),
        ),
        (
            https,
            &[("HTTPS_PROXY", "http://u:s3cret@p:3128/")],
            Some("p:3128"),
        ),
        // In a CGI program, this is a header of the request.
        (
            http,
            &[("HTTP_PROXY", "evil"), ("REQUEST_METHOD", "GET")],
            None,
        ),
        (
            http,
            &[("http_proxy", "p"), ("REQUEST_METHOD", "GET")],
            Some("p:80"),
        ),
    ];
    for (url, variables, expected) in cases {
        let found = chosen(&ProxyChoice::Environment, url, variables).unwrap();
        assert_eq!(found.as_deref(), *expected, "{url} {variables:?}");
    }
}

#[test]
fn c120_loopback_is_never_proxied_by_the_environment() {
    let variables = [
        ("ALL_PROXY", "p"),
        ("HTTP_PROXY", "p"),
        ("https_proxy", "p"),
    ];
    let cases = [
        ("http://localhost:8080/", None),
        ("https://localhost/", None),
        ("http://mcp.localhost/", None),
        ("http://127.0.0.1:8080/", None),
        ("http://127.1.2.3/", None),
        ("https://[::1]:8443/", None),
        ("http://10.0.0.1/", Some("p:80")),
        ("http://localhost.test/", Some("p:80")),
    ];
    for (url, expected) in cases {
        let found = chosen(&ProxyChoice::Environment, url, &variables).unwrap();
        assert_eq!(found.as_deref(), expected, "{url}");
    }
}

#[test]
fn c120_exceptions_are_honoured() {
    let cases = [
        ("server.test", "https://server.test/", true),
        ("server.test", "https://a.server.test/", true),
        ("server.test", "https://notserver.test/", false),
        (".server.test", "https://a.server.test/", true),
        ("*.server.test", "https://a.server.test/", true),
        ("*.server.test", "https://other.test/", false),
        ("other.test, SERVER.test", "https://server.test/", true),
        ("10.0.0.0/8", "https://10.1.2.3/", true),
        ("10.0.0.0/8", "https://11.1.2.3/", false),
        ("2001:db8::1", "https://[2001:db8::1]/", true),
        ("server.test:443", "https://server.test/", true),
        ("server.test:8443", "https://server.test/", false),
        ("server.test:8443", "https://server.test:8443/", true),
        ("*", "https://server.test/", true),
        (" ", "https://server.test/", false),
    ];
    for (exceptions, url, is_excepted) in cases {
        for name in ["NO_PROXY", "no_proxy"] {
            let variables = [("HTTPS_PROXY", "p"), (name, exceptions)];
            let found = chosen(&ProxyChoice::Environment, url, &variables).unwrap();
            assert_eq!(found.is_none(), is_excepted, "{name}={exceptions} {url}");
        }
    }
}

#[test]
fn c120_an_explicit_choice_wins() {
    let variables = [("ALL_PROXY", "http://p"), ("NO_PROXY", "*")];
    let explicit = ProxyChoice::Url("http://u:s3cret@mine:8888".to_owned());
    for url in [
        "http://server.test/",
        "https://server.test/",
        "http://127.0.0.1/",
    ] {
        let found = chosen(&explicit, url, &variables).unwrap();
        assert_eq!(found.as_deref(), Some("mine:8888"));
        assert_eq!(chosen(&ProxyChoice::None, url, &variables[..1]), Ok(None));
    }
}

#[test]
fn c120_proxies_that_cannot_be_used_are_named_without_their_secrets() {
    let only_http = "proxies are not supported; only http: proxies are";
    let unreadable = "not the URL of a proxy; expected http://host:port or http://user:password@host:port, \
                      with everything but letters and digits in user and password percent-encoded";
    let cases = [
        ("socks5://u:s3cret@p:1080", format!("socks5: {only_http}")),
        ("https://u:s3cret@p:443", format!("https: {only_http}")),
        ("ftp://u:s3cret@p", unreadable.to_owned()),
        ("http://u:s3cret@with@p", unreadable.to_owned()),
        ("http://u:s3cret with@p", unreadable.to_owned()),
        ("http://", unreadable.to_owned()),
    ];
    for (value, expected) in cases {
        for (choice, variables, setting) in [
            (
                ProxyChoice::Environment,
                vec![("https_proxy", value)],
                "https_proxy",
            ),
            (
                ProxyChoice::Url(value.to_owned()),
                vec![],
                "the proxy option",
            ),
        ] {
            let error = chosen(&choice, "https://server.test/", &variables).unwrap_err();
            assert_eq!(error, format!("{setting}: {expected}"));
        }
    }
}
