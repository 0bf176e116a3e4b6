//! What the result says of the network: connections and bytes for each process and name, what was tried, and the rules
//! that `--learn` finds.

use ringfence_testing::{Identity, Internet, Outcome, Scene, Test};
use serde_json::Value;

fn each(flags: &[&str], script: &str, check: impl Fn(&Outcome)) {
    let Some(internet) = Internet::get() else { return };
    for identity in Identity::all() {
        let scene = Scene::new(identity);
        let test = Test::in_scene(&scene).args(["--timeout", "40s"]).args(flags.iter().copied());
        check(&internet.machine.within(|| test.run(["bash", "-c", script])));
    }
}

fn connections(outcome: &Outcome) -> Vec<Value> {
    let json = outcome.json.as_ref().expect("a JSON object");
    json["network"]["connections"].as_array().cloned().unwrap_or_default()
}

#[test]
fn connections_are_counted_for_each_process_and_name() {
    each(
        &["--allow-host", "good.test", "--allow-host", "echo.test:4242"],
        "curl -sSf https://good.test/big -o /dev/null && for n in 1 2 3; do wget -qO- http://good.test/; done",
        |outcome| {
            outcome.code(0);
            let found = connections(outcome);
            let of = |process: &str, port: u16| {
                let same =
                    |c: &&Value| c["process"] == process && c["port"] == port && c["host"] == "good.test";
                found.iter().find(same).cloned().unwrap_or_else(|| panic!("{process}: {found:?}"))
            };
            let (curl, wget) = (of("curl", 443), of("wget", 80));
            assert_eq!(curl["count"], 1, "{curl}");
            assert!(curl["received"].as_u64().is_some_and(|bytes| bytes > 8 << 20), "{curl}");
            assert!(curl["sent"].as_u64().is_some_and(|bytes| bytes > 100), "{curl}");
            assert_eq!(wget["count"], 3, "{wget}");
            let address = curl["address"].as_str().unwrap_or_default();
            assert!(["192.0.2.10", "2001:db8::10"].contains(&address), "{curl}");
        },
    );
}

#[test]
fn a_run_without_a_network_has_no_record() {
    each(&[], "true", |outcome| {
        let json = outcome.json.as_ref().unwrap();
        assert!(json.get("network").is_none_or(Value::is_null), "{}", json["network"]);
    });
}

#[test]
fn refusals_are_counted_once_each() {
    each(
        &["--allow-host", "good.test"],
        "for n in 1 2 3; do curl -s --max-time 5 https://evil.test/; done; true",
        |outcome| {
            outcome.code(0);
            let denials: Vec<_> =
                outcome.denials().into_iter().filter(|denial| denial.what.contains("evil.test")).collect();
            assert_eq!(denials.len(), 1, "{}", outcome.describe());
            assert!(denials[0].count >= 3, "{denials:?}");
        },
    );
}

/// Nothing more is granted, and the rules that come of it are the least that the program needs.
#[test]
fn learn_says_what_a_program_tried() {
    let script = "curl -s --max-time 5 https://evil.test/; curl -s --max-time 5 http://api.test:8080/; \
                  exec 3<>/dev/tcp/192.0.2.22/4242; curl -sf https://good.test/";
    each(&["--allow-host", "good.test", "--learn"], script, |outcome| {
        outcome.stdout_contains("page of good.test");
        let json = outcome.json.as_ref().unwrap().to_string();
        for rule in ["evil.test:443", "api.test:8080", "192.0.2.22:4242"] {
            assert!(json.contains(rule), "{rule} was not learnt: {}", outcome.describe());
        }
        assert!(!outcome.output.contains("page of evil.test"));
    });
}

#[test]
fn what_was_learnt_is_enough() {
    let Some(internet) = Internet::get() else { return };
    for identity in Identity::all() {
        let scene = Scene::new(identity);
        let script =
            "curl -sf --max-time 5 https://api.test/ && exec 3<>/dev/tcp/echo.test/4242 && head -1 <&3";
        let learn = Test::in_scene(&scene).plain().args(["--learn"]);
        // Each run finds what the one before it was stopped at.
        let mut flags: Vec<String> = Vec::new();
        let text = internet.machine.within(|| learn.run(["bash", "-c", script])).errors;
        flags.extend(learnt(&text));
        let again = Test::in_scene(&scene).plain().args(["--learn"]).args(flags.clone());
        flags.extend(learnt(&internet.machine.within(|| again.run(["bash", "-c", script])).errors));
        let last = Test::in_scene(&scene).args(flags.clone());
        let outcome = internet.machine.within(|| last.run(["bash", "-c", script]));
        outcome.code(0).stdout_contains("page of api.test").stdout_contains("welcome to").no_denials();
    }
}

/// The flags that a text proposes.
fn learnt(text: &str) -> Vec<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let hosts = words
        .windows(2)
        .filter(|pair| pair[0] == "--allow-host")
        .map(|pair| pair[1].trim_matches(['`', '\'', ',']));
    hosts.flat_map(|host| ["--allow-host".to_owned(), host.to_owned()]).collect()
}

#[test]
fn bandwidth_is_bounded() {
    // 8 MiB at 4 MiB a second take at least a second, which the program inside measures itself.
    let script = "s=$(date +%s%N); curl -sSf http://good.test/big -o /dev/null; e=$(date +%s%N); echo $(( (e - s) / 1000000 ))";
    each(&["--allow-host", "good.test", "--bandwidth", "4M"], script, |outcome| {
        outcome.code(0);
        let took: u64 = outcome.output.trim().parse().expect("milliseconds");
        assert!(took >= 800, "8 MiB at 4 MiB/s took {took} ms");
    });
}

#[test]
fn the_receipt_names_the_clauses() {
    each(&["--allow-host", "good.test", "--connections", "9", "--bandwidth", "100M"], "true", |outcome| {
        outcome.code(0);
        outcome
            .clause("network", "enforced")
            .clause("limits.connections", "enforced")
            .clause("limits.bandwidth", "enforced");
    });
}
