//! What the server tells of itself: logs with the request's id and no secret, spans for a collector, counts, pages.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value::Value as Any};
use prost::Message;
use ringfence_testing::{Server, Test};
use serde_json::{Value, json};

use crate::{scene, server};

/// A collector of spans on loopback: the heads of what is sent, and what it says.
fn collector() -> (String, Receiver<(String, ExportTraceServiceRequest)>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let (told, heard) = channel();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut reader = BufReader::new(&mut stream);
            let (mut head, mut length) = (String::new(), 0);
            loop {
                let mut line = String::new();
                if !matches!(reader.read_line(&mut line), Ok(3..)) {
                    break;
                }
                if let Some((name, value)) = line.split_once(':')
                    && name.eq_ignore_ascii_case("content-length")
                {
                    length = value.trim().parse().expect("a length");
                }
                head.push_str(&line.to_ascii_lowercase());
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).expect("a body");
            let spans = ExportTraceServiceRequest::decode(body.as_slice()).expect("spans as protobuf");
            let answer =
                "HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n";
            let _ = stream.write_all(answer.as_bytes());
            if told.send((head, spans)).is_err() {
                return;
            }
        }
    });
    (format!("http://{address}"), heard)
}

fn text<'a>(attributes: &'a [KeyValue], name: &str) -> Option<&'a str> {
    let value = attributes.iter().find(|one| one.key == name)?.value.as_ref()?.value.as_ref()?;
    if let Any::StringValue(text) = value { Some(text) } else { None }
}

#[test]
fn spans_go_to_a_collector_that_the_standard_variables_name() {
    let scene = scene();
    let (endpoint, heard) = collector();
    let server = Server::start_with(
        &scene,
        [] as [&str; 0],
        &[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint),
            ("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=blue"),
            ("OTEL_SERVICE_NAME", "fence-7"),
            ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test"),
        ],
    );
    let key = server.key("ada", "operator");
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let headers = [
        ("authorization", format!("Bearer {key}")),
        ("content-type", "application/json".to_owned()),
        ("traceparent", format!("00-{trace}-b7ad6b7169203331-01")),
    ];
    let body = json!({ "command": ["echo", "planted-argument"], "env": { "TOKEN": "planted-value" } });
    let reply = server.ask_raw("POST", "/v1/run?planted=query", &headers, body.to_string().as_bytes());
    let id = reply.header("x-request-id").expect("an id").to_owned();
    server.ask(Some(&key), "GET", "/v1/users", None).refused(403, "forbidden");
    // What is left is sent at the end.
    assert_eq!(server.stop().exit, 0);
    let (mut spans, mut sent) = (Vec::new(), String::new());
    while let Ok((head, request)) = heard.try_recv() {
        assert!(head.starts_with("post /v1/traces http/1.1") && head.contains("x-tenant: blue"), "{head}");
        sent.push_str(&format!("{request:?}"));
        for resource in request.resource_spans {
            let about = resource.resource.expect("a resource").attributes;
            assert_eq!(text(&about, "service.name"), Some("fence-7"));
            assert_eq!(text(&about, "deployment.environment.name"), Some("test"));
            spans.extend(resource.scope_spans.into_iter().flat_map(|scope| scope.spans));
        }
    }
    let run = spans.iter().find(|span| text(&span.attributes, "request_id") == Some(&id)).expect("our span");
    assert_eq!(run.name, "POST /v1/run");
    assert_eq!(text(&run.attributes, "enduser.id"), Some("ada"));
    let hex: String = run.trace_id.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, trace, "it is part of the client's trace");
    assert!(spans.iter().any(|span| span.name == "GET /v1/users"));
    for planted in ["planted", key.as_str()] {
        assert!(!sent.contains(planted), "{planted} was sent: {sent}");
    }
}

