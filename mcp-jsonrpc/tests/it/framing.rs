//! Framing: the same frames however the bytes are cut, at a cost linear in their number, in bounded memory.

use std::time::Duration;

use bytes::BytesMut;
use mcp_jsonrpc::RequestId;
use mcp_jsonrpc::frame::{NdjsonDecoder, NdjsonFrame, SseDecoder, SseFrame};
use mcp_jsonrpc::salvage::{EnvelopeScanner, MAX_ID_BYTES};
use proptest::prelude::*;
use serde_json::Value;

use crate::json;

/// Small enough that random input passes it often.
const LIMIT: usize = 40;

/// Bytes in which what matters to framing is frequent.
fn soup() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => Just(b"\n".to_vec()),
        2 => Just(b"\r\n".to_vec()),
        1 => Just(b"\r".to_vec()),
        1 => Just(b"\0".to_vec()),
        1 => Just(b"\xef\xbb\xbf".to_vec()),
        2 => Just(b"data: ".to_vec()),
        1 => Just(b"id: 7".to_vec()),
        1 => Just(b"event:x".to_vec()),
        1 => Just(b":c".to_vec()),
        1 => Just(b"retry: 5".to_vec()),
        2 => Just(br#"{"id":7,"result":{}}"#.to_vec()),
        4 => prop::collection::vec(any::<u8>(), 0..30),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

/// The bytes cut at the given places.
fn chunks<'a>(bytes: &'a [u8], cuts: &[prop::sample::Index]) -> Vec<&'a [u8]> {
    let mut places: Vec<_> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
    places.extend([0, bytes.len()]);
    places.sort_unstable();
    places
        .windows(2)
        .map(|pair| &bytes[pair[0]..pair[1]])
        .collect()
}

/// Takes frames until there is none; a decoder that never ends fails the test instead of hanging it.
fn take_all<F>(frames: &mut Vec<F>, mut next: impl FnMut() -> Option<F>) {
    while let Some(frame) = next() {
        frames.push(frame);
        assert!(frames.len() < 10_000, "no end");
    }
}

fn lines(chunks: &[&[u8]]) -> (Vec<NdjsonFrame>, u64) {
    let mut decoder = NdjsonDecoder::new(LIMIT);
    let (mut buffer, mut frames) = (BytesMut::new(), Vec::new());
    for chunk in chunks {
        buffer.extend_from_slice(chunk);
        take_all(&mut frames, || decoder.decode(&mut buffer));
        assert!(buffer.len() <= LIMIT + 1);
    }
    take_all(&mut frames, || decoder.finish(&mut buffer));
    (frames, decoder.scanned_bytes())
}

fn events(chunks: &[&[u8]]) -> (Vec<SseFrame>, u64) {
    let mut decoder = SseDecoder::new(LIMIT);
    let (mut buffer, mut frames) = (BytesMut::new(), Vec::new());
    for chunk in chunks {
        buffer.extend_from_slice(chunk);
        take_all(&mut frames, || decoder.decode(&mut buffer));
        assert!(buffer.len() <= LIMIT + 6);
    }
    take_all(&mut frames, || decoder.finish(&mut buffer));
    (frames, decoder.scanned_bytes())
}

