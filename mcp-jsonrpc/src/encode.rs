//! Writes messages, each as one line.
//!
//! A line ends with `\n` and holds no other line break (STDIO-02): raw JSON that the caller hands in may contain line
//! breaks between its tokens, which become spaces. A transport that wants the body alone leaves the last byte out.

use bytes::{BufMut, BytesMut};
use serde::Serialize;

use crate::{ErrorObject, RequestId};

/// Appends a request; `params` writes the parameters' JSON, or nothing when there are none to send.
///
/// # Errors
/// What `params` returns; `out` is then as it was before.
pub fn request<E>(
    out: &mut BytesMut,
    id: &RequestId,
    method: &str,
    params: impl FnOnce(&mut BytesMut) -> Result<(), E>,
) -> Result<(), E> {
    line(out, |out| {
        out.put_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
        json(out, id);
        call(out, method, params)
    })
}

/// Appends a notification; `params` as for [`request`].
///
/// # Errors
/// What `params` returns; `out` is then as it was before.
pub fn notification<E>(
    out: &mut BytesMut,
    method: &str,
    params: impl FnOnce(&mut BytesMut) -> Result<(), E>,
) -> Result<(), E> {
    line(out, |out| {
        out.put_slice(b"{\"jsonrpc\":\"2.0\"");
        call(out, method, params)
    })
}

/// Appends a response with a result, given as JSON text.
pub fn result(out: &mut BytesMut, id: &RequestId, result: &str) {
    infallible_line(out, |out| {
        out.put_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
        json(out, id);
        out.put_slice(b",\"result\":");
        out.put_slice(result.as_bytes());
        out.put_u8(b'}');
    });
}

/// Appends a response with an error.
pub fn error(out: &mut BytesMut, id: &RequestId, error: &ErrorObject) {
    infallible_line(out, |out| {
        out.put_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
        json(out, id);
        out.put_slice(b",\"error\":");
        json(out, error);
        out.put_u8(b'}');
    });
}

/// Appends several responses, each a line of [`result`] or [`error`], as one array (JR-22).
pub fn response_batch<'a>(out: &mut BytesMut, responses: impl IntoIterator<Item = &'a [u8]>) {
    infallible_line(out, |out| {
        out.put_u8(b'[');
        for (index, response) in responses.into_iter().enumerate() {
            if index > 0 {
                out.put_u8(b',');
            }
            out.put_slice(response.trim_ascii_end());
        }
        out.put_u8(b']');
    });
}

fn call<E>(
    out: &mut BytesMut,
    method: &str,
    params: impl FnOnce(&mut BytesMut) -> Result<(), E>,
) -> Result<(), E> {
    const PARAMS: &[u8] = b",\"params\":";
    out.put_slice(b",\"method\":");
    json(out, method);
    out.put_slice(PARAMS);
    let start = out.len();
    params(out)?;
    if out.len() == start {
        out.truncate(start - PARAMS.len());
    }
    out.put_u8(b'}');
    Ok(())
}

/// Runs `write`, ends the line and removes line breaks inside it; undoes all of it on error.
fn line<E>(
    out: &mut BytesMut,
    write: impl FnOnce(&mut BytesMut) -> Result<(), E>,
) -> Result<(), E> {
    let start = out.len();
    if let Err(error) = write(out) {
        out.truncate(start);
        return Err(error);
    }
    // Inside strings a line break is always escaped, so a raw one stands between tokens, where a space is as good.
    let mut searched = start;
    while let Some(found) = memchr::memchr2(b'\n', b'\r', &out[searched..]) {
        out[searched + found] = b' ';
        searched += found + 1;
    }
    out.put_u8(b'\n');
    Ok(())
}

fn infallible_line(out: &mut BytesMut, write: impl FnOnce(&mut BytesMut)) {
    let Ok(()) = line(out, |out| {
        write(out);
        Ok::<_, std::convert::Infallible>(())
    });
}

/// Appends a value whose serialization can't fail: a string, a number, an error object.
fn json<T: Serialize + ?Sized>(out: &mut BytesMut, value: &T) {
    let start = out.len();
    if serde_json::to_writer(out.writer(), value).is_err() {
        out.truncate(start);
        out.put_slice(b"null");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ErrorCode, RawJson};

    type Never = std::convert::Infallible;

    fn encoded(write: impl FnOnce(&mut BytesMut)) -> String {
        let mut out = BytesMut::new();
        write(&mut out);
        String::from_utf8(out.to_vec()).unwrap()
    }

    #[test]
    fn each_kind_is_one_line() {
        let with = |text: &'static str| {
            move |out: &mut BytesMut| {
                out.put_slice(text.as_bytes());
                Ok::<_, Never>(())
            }
        };
        let mut error_object = ErrorObject::new(ErrorCode::METHOD_NOT_FOUND, "no\nsuch");
        error_object.data = Some(RawJson::from_value(&[1]).unwrap());
        let cases = [
            (
                encoded(|out| request(out, &1.into(), "a/b", with("{\"x\":\n1}")).unwrap()),
                "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a/b\",\"params\":{\"x\": 1}}\n",
            ),
            (
                encoded(|out| request(out, &"x\n".into(), "a", with("")).unwrap()),
                "{\"jsonrpc\":\"2.0\",\"id\":\"x\\n\",\"method\":\"a\"}\n",
            ),
            (
                encoded(|out| notification(out, "n", with("{}")).unwrap()),
                "{\"jsonrpc\":\"2.0\",\"method\":\"n\",\"params\":{}}\n",
            ),
            (
                encoded(|out| result(out, &7.into(), "{\r\n}")),
                "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{  }}\n",
            ),
            (
                encoded(|out| error(out, &7.into(), &error_object)),
                "{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{\"code\":-32601,\"message\":\"no\\nsuch\",\"data\":[1]}}\n",
            ),
            (
                encoded(|out| response_batch(out, [&b"{\"a\":1}\n"[..], b"{}\n"])),
                "[{\"a\":1},{}]\n",
            ),
        ];
        for (actual, expected) in cases {
            assert_eq!(actual, expected);
        }
    }

    #[test]
    fn a_failed_request_leaves_the_buffer_as_it_was() {
        let mut out = BytesMut::from(&b"before"[..]);
        assert_eq!(
            request(&mut out, &1.into(), "a", |out| {
                out.put_slice(b"half");
                Err("no")
            }),
            Err("no")
        );
        assert_eq!(&out[..], b"before");
    }
}
