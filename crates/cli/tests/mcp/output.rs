//! Long outputs, for each client as it can take them, and outputs as they come.

use ringfence_testing::Server;
use serde_json::{Value, json};

use crate::client::{Client, checked};
use crate::{http, scene};

/// Text and structure of an answer, as a client counts them.
fn size(result: &Value) -> usize {
    result["structuredContent"].to_string().len()
}

#[test]
fn long_output_is_cut_for_each_client_and_kept_whole() {
    let scene = scene();
    for (name, most) in [
        ("claude-code", 45_000),
        ("codex-mcp-client", 10_000),
        ("gemini-cli", 36_000),
        ("opencode", 45_000),
        ("x", 30_000),
    ] {
        let mut client = Client::named(&scene, [] as [&str; 0], name);
        let command = "echo begin; i=0; while [ $i -lt 20000 ]; do echo \"line \\\"$i\\\"\"; i=$((i+1)); done; echo end";
        let result = client.result("sandbox_run", json!({ "command": command }));
        assert!(size(&result) <= most, "{name}: {}", size(&result));
        assert!(size(&result) > most / 2, "{name}: {}", size(&result));
        let run = &result["structuredContent"];
        let text = run["stdout"].as_str().unwrap();
        assert!(
            text.starts_with("begin\n") && text.ends_with("end\n") && text.contains("left out"),
            "{name}"
        );
        let whole = &run["whole"][0];
        let resource = client.ask("resources/read", json!({ "uri": whole["resource"] }));
        let kept = resource["result"]["contents"][0]["text"].as_str().expect("the whole output");
        assert_eq!(kept.lines().count(), 20_002);
        assert_eq!(json!(kept.len()), whole["bytes"]);
        let part =
            client.call("sandbox_file_read", json!({ "path": whole["file"], "offset": 10_002, "limit": 1 }));
        assert_eq!(part["content"], "line \"10000\"\n");
        let listed = client.ask("resources/list", json!({}));
        assert!(listed.to_string().contains(whole["resource"].as_str().unwrap()), "{listed}");
    }
}

#[test]
fn a_flood_costs_bounded_memory_and_its_end_is_told() {
    let scene = scene();
    let mut client = Client::start(&scene);
    let run = client.call(
        "sandbox_run",
        json!({ "command": "head -c 100000000 /dev/zero | tr '\\0' x; echo; echo end" }),
    );
    assert_eq!(run["exit_code"], 0);
    assert!(run["stdout"].as_str().unwrap().ends_with("end\n"));
    assert!(run["whole"][0]["bytes"].as_u64().unwrap() < 10_000_000, "{}", run["whole"]);
    let peak = std::fs::read_to_string(format!("/proc/{}/status", client.pid())).unwrap();
    let peak = peak.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let kilobytes: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(kilobytes < 200_000, "{kilobytes} kB");
}

#[test]
fn output_is_streamed_as_progress() {
    let scene = scene();
    let mut client = Client::start(&scene);
    // It goes on only when the first line was heard.
    let id = client.begin(
        "tools/call",
        json!({
            "name": "sandbox_run",
            "arguments": {
                "command": "echo first; while [ ! -e go ]; do sleep 0.05; done; echo second", "streaming": true,
            },
            "_meta": { "progressToken": "t1" },
        }),
    );
    let notice = client.hear().expect("progress");
    assert_eq!(notice["method"], "notifications/progress", "{notice}");
    assert_eq!(notice["params"]["progressToken"], "t1");
    assert_eq!(notice["params"]["message"], "first\n");
    std::fs::write(scene.path("ws/go"), "").unwrap();
    let answer = client.answer_to(id);
    assert_eq!(checked(&answer)["structuredContent"]["stdout"], "first\nsecond\n");
    let rest: String =
        client.notices.iter().filter_map(|notice| notice["params"]["message"].as_str()).collect();
    assert_eq!(rest, "second\n");
    // Without a token nobody is told.
    client.notices.clear();
    client.call("sandbox_run", json!({ "command": "echo quiet", "streaming": true }));
    assert!(client.notices.is_empty());
}

