//! Holding what a client sends until it is clear what it speaks.

use std::io;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until};

use crate::sniff::{Sniffer, Verdict};

/// From its first byte on, a client has this long to say what it speaks.
const FIRST_MESSAGE: Duration = Duration::from_secs(10);
/// Where only TLS and HTTP are taken, the first byte comes within this time.
const FIRST_BYTE: Duration = Duration::from_secs(60);
/// A client whose target can't be reached is listened to for this long, to be answered in its own protocol.
const LAST_WORDS: Duration = Duration::from_millis(300);

/// How a wait for the client ended.
#[derive(Debug)]
pub(super) enum Heard {
    Verdict(Verdict),
    /// What was waited for beside it happened.
    Interrupted,
    TooLate,
}

pub(super) struct Listener {
    held: BytesMut,
    sniffer: Sniffer,
    deadline: Option<Instant>,
}

impl Listener {
    pub(super) fn new(prefix: Bytes, must_speak: bool) -> Self {
        let now = Instant::now();
        let deadline = match (prefix.is_empty(), must_speak) {
            (false, _) => Some(now + FIRST_MESSAGE),
            (true, true) => Some(now + FIRST_BYTE),
            (true, false) => None,
        };
        Self { held: BytesMut::from(prefix), sniffer: Sniffer::default(), deadline }
    }

    /// Until there is a verdict, or `beside` is done. Nothing is lost if it is called again after that.
    pub(super) async fn listen(
        &mut self,
        client: &TcpStream,
        beside: impl Future<Output = ()>,
    ) -> io::Result<Heard> {
        tokio::pin!(beside);
        loop {
            match self.sniffer.look(&self.held) {
                Verdict::More => {}
                verdict => return Ok(Heard::Verdict(verdict)),
            }
            tokio::select! {
                biased;
                ready = client.readable() => {
                    ready?;
                    if self.read(client)? == Some(0) {
                        return Ok(Heard::Verdict(self.sniffer.end(&self.held)));
                    }
                }
                () = &mut beside => return Ok(Heard::Interrupted),
                () = at(self.deadline) => return Ok(Heard::TooLate),
            }
        }
    }

    fn read(&mut self, client: &TcpStream) -> io::Result<Option<usize>> {
        let first = self.held.is_empty();
        self.held.reserve(4096);
        match client.try_read_buf(&mut self.held) {
            Ok(read) => {
                if first && read > 0 {
                    self.deadline = Some(Instant::now() + FIRST_MESSAGE);
                }
                Ok(Some(read))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Has the client said anything?
    pub(super) fn has_heard(&self) -> bool {
        !self.held.is_empty()
    }

    /// The target can't be reached: only a quick client gets an answer.
    pub(super) fn hurry(&mut self) {
        self.deadline = Some(Instant::now() + LAST_WORDS);
    }

    /// All that was read, and how much of it the client hello took, where it is one.
    pub(super) fn into_held(self) -> (Bytes, usize) {
        let hello = self.sniffer.hello_length();
        (self.held.freeze(), hello)
    }
}

async fn at(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
