//! Says what is wrong with a certificate so that somebody can put it right (C119).

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    AlertDescription, CertificateError, DigitallySignedStruct, DistinguishedName, OtherError,
    SignatureScheme,
};

use super::failure::{chain, find, find_last, shorten};
use super::names;

/// Where the certificates that are trusted come from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Store {
    /// The operating system.
    Platform,
    /// Those that browsers trust, compiled in.
    Bundled,
    /// Nowhere but the settings.
    OnlyExtra,
}

/// Which certificates are trusted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trust {
    pub(super) store: Store,
    /// How many were set.
    pub(super) extra: usize,
}

impl fmt::Display for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.store {
            Store::Platform => f.write_str("the roots of the system")?,
            Store::Bundled => f.write_str("the bundled roots")?,
            Store::OnlyExtra => return write!(f, "only the {} of extra_roots_pem", self.extra),
        }
        match self.extra {
            0 => Ok(()),
            extra => write!(f, " and the {extra} of extra_roots_pem"),
        }
    }
}

impl Trust {
    /// How to trust another authority.
    fn advice(self) -> &'static str {
        match self.store {
            // Elsewhere the system does not look at the variable.
            Store::Platform if cfg!(all(unix, not(target_vendor = "apple"))) => {
                "add the authority's certificate to extra_roots_pem, or to the file that SSL_CERT_FILE names"
            }
            Store::Platform => {
                "add the authority's certificate to extra_roots_pem or to the system's store"
            }
            Store::Bundled | Store::OnlyExtra => {
                "add the authority's certificate to extra_roots_pem"
            }
        }
    }
}

/// A verifier whose errors name the issuer, the roots that were used, and what to do.
#[derive(Debug)]
pub(super) struct Explaining {
    pub(super) inner: Arc<dyn ServerCertVerifier>,
    pub(super) trust: Trust,
}

/// What is wrong with a certificate.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Untrusted(String);

impl Explaining {
    fn explain(&self, problem: &CertificateError, certificate: &[u8]) -> String {
        let issuer = names::issuer(certificate);
        let by = match &issuer {
            Some(issuer) => format!("issued by {}", issuer.name),
            None => "whose issuer has no name".to_owned(),
        };
        match problem {
            CertificateError::UnknownIssuer => {
                let advice = self.trust.advice();
                let is_itself = issuer.is_some_and(|issuer| issuer.is_itself);
                let authority = if is_itself { "itself" } else { "an authority" };
                format!(
                    "its certificate, {by}, comes from {authority} that is not trusted ({trust} are); {advice}",
                    trust = self.trust
                )
            }
            CertificateError::NotValidForNameContext {
                expected,
                presented,
            } => {
                let names: Vec<String> = presented
                    .iter()
                    .take(5)
                    .map(|name| shorten(plain(name), 100))
                    .collect();
                let names = if names.is_empty() {
                    "no name".to_owned()
                } else {
                    names.join(", ")
                };
                format!(
                    "its certificate, {by}, is for {names}, not for {}; if that is the right server, set server_name",
                    expected.to_str()
                )
            }
            CertificateError::ExpiredContext { not_after, .. } => format!(
                "its certificate, {by}, expired on {}; the server needs a new one",
                date(*not_after)
            ),
            CertificateError::NotValidYetContext { not_before, .. } => format!(
                "its certificate, {by}, is valid from {}; is this machine's clock right?",
                date(*not_before)
            ),
            _ => format!(
                "its certificate, {by}, can't be used ({trust} are trusted): {problem}",
                trust = self.trust
            ),
        }
    }
}

/// The name in what a verifier writes as `DnsName("a.example")` or `IpAddress(10.0.0.1)`.
fn plain(name: &str) -> &str {
    let inner = name
        .split_once('(')
        .and_then(|(_, name)| name.strip_suffix(')'));
    inner.unwrap_or(name).trim_matches('"')
}

fn date(time: UnixTime) -> String {
    // Later dates can't be written.
    let last = 253_402_300_799;
    let since = Duration::from_secs(time.as_secs().min(last));
    httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + since)
}

impl ServerCertVerifier for Explaining {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let verified = self.inner.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        );
        verified.map_err(|error| match error {
            rustls::Error::InvalidCertificate(problem) => {
                let explained = Untrusted(self.explain(&problem, end_entity));
                CertificateError::Other(OtherError(Arc::new(explained))).into()
            }
            other => other,
        })
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }

    fn requires_raw_public_keys(&self) -> bool {
        self.inner.requires_raw_public_keys()
    }

    fn root_hint_subjects(&self) -> Option<&[DistinguishedName]> {
        self.inner.root_hint_subjects()
    }
}

/// Takes any certificate, even one that can't be read.
#[derive(Debug)]
pub(super) struct AcceptAny(pub(super) Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAny {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// Why there is no TLS, in words.
pub(super) fn tls_reason(error: &(dyn StdError + 'static)) -> String {
    match find::<rustls::Error>(error) {
        Some(rustls::Error::InvalidCertificate(CertificateError::Other(OtherError(other)))) => {
            other.to_string()
        }
        Some(rustls::Error::InvalidMessage(problem)) => {
            format!("what came is not TLS ({problem:?}); is it an http: server?")
        }
        Some(rustls::Error::AlertReceived(alert)) => alert_reason(*alert),
        Some(rustls::Error::PeerIncompatible(problem)) => format!(
            "it has no TLS in common with this client, which speaks TLS 1.2 and 1.3 ({problem:?})"
        ),
        Some(error) => error.to_string(),
        None => match find_last::<io::Error>(error).map(io::Error::kind) {
            Some(io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset) => {
                "it closed the connection in the handshake; is it an https: server?".to_owned()
            }
            _ => chain(error),
        },
    }
}

fn alert_reason(alert: AlertDescription) -> String {
    let hint = match alert {
        AlertDescription::CertificateRequired => {
            "it wants a certificate of this client: set client_identity"
        }
        AlertDescription::BadCertificate
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateRevoked
        | AlertDescription::CertificateExpired
        | AlertDescription::CertificateUnknown
        | AlertDescription::UnknownCA
        | AlertDescription::AccessDenied => {
            "it did not accept the certificate of this client: see client_identity"
        }
        AlertDescription::HandshakeFailure
        | AlertDescription::ProtocolVersion
        | AlertDescription::InsufficientSecurity => {
            "it has no TLS in common with this client, which speaks TLS 1.2 and 1.3, or wants a certificate of it"
        }
        AlertDescription::NoApplicationProtocol => "it does not speak this version of HTTP",
        AlertDescription::UnrecognisedName => "it does not serve this name",
        _ => "it gave up",
    };
    format!("{hint} (alert {alert:?})")
}
