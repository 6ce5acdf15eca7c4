//! Whom to trust, and how this client proves who it is.
//!
//! Nothing here touches the provider of the process: a host may have chosen another one.

use std::sync::Arc;

use bytes::Bytes;
use hyper_rustls::{DefaultServerNameResolver, FixedServerNameResolver, ResolveServerName};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};

use super::error::SetupError;
use super::options::{ClientIdentity, HttpVersion, Roots, TlsOptions};
use super::verify::{AcceptAny, Explaining, Store, Trust};

/// What TLS is spoken with.
#[derive(Clone)]
pub(super) struct Tls {
    pub(super) config: Arc<ClientConfig>,
    pub(super) name: Arc<dyn ResolveServerName + Send + Sync>,
}

impl Tls {
    /// Checks and loads all that TLS needs.
    pub(super) fn new(options: &TlsOptions, version: HttpVersion) -> Result<Self, SetupError> {
        let provider = provider()?;
        let verifier: Arc<dyn ServerCertVerifier> = if options.danger_accept_any_certificate {
            tracing::warn!(
                "danger_accept_any_certificate is set: anybody on the way to the server can read and change everything"
            );
            Arc::new(AcceptAny(Arc::clone(&provider)))
        } else {
            verifier(options, &provider)?
        };
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| SetupError::Tls {
                reason: error.to_string(),
            })?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let mut config = match &options.client_identity {
            None => config.with_no_client_auth(),
            Some(identity) => {
                let (certificates, key) = read_identity(identity)?;
                config
                    .with_client_auth_cert(certificates, key)
                    .map_err(|error| identity_error(&error))?
            }
        };
        config.alpn_protocols = match version {
            HttpVersion::Auto => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
            HttpVersion::Http1 => vec![b"http/1.1".to_vec()],
            HttpVersion::Http2PriorKnowledge => vec![b"h2".to_vec()],
        };
        let name: Arc<dyn ResolveServerName + Send + Sync> = match &options.server_name {
            None => Arc::new(DefaultServerNameResolver::default()),
            Some(name) => {
                let name = ServerName::try_from(name.clone())
                    .map_err(|_| SetupError::ServerName { name: name.clone() })?;
                Arc::new(FixedServerNameResolver::new(name))
            }
        };
        Ok(Self {
            config: Arc::new(config),
            name,
        })
    }
}

/// The cryptography of this build. `ring` wins if both are there.
pub(super) fn provider() -> Result<Arc<CryptoProvider>, SetupError> {
    #[cfg(feature = "ring")]
    let provider = Ok(Arc::new(rustls::crypto::ring::default_provider()));
    #[cfg(all(feature = "aws-lc-rs", not(feature = "ring")))]
    let provider = Ok(Arc::new(rustls::crypto::aws_lc_rs::default_provider()));
    #[cfg(not(any(feature = "ring", feature = "aws-lc-rs")))]
    let provider = Err(SetupError::NoCrypto);
    provider
}

