//! Runs that no server sees are in the audit too: written once the command has ended, folded in later.

use ringfence_testing::{Identity, Scene, Test, eventually};
use rustix::process::Signal;
use serde_json::Value;

use crate::{scene, server};

/// The records that are not folded in yet, whole or not.
fn spooled(scene: &Scene) -> Vec<String> {
    let entries = std::fs::read_dir(scene.state().join("audit.spool")).into_iter().flatten();
    entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

fn rows(scene: &Scene) -> Vec<Value> {
    let listed = Test::in_scene(scene).verb(["audit", "ls", "--limit", "1000", "--json"]).call();
    assert_eq!(listed.exit, 0, "{}", listed.describe());
    serde_json::from_str(&listed.output).expect("JSON")
}

#[test]
fn a_run_is_in_the_audit_once_it_has_ended() {
    for identity in Identity::all() {
        let scene = Scene::new(identity);
        assert_eq!(Test::in_scene(&scene).run(["sh", "-c", "unshare -m true; exit 3"]).exit, 3);
        assert_eq!(Test::in_scene(&scene).run(["no-such-program"]).exit, 127);
        assert_eq!(Test::in_scene(&scene).args(["--cwd", "/none"]).run(["true"]).exit, 125);
        assert_eq!(Test::in_scene(&scene).args(["--read", "/no/such/path"]).run(["true"]).exit, 125);
        let rows = rows(&scene);
        let told: Vec<_> = rows
            .iter()
            .map(|row| (row["kind"].as_str(), row["decision"].as_str(), row["result"]["exit_code"].as_i64()))
            .collect();
        assert_eq!(
            told,
            [
                (Some("run"), Some("allow"), Some(3)),
                (Some("run"), Some("allow"), Some(127)),
                (Some("run"), Some("allow"), Some(125)),
                (Some("run"), Some("deny"), None),
            ]
        );
        assert_eq!(rows[0]["result"]["command"][0], "sh");
        assert_eq!(rows[0]["origin"], "cli");
        assert!(rows[0]["user"].as_str().is_some_and(|user| user.starts_with("uid ")));
        assert!(rows[0]["denials"].as_array().is_some_and(|denials| !denials.is_empty()), "{}", rows[0]);
        for digest in ["policy_digest", "receipt_digest"] {
            assert_eq!(rows[0][digest].as_str().map(str::len), Some(64), "{digest}");
        }
        assert_eq!(spooled(&scene), [] as [String; 0], "folded in");
        let verdict = Test::in_scene(&scene).verb(["audit", "verify"]).call();
        assert_eq!(verdict.exit, 0, "{}", verdict.describe());
    }
}

#[test]
fn nothing_is_written_before_the_end_and_a_killed_owner_leaves_no_half_of_a_record() {
    let scene = scene();
    let mark = scene.workspace().join("on");
    let running = Test::in_scene(&scene).spawn(["sh", "-c", "touch on; sleep 600"]);
    eventually("the command runs", || mark.exists());
    assert_eq!(spooled(&scene), [] as [String; 0]);
    running.signal(Signal::KILL);
    let _ = running.wait();
    // That one record is what such a kill loses; what was told before and after stays whole.
    assert_eq!(rows(&scene).len(), 0);
    assert_eq!(Test::in_scene(&scene).run(["true"]).exit, 0);
    assert_eq!(spooled(&scene).len(), 1);
    assert_eq!(rows(&scene).len(), 1);
    let verdict = Test::in_scene(&scene).verb(["audit", "verify"]).call();
    assert_eq!(verdict.exit, 0, "{}", verdict.describe());
}

#[test]
fn no_secret_is_written_down() {
    let scene = scene();
    let planted = ["planted-secret-one", "planted-secret-two", "planted-secret-six", "planted-secret-ten"];
    let words = format!("echo {} {} >/dev/null; true", planted[0], planted[1]);
    let outcome = Test::in_scene(&scene)
        .env("API_TOKEN", planted[0])
        .args(["--env", &format!("DB_PASSWORD={}", planted[1])])
        .args(["--allow-host", "api.example.com", "--secret", "API_TOKEN=env:API_TOKEN@api.example.com"])
        .run(["sh", "-c", &words, "--token", planted[2], &format!("https://me:{}@example.org/", planted[3])]);
    assert_eq!(outcome.exit, 0, "{}", outcome.describe());
    let place = scene.state().join("audit.spool");
    let record = std::fs::read(place.join(&spooled(&scene)[0])).expect("the record");
    let record = String::from_utf8_lossy(&record);
    let folded = rows(&scene);
    let folded = serde_json::to_string(&folded).expect("JSON");
    assert!(folded.contains("/dev/null"), "the rest of the command is there: {folded}");
    for secret in planted {
        assert!(!record.contains(secret), "{secret} is in the spool: {record}");
        assert!(!folded.contains(secret), "{secret} is in the audit: {folded}");
    }
}

#[test]
fn many_at_the_same_time_are_each_told_once_also_by_a_server() {
    let scene = scene();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..5 {
                    assert_eq!(Test::in_scene(&scene).run(["true"]).exit, 0);
                }
            });
        }
    });
    let server = server(&scene);
    let admin = server.key("root", "admin");
    let count = || {
        let page = server.ask(Some(&admin), "GET", "/v1/audit?kind=run&limit=1000", None).status(200).json();
        page["rows"].as_array().map_or(0, Vec::len)
    };
    eventually("the server folds them in", || count() == 20);
    assert_eq!(spooled(&scene), [] as [String; 0]);
    let verdict = server.ask(Some(&admin), "GET", "/v1/audit/verify", None).status(200).json();
    assert_eq!(verdict["whole"], true);
}
