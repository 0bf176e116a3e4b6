//! One HTTP/1.1 exchange with a daemon over its socket: a request, and an answer of bounded size. The reader takes what it
//! knows whole, and refuses everything else: an answer that could be read in two ways is read in none.

use std::io::{self, Read, Write};

/// The longest head of an answer.
const HEAD: usize = 16 << 10;
/// The longest body: a list of containers is the longest that is asked for.
const BODY: usize = 4 << 20;
const HEADERS: usize = 64;

/// What is asked.
#[derive(Debug)]
pub(super) struct Call<'a> {
    pub(super) method: &'static str,
    /// With its query.
    pub(super) target: &'a str,
    pub(super) kind: &'static str,
    pub(super) body: &'a [u8],
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl Answer {
    /// By its name in lower case.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(has, _)| has == name).map(|(_, value)| value.as_str())
    }
}

/// Ask, and wait for the whole answer. The connection is of no use after that.
pub(super) fn exchange(stream: &mut (impl Read + Write), call: &Call<'_>) -> io::Result<Answer> {
    let Call { method, target, kind, body } = call;
    if target.bytes().any(|byte| !byte.is_ascii_graphic()) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "a target with a space or a control character",
        ));
    }
    let head = format!(
        "{method} {target} HTTP/1.1\r\nHost: docker\r\nConnection: close\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body)?;
    stream.flush()?;
    read(stream)
}

fn strange(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

fn read(stream: &mut impl Read) -> io::Result<Answer> {
    let mut got = Vec::with_capacity(4096);
    let (status, headers, length) = loop {
        if let Some(head) = parse_head(&got)? {
            break head;
        }
        if got.len() >= HEAD {
            return Err(strange("an answer whose head is too long"));
        }
        let room = HEAD - got.len();
        if more(stream, &mut got, room)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    };
    let rest = got.split_off(length);
    let mut body = Body { stream, rest };
    let one = |name: &str| {
        let mut found = headers.iter().filter(|(has, _)| has == name).map(|(_, value)| value.as_str());
        match (found.next(), found.next()) {
            (value, None) => Ok(value),
            _ => Err(strange("an answer with a header twice that may be there once")),
        }
    };
    let body = match (one("transfer-encoding")?, one("content-length")?) {
        _ if status == 204 || status == 304 => Vec::new(),
        (Some(coding), None) if coding.eq_ignore_ascii_case("chunked") => body.chunked()?,
        (None, Some(length)) if !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit()) => {
            body.exactly(length.parse().map_err(|_| strange("an answer that is too long"))?)?
        }
        _ => return Err(strange("an answer whose length is not said, or not in one way")),
    };
    Ok(Answer { status, headers, body })
}

type Head = (u16, Vec<(String, String)>, usize);

fn parse_head(got: &[u8]) -> io::Result<Option<Head>> {
    let mut room = [httparse::EMPTY_HEADER; HEADERS];
    let mut response = httparse::Response::new(&mut room);
    let length = match response.parse(got) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(error) => return Err(strange(&format!("not an HTTP answer ({error})"))),
    };
    let status = response.code.filter(|code| (200..600).contains(code));
    let status = status.ok_or_else(|| strange("an answer without an answer's status"))?;
    let headers = response.headers.iter().map(|header| {
        let value = std::str::from_utf8(header.value).map_err(|_| strange("a header that is not text"))?;
        Ok((header.name.to_ascii_lowercase(), value.trim().to_owned()))
    });
    Ok(Some((status, headers.collect::<io::Result<_>>()?, length)))
}

/// What follows the head: what was read with it, then the stream.
struct Body<'a, S> {
    stream: &'a mut S,
    rest: Vec<u8>,
}

impl<S: Read> Body<'_, S> {
    fn exactly(&mut self, length: usize) -> io::Result<Vec<u8>> {
        if length > BODY {
            return Err(strange("an answer that is too long"));
        }
        while self.rest.len() < length {
            let room = length - self.rest.len();
            if more(self.stream, &mut self.rest, room)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        let after = self.rest.split_off(length);
        Ok(std::mem::replace(&mut self.rest, after))
    }

    fn chunked(&mut self) -> io::Result<Vec<u8>> {
        let mut whole = Vec::new();
        loop {
            let (start, size) = self.chunk_size()?;
            self.rest.drain(..start);
            if size > (BODY - whole.len()) as u64 {
                return Err(strange("an answer that is too long"));
            }
            if size == 0 {
                // Trailers are not asked for: the end is an empty line.
                return if self.exactly(2)? == b"\r\n" { Ok(whole) } else { Err(strange("trailers")) };
            }
            whole.extend(self.exactly(size as usize)?);
            if self.exactly(2)? != b"\r\n" {
                return Err(strange("a chunk that is longer than it says"));
            }
        }
    }

    fn chunk_size(&mut self) -> io::Result<(usize, u64)> {
        loop {
            match httparse::parse_chunk_size(&self.rest) {
                Ok(httparse::Status::Complete(found)) => return Ok(found),
                Ok(httparse::Status::Partial) if self.rest.len() < HEAD => {}
                _ => return Err(strange("a chunk without a size")),
            }
            if more(self.stream, &mut self.rest, HEAD)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

fn more(stream: &mut impl Read, into: &mut Vec<u8>, room: usize) -> io::Result<usize> {
    let mut buffer = [0; 4096];
    let room = room.min(buffer.len());
    let length = loop {
        match stream.read(&mut buffer[..room]) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => break read?,
        }
    };
    into.extend_from_slice(&buffer[..length]);
    Ok(length)
}

#[cfg(test)]
#[path = "http_tests.rs"]
mod tests;
