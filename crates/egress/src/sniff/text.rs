//! Does a line ask for HTTP, as the most forgiving server would read it?
//!
//! A line without a version is a request too (HTTP/0.9): nginx and many proxies answer it, and one with an address in it
//! names its host there. So what tells such a line from the command of another protocol is its second word.

use super::Verdict;

/// A request line that has not ended after so many bytes is for the HTTP path to refuse.
const LONGEST_LINE: usize = 16 * 1024;
/// How the PROXY protocol begins in binary. A blank and a NUL alone are a length to MySQL.
const PROXY: &[u8] = b"\r\n\r\n\0";

#[derive(Debug, Default)]
pub(crate) struct RequestLine {
    at: usize,
    part: Part,
    /// Where the first word starts.
    start: usize,
    /// The first word starts with a digit: no method that a server knows, but the start of a packet of git or LDAP.
    digit: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Part {
    /// Empty lines, which servers skip.
    #[default]
    Before,
    Method,
    Rest,
}

impl RequestLine {
    pub(crate) fn look(&mut self, bytes: &[u8]) -> Verdict {
        for &byte in bytes.iter().skip(self.at) {
            self.at += 1;
            match self.step(byte, bytes) {
                Step::On => {}
                Step::Http => return Verdict::Http,
                Step::Raw => return Verdict::Raw,
                Step::Judge => return self.end(bytes.get(..self.at).unwrap_or_default()),
            }
        }
        if self.at >= LONGEST_LINE { Verdict::Http } else { Verdict::More }
    }

    /// The line ends with the last of these bytes.
    pub(crate) fn end(&self, bytes: &[u8]) -> Verdict {
        if asks_for_http(bytes.get(self.start..).unwrap_or_default()) { Verdict::Http } else { Verdict::Raw }
    }

    fn step(&mut self, byte: u8, bytes: &[u8]) -> Step {
        match self.part {
            Part::Before if is_blank(byte) || byte == b'\n' => Step::On,
            Part::Before if is_method(byte) => {
                self.part = Part::Method;
                self.start = self.at - 1;
                self.digit = byte.is_ascii_digit();
                Step::On
            }
            // The PROXY protocol in binary. A server that takes it reads a request behind it.
            Part::Before if bytes.get(..self.at) == Some(PROXY) => Step::Http,
            Part::Method if is_method(byte) => Step::On,
            Part::Method | Part::Rest if byte == b'\n' => Step::Judge,
            Part::Method if is_blank(byte) => {
                self.part = Part::Rest;
                Step::On
            }
            Part::Before | Part::Method => Step::Raw,
            // A client of such a packet waits for its answer, and sends no line end.
            Part::Rest if self.digit && byte == 0 => Step::Raw,
            Part::Rest if self.digit && is_control(byte) => Step::Judge,
            Part::Rest => Step::On,
        }
    }
}

enum Step {
    On,
    /// By what is there: the line has ended, or will not.
    Judge,
    Http,
    Raw,
}

/// In doubt, yes: for the first line of a connection.
fn asks_for_http(line: &[u8]) -> bool {
    let mut words = words(line);
    let (Some(method), Some(target)) = (words.next(), words.next()) else { return false };
    let rest = line.get(method.len()..).unwrap_or_default();
    rest.windows(MARK.len()).any(|part| part.eq_ignore_ascii_case(MARK))
        // The PROXY protocol as text: a request of anybody's may follow.
        || method == b"PROXY"
        || (!method.first().is_some_and(u8::is_ascii_digit) && is_target(method, target))
}

/// Is the first line of a connection a request after all, though it began like a packet of git or LDAP? Some server may
/// know any word as a method and take whatever is in a target; then it wants a version.
pub(crate) fn is_late_request(line: &[u8]) -> bool {
    let is_version = |word: &[u8]| word.get(..MARK.len()).is_some_and(|part| part.eq_ignore_ascii_case(MARK));
    starts_with_digit(line) && words(line).skip(2).any(is_version)
}

/// Has it a first word that could be a method, and is one of those packets if it is none?
pub(crate) fn starts_with_digit(line: &[u8]) -> bool {
    let first = words(line).next().unwrap_or_default();
    first.first().is_some_and(u8::is_ascii_digit) && first.iter().all(|byte| is_method(*byte))
}

/// Nothing but what servers skip.
pub(crate) fn is_empty(line: &[u8]) -> bool {
    words(line).next().is_none()
}

/// No doubt about it: for lines that come later, which may be anything that somebody has to say.
pub(crate) fn is_request(line: &[u8]) -> bool {
    let mut words = words(line);
    let (Some(method), Some(target)) = (words.next(), words.next()) else { return false };
    let rest: Vec<&[u8]> = words.collect();
    let is_odd = || !method.iter().all(|byte| is_method(*byte));
    match rest.as_slice() {
        [] => is_known(method) && is_target(method, target),
        [version] => is_version(version) && (is_known(method) || is_odd()),
        [.., version] => is_version(version) && is_known(method),
    }
}

const MARK: &[u8] = b"HTTP/";

fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| is_blank(*byte) || *byte == b'\n').filter(|word| !word.is_empty())
}

/// What no other protocol's command is known to have as its first argument. (Keys as `user:1` are another matter.)
fn is_target(method: &[u8], target: &[u8]) -> bool {
    match target {
        [b'/' | b'\\', ..] => true,
        b"*" => is_known(method),
        // The CONNECT of NATS has a JSON object there.
        [first, ..] if method.eq_ignore_ascii_case(b"CONNECT") => *first != b'{',
        _ => is_url(target),
    }
}

fn is_url(target: &[u8]) -> bool {
    let is_scheme = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
    let Some(colon) = target.iter().position(|byte| !is_scheme(byte)) else { return false };
    let (scheme, rest) = target.split_at_checked(colon).unwrap_or_default();
    let is_web =
        || [&b"http"[..], b"https", b"ws", b"wss", b"ftp"].iter().any(|web| scheme.eq_ignore_ascii_case(web));
    // Some readers of addresses need no slashes where they know the scheme.
    rest.starts_with(b"://") || (rest.starts_with(b":") && is_web())
}

fn is_version(word: &[u8]) -> bool {
    let (name, number) = word.split_at_checked(MARK.len()).unwrap_or_default();
    name.eq_ignore_ascii_case(MARK)
        && !number.is_empty()
        && number.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.')
}

/// Methods that servers have a meaning for, in any case: some proxies don't mind.
fn is_known(method: &[u8]) -> bool {
    const KNOWN: [&[u8]; 18] = [
        b"GET",
        b"HEAD",
        b"POST",
        b"PUT",
        b"DELETE",
        b"CONNECT",
        b"OPTIONS",
        b"TRACE",
        b"PATCH",
        b"PRI",
        b"PROPFIND",
        b"PROPPATCH",
        b"MKCOL",
        b"COPY",
        b"MOVE",
        b"LOCK",
        b"REPORT",
        b"SEARCH",
    ];
    KNOWN.iter().any(|known| method.eq_ignore_ascii_case(known))
}

/// What some server takes for a space; the last two are Latin-1's, which Python's server splits at.
fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | 0x0b | 0x0c | 0x1c..=0x1f | 0x85 | 0xa0)
}

/// What no careful server has in a request line, and packets begin with.
fn is_control(byte: u8) -> bool {
    byte.is_ascii_control() && !is_blank(byte)
}

/// The characters of a method (RFC 9110, "token").
fn is_method(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