/// Checks certificates against the roots that were chosen.
fn verifier(
    options: &TlsOptions,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, SetupError> {
    let extra = read_extra_roots(&options.extra_roots_pem)?;
    let store = match options.roots {
        Roots::OnlyExtra => Store::OnlyExtra,
        Roots::Default if cfg!(feature = "platform-roots") => Store::Platform,
        Roots::Default if cfg!(feature = "bundled-roots") => Store::Bundled,
        Roots::Default => Store::OnlyExtra,
    };
    let trust = Trust {
        store,
        extra: extra.certificates.len(),
    };
    let inner = match store {
        Store::Platform => platform_verifier(extra.certificates, provider)?,
        Store::Bundled => {
            let mut roots = extra.store;
            add_bundled(&mut roots);
            webpki_verifier(roots, provider)?
        }
        Store::OnlyExtra if extra.store.is_empty() => {
            return Err(SetupError::NoRoots {
                reason: match options.roots {
                    Roots::OnlyExtra => "roots is OnlyExtra, and extra_roots_pem is empty",
                    Roots::Default => {
                        "this build has no roots of its own, and extra_roots_pem is empty"
                    }
                }
                .to_owned(),
            });
        }
        Store::OnlyExtra => webpki_verifier(extra.store, provider)?,
    };
    Ok(Arc::new(Explaining { inner, trust }))
}

fn webpki_verifier(
    roots: RootCertStore,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, SetupError> {
    let builder = WebPkiServerVerifier::builder_with_provider(roots.into(), Arc::clone(provider));
    let verifier = builder.build().map_err(|error| SetupError::Tls {
        reason: error.to_string(),
    })?;
    Ok(verifier)
}

#[cfg(feature = "platform-roots")]
fn platform_verifier(
    extra: Vec<CertificateDer<'static>>,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, SetupError> {
    use rustls_platform_verifier::Verifier;

    let provider = Arc::clone(provider);
    #[cfg(not(target_os = "android"))]
    let verifier = Verifier::new_with_extra_roots(extra, provider);
    #[cfg(target_os = "android")]
    let verifier = if extra.is_empty() {
        Verifier::new(provider)
    } else {
        let reason = "Android trusts its own roots only; set roots to OnlyExtra".to_owned();
        return Err(SetupError::ExtraRoots { index: 0, reason });
    };
    match verifier {
        Ok(verifier) => Ok(Arc::new(verifier)),
        Err(error) => Err(SetupError::NoRoots {
            reason: format!("those of the system can't be used ({error})"),
        }),
    }
}

#[cfg(not(feature = "platform-roots"))]
fn platform_verifier(
    _: Vec<CertificateDer<'static>>,
    _: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, SetupError> {
    let reason = "this build does not read those of the system".to_owned();
    Err(SetupError::NoRoots { reason })
}

fn add_bundled(_roots: &mut RootCertStore) {
    #[cfg(feature = "bundled-roots")]
    _roots
        .roots
        .extend_from_slice(webpki_roots::TLS_SERVER_ROOTS);
}

/// Certificates to trust, in the two shapes that verifiers want.
struct ExtraRoots {
    certificates: Vec<CertificateDer<'static>>,
    store: RootCertStore,
}

fn read_extra_roots(pems: &[Bytes]) -> Result<ExtraRoots, SetupError> {
    let mut extra = ExtraRoots {
        certificates: Vec::new(),
        store: RootCertStore::empty(),
    };
    for (index, pem) in pems.iter().enumerate() {
        let wrong = |reason| SetupError::ExtraRoots { index, reason };
        for certificate in read_certificates(pem).map_err(wrong)? {
            let added = extra.store.add(certificate.clone());
            added.map_err(|error| wrong(format!("a certificate can't be used: {error}")))?;
            extra.certificates.push(certificate);
        }
    }
    Ok(extra)
}

/// Reads a certificate and those that follow it.
fn read_certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match certificates {
        Ok(certificates) if certificates.is_empty() => {
            Err("no certificate in it; expected PEM: -----BEGIN CERTIFICATE-----".to_owned())
        }
        Ok(certificates) => Ok(certificates),
        Err(error) => Err(format!("not PEM: {error}")),
    }
}

fn read_identity(
    identity: &ClientIdentity,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), SetupError> {
    let certificates = read_certificates(&identity.certificates_pem).map_err(|reason| {
        let reason = format!("certificates_pem: {reason}");
        SetupError::ClientIdentity { reason }
    })?;
    // The error may quote the input, and that is the key.
    let key = PrivateKeyDer::from_pem_slice(&identity.key_pem).map_err(|_| {
        SetupError::ClientIdentity {
            reason: "key_pem: no private key in it; expected PEM without a passphrase: -----BEGIN PRIVATE KEY-----, \
                     -----BEGIN EC PRIVATE KEY----- or -----BEGIN RSA PRIVATE KEY-----"
                .to_owned(),
        }
    })?;
    Ok((certificates, key))
}

fn identity_error(error: &rustls::Error) -> SetupError {
    let reason = match error {
        rustls::Error::InconsistentKeys(_) => {
            "the key does not belong to the first certificate".to_owned()
        }
        _ => format!("the certificate and its key can't be used: {error}"),
    };
    SetupError::ClientIdentity { reason }
}
