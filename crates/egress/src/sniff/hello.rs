//! The client hello of TLS, put together from records, and the server name in it.

/// What a client hello says that matters here.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Hello {
    /// The outer server name, as it was sent.
    pub(crate) server_name: Option<String>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NoHello {
    /// Not TLS after all: a server of TLS would refuse it.
    Other,
    Broken(&'static str),
}

const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const LONGEST_RECORD: usize = 1 << 14;
const LONGEST_HELLO: usize = 16 * 1024;

/// Handshake records, followed as they come in.
#[derive(Debug, Default)]
pub(crate) struct Records {
    at: usize,
    message: Vec<u8>,
}

impl Records {
    /// `bytes`: everything from the first record on. `Ok(None)`: it goes on.
    pub(crate) fn look(&mut self, bytes: &[u8]) -> Result<Option<Hello>, NoHello> {
        loop {
            let rest = bytes.get(self.at..).unwrap_or_default();
            let Some((&[kind, major, _, high, low], body)) = rest.split_first_chunk() else {
                return Ok(None);
            };
            if kind != HANDSHAKE || major != 3 {
                return Err(NoHello::Broken("another record interrupts it"));
            }
            let length = usize::from(u16::from_be_bytes([high, low]));
            if length == 0 || length > LONGEST_RECORD {
                return Err(NoHello::Broken("a record has a forbidden length"));
            }
            if self.message.is_empty() && body.first().is_some_and(|&first| first != CLIENT_HELLO) {
                return Err(NoHello::Other);
            }
            let Some(body) = body.get(..length) else { return Ok(None) };
            self.at += 5 + length;
            self.message.extend_from_slice(body);
            if let Some((&[_, a, b, c], body)) = self.message.split_first_chunk() {
                let length = u32::from_be_bytes([0, a, b, c]) as usize;
                if length > LONGEST_HELLO {
                    return Err(NoHello::Broken("it is too long"));
                }
                if body.len() > length {
                    return Err(NoHello::Broken("something follows it in its record"));
                }
                if body.len() == length {
                    return parse(body).map(Some).ok_or(NoHello::Broken("its fields do not add up"));
                }
            }
        }
    }

    /// How many bytes its records took.
    pub(crate) fn length(&self) -> usize {
        self.at
    }
}

/// A field that says its own length in `N` bytes.
fn field<'a, const N: usize>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, rest) = bytes.split_first_chunk::<N>()?;
    let length = length.iter().fold(0, |sum, &byte| sum << 8 | usize::from(byte));
    let (field, rest) = rest.split_at_checked(length)?;
    *bytes = rest;
    Some(field)
}

/// `None`: not as RFC 8446, 4.1.2 has it, or an extension comes twice (4.2).
fn parse(mut hello: &[u8]) -> Option<Hello> {
    let hello = &mut hello;
    let (_version_and_random, rest) = hello.split_first_chunk::<34>()?;
    *hello = rest;
    let _session = field::<1>(hello).filter(|session| session.len() <= 32)?;
    let _ciphers = field::<2>(hello)?;
    let _compressions = field::<1>(hello)?;
    if hello.is_empty() {
        return Some(Hello::default());
    }
    let mut extensions = field::<2>(hello)?;
    if !hello.is_empty() {
        return None;
    }
    let mut seen = std::collections::BTreeSet::new();
    let mut server_name = None;
    while !extensions.is_empty() {
        let (kind, rest) = extensions.split_first_chunk::<2>()?;
        extensions = rest;
        let data = field::<2>(&mut extensions)?;
        let kind = u16::from_be_bytes(*kind);
        if !seen.insert(kind) {
            return None;
        }
        if kind == 0 {
            server_name = Some(parse_server_name(data)?);
        }
    }
    Some(Hello { server_name })
}

/// Exactly one entry, and that a host name (RFC 6066, 3).
fn parse_server_name(mut data: &[u8]) -> Option<String> {
    let mut list = field::<2>(&mut data)?;
    let (&kind, rest) = list.split_first()?;
    list = rest;
    let name = field::<2>(&mut list)?;
    if !data.is_empty() || !list.is_empty() || kind != 0 || name.is_empty() {
        return None;
    }
    String::from_utf8(name.to_vec()).ok()
}
