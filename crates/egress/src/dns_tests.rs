use std::time::Duration;

use hickory_proto::op::{Edns, Message, OpCode, Query};
use hickory_proto::rr::{DNSClass, Name, RData, RecordType};
use proptest::prelude::*;
use ringfence_policy::NetworkMode;
use tokio::net::UdpSocket;

use super::*;
use crate::event::Order;
use crate::testing::{Scene, Stage, network, rules};
use hickory_proto::op::ResponseCode;

const RULE: &str = "api.example:8081";

/// All denials, of which there are at least so many.
async fn denials(stage: &Stage, count: usize) -> Vec<(String, NetworkReason)> {
    let pick = |event: &Event| match event {
        Event::Denied { host, reason, port: None, .. } => Some((host.clone(), reason.clone())),
        _ => None,
    };
    stage.all(count, pick).await
}

/// Send bytes, get bytes, or nothing.
async fn exchange(stage: &Stage, packet: &[u8]) -> Option<Vec<u8>> {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    socket.send_to(packet, stage.dns).await.unwrap();
    let mut buffer = [0; 1500];
    let length = timeout(Duration::from_millis(300), socket.recv(&mut buffer)).await.ok()?.unwrap();
    Some(buffer[..length].to_vec())
}

fn question(name: &str, kind: RecordType) -> Message {
    let mut message = Message::query();
    message.add_query(Query::query(Name::from_ascii(name).unwrap(), kind));
    message
}

#[tokio::test]
async fn a_granted_name_has_both_addresses_and_nothing_else() {
    let stage = Stage::start(Scene::allow(&[RULE])).await;
    let four = stage.ask("API.Example", RecordType::A).await;
    assert_eq!(four.metadata.response_code, ResponseCode::NoError);
    assert!(matches!(four.answers[0].data, RData::A(address) if address.0.is_loopback()));
    assert_eq!(four.queries[0].name().to_ascii(), "API.Example.", "the question comes back as it was sent");
    let six = stage.ask("api.example", RecordType::AAAA).await;
    assert!(matches!(six.answers[0].data, RData::AAAA(_)));
    for kind in [
        RecordType::TXT,
        RecordType::HTTPS,
        RecordType::MX,
        RecordType::SRV,
        RecordType::ANY,
        RecordType::NULL,
    ] {
        let other = stage.ask("api.example", kind).await;
        assert_eq!((other.metadata.response_code, other.answers.len()), (ResponseCode::NoError, 0), "{kind}");
    }
    let named = stage.events().into_iter().filter(|event| matches!(event, Event::Named { .. }));
    assert_eq!(named.count(), 1);
    assert_eq!(denials(&stage, 0).await, []);
}

#[tokio::test]
async fn an_ungranted_name_does_not_exist_and_is_recorded_once_a_try() {
    let stage = Stage::start(Scene::allow(&[RULE])).await;
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    for kind in [RecordType::A, RecordType::AAAA] {
        socket.send_to(&question("other.example.", kind).to_vec().unwrap(), stage.dns).await.unwrap();
        let mut buffer = [0; 512];
        let length = socket.recv(&mut buffer).await.unwrap();
        let answer = Message::from_vec(&buffer[..length]).unwrap();
        assert_eq!(answer.metadata.response_code, ResponseCode::NXDomain);
    }
    assert_eq!(stage.address_of("sub.api.example").await, Err(ResponseCode::NXDomain));
    let from = socket.local_addr().unwrap();
    stage
        .event(|event| match event {
            Event::Denied { from: Some(known), .. } => (*known == from).then_some(()),
            _ => None,
        })
        .await;
    let expected =
        ["other.example", "sub.api.example"].map(|name| (name.to_owned(), NetworkReason::NotGranted));
    assert_eq!(denials(&stage, 2).await, expected);
}

#[tokio::test]
async fn names_that_do_not_parse_are_refused() {
    let stage = Stage::start(Scene::allow(&["*.example"])).await;
    let labels: [&[&[u8]]; 7] = [
        &[b"a.b", b"example"],
        &[b"a\0", b"example"],
        &[b"a b", b"example"],
        &[b"a%2e", b"example"],
        &[b"-a", b"example"],
        &[b"\xc3\xa4", b"example"],
        &[b"127", b"1"],
    ];
    for labels in labels {
        let mut name = Name::from_labels(labels.iter().copied()).unwrap();
        name.set_fqdn(true);
        let mut message = Message::query();
        message.add_query(Query::query(name, RecordType::A));
        let answer = exchange(&stage, &message.to_vec().unwrap()).await.unwrap();
        let answer = Message::from_vec(&answer).unwrap();
        assert_eq!(answer.metadata.response_code, ResponseCode::NXDomain, "{labels:?}");
    }
    let denials = denials(&stage, 7).await;
    assert_eq!(denials.len(), 7);
    assert!(denials.iter().all(|(_, reason)| matches!(reason, NetworkReason::BadName { .. })));
}

