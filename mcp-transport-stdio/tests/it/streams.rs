//! Reading and writing lines over any byte stream.

use std::time::Duration;

use bytes::Bytes;
use mcp_jsonrpc::frame::NdjsonFrame;
use mcp_transport_stdio::{FrameReader, LineWriter, ReadEvent};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

/// The next line as text; `None` at the end.
async fn line<R: tokio::io::AsyncRead + Unpin>(reader: &mut FrameReader<R>) -> Option<String> {
    match reader.recv().await {
        ReadEvent::Frame(NdjsonFrame::Line(line) | NdjsonFrame::Unterminated(line)) => {
            Some(String::from_utf8(line.to_vec()).unwrap())
        }
        ReadEvent::Frame(other) => Some(format!("{other:?}")),
        ReadEvent::End(_) => None,
    }
}

#[tokio::test]
async fn c012_a_dropped_read_loses_nothing() {
    let (mut server, client) = duplex(7);
    let mut reader = FrameReader::new(client, 1 << 20);
    let sent = tokio::spawn(async move {
        for n in 0..200 {
            server
                .write_all(format!("{{\"n\":{n},\"x\":\"{}\"}}\n", "y".repeat(n)).as_bytes())
                .await
                .unwrap();
        }
        server.write_all(b"last").await.unwrap();
    });
    let mut seen = 0;
    loop {
        // Each read is dropped again and again while its line comes in pieces of seven bytes.
        let received = tokio::select! {
            biased;
            () = tokio::task::yield_now() => continue,
            received = line(&mut reader) => received,
        };
        match received {
            Some(text) if text == "last" => break,
            Some(text) => assert!(text.starts_with(&format!("{{\"n\":{seen},")), "{text}"),
            None => panic!("the end came before the last line"),
        }
        seen += 1;
    }
    assert_eq!(seen, 200);
    assert_eq!(line(&mut reader).await, None);
    assert_eq!(line(&mut reader).await, None);
    sent.await.unwrap();
}

#[tokio::test]
async fn a_dropped_flush_is_gone_on_with_at_the_same_byte() {
    let (client, mut server) = duplex(5);
    let mut writer = LineWriter::new(client);
    let mut expected = String::new();
    for n in 0..100 {
        let text = format!("line {n} {}\n", "z".repeat(n));
        expected += &text;
        writer.push(Bytes::from(text));
    }
    let reading = tokio::spawn(async move {
        let mut text = String::new();
        server.read_to_string(&mut text).await.unwrap();
        text
    });
    loop {
        tokio::select! {
            biased;
            () = tokio::task::yield_now() => {}
            done = writer.flush() => {
                done.unwrap();
                break;
            }
        }
    }
    drop(writer);
    assert_eq!(reading.await.unwrap(), expected);
}

#[tokio::test]
async fn both_directions_full_do_not_block_each_other() {
    // Each side writes a megabyte before it reads anything; only independent halves get through.
    let (one, two) = duplex(64);
    let (one_read, one_write) = tokio::io::split(one);
    let (mut two_read, mut two_write) = tokio::io::split(two);
    let peer = tokio::spawn(async move {
        let line = format!("{}\n", "p".repeat(1 << 20));
        let writing = async { two_write.write_all(line.as_bytes()).await.unwrap() };
        let mut got = vec![0; (1 << 20) + 1];
        let reading = async { two_read.read_exact(&mut got).await.map(drop).unwrap() };
        tokio::join!(writing, reading);
    });
    let mut reader = FrameReader::new(one_read, 2 << 20);
    let mut writer = LineWriter::new(one_write);
    writer.push(Bytes::from(format!("{}\n", "c".repeat(1 << 20))));
    let both = async { tokio::join!(line(&mut reader), writer.flush()) };
    let (received, written) = tokio::time::timeout(Duration::from_secs(20), both)
        .await
        .unwrap();
    assert_eq!(received.unwrap().len(), 1 << 20);
    written.unwrap();
    peer.await.unwrap();
}

#[cfg(unix)]
#[tokio::test]
async fn stdio_14_a_unix_socket_is_as_good_as_a_pipe() {
    let (client, server) = tokio::net::UnixStream::pair().unwrap();
    let (server_read, server_write) = server.into_split();
    let echo = tokio::spawn(async move {
        let (mut reader, mut writer) = (
            FrameReader::new(server_read, 1000),
            LineWriter::new(server_write),
        );
        while let Some(text) = line(&mut reader).await {
            writer.push(Bytes::from(format!("{text}\n")));
            writer.flush().await.unwrap();
        }
    });
    let (read, write) = client.into_split();
    let (mut reader, mut writer) = (FrameReader::new(read, 1000), LineWriter::new(write));
    writer.push(Bytes::from_static(b"{\"a\":1}\n"));
    writer.flush().await.unwrap();
    assert_eq!(line(&mut reader).await.unwrap(), "{\"a\":1}");
    drop(writer);
    assert_eq!(line(&mut reader).await, None);
    echo.await.unwrap();
}

#[tokio::test]
async fn the_buffer_shrinks_after_a_large_message_and_frames_stay_whole() {
    let large = format!("{}\nsmall\n", "x".repeat(8 << 20));
    let mut reader = FrameReader::new(large.as_bytes(), 16 << 20);
    let ReadEvent::Frame(NdjsonFrame::Line(kept)) = reader.recv().await else {
        panic!("no line")
    };
    assert_eq!(line(&mut reader).await.unwrap(), "small");
    assert!(kept.len() == 8 << 20 && kept.iter().all(|byte| *byte == b'x'));
}