#[test]
fn without_a_collector_that_answers_the_server_serves() {
    let scene = scene();
    let closed = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let endpoint = format!("http://{closed}");
    let server = Server::start_with(&scene, [] as [&str; 0], &[("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint)]);
    let _ = server.ask(None, "GET", "/healthz", None).status(200);
    assert_eq!(server.stop().exit, 0);
    let refused = Test::in_scene(&scene)
        .verb(["serve", "--listen", "127.0.0.1:0"])
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint)
        .env("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
        .call();
    assert_eq!(refused.exit, 125);
    refused.stderr_contains("http/protobuf");
}

#[test]
fn logs_have_the_requests_id_and_no_secret() {
    let scene = scene();
    let server = Server::start_with(&scene, ["--json-logs"], &[("RINGFENCE_LOG", "debug")]);
    let first = server.first_url().and_then(|url| url.split_once("token=")).expect("a token").1.to_owned();
    let admin = server.ask(None, "POST", "/v1/login", Some(&json!({ "token": first }))).status(201).json();
    let admin = admin["key"].as_str().expect("a key").to_owned();
    let made = server.ask(Some(&admin), "POST", "/v1/keys", Some(&json!({ "role": "operator" }))).status(201);
    let made = made.json()["key"].as_str().expect("a key").to_owned();
    let body = json!({
        "command": ["sh", "-c", "echo planted-output; cat; exit 3", "planted-argument"],
        "env": { "TOKEN": "planted-environment" }, "stdin": "planted-input",
        "files": [{ "path": "f", "content": "planted-file" }],
    });
    let headers = [
        ("authorization", format!("Bearer {made}")),
        ("content-type", "application/json".to_owned()),
        ("cookie", "planted-cookie".to_owned()),
    ];
    let reply = server.ask_raw("POST", "/v1/run?planted-query=1", &headers, body.to_string().as_bytes());
    let reply = reply.status(200);
    let ran = reply.json();
    assert_eq!((&ran["exit_code"], &ran["stdout"]), (&json!(3), &json!("planted-output\nplanted-input")));
    let id = reply.header("x-request-id").expect("an id").to_owned();
    let _ = server.ask_raw("GET", "/planted-path", &[("authorization", "Bearer planted-bearer".into())], b"");
    let said = server.stop();
    let lines: Vec<Value> = said.errors.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    assert!(lines.len() >= 4, "{}", said.errors);
    let ours = lines.iter().find(|line| line["span"]["request_id"] == id.as_str()).expect("our line");
    assert_eq!(ours["span"]["http.route"], "/v1/run");
    assert_eq!(ours["span"]["enduser.id"], "admin");
    for secret in ["planted", first.as_str(), admin.as_str(), made.as_str()] {
        assert!(!said.errors.contains(secret), "{secret} is in the log:\n{}", said.errors);
    }
}

#[test]
fn pages_are_whole_and_closed() {
    let scene = scene();
    let server = server(&scene);
    for (path, kind) in [
        ("/", "text/html; charset=utf-8"),
        ("/?token=x", "text/html; charset=utf-8"),
        ("/docs", "text/html; charset=utf-8"),
        ("/docs/docs.js", "text/javascript; charset=utf-8"),
        ("/docs/home.js", "text/javascript; charset=utf-8"),
        ("/docs/pages.css", "text/css; charset=utf-8"),
    ] {
        let reply = server.ask(None, "GET", path, None).status(200);
        assert_eq!(reply.header("content-type"), Some(kind));
        let policy = reply.header("content-security-policy").expect("a policy");
        assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(reply.header("referrer-policy"), Some("no-referrer"));
        // Whatever a page names is here.
        let text = String::from_utf8(reply.body).expect("text");
        for named in text.split("=\"/").skip(1).filter_map(|rest| rest.split('"').next()) {
            let _ = server.ask(None, "GET", &format!("/{named}"), None).status(200);
        }
    }
    server.ask(None, "GET", "/docs/../server.toml", None).refused(404, "no_route");
}
