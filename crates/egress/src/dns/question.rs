//! Reading a question strictly: one, of class IN, about a name that parses.

use std::net::IpAddr;

use hickory_proto::op::{Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::{DNSClass, Name, RecordType};
use ringfence_policy::HostName;

use super::answer;

#[derive(Debug)]
pub(super) struct Question {
    pub(super) id: u16,
    pub(super) recursion_desired: bool,
    /// As it was sent, to be sent back.
    pub(super) query: Query,
    pub(super) edns: bool,
    pub(super) name: Result<HostName, BadName>,
    pub(super) asked: Asked,
    /// The address that a PTR question is about.
    pub(super) reverse: Option<IpAddr>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    V4,
    V6,
    Other,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum BadName {
    Root,
    Text { shown: String, why: String },
}

#[derive(Debug)]
pub(super) enum Reading {
    Question(Question),
    /// The answer to something that is no such question.
    Wrong(Vec<u8>),
    Drop,
}

pub(super) fn read(packet: &[u8]) -> Reading {
    // An answer, or less than a header: replying could only start a quarrel.
    let (Some(&[high, low]), Some(flags)) = (packet.first_chunk(), packet.get(2)) else {
        return Reading::Drop;
    };
    if packet.len() < 12 || flags & 0x80 != 0 {
        return Reading::Drop;
    }
    let id = u16::from_be_bytes([high, low]);
    let wrong = |code| answer::error(id, code).map_or(Reading::Drop, Reading::Wrong);
    let Ok(message) = Message::from_vec(packet) else { return wrong(ResponseCode::FormErr) };
    if message.metadata.message_type != MessageType::Query {
        return Reading::Drop;
    }
    if message.metadata.op_code != OpCode::Query {
        return wrong(ResponseCode::NotImp);
    }
    let empty =
        message.answers.is_empty() && message.authorities.is_empty() && message.additionals.is_empty();
    let [query] = message.queries.as_slice() else { return wrong(ResponseCode::FormErr) };
    if !empty || message.signature().is_some() || message.metadata.truncation {
        return wrong(ResponseCode::FormErr);
    }
    if query.query_class() != DNSClass::IN {
        return wrong(ResponseCode::Refused);
    }
    let asked = match query.query_type() {
        RecordType::A => Asked::V4,
        RecordType::AAAA => Asked::V6,
        _ => Asked::Other,
    };
    let reverse = (query.query_type() == RecordType::PTR)
        .then(|| query.name().parse_arpa_name().ok())
        .flatten()
        .filter(|net| net.prefix_len() == net.max_prefix_len())
        .map(|net| net.addr());
    Reading::Question(Question {
        id,
        recursion_desired: message.metadata.recursion_desired,
        edns: message.edns.is_some(),
        name: host_name(query.name()),
        asked,
        reverse,
        query: query.clone(),
    })
}

/// Labels may hold any byte, dots too: only what can be written as a name and read back as the same one is a name.
fn host_name(name: &Name) -> Result<HostName, BadName> {
    if name.is_root() {
        return Err(BadName::Root);
    }
    let bad = |why: String| BadName::Text { shown: name.to_ascii().chars().take(253).collect(), why };
    let mut text = String::new();
    for label in name.iter() {
        match std::str::from_utf8(label) {
            Ok(label) if label.is_ascii() && !label.contains('.') => {
                if !text.is_empty() {
                    text.push('.');
                }
                text.push_str(label);
            }
            _ => return Err(bad("a label has a dot or a byte that is not ASCII".to_owned())),
        }
    }
    HostName::parse_ascii(&text).map_err(|error| bad(error.to_string()))
}