proptest! {
    #[test]
    fn any_cut_gives_the_same_lines(bytes in soup(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20)) {
        let (whole, _) = lines(&[&bytes]);
        let (cut, scanned) = lines(&chunks(&bytes, &cuts));
        prop_assert_eq!(&whole, &cut);
        let (single, scanned_single) = lines(&bytes.chunks(1).collect::<Vec<_>>());
        prop_assert_eq!(&whole, &single);
        // Each byte is looked at once, and once more at the end of the stream.
        let most = 2 * bytes.len() as u64 + 8;
        prop_assert!(scanned <= most && scanned_single <= most, "{scanned} {scanned_single} of {}", bytes.len());
    }

    #[test]
    fn any_cut_gives_the_same_events(bytes in soup(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20)) {
        let (whole, _) = events(&[&bytes]);
        let (cut, scanned) = events(&chunks(&bytes, &cuts));
        prop_assert_eq!(&whole, &cut);
        let (single, _) = events(&bytes.chunks(1).collect::<Vec<_>>());
        prop_assert_eq!(&whole, &single);
        prop_assert!(scanned <= 2 * bytes.len() as u64 + 8);
    }

    #[test]
    fn lines_come_back_as_they_were_sent(texts in prop::collection::vec("[ -~]{1,30}", 0..20)) {
        let sent: Vec<_> = texts.iter().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty()).collect();
        let bytes = texts.iter().map(|text| format!("{text}\r\n")).collect::<String>();
        let (frames, _) = lines(&bytes.as_bytes().chunks(3).collect::<Vec<_>>());
        let got: Vec<_> = frames
            .into_iter()
            .map(|frame| match frame {
                NdjsonFrame::Line(line) => String::from_utf8(line.to_vec()).unwrap(),
                other => panic!("{other:?}"),
            })
            .collect();
        prop_assert_eq!(got, sent);
    }

    #[test]
    fn the_id_is_found_wherever_it_stands(
        id in any::<i64>(),
        text in ".{0,20}",
        before in prop::collection::vec("[a-h]{1,6}", 0..4),
        as_text in any::<bool>(),
        method in any::<bool>(),
        size in 1..20usize,
    ) {
        let id_text = if as_text { serde_json::to_string(&text).unwrap() } else { id.to_string() };
        // Values that look like members are inside strings and objects.
        let decoy = serde_json::to_string(&format!("\"id\":1,{text}}}")).unwrap();
        let mut members: Vec<_> = before.iter().map(|name| format!("\"x{name}\":{{\"id\":2,\"a\":[{decoy}]}}")).collect();
        if method {
            members.push("\"method\":\"m\"".to_owned());
        }
        members.push(format!("\"id\":{id_text}"));
        members.push(format!("\"result\":{decoy}"));
        let message = format!("{{{}}}", members.join(","));
        let mut scanner = EnvelopeScanner::new();
        message.as_bytes().chunks(size).for_each(|chunk| scanner.push(chunk));
        let expected = if as_text { RequestId::from(text.as_str()) } else { RequestId::from(id) };
        prop_assert_eq!(scanner.found().id.as_ref(), Some(&expected));
        prop_assert_eq!(scanner.found().has_method, method);
        // A cut message still names its call once the id is behind.
        let cut = &message[..message.len() - 2];
        let mut scanner = EnvelopeScanner::new();
        scanner.push(cut.as_bytes());
        prop_assert_eq!(scanner.found().id.as_ref(), Some(&expected));
    }

    #[test]
    fn the_scanner_agrees_with_a_parser(
        members in prop::collection::btree_map("id|method|result|params|[a-z]{0,20}", json(), 0..5),
        pretty in any::<bool>(),
        size in 1..20usize,
    ) {
        let expected = match members.get("id") {
            Some(Value::String(text)) if serde_json::to_string(text).unwrap().len() <= MAX_ID_BYTES => Some(RequestId::from(text.as_str())),
            Some(Value::Number(number)) => number.as_i64().map(RequestId::from),
            _ => None,
        };
        let text = if pretty { serde_json::to_string_pretty(&members) } else { serde_json::to_string(&members) }.unwrap();
        let mut scanner = EnvelopeScanner::new();
        text.as_bytes().chunks(size).for_each(|chunk| scanner.push(chunk));
        prop_assert_eq!(scanner.found().id.as_ref(), expected.as_ref());
        prop_assert_eq!(scanner.found().has_method, members.contains_key("method"));
        // A message cut anywhere never names another call.
        let mut scanner = EnvelopeScanner::new();
        for byte in text.bytes() {
            scanner.push(&[byte]);
            let found = &scanner.found().id;
            prop_assert!(found.is_none() || *found == expected);
        }
    }

    #[test]
    fn events_come_back_as_they_were_sent(
        sent in prop::collection::vec(("[ -~\n]{1,30}", prop::option::of("[ -~]{0,5}"), prop::option::of(0..5000u64)), 0..10),
        end in prop::sample::select(vec!["\n", "\r", "\r\n"]),
        size in 1..20usize,
    ) {
        let mut text = String::new();
        for (data, id, retry) in &sent {
            let data = data.split('\n').map(|line| format!("data: {line}{end}"));
            let id = id.iter().map(|id| format!("id: {id}{end}"));
            let retry = retry.iter().map(|retry| format!("retry:{retry}{end}"));
            text.extend(data.chain(id).chain(retry));
            text += end;
        }
        let (frames, _) = events(&text.as_bytes().chunks(size).collect::<Vec<_>>());
        prop_assert_eq!(frames.len(), sent.len());
        let mut in_force = None;
        for (frame, (data, id, retry)) in frames.iter().zip(&sent) {
            in_force = id.as_ref().or(in_force);
            let SseFrame::Event(event) = frame else { panic!("{frame:?}") };
            prop_assert_eq!(&event.data, data);
            prop_assert_eq!(event.id.as_ref(), in_force);
            prop_assert_eq!(event.retry, retry.map(Duration::from_millis));
        }
    }

    #[test]
    fn the_scanner_takes_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300), size in 1..20usize) {
        let mut whole = EnvelopeScanner::new();
        whole.push(&bytes);
        let mut cut = EnvelopeScanner::new();
        bytes.chunks(size).for_each(|chunk| cut.push(chunk));
        prop_assert_eq!(whole.found(), cut.found());
    }
}

