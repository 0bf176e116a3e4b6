//! What a client speaks, by its first bytes and never by the port: TLS, HTTP, or something else.
//!
//! In doubt it is HTTP or TLS: those paths refuse what they can't read, so that a sloppy server is never shown bytes that
//! we took for something harmless. Bounded, and each byte is looked at once, however small the pieces it comes in.

// What is in here meets hostile bytes, and a release build ends with a panic: every connection would.
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)
)]

mod hello;
mod text;

pub(crate) use hello::{Hello, NoHello, Records};

use text::RequestLine;
pub(crate) use text::{is_empty, is_late_request, is_request, starts_with_digit};

/// The most that is looked at. A client hello with post-quantum keys and tickets is about 4 KiB.
pub(crate) const MOST_BYTES: usize = 32 * 1024;

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    More,
    /// A whole client hello.
    Tls(Hello),
    /// HTTP/1 or the preface of HTTP/2, perhaps broken.
    Http,
    Raw,
    /// It claims to be TLS but no careful server would take it.
    Broken(&'static str),
}

/// Feed it the same growing bytes until it has a verdict.
#[derive(Debug, Default)]
pub(crate) struct Sniffer {
    records: Records,
    line: RequestLine,
}

impl Sniffer {
    /// `bytes`: everything from the connection's first byte on.
    pub(crate) fn look(&mut self, bytes: &[u8]) -> Verdict {
        let verdict = match first_bytes(bytes) {
            First::Nothing => return Verdict::More,
            First::Text => self.line.look(bytes),
            First::Records => match self.records.look(bytes) {
                Ok(Some(hello)) => Verdict::Tls(hello),
                Ok(None) => Verdict::More,
                Err(NoHello::Other) => Verdict::Raw,
                Err(NoHello::Broken(why)) => Verdict::Broken(why),
            },
            // The old form has no room for a server name.
            First::OldHello => Verdict::Tls(Hello::default()),
            First::OddRecord => Verdict::Broken("it does not start with a client hello"),
            First::Binary => Verdict::Raw,
        };
        match verdict {
            Verdict::More if bytes.len() >= MOST_BYTES => Verdict::Broken("it has no end"),
            verdict => verdict,
        }
    }

    /// The same where the client has sent all it will.
    pub(crate) fn end(&mut self, bytes: &[u8]) -> Verdict {
        match (self.look(bytes), first_bytes(bytes)) {
            (Verdict::More, First::Text) => self.line.end(bytes),
            (Verdict::More, First::Nothing) => Verdict::Raw,
            (Verdict::More, _) => Verdict::Broken("it is not whole"),
            (verdict, _) => verdict,
        }
    }

    /// How many bytes the records of the client hello took.
    pub(crate) fn hello_length(&self) -> usize {
        self.records.length()
    }
}

enum First {
    Nothing,
    Text,
    /// TLS records.
    Records,
    /// A client hello as SSL 2 wrote it; old OpenSSL servers still take those.
    OldHello,
    /// A TLS record of another kind than a handshake: some servers skip those.
    OddRecord,
    Binary,
}

fn first_bytes(bytes: &[u8]) -> First {
    match *bytes {
        [] | [0x14..=0x18] => First::Nothing,
        [0x16, 3, ..] => First::Records,
        [0x14..=0x18, 3, ..] => First::OddRecord,
        [0x80..=0xc1, _, 1, 2 | 3, ..] | [0x80..=0xc1, _, 1, 0, 2, ..] => First::OldHello,
        [0x80..=0xc1] | [0x80..=0xc1, _] | [0x80..=0xc1, _, 1] | [0x80..=0xc1, _, 1, 0] => First::Nothing,
        // Blanks of Latin-1.
        [0x85 | 0xa0, ..] => First::Text,
        [byte, ..] if byte.is_ascii() => First::Text,
        _ => First::Binary,
    }
}

#[cfg(test)]
#[path = "sniff_tests.rs"]
mod tests;
