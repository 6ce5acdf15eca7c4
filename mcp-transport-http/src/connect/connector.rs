//! Makes one connection: dials, speaks TLS, and gives up when the time is over.

use std::error::Error as StdError;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::BoxFuture;
use http::Uri;
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use tower_service::Service;

use super::dial::{Dial, Progress, Route};
use super::error::SendError;
use super::failure::find;
use super::resolve::address_of;
use super::stream::Stream;
use super::tls::Tls;
use super::verify::tls_reason;

/// Makes the connections of a pool.
#[derive(Clone)]
pub(super) struct Connector {
    pub(super) route: Route,
    /// None for `http`, which must work in builds without cryptography.
    pub(super) tls: Option<Tls>,
    pub(super) timeout: Duration,
}

impl Connector {
    async fn connect(self, target: Uri) -> Result<Stream, SendError> {
        let progress = Progress::default();
        let mut dial = Dial {
            route: self.route.clone(),
            progress: progress.clone(),
        };
        let server = address_of(&target);
        let connecting = async {
            match self.tls {
                None => dial.call(target).await.map(MaybeHttpsStream::Http),
                Some(Tls { config, name }) => HttpsConnector::new(dial, config, true, name)
                    .call(target)
                    .await
                    .map_err(|error| secure_error(&server, &*error)),
            }
        };
        match tokio::time::timeout(self.timeout, connecting).await {
            Ok(outcome) => {
                let is_forwarded = matches!(self.route, Route::Forward(_));
                outcome.map(|io| Stream::new(io, is_forwarded))
            }
            Err(_) => Err(SendError::ConnectTimeout {
                server,
                timeout: self.timeout,
                during: progress.describe(&self.route),
            }),
        }
    }
}

/// Tells what failed below TLS from what failed in it.
fn secure_error(server: &str, error: &(dyn StdError + 'static)) -> SendError {
    match find::<SendError>(error) {
        Some(error) => error.clone(),
        None => SendError::Tls {
            server: server.to_owned(),
            reason: tls_reason(error),
            sent: false,
        },
    }
}

impl Service<Uri> for Connector {
    type Response = Stream;
    type Error = SendError;
    type Future = BoxFuture<'static, Result<Stream, SendError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, target: Uri) -> Self::Future {
        Box::pin(self.clone().connect(target))
    }
}
