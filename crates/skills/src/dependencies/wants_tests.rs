use serde_json::json;

use super::*;

fn manifest(metadata: Value) -> Manifest {
    Manifest {
        name: "a".into(),
        description: "b".into(),
        license: None,
        compatibility: None,
        allowed_tools: Vec::new(),
        metadata: metadata.as_object().cloned().unwrap_or_default(),
        extra: Map::new(),
        body: String::new(),
    }
}

#[test]
fn what_is_written_is_kept() {
    assert_eq!(wants(&manifest(json!({}))), Ok(Wants::default()));
    let found = wants(&manifest(json!({"ringfence": {
        "hosts": ["b.example:8443", "*.a.example"], "env": "API_KEY, REGION", "time": "90s", "memory": "2G", "cpus": 2,
        "processes": "64", "disk": "1.5G",
    }})))
    .unwrap();
    assert_eq!(found.hosts, ["*.a.example", "b.example:8443"]);
    assert_eq!(found.env, ["API_KEY", "REGION"]);
    let limits = found.limits;
    assert_eq!(limits.time.as_deref(), Some("90s"));
    assert_eq!(limits.memory.as_deref(), Some("2G"));
    assert_eq!(limits.cpus.as_deref(), Some("2"));
    assert_eq!(limits.processes.as_deref(), Some("64"));
    assert_eq!(limits.disk.as_deref(), Some("1.5G"));
}

#[test]
fn what_is_wrong_is_said_and_nothing_taken() {
    for (value, code, says) in [
        (json!("hosts"), "wants-type", "must be a table"),
        (json!({"host": []}), "wants-unknown-key", "did you mean `hosts`?"),
        (json!({"timeout": "1s"}), "wants-unknown-key", "did you mean `time`?"),
        (json!({"filesystem": "/"}), "wants-unknown-key", "known are"),
        (json!({"hosts": [1]}), "wants-type", "list of texts"),
        (json!({"hosts": ["a b"]}), "wants-value", "`a b`"),
        (json!({"hosts": [""]}), "wants-value", "``"),
        (json!({"hosts": ["\u{1b}[2J"]}), "wants-value", "\\u{1b}"),
        (json!({"hosts": ["a\u{202e}b.example"]}), "wants-value", "\\u{202e}"),
        (json!({"env": ["A-B"]}), "wants-env", "`A-B`"),
        (json!({"env": ["LD_PRELOAD=x"]}), "wants-env", "LD_PRELOAD=x"),
        (json!({"time": "soon"}), "wants-limit", "must be a number"),
        (json!({"time": "-1"}), "wants-limit", "must be a number"),
        (json!({"memory": true}), "wants-limit", "must be a number"),
        (json!({"hosts": vec!["a"; 101]}), "wants-too-many", "more than 100"),
    ] {
        let problems = wants(&manifest(json!({ "ringfence": value }))).unwrap_err();
        assert_eq!(problems[0].code, code, "{value}");
        assert!(problems[0].message.contains(says), "{} lacks {says}", problems[0].message);
    }
}
