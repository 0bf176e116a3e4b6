//! Where the requests of an HTTP/1 connection begin and end, read strictly, to find what two servers could read in two
//! ways.
//!
//! hyper writes every request anew, so that nothing ambiguous leaves; but it mends silently what should be refused
//! (`Content-Length` beside `Transfer-Encoding`). What is found here is only ever used to refuse.

/// hyper refuses longer heads by itself.
const LONGEST_LINE: usize = 128 << 10;

pub(super) struct Framing {
    state: State,
    /// The beginning of a line whose end has not come yet.
    line: Vec<u8>,
    head: Head,
    is_http: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    RequestLine,
    Fields,
    Body(u64),
    ChunkSize,
    ChunkData(u64),
    /// The line break behind a chunk.
    ChunkEnd,
    Trailers,
    /// Nothing more to find: a tunnel, or something was found.
    Over,
}

/// What the head so far says of the request.
#[derive(Default)]
struct Head {
    is_connect: bool,
    hosts: u8,
    length: Option<u64>,
    chunked: bool,
}

type Found = Result<(), &'static str>;

impl Framing {
    pub(super) fn new() -> Self {
        Self { state: State::RequestLine, line: Vec::new(), head: Head::default(), is_http: false }
    }

    /// Has any line been a request's?
    pub(super) fn is_http(&self) -> bool {
        self.is_http
    }

    /// The next bytes. `Err`, once: this connection's requests are not to be answered.
    pub(super) fn feed(&mut self, mut bytes: &[u8]) -> Found {
        while !bytes.is_empty() {
            bytes = match self.state {
                State::Over => return Ok(()),
                State::Body(left) => self.skip(bytes, left, State::Body, State::RequestLine),
                State::ChunkData(left) => self.skip(bytes, left, State::ChunkData, State::ChunkEnd),
                _ => match self.take_line(bytes) {
                    Ok(rest) => rest,
                    Err(why) => {
                        self.state = State::Over;
                        return Err(why);
                    }
                },
            };
        }
        Ok(())
    }

    fn skip<'a>(&mut self, bytes: &'a [u8], left: u64, more: fn(u64) -> State, next: State) -> &'a [u8] {
        let count = left.min(bytes.len() as u64);
        self.state = if count == left { next } else { more(left - count) };
        &bytes[count as usize..]
    }

    fn take_line<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], &'static str> {
        let Some(end) = memchr::memchr(b'\n', bytes) else {
            if self.line.len() + bytes.len() > LONGEST_LINE {
                self.state = State::Over;
            }
            self.line.extend_from_slice(bytes);
            return Ok(&[]);
        };
        let mut line = std::mem::take(&mut self.line);
        line.extend_from_slice(&bytes[..end]);
        let content = line.strip_suffix(b"\r").ok_or("a line ends without a carriage return")?;
        if content.iter().any(|byte| matches!(byte, b'\r' | 0)) {
            return Err("a line has a carriage return or a zero byte inside");
        }
        self.line(content)?;
        line.clear();
        self.line = line;
        Ok(&bytes[end + 1..])
    }

    fn line(&mut self, line: &[u8]) -> Found {
        self.state = match self.state {
            // Some old clients send an empty line after a body.
            State::RequestLine if line.is_empty() => State::RequestLine,
            State::RequestLine => {
                self.head = Head { is_connect: line.starts_with(b"CONNECT "), ..Head::default() };
                let parts = line.split(|byte| *byte == b' ').collect::<Vec<_>>();
                if parts.len() != 3 || parts.iter().any(|part| part.is_empty()) {
                    return Err("the request line does not have three parts");
                }
                self.is_http |= parts[2].starts_with(b"HTTP/1.");
                State::Fields
            }
            State::Fields if line.is_empty() => self.head.body()?,
            State::Fields => {
                self.head.field(line)?;
                State::Fields
            }
            State::ChunkSize => match chunk_size(line)? {
                0 => State::Trailers,
                size => State::ChunkData(size),
            },
            State::ChunkEnd if line.is_empty() => State::ChunkSize,
            State::ChunkEnd => return Err("a chunk is longer than it says"),
            State::Trailers if line.is_empty() => State::RequestLine,
            State::Trailers => {
                field(line)?;
                State::Trailers
            }
            state @ (State::Body(_) | State::ChunkData(_) | State::Over) => state,
        };
        Ok(())
    }
}

impl Head {
    fn field(&mut self, line: &[u8]) -> Found {
        let (name, value) = field(line)?;
        if name.eq_ignore_ascii_case(b"host") {
            self.hosts += 1;
            if self.hosts > 1 {
                return Err("it has more than one Host");
            }
        } else if name.eq_ignore_ascii_case(b"content-length") {
            let length =
                std::str::from_utf8(value).ok().filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
            let length =
                length.and_then(|text| text.parse().ok()).ok_or("its Content-Length is not a number")?;
            if self.length.replace(length).is_some() {
                return Err("it has more than one Content-Length");
            }
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            if self.chunked || !value.eq_ignore_ascii_case(b"chunked") {
                return Err("its Transfer-Encoding is not `chunked`");
            }
            self.chunked = true;
        }
        Ok(())
    }

    /// What follows the head.
    fn body(&self) -> Result<State, &'static str> {
        match (self.chunked, self.length) {
            (true, Some(_)) => Err("it has both Content-Length and Transfer-Encoding"),
            (true, None) => Ok(State::ChunkSize),
            _ if self.is_connect => Ok(State::Over),
            (false, None | Some(0)) => Ok(State::RequestLine),
            (false, Some(length)) => Ok(State::Body(length)),
        }
    }
}

/// Name and value of a header line.
fn field(line: &[u8]) -> Result<(&[u8], &[u8]), &'static str> {
    if line.starts_with(b" ") || line.starts_with(b"\t") {
        return Err("a header goes on in a second line");
    }
    let colon = memchr::memchr(b':', line).ok_or("a header has no colon")?;
    let (name, value) = (&line[..colon], &line[colon + 1..]);
    let in_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    if name.is_empty() || !name.iter().all(in_name) {
        return Err("a header's name is none");
    }
    Ok((name, value.trim_ascii()))
}

fn chunk_size(line: &[u8]) -> Result<u64, &'static str> {
    let digits = line.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii_end();
    let text = std::str::from_utf8(digits).ok().filter(|text| text.bytes().all(|b| b.is_ascii_hexdigit()));
    text.and_then(|text| u64::from_str_radix(text, 16).ok()).ok_or("a chunk's size is not a number")
}

#[cfg(test)]
#[path = "framing_tests.rs"]
mod tests;
