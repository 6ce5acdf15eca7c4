//! The pool of connections to one origin, and how a request gets onto one of them.

use std::env;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http::header::PROXY_AUTHORIZATION;
use http::{Request, Response, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::Connected;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use super::connector::Connector;
use super::dial::Route;
use super::error::{SendError, SetupError};
use super::failure;
use super::options::{ConnectOptions, HttpVersion};
use super::proxy::{self, Proxy};
use super::resolve::address_of;
use super::tls::Tls;
use crate::endpoint::Endpoint;

/// Sends requests to one origin over pooled connections. Clones share the pool.
#[derive(Clone)]
pub(crate) struct HttpClient {
    pool: Client<Connector, Full<Bytes>>,
    /// Host and port, for errors.
    server: Arc<str>,
    proxy: Option<Arc<Proxy>>,
    /// Whether the proxy reads the requests, so that each must carry its credentials.
    is_forwarded: bool,
}

impl HttpClient {
    /// Checks the settings; connects to nothing yet. For `https` it reads the certificates of the system.
    ///
    /// # Errors
    /// When a setting can't be used.
    pub(crate) fn new(endpoint: &Endpoint, options: &ConnectOptions) -> Result<Self, SetupError> {
        Self::with_environment(endpoint, options, |name| env::var(name).ok())
    }

    /// As [`HttpClient::new`], with an environment of one's own.
    pub(super) fn with_environment(
        endpoint: &Endpoint,
        options: &ConnectOptions,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, SetupError> {
        let target: Uri =
            format!("{}/", endpoint.origin())
                .parse()
                .map_err(|error: http::uri::InvalidUri| SetupError::Endpoint {
                    reason: error.to_string(),
                })?;
        let only_http2 = options.http_version == HttpVersion::Http2PriorKnowledge;
        let (route, proxy) = match &options.dialer {
            Some(dialer) => (Route::Dialer(dialer.clone()), None),
            None => match proxy::choose(&options.proxy, endpoint, &target, variable)?.map(Arc::new)
            {
                None => (Route::Direct, None),
                // A proxy that reads requests speaks HTTP/1.1.
                Some(proxy) if endpoint.is_https() || only_http2 => {
                    (Route::Tunnel(Arc::clone(&proxy)), Some(proxy))
                }
                Some(proxy) => (Route::Forward(Arc::clone(&proxy)), Some(proxy)),
            },
        };
        let tls = if endpoint.is_https() {
            Some(Tls::new(&options.tls, options.http_version)?)
        } else {
            None
        };
        let is_forwarded = matches!(route, Route::Forward(_));
        let connector = Connector {
            route,
            tls,
            timeout: options.connect_timeout,
        };
        let pool = Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(options.idle_timeout)
            .pool_max_idle_per_host(options.max_idle_connections)
            .http2_only(only_http2)
            .build(connector);
        Ok(Self {
            pool,
            server: address_of(&target).into(),
            proxy,
            is_forwarded,
        })
    }

    /// Sends a request to the origin of this client, and waits for the head of the response.
    ///
    /// What a server certainly did not process is sent once more on a new connection: a stream that HTTP/2 refused or
    /// that came after a GOAWAY (C116), a request that met the end of its connection. Dropping the future cancels.
    ///
    /// # Errors
    /// When there was no response. [`SendError::was_sent`] tells whether the server may have seen the request.
    pub(crate) async fn send(
        &self,
        mut request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, SendError> {
        if self.is_forwarded
            && let Some(authorization) = self.proxy.as_ref().and_then(|p| p.authorization.as_ref())
        {
            request
                .headers_mut()
                .insert(PROXY_AUTHORIZATION, authorization.clone());
        }
        let again = request.clone();
        match self.pool.request(request).await {
            Ok(response) => return Ok(response),
            Err(error) if failure::is_repeatable(&error) => {
                tracing::debug!(server = %self.server, %error, "not processed; sending once more");
                // The pool may not know yet that this connection is of no use.
                if let Some(connection) = error.connect_info() {
                    Connected::poison(connection);
                }
            }
            Err(error) => return Err(failure::explain(&error, &self.server)),
        }
        let outcome = self.pool.request(again).await;
        outcome.map_err(|error| failure::explain(&error, &self.server))
    }

    /// Host and port of the proxy, without credentials.
    pub(crate) fn proxy_of(&self) -> Option<String> {
        self.proxy.as_ref().map(|proxy| proxy.address().to_owned())
    }
}

impl fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpClient")
            .field("server", &self.server)
            .field("proxy", &self.proxy_of())
            .finish_non_exhaustive()
    }
}
