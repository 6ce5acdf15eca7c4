//! What an error of hyper says about a request: why it failed, and whether the server saw it.

use std::error::Error as StdError;
use std::io;
use std::iter::successors;

use http::Extensions;
use hyper_util::client::legacy;

use super::error::SendError;
use super::stream::TlsEnd;
use super::verify::tls_reason;

/// Longer reasons are cut: peers write parts of them.
const MAX_REASON: usize = 300;

/// Makes an error that a person understands. `server` is host and port.
pub(super) fn explain(error: &legacy::Error, server: &str) -> SendError {
    if let Some(error) = find::<SendError>(error) {
        return error.clone();
    }
    let sent = !is_unprocessed(error);
    let server = server.to_owned();
    if let Some(reason) = tls_end(error) {
        return SendError::Tls {
            server,
            reason,
            sent,
        };
    }
    let reason = match find::<hyper::Error>(error) {
        Some(error) if error.is_incomplete_message() => {
            "it closed the connection without one".to_owned()
        }
        Some(error) if error.is_parse() => format!("what came is not HTTP/1.1: {}", chain(error)),
        Some(error) => chain(error),
        None => chain(error),
    };
    SendError::Http {
        server,
        reason,
        sent,
    }
}

/// Whether the request certainly was not processed although its connection was there, so that another connection may
/// do better.
pub(super) fn is_repeatable(error: &legacy::Error) -> bool {
    if error.is_connect() {
        // Not our own dial, which says why it failed: this request waited for that of another one.
        find::<SendError>(error).is_none()
    } else {
        error.connect_info().is_some() && is_unprocessed(error) && tls_end(error).is_none()
    }
}

/// Why TLS ended the connection of a request.
fn tls_end(error: &legacy::Error) -> Option<String> {
    if find::<rustls::Error>(error).is_some() {
        return Some(tls_reason(error));
    }
    let mut extras = Extensions::new();
    error.connect_info()?.get_extras(&mut extras);
    extras.get::<TlsEnd>()?.reason().map(ToOwned::to_owned)
}

/// Whether the server certainly did nothing with the request.
fn is_unprocessed(error: &legacy::Error) -> bool {
    // Without a connection, the request was never given to one: the dial or the first words of HTTP failed.
    error.is_connect()
        || error.connect_info().is_none()
        // hyper gave the request back: not a byte of it was written.
        || find::<hyper::Error>(error).is_some_and(hyper::Error::is_canceled)
        || find::<h2::Error>(error).is_some_and(is_refused)
}

/// Whether a server says that it did not process the request of a stream (C116). RFC 9113, section 8.7.
///
/// h2 fails those streams with a received GOAWAY that lie above its last stream, whatever its code: those below run on,
/// and fail with the end of the connection if they don't make it. hyper does so as well if one comes in the moment in
/// which it opens a stream; it then sends no body on it.
fn is_refused(error: &h2::Error) -> bool {
    error.is_remote()
        && (error.is_go_away()
            || error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM))
}

/// An error and its causes. An [`io::Error`] skips what it wraps, so that is looked at as well.
fn causes<'a>(
    error: &'a (dyn StdError + 'static),
) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    successors(Some(error), |error: &&'a (dyn StdError + 'static)| {
        let error = *error;
        match error.downcast_ref().and_then(io::Error::get_ref) {
            Some(inner) => Some(inner),
            None => error.source(),
        }
    })
}

/// The last error of a type among an error and its causes: the others wrap it.
pub(super) fn find_last<'a, E: StdError + 'static>(
    error: &'a (dyn StdError + 'static),
) -> Option<&'a E> {
    causes(error)
        .filter_map(|error| error.downcast_ref())
        .last()
}

/// The first error of a type among an error and its causes.
pub(super) fn find<'a, E: StdError + 'static>(
    error: &'a (dyn StdError + 'static),
) -> Option<&'a E> {
    causes(error).find_map(|error| error.downcast_ref())
}

/// The texts of an error and its causes, each once.
pub(super) fn chain(error: &(dyn StdError + 'static)) -> String {
    let mut reason = String::new();
    for text in causes(error).map(ToString::to_string) {
        if !reason.ends_with(&text) {
            if !reason.is_empty() {
                reason.push_str(": ");
            }
            reason.push_str(&text);
        }
    }
    shorten(&reason, MAX_REASON)
}

/// At most so many characters, and none that would do something to a terminal.
pub(super) fn shorten(text: &str, most: usize) -> String {
    let mut characters = text.chars();
    let mut short: String = characters
        .by_ref()
        .take(most)
        .map(|character| {
            if character.is_control() {
                '\u{fffd}'
            } else {
                character
            }
        })
        .collect();
    if characters.next().is_some() {
        short.push('…');
    }
    short
}