#[tokio::test]
async fn what_is_no_plain_question_gets_no_answer_or_an_error() {
    let stage = Stage::start(Scene::allow(&[RULE])).await;
    let ask = async |message: Message| {
        let answer = exchange(&stage, &message.to_vec().unwrap()).await;
        answer.map(|answer| Message::from_vec(&answer).unwrap().metadata.response_code)
    };
    let good = || question("api.example.", RecordType::A);
    assert_eq!(ask(good()).await, Some(ResponseCode::NoError));
    let mut two = good();
    two.add_query(Query::query(Name::from_ascii("b.example.").unwrap(), RecordType::A));
    assert_eq!(ask(two).await, Some(ResponseCode::FormErr));
    assert_eq!(ask(Message::query()).await, Some(ResponseCode::FormErr));
    let mut chaos = Message::query();
    let mut query = Query::query(Name::from_ascii("version.bind.").unwrap(), RecordType::TXT);
    query.set_query_class(DNSClass::CH);
    chaos.add_query(query);
    assert_eq!(ask(chaos).await, Some(ResponseCode::Refused));
    let mut update = good();
    update.metadata.op_code = OpCode::Update;
    assert!(ask(update).await.is_some_and(|code| code != ResponseCode::NoError));
    assert_eq!(ask(good().into_response()).await, None, "an answer is not answered");
    assert_eq!(exchange(&stage, b"short").await, None);
    assert_eq!(exchange(&stage, &[0; 1300]).await, None);
    let mut garbage = good().to_vec().unwrap();
    garbage.truncate(20);
    let answer = exchange(&stage, &garbage).await.unwrap();
    assert_eq!(Message::from_vec(&answer).unwrap().metadata.response_code, ResponseCode::FormErr);
}

#[tokio::test]
async fn edns_is_answered_and_answers_stay_small() {
    let stage = Stage::start(Scene::allow(&["*.example:8081"])).await;
    let long = format!("{}.example.", ["a".repeat(60), "b".repeat(60), "c".repeat(60)].join("."));
    let mut message = question(&long, RecordType::AAAA);
    let mut edns = Edns::new();
    edns.set_max_payload(4096).set_dnssec_ok(true);
    message.set_edns(edns);
    let answer = exchange(&stage, &message.to_vec().unwrap()).await.unwrap();
    assert!(answer.len() <= 512);
    let answer = Message::from_vec(&answer).unwrap();
    assert!(answer.edns.is_some() && answer.answers.len() == 1);
}

#[tokio::test]
async fn addresses_lead_back_to_names_and_localhost_is_local() {
    let stage = Stage::start(Scene::allow(&[RULE])).await;
    let address = stage.address_of("api.example").await.unwrap();
    let reverse = Name::from(address).to_ascii();
    let answer = stage.ask(reverse.trim_end_matches('.'), RecordType::PTR).await;
    assert!(matches!(&answer.answers[0].data, RData::PTR(name) if name.0.to_ascii() == "api.example."));
    let unknown = stage.ask("1.2.0.192.in-addr.arpa", RecordType::PTR).await;
    assert_eq!(unknown.metadata.response_code, ResponseCode::NXDomain);
    assert_eq!(stage.address_of("localhost").await, Ok(Ipv4Addr::LOCALHOST.into()));
    assert_eq!(stage.ask("", RecordType::NS).await.answers.len(), 0, "the root");
    assert_eq!(denials(&stage, 0).await, []);
}

#[tokio::test]
async fn tcp_takes_several_questions() {
    let stage = Stage::start(Scene::allow(&[RULE])).await;
    let mut stream = TcpStream::connect(stage.dns_tcp).await.unwrap();
    for kind in [RecordType::A, RecordType::AAAA, RecordType::TXT] {
        let packet = question("api.example.", kind).to_vec().unwrap();
        stream.write_u16(packet.len() as u16).await.unwrap();
        stream.write_all(&packet).await.unwrap();
        let length = stream.read_u16().await.unwrap();
        let mut answer = vec![0; usize::from(length)];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(Message::from_vec(&answer).unwrap().metadata.response_code, ResponseCode::NoError);
    }
}

#[tokio::test]
async fn names_run_out() {
    let mut scene = Scene::allow(&["*.example:8081"]);
    scene.names = 3;
    let stage = Stage::start(scene).await;
    for index in 0..3 {
        stage.address_of(&format!("n{index}.example")).await.unwrap();
    }
    assert_eq!(stage.address_of("n3.example").await, Err(ResponseCode::ServFail));
    assert!(stage.address_of("n1.example").await.is_ok());
    let full = ("n3.example".to_owned(), NetworkReason::Names { limit: 3 });
    assert_eq!(denials(&stage, 1).await, [full]);
}

#[tokio::test]
async fn sockets_are_asked_for_before_they_run_out() {
    let mut scene = Scene::allow(&["*.example:8081", "*.example:8082", "*.example:8083"]);
    scene.spares = 0;
    let stage = Stage::start(scene).await;
    let six = stage.ask("n0.example", RecordType::AAAA).await;
    assert_eq!((six.metadata.response_code, six.answers.len()), (ResponseCode::NoError, 0), "no IPv6 at all");
    for index in 0..20 {
        let address = stage.address_of(&format!("n{index}.example")).await.unwrap();
        TcpStream::connect((address, 8083)).await.unwrap();
    }
}