#[test]
fn d15_a_line_far_beyond_the_limit_is_skipped_in_bounded_memory() {
    let mut decoder = NdjsonDecoder::new(1000);
    let mut buffer = BytesMut::new();
    let chunk = vec![b'x'; 10_000];
    for _ in 0..10_000 {
        buffer.extend_from_slice(&chunk);
        assert_eq!(decoder.decode(&mut buffer), None);
        assert!(buffer.capacity() <= 32 * 1024, "{}", buffer.capacity());
    }
    buffer.extend_from_slice(b"\n{}\n");
    let Some(NdjsonFrame::TooLong(long)) = decoder.decode(&mut buffer) else {
        panic!("not too long")
    };
    assert_eq!(
        (long.bytes, long.limit_bytes, long.head.len()),
        (100_000_000, 1000, 128)
    );
    assert_eq!(
        decoder.decode(&mut buffer),
        Some(NdjsonFrame::Line("{}".into()))
    );
}

#[test]
fn c136_an_event_far_beyond_the_limit_is_skipped_in_bounded_memory() {
    // One endless line, endless lines in one event, and an endless comment.
    for (begin, chunk, end) in [
        ("data: {\"id\":7,\"result\":\"", "x", "\"}\n\n"),
        ("data: {\"id\":7,\"result\":\"", "x\ndata: y", "\"}\n\n"),
        (":", "x", "\n\n"),
    ] {
        let mut decoder = SseDecoder::new(1000);
        let mut buffer = BytesMut::from(begin);
        let chunk = chunk.repeat(10_000);
        for _ in 0..100 {
            buffer.extend_from_slice(chunk.as_bytes());
            assert_eq!(decoder.decode(&mut buffer), None);
            assert!(buffer.len() <= 1006, "{}", buffer.len());
        }
        buffer.extend_from_slice(end.as_bytes());
        buffer.extend_from_slice(b"data: {}\n\n");
        match decoder.decode(&mut buffer) {
            Some(SseFrame::Comment) => assert_eq!(begin, ":"),
            Some(SseFrame::TooLong(long)) => {
                assert_eq!((long.limit_bytes, long.head.len()), (1000, 128));
                assert!(long.bytes > 1_000_000);
                assert_eq!((long.id, long.is_call), (Some(7.into()), false));
            }
            other => panic!("{other:?}"),
        }
        let Some(SseFrame::Event(event)) = decoder.decode(&mut buffer) else {
            panic!("no event")
        };
        assert_eq!(&event.data[..], b"{}");
    }
}
