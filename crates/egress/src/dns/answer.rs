//! Writing answers. None is longer than the plainest resolver takes: the question and one record.

use std::net::IpAddr;

use hickory_proto::op::{Edns, Message, OpCode, ResponseCode};
use hickory_proto::rr::rdata::PTR;
use hickory_proto::rr::{Name, RData, Record};
use ringfence_policy::HostName;

use super::question::Question;

/// Names keep their addresses; this only bounds how long a program believes a refusal's absence.
const TTL: u32 = 60;
/// What we would take over UDP.
const PAYLOAD: u16 = 1232;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Address(IpAddr),
    /// The name of an address.
    Name(HostName),
    /// The name is there, but not with this type.
    Nothing,
    NoSuchName,
    Failure,
}

pub(super) fn write(question: &Question, answer: &Answer) -> Option<Vec<u8>> {
    let mut message = Message::response(question.id, OpCode::Query);
    message.metadata.recursion_desired = question.recursion_desired;
    message.metadata.recursion_available = true;
    message.metadata.response_code = match answer {
        Answer::NoSuchName => ResponseCode::NXDomain,
        Answer::Failure => ResponseCode::ServFail,
        _ => ResponseCode::NoError,
    };
    let data = match answer {
        Answer::Address(IpAddr::V4(address)) => Some(RData::A((*address).into())),
        Answer::Address(IpAddr::V6(address)) => Some(RData::AAAA((*address).into())),
        Answer::Name(name) => Some(RData::PTR(PTR(absolute(name)?))),
        _ => None,
    };
    message.add_query(question.query.clone());
    if let Some(data) = data {
        message.add_answer(Record::from_rdata(question.query.name().clone(), TTL, data));
    }
    if question.edns {
        let mut edns = Edns::new();
        edns.set_max_payload(PAYLOAD).set_version(0);
        message.set_edns(edns);
    }
    message.to_vec().ok()
}

fn absolute(name: &HostName) -> Option<Name> {
    let mut name = Name::from_ascii(name.as_str()).ok()?;
    name.set_fqdn(true);
    Some(name)
}

/// An answer that repeats nothing of the question.
pub(super) fn error(id: u16, code: ResponseCode) -> Option<Vec<u8>> {
    Message::error_msg(id, OpCode::Query, code).to_vec().ok()
}
