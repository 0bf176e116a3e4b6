//! Bodies for code that reads and writes without a runtime: a stream on one side, `Read` or `Write` on the other. What is in
//! between is bounded, so that whoever is faster waits.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::{Body, Bytes};
use futures_util::StreamExt;
use tokio::sync::mpsc;

use crate::error::{Answer, ApiError};

const PIECES: usize = 8;
const PIECE: usize = 64 << 10;
/// A client that sends nothing for so long has given up.
const PATIENCE: Duration = Duration::from_secs(60);

/// A request's body. Made in a runtime, read outside of it.
#[derive(Debug)]
pub(crate) struct BodyReader {
    pieces: mpsc::Receiver<io::Result<Bytes>>,
    current: Bytes,
}

impl BodyReader {
    pub(crate) fn new(body: Body) -> Self {
        let (sender, pieces) = mpsc::channel(PIECES);
        tokio::spawn(async move {
            let mut stream = body.into_data_stream();
            loop {
                let piece = match tokio::time::timeout(PATIENCE, stream.next()).await {
                    Ok(None) => return,
                    Ok(Some(piece)) => piece.map_err(io::Error::other),
                    Err(_) => Err(io::ErrorKind::TimedOut.into()),
                };
                let over = piece.is_err();
                if sender.send(piece).await.is_err() || over {
                    return;
                }
            }
        });
        Self { pieces, current: Bytes::new() }
    }
}

impl Read for BodyReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.current.is_empty() {
            match self.pieces.blocking_recv() {
                None => return Ok(0),
                Some(piece) => self.current = piece?,
            }
        }
        let length = buffer.len().min(self.current.len());
        buffer[..length].copy_from_slice(&self.current.split_to(length));
        Ok(length)
    }
}

/// An answer's body, and what writes it.
pub(crate) fn body_writer() -> (BodyWriter, Written) {
    let (sender, pieces) = mpsc::channel(PIECES);
    let whole = Arc::new(AtomicBool::new(false));
    let writer = BodyWriter { sender, kept: Vec::new(), whole: Arc::clone(&whole) };
    (writer, Written { pieces, whole })
}

/// What is written of an answer's body.
#[derive(Debug)]
pub(crate) struct Written {
    pieces: mpsc::Receiver<Answer<Bytes>>,
    whole: Arc<AtomicBool>,
}

impl Written {
    /// The body, once there is some of it or it is whole: what goes wrong before that is the answer.
    pub(crate) async fn begun(mut self) -> Answer<Body> {
        let first = match self.pieces.recv().await {
            Some(piece) => piece?,
            None if self.is_whole() => Bytes::new(),
            None => return Err(ApiError::internal("write an answer", "it ended before it began")),
        };
        let rest = futures_util::stream::unfold(Some(self), |written| async move {
            let mut written = written?;
            match written.pieces.recv().await {
                Some(Ok(piece)) => Some((Ok(piece), Some(written))),
                None if written.is_whole() => None,
                Some(Err(_)) | None => Some((Err(io::Error::other("it could not be read to its end")), None)),
            }
        });
        // What compresses asks once more after the end.
        Ok(Body::from_stream(futures_util::stream::iter([Ok(first)]).chain(rest).fuse()))
    }

    fn is_whole(&self) -> bool {
        self.whole.load(Ordering::Acquire)
    }
}

/// Dropped before its `end`, the answer breaks off, so that nobody takes it for a whole one.
#[derive(Debug)]
pub(crate) struct BodyWriter {
    sender: mpsc::Sender<Answer<Bytes>>,
    kept: Vec<u8>,
    whole: Arc<AtomicBool>,
}

impl BodyWriter {
    /// With what came of writing all of it.
    pub(crate) fn end(mut self, written: Answer<()>) {
        match written.and_then(|()| Ok(self.send()?)) {
            Ok(()) => self.whole.store(true, Ordering::Release),
            Err(error) => {
                tracing::warn!(code = error.code, "an answer broke off");
                let _ = self.sender.blocking_send(Err(error));
            }
        }
    }

    fn send(&mut self) -> io::Result<()> {
        if self.kept.is_empty() {
            return Ok(());
        }
        let piece = Bytes::from(std::mem::take(&mut self.kept));
        self.sender.blocking_send(Ok(piece)).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

impl Write for BodyWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.kept.extend_from_slice(bytes);
        if self.kept.len() >= PIECE {
            self.send()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.send()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::to_bytes;

    #[tokio::test]
    async fn what_is_written_on_one_side_is_read_on_the_other() {
        let (mut writer, body) = body_writer();
        let writing = tokio::task::spawn_blocking(move || {
            for number in 0..100_000_u32 {
                writer.write_all(&number.to_le_bytes()).unwrap();
            }
            writer.end(Ok(()));
        });
        let mut reader = BodyReader::new(body.begun().await.unwrap());
        let read = tokio::task::spawn_blocking(move || {
            let mut all = Vec::new();
            reader.read_to_end(&mut all).unwrap();
            all
        });
        writing.await.unwrap();
        assert_eq!(read.await.unwrap().len(), 400_000);
    }

    #[tokio::test]
    async fn what_broke_off_is_no_whole_answer() {
        for told in [true, false] {
            let (mut writer, body) = body_writer();
            tokio::task::spawn_blocking(move || {
                writer.write_all(b"half").unwrap();
                writer.flush().unwrap();
                if told {
                    writer.end(Err(ApiError::bad("a test", "none")));
                }
            });
            assert!(to_bytes(body.begun().await.unwrap(), 1 << 20).await.is_err());
        }
    }

    #[tokio::test]
    async fn what_goes_wrong_before_the_first_byte_is_the_answer() {
        let (mut writer, body) = body_writer();
        tokio::task::spawn_blocking(move || {
            writer.write_all(b"kept back").unwrap();
            writer.end(Err(ApiError::not_found("file", "x")));
        });
        assert_eq!(body.begun().await.unwrap_err().code, "not_found");
        let (writer, body) = body_writer();
        drop(writer);
        assert!(body.begun().await.is_err());
        let (writer, body) = body_writer();
        tokio::task::spawn_blocking(move || writer.end(Ok(())));
        assert!(to_bytes(body.begun().await.unwrap(), 1).await.unwrap().is_empty());
    }
}
