//! Messages: what is encoded is read back, and nothing that a peer sends panics.

use bytes::{BufMut, Bytes, BytesMut};
use mcp_jsonrpc::{
    ErrorCode, ErrorObject, Incoming, Message, Messages, Oddity, RawJson, RequestId, encode,
};
use proptest::prelude::*;
use serde_json::Value;

use crate::json;

fn id() -> impl Strategy<Value = RequestId> {
    prop_oneof![
        any::<i64>().prop_map(RequestId::from),
        ".*".prop_map(|text| RequestId::from(text.as_str()))
    ]
}

/// The one message of a line.
fn read(line: &[u8]) -> Message {
    assert_eq!(
        memchr::memchr(b'\n', line),
        Some(line.len() - 1),
        "one line"
    );
    let mut messages = Messages::new(Bytes::copy_from_slice(&line[..line.len() - 1]));
    let Some(Incoming::Message(message, oddities)) = messages.next() else {
        panic!("no message")
    };
    assert!(oddities.is_empty() && messages.next().is_none());
    message
}

proptest! {
    #[test]
    fn what_is_encoded_is_read_back(id in id(), method in ".+", payload in json(), code in any::<i64>(), text in ".*") {
        // Pretty text has line breaks between its tokens.
        let pretty = serde_json::to_string_pretty(&payload).unwrap();
        let write = |out: &mut BytesMut| {
            out.put_slice(pretty.as_bytes());
            Ok::<_, std::convert::Infallible>(())
        };
        let params = |raw: &Option<RawJson>| raw.as_ref().map_or(Value::Null, |raw| raw.parse().unwrap());

        let mut line = BytesMut::new();
        encode::request(&mut line, &id, &method, write).unwrap();
        let Message::Request(request) = read(&line) else { panic!("no request") };
        prop_assert_eq!((&request.id, &request.method, params(&request.params)), (&id, &method, payload.clone()));

        line.clear();
        encode::notification(&mut line, &method, write).unwrap();
        let Message::Notification(notification) = read(&line) else { panic!("no notification") };
        prop_assert_eq!((&notification.method, params(&notification.params)), (&method, payload.clone()));

        line.clear();
        encode::result(&mut line, &id, &pretty);
        let Message::Response(response) = read(&line) else { panic!("no response") };
        prop_assert_eq!(response.id.as_ref(), Some(&id));
        prop_assert_eq!(&response.outcome.unwrap().parse::<Value>().unwrap(), &payload);

        line.clear();
        let mut error = ErrorObject::new(ErrorCode::new(code), text);
        error.data = Some(RawJson::from_value(&payload).unwrap());
        encode::error(&mut line, &id, &error);
        let Message::Response(response) = read(&line) else { panic!("no response") };
        let got = response.outcome.unwrap_err();
        prop_assert_eq!((got.code, &got.message), (error.code, &error.message));
        // `null` data is no data.
        prop_assert_eq!(params(&got.data), payload);
    }

    #[test]
    fn c013_messages_in_a_row_are_the_same_as_alone(ids in prop::collection::vec(id(), 1..6), payload in json(), gap in "[ \t\r\n\0]{0,3}") {
        let mut lines = Vec::new();
        for id in &ids {
            let mut line = BytesMut::new();
            encode::result(&mut line, id, &payload.to_string());
            lines.push(String::from_utf8(line[..line.len() - 1].to_vec()).unwrap());
        }
        let items: Vec<_> = Messages::new(Bytes::from(lines.join(&gap))).collect();
        prop_assert_eq!(items.len(), ids.len());
        for (index, (item, id)) in items.iter().zip(&ids).enumerate() {
            let Incoming::Message(Message::Response(response), oddities) = item else { panic!("{item:?}") };
            prop_assert_eq!(response.id.as_ref(), Some(id));
            prop_assert_eq!(response.outcome.as_ref().unwrap().as_str(), payload.to_string());
            prop_assert_eq!(oddities.contains(Oddity::SeveralOnOneLine), index > 0);
        }
    }

    #[test]
    fn jr_20_a_batch_reads_as_its_members_do(ids in prop::collection::vec(id(), 1..6), payload in json()) {
        let mut lines = Vec::new();
        for id in &ids {
            let mut line = BytesMut::new();
            encode::result(&mut line, id, &payload.to_string());
            lines.push(line.freeze());
        }
        let mut batch = BytesMut::new();
        encode::response_batch(&mut batch, lines.iter().map(AsRef::as_ref));
        let mut items = Messages::new(batch.freeze());
        let Some(Incoming::Batch(members)) = items.next() else { panic!("no batch") };
        prop_assert!(items.next().is_none());
        let alone: Vec<_> = lines.iter().map(|line| Ok(read(line))).collect();
        prop_assert_eq!(members, alone);
    }

    #[test]
    fn c007_bad_bytes_in_a_string_cost_only_themselves(id in id(), before in "[a-z]{0,9}", bad in prop::collection::vec(0x80..=0xffu8, 1..4)) {
        let mut line = BytesMut::new();
        encode::result(&mut line, &id, &format!("\"{before}@@\""));
        let at = line.windows(3).rposition(|window| window == b"@@\"").unwrap();
        let bytes = [&line[..at], &bad, &line[at + 2..line.len() - 1]].concat();
        prop_assume!(std::str::from_utf8(&bytes).is_err());
        let items: Vec<_> = Messages::new(Bytes::from(bytes)).collect();
        let [Incoming::Message(Message::Response(response), oddities)] = &items[..] else { panic!("{items:?}") };
        prop_assert_eq!(response.id.as_ref(), Some(&id));
        prop_assert!(oddities.contains(Oddity::InvalidUtf8));
        let text: String = response.outcome.as_ref().unwrap().parse().unwrap();
        prop_assert_eq!(text, format!("{before}{}", String::from_utf8_lossy(&bad)));
    }

    #[test]
    fn any_bytes_are_read_to_their_end(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        // Every item takes at least one byte, so the iterator must end.
        prop_assert!(Messages::new(Bytes::from(bytes.clone())).count() <= bytes.len());
    }

    #[test]
    fn any_json_is_read_to_its_end(values in prop::collection::vec(json(), 0..4), cut in any::<prop::sample::Index>()) {
        let text = values.iter().map(Value::to_string).collect::<Vec<_>>().join(" ");
        for frame in [&text[..], text.get(..cut.index(text.len() + 1)).unwrap_or("")] {
            let count = Messages::new(Bytes::copy_from_slice(frame.as_bytes())).count();
            prop_assert!(count <= frame.len());
        }
    }

    #[test]
    fn broken_messages_of_every_shape_are_values(
        id in prop::option::of(json()), method in prop::option::of(json()), params in prop::option::of(json()),
        result in prop::option::of(json()), error in prop::option::of(json()), version in any::<bool>(),
    ) {
        let mut message = serde_json::Map::new();
        if version {
            message.insert("jsonrpc".to_owned(), "2.0".into());
        }
        for (name, value) in [("id", id), ("method", method), ("params", params), ("result", result), ("error", error)] {
            if let Some(value) = value {
                message.insert(name.to_owned(), value);
            }
        }
        let text = Value::Object(message.clone()).to_string();
        let items: Vec<_> = Messages::new(Bytes::from(text)).collect();
        prop_assert_eq!(items.len(), 1);
        // C075: `method` decides before anything else.
        if let Incoming::Message(Message::Response(_), _) = &items[0] {
            prop_assert!(!message.contains_key("method"));
        }
    }
}