#[tokio::test]
async fn listeners_have_a_cap() {
    let mut scene = Scene::allow(&["*.example:8081"]);
    scene.caps.listeners = 2;
    let stage = Stage::start(scene).await;
    for index in 0..2 {
        stage.address_of(&format!("n{index}.example")).await.unwrap();
    }
    assert_eq!(stage.address_of("n2.example").await, Err(ResponseCode::ServFail));
    assert_eq!(denials(&stage, 1).await, [("n2.example".to_owned(), NetworkReason::Names { limit: 2 })]);
}

#[tokio::test]
async fn learning_gives_addresses_but_no_listeners() {
    let mut scene = Scene::allow(&[RULE]);
    scene.learn = true;
    let stage = Stage::start(scene).await;
    let address = stage.address_of("other.example").await.unwrap();
    stage
        .event(|event| matches!(event, Event::Named { name, .. } if name == "other.example").then_some(()))
        .await;
    assert!(TcpStream::connect((address, 8081)).await.is_err());
    let granted = stage.address_of("api.example").await.unwrap();
    assert!(TcpStream::connect((granted, 8081)).await.is_ok());
}

#[tokio::test]
async fn open_mode_listens_when_it_is_told_to() {
    let mut scene = Scene::allow(&[]);
    scene.network = network(NetworkMode::Open, &[]);
    scene.network.deny = rules(&["bad.example"]);
    let stage = Stage::start(scene).await;
    assert_eq!(stage.address_of("bad.example").await, Err(ResponseCode::NXDomain));
    let address = stage.address_of("any.example").await.unwrap();
    let at = SocketAddr::new(address, 8085);
    assert!(TcpStream::connect(at).await.is_err(), "not yet");
    let listening = async |id: u64, address: SocketAddr| {
        stage.order(&Order::Listen { id, address }).await;
        stage
            .event(|event| match event {
                Event::Listening { id: known, refused } if *known == id => Some(refused.clone()),
                _ => None,
            })
            .await
    };
    assert_eq!(listening(1, at).await, None);
    assert!(TcpStream::connect(at).await.is_ok());
    assert_eq!(listening(2, at).await, None, "again");
    for (id, address) in
        [(3, "10.0.0.1:80"), (4, "169.254.169.254:80"), (5, "127.0.0.1:80"), (6, "[::ffff:10.0.0.1]:80")]
    {
        let refused = listening(id, address.parse().unwrap()).await;
        assert!(matches!(refused, Some(NetworkReason::Address { .. })), "{address}: {refused:?}");
    }
    // Not used for long, it goes; the next connect asks again.
    tokio::time::pause();
    tokio::time::sleep(Duration::from_secs(80)).await;
    tokio::time::resume();
    assert!(TcpStream::connect(at).await.is_err(), "gone");
    assert_eq!(listening(8, at).await, None);
    assert!(TcpStream::connect(at).await.is_ok());
    assert_eq!(listening(7, "198.18.9.9:80".parse().unwrap()).await, Some(NetworkReason::NotGranted));
}

#[tokio::test]
async fn the_owners_end_is_the_end() {
    let mut stage = Stage::start(Scene::allow(&[RULE])).await;
    stage.address_of("api.example").await.unwrap();
    stage.hang_up();
    let ended = timeout(Duration::from_secs(5), &mut stage.server).await;
    assert!(ended.is_ok());
}

proptest! {
    /// Whatever arrives: no panic, and no answer longer than a question and a record.
    #[test]
    fn any_packet_is_survived(mut packet in prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..200),
        proptest::collection::vec(any::<u8>(), 0..60).prop_map(|tail| {
            let mut packet = question("api.example.", RecordType::A).to_vec().unwrap();
            packet.extend(tail);
            packet
        }),
    ], at in any::<prop::sample::Index>(), value in any::<u8>()) {
        if !packet.is_empty() {
            let at = at.index(packet.len());
            packet[at] = value;
        }
        match read(&packet) {
            Reading::Drop => {}
            Reading::Wrong(answer) => prop_assert_eq!(answer.len(), 12),
            Reading::Question(question) => {
                let answer = Answer::Address(Ipv6Addr::LOCALHOST.into());
                if let Some(answer) = answer::write(&question, &answer) {
                    prop_assert!(answer.len() <= packet.len() + 28 + 11);
                }
            }
        }
    }
}

/// A wildcard has names without end; what is granted by name must not go under in them.
#[tokio::test]
async fn a_flood_of_names_leaves_room_for_those_with_rules() {
    for (names, listeners) in [(3, 500), (200, 4)] {
        let mut scene = Scene::allow(&["*.example:8081", "api.example:8082"]);
        (scene.names, scene.caps.listeners) = (names, listeners);
        let stage = Stage::start(scene).await;
        let mut refused = 0;
        for index in 0..6 {
            refused += usize::from(stage.address_of(&format!("n{index}.example")).await.is_err());
        }
        assert!(refused > 0);
        let address = stage.address_of("api.example").await.unwrap();
        for port in [8081, 8082] {
            TcpStream::connect((address, port)).await.unwrap();
        }
    }
}