#[test]
fn what_a_process_wrote_comes_in_parts_that_fit() {
    let scene = scene();
    let command = "i=0; while [ $i -lt 6000 ]; do echo \"\\\"lïne\\\" $i\"; i=$((i+1)); done; head -c 60000 /dev/zero | tr '\\0' '\\1'; \
        : > done";
    let mut wanted: String = (0..6000).map(|line| format!("\"lïne\" {line}\n")).collect();
    wanted.push_str(&"\u{1}".repeat(60_000));
    for (name, most, lines) in [("codex-mcp-client", 10_000, 1_000), ("opencode", 45_000, 1_900)] {
        let mut client = Client::named(&scene, [] as [&str; 0], name);
        let started = client.call("sandbox_process_start", json!({ "command": command }));
        while client.call("sandbox_process_output", json!({ "process": started["process"] }))["running"]
            == true
        {
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        let (mut from, mut all) = (json!(0), String::new());
        loop {
            let arguments = json!({ "process": started["process"], "from": from });
            let result = client.result("sandbox_process_output", arguments);
            assert!(size(&result) <= most, "{name}: {}", size(&result));
            let told = &result["structuredContent"];
            let text = told["stdout"].as_str().unwrap();
            if text.is_empty() {
                break;
            }
            assert!(text.lines().count() <= lines, "{name}: {}", text.lines().count());
            all.push_str(text);
            from = told["next"].clone();
        }
        assert!(all == wanted, "{name}: {} of {} bytes", all.len(), wanted.len());
    }
}

#[test]
fn what_is_told_of_denials_is_part_of_the_limit() {
    let scene = scene();
    let mut client = Client::named(&scene, [] as [&str; 0], "codex-mcp-client");
    let names: Vec<String> = (0..9).map(|one| format!("{}{one}", "n".repeat(200))).collect();
    for name in &names {
        scene.write(&format!("outside/{name}"), "");
    }
    let paths = names
        .iter()
        .map(|name| format!("{}/{name}", scene.outside().display()))
        .collect::<Vec<_>>()
        .join(" ");
    let command = format!("head -c 50000 /dev/zero | tr '\\0' x; cat {paths}; exit 3");
    let result = client.result("sandbox_run", json!({ "command": command }));
    assert!(size(&result) <= 10_000, "{}", size(&result));
    assert!(!result["structuredContent"]["denials"].as_array().unwrap().is_empty(), "{result}");
}

/// What the stream of a call's answer holds, event by event.
fn begin_over_http(
    client: &http::Client<'_>,
    server: &Server<'_>,
    arguments: Value,
) -> ringfence_testing::EventReader {
    let body = json!({
        "jsonrpc": "2.0", "id": 9, "method": "tools/call",
        "params": { "name": "sandbox_run", "arguments": arguments, "_meta": { "progressToken": "t9" } },
    });
    let headers = http::headers(&client.key, Some(&client.session));
    let events = server.listen_raw("POST", "/mcp", &headers, body.to_string().as_bytes());
    assert_eq!(events.status, 200);
    events
}

fn next(events: &mut ringfence_testing::EventReader) -> Value {
    loop {
        let data = events.next_event().expect("an event").data;
        if data.is_object() {
            return data;
        }
    }
}

#[test]
fn output_is_streamed_over_http_and_silence_is_broken() {
    let scene = scene();
    let server = Server::start(&scene, [] as [&str; 0]);
    let client = http::Client::new(&server, "ada", "operator");
    // It goes on only when the first line was heard.
    let command = "echo first; until [ -e go ]; do sleep 0.05; done; echo second";
    let mut events = begin_over_http(&client, &server, json!({ "command": command, "streaming": true }));
    let notice = next(&mut events);
    assert_eq!(notice["method"], "notifications/progress", "{notice}");
    assert_eq!(
        (&notice["params"]["progressToken"], &notice["params"]["message"]),
        (&json!("t9"), &json!("first\n"))
    );
    client.call("sandbox_run", json!({ "command": "touch go" }));
    let (mut rest, mut last) = (String::new(), notice["params"]["progress"].as_f64().unwrap());
    let answer = loop {
        let message = next(&mut events);
        if message["id"] == 9 {
            break message;
        }
        rest.push_str(message["params"]["message"].as_str().unwrap());
        let progress = message["params"]["progress"].as_f64().unwrap();
        assert!(progress > last, "{message}");
        last = progress;
    };
    assert_eq!(
        (&*rest, &checked(&answer)["structuredContent"]["stdout"]),
        ("second\n", &json!("first\nsecond\n"))
    );
    // Nothing that it writes is told as it comes: it ends only when the client has heard that we are there.
    let command = "rm go; until [ -e go ]; do echo line; sleep 0.2; done; echo done";
    let wish = json!({ "command": command, "timeout_ms": 600_000 });
    let mut events = begin_over_http(&client, &server, wish);
    let notice = next(&mut events);
    assert_eq!(notice["method"], "notifications/progress", "{notice}");
    assert!(notice["params"]["message"].as_str().unwrap().starts_with("still running, "), "{notice}");
    client.call("sandbox_run", json!({ "command": "touch go" }));
    let answer = loop {
        let message = next(&mut events);
        if message["id"] == 9 {
            break message;
        }
    };
    assert!(checked(&answer)["structuredContent"]["stdout"].as_str().unwrap().ends_with("done\n"));
}
