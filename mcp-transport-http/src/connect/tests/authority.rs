//! Authorities, the certificates they give, and servers that show them.

use std::sync::Arc;

use bytes::Bytes;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;

use super::kit::{Memory, client, exchange, serve_http1, serve_http2};
use crate::connect::{
    ClientIdentity, ConnectOptions, HttpVersion, Roots, SendError, TlsOptions, tls,
};

/// The server of these tests.
pub(super) const URL: &str = "https://server.test/mcp";

/// Somebody who gives certificates.
pub(super) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(super) fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params
            .distinguished_name
            .push(DnType::OrganizationName, "Example");
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate().unwrap();
        Self(CertifiedIssuer::self_signed(params, key).unwrap())
    }

    pub(super) fn pem(&self) -> Bytes {
        self.0.pem().into()
    }

    /// Gives a certificate to servers with these names.
    pub(super) fn server(&self, names: &[&str]) -> Issued {
        self.server_with(names, |_| {})
    }

    pub(super) fn server_with(
        &self,
        names: &[&str],
        change: impl FnOnce(&mut CertificateParams),
    ) -> Issued {
        self.issue(names, ExtendedKeyUsagePurpose::ServerAuth, change)
    }

    pub(super) fn client(&self) -> ClientIdentity {
        let issued = self.issue(&["client"], ExtendedKeyUsagePurpose::ClientAuth, |_| {});
        ClientIdentity {
            certificates_pem: issued.certificate.pem().into(),
            key_pem: issued.key.serialize_pem().into(),
        }
    }

    fn issue(
        &self,
        names: &[&str],
        purpose: ExtendedKeyUsagePurpose,
        change: impl FnOnce(&mut CertificateParams),
    ) -> Issued {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.extended_key_usages = vec![purpose];
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        Issued { certificate, key }
    }
}

/// A certificate and its key.
pub(super) struct Issued {
    pub(super) certificate: rcgen::Certificate,
    pub(super) key: KeyPair,
}

/// How a server speaks TLS.
pub(super) struct Serving {
    pub(super) versions: &'static [&'static SupportedProtocolVersion],
    pub(super) alpn: &'static [&'static str],
}

impl Default for Serving {
    fn default() -> Self {
        Self {
            versions: rustls::ALL_VERSIONS,
            alpn: &["h2", "http/1.1"],
        }
    }
}

impl Serving {
    /// A server with this certificate, which wants certificates of `clients` from its clients.
    pub(super) fn acceptor(&self, issued: &Issued, clients: Option<&Authority>) -> TlsAcceptor {
        let provider = tls::provider().unwrap();
        let config = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(self.versions)
            .unwrap();
        let config = match clients {
            None => config.with_no_client_auth(),
            Some(authority) => {
                let mut roots = RootCertStore::empty();
                roots.add(authority.0.der().clone()).unwrap();
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(roots.into(), provider).build();
                config.with_client_cert_verifier(verifier.unwrap())
            }
        };
        let key = PrivatePkcs8KeyDer::from(issued.key.serialize_der());
        let mut config = config
            .with_single_cert(vec![issued.certificate.der().clone()], key.into())
            .unwrap();
        config.alpn_protocols = self
            .alpn
            .iter()
            .map(|name| name.as_bytes().into())
            .collect();
        TlsAcceptor::from(Arc::new(config))
    }
}

/// Serves a connection as TLS, in the version of HTTP that was agreed on.
pub(super) async fn serve_tls<S>(acceptor: TlsAcceptor, io: S)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    if let Ok(stream) = acceptor.accept(io).await {
        if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
            serve_http2(stream).await;
        } else {
            serve_http1(stream).await;
        }
    }
}

/// Serves all connections as TLS.
pub(super) fn serve_all_tls(mut memory: Memory, acceptor: TlsAcceptor) {
    tokio::spawn(async move {
        loop {
            let end = memory.accept().await;
            tokio::spawn(serve_tls(acceptor.clone(), end));
        }
    });
}

/// Trusts this authority only.
pub(super) fn trusting(authority: &Authority) -> TlsOptions {
    TlsOptions {
        roots: Roots::OnlyExtra,
        extra_roots_pem: vec![authority.pem()],
        ..TlsOptions::default()
    }
}

/// Asks a server with this certificate.
pub(super) async fn ask(
    serving: &Serving,
    issued: &Issued,
    clients: Option<&Authority>,
    tls: TlsOptions,
) -> Result<String, SendError> {
    ask_in(HttpVersion::Auto, serving, issued, clients, tls).await
}

pub(super) async fn ask_in(
    http_version: HttpVersion,
    serving: &Serving,
    issued: &Issued,
    clients: Option<&Authority>,
    tls: TlsOptions,
) -> Result<String, SendError> {
    let memory = Memory::new();
    let options = ConnectOptions {
        tls,
        http_version,
        ..memory.options.clone()
    };
    serve_all_tls(memory, serving.acceptor(issued, clients));
    exchange(&client(URL, &options), URL, "hello").await
}

pub(super) const TLS12: Serving = Serving {
    versions: &[&rustls::version::TLS12],
    alpn: &["h2", "http/1.1"],
};
pub(super) const TLS13: Serving = Serving {
    versions: &[&rustls::version::TLS13],
    alpn: &["h2", "http/1.1"],
};
