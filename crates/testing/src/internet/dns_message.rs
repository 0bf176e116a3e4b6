//! Just enough of DNS messages for a server of few names: one question in, some answers out.

use std::net::{Ipv4Addr, Ipv6Addr};

pub(super) const A: u16 = 1;
pub(super) const CNAME: u16 = 5;
pub(super) const TXT: u16 = 16;
pub(super) const AAAA: u16 = 28;
pub(super) const SRV: u16 = 33;
pub(super) const HTTPS: u16 = 65;

/// The parameter of an HTTPS record that says where to connect.
const IPV4_HINT: u8 = 4;
const NOT_FOUND: u8 = 3;
const HEADER: usize = 12;

/// The one question of a query.
pub(super) struct Question<'a> {
    /// In lower case, without the last dot; bytes that are no printable ASCII as `\xNN`.
    pub(super) name: String,
    pub(super) kind: u16,
    id: [u8; 2],
    /// As it came, to be said again.
    raw: &'a [u8],
}

/// What one answer holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Data {
    V4(Ipv4Addr),
    V6(Ipv6Addr),
    Alias(String),
    Text(String),
    Service { target: String, port: u16 },
    Https { hint: Ipv4Addr },
}

impl<'a> Question<'a> {
    pub(super) fn read(message: &'a [u8]) -> Option<Self> {
        let id = message.get(..2)?.try_into().ok()?;
        let body = message.get(HEADER..)?;
        let (mut labels, mut at) = (Vec::new(), 0);
        loop {
            let length = usize::from(*body.get(at)?);
            at += 1;
            if length == 0 {
                break;
            }
            labels.push(body.get(at..at + length)?.escape_ascii().to_string().to_lowercase());
            at += length;
        }
        let kind = u16::from_be_bytes(body.get(at..at + 2)?.try_into().ok()?);
        Some(Self { name: labels.join("."), kind, id, raw: body.get(..at + 4)? })
    }

    /// The reply: `None` is a name that doesn't exist. Each answer is for the name that is given with it.
    pub(super) fn reply(&self, answers: Option<&[(String, Data)]>) -> Vec<u8> {
        let answers_or_none = answers.unwrap_or_default();
        let code = if answers.is_none() { NOT_FOUND } else { 0 };
        let mut reply = self.id.to_vec();
        // A response, recursion asked for and available.
        reply.extend([0x81, 0x80 | code, 0, 1]);
        reply.extend((answers_or_none.len() as u16).to_be_bytes());
        reply.extend([0; 4]);
        reply.extend(self.raw);
        for (name, data) in answers_or_none {
            reply.extend(name_bytes(name));
            reply.extend(data.kind().to_be_bytes());
            // Class IN, and a time to live of 0: a test changes its mind.
            reply.extend([0, 1, 0, 0, 0, 0]);
            let bytes = data.bytes();
            reply.extend((bytes.len() as u16).to_be_bytes());
            reply.extend(bytes);
        }
        reply
    }

    /// The reply for who must ask again by TCP.
    pub(super) fn truncated(&self) -> Vec<u8> {
        let mut reply = self.reply(Some(&[]));
        reply[2] |= 0x02;
        reply
    }
}

impl Data {
    pub(super) fn kind(&self) -> u16 {
        match self {
            Self::V4(_) => A,
            Self::V6(_) => AAAA,
            Self::Alias(_) => CNAME,
            Self::Text(_) => TXT,
            Self::Service { .. } => SRV,
            Self::Https { .. } => HTTPS,
        }
    }

    fn bytes(&self) -> Vec<u8> {
        match self {
            Self::V4(address) => address.octets().to_vec(),
            Self::V6(address) => address.octets().to_vec(),
            Self::Alias(name) => name_bytes(name),
            Self::Text(text) => {
                text.as_bytes().chunks(255).flat_map(|part| [&[part.len() as u8], part].concat()).collect()
            }
            Self::Service { target, port } => {
                [&[0, 1, 0, 1], &port.to_be_bytes()[..], &name_bytes(target)].concat()
            }
            // Priority 1, for the name itself.
            Self::Https { hint } => [&[0, 1, 0, 0, IPV4_HINT, 0, 4], &hint.octets()[..]].concat(),
        }
    }
}

fn name_bytes(name: &str) -> Vec<u8> {
    let labels = name.split('.').filter(|label| !label.is_empty());
    let mut bytes: Vec<u8> =
        labels.flat_map(|label| [&[label.len() as u8], label.as_bytes()].concat()).collect();
    bytes.push(0);
    bytes
}
