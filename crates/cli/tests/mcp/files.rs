//! Files of a session.

use serde_json::json;

use crate::client::Client;
use crate::scene;

#[test]
fn files_are_written_read_edited_and_listed() {
    let scene = scene();
    let mut client = Client::start(&scene);
    let written =
        client.call("sandbox_file_write", json!({ "path": "deep/er/a.txt", "content": "one\ntwo\nthree\n" }));
    assert_eq!(written["bytes"], 14);
    assert_eq!(scene.read("ws/deep/er/a.txt").as_deref(), Some("one\ntwo\nthree\n"));
    let read = client.call("sandbox_file_read", json!({ "path": "/workspace/deep/er/a.txt" }));
    assert_eq!((&read["content"], &read["lines"]), (&json!("one\ntwo\nthree\n"), &json!(3)));
    let part = client.call("sandbox_file_read", json!({ "path": "deep/er/a.txt", "offset": 2, "limit": 1 }));
    assert_eq!(part["content"], "two\n");
    let edited =
        client.call("sandbox_file_edit", json!({ "path": "deep/er/a.txt", "old": "two", "new": "2" }));
    assert_eq!(edited["replaced"], 1);
    assert_eq!(scene.read("ws/deep/er/a.txt").as_deref(), Some("one\n2\nthree\n"));
    let twice =
        client.refusal("sandbox_file_edit", json!({ "path": "deep/er/a.txt", "old": "e", "new": "" }));
    assert!(twice["message"].as_str().unwrap().contains("3 times"), "{twice}");
    let listed = client.call("sandbox_file_list", json!({ "path": "deep" }));
    assert_eq!(listed["entries"][0]["name"], "er");
    assert_eq!(listed["entries"][0]["kind"], "directory");
    client.call(
        "sandbox_file_write",
        json!({ "path": "run.sh", "content": "#!/bin/sh\necho ran\n", "executable": true }),
    );
    assert_eq!(client.call("sandbox_run", json!({ "command": ["./run.sh"] }))["stdout"], "ran\n");
    client.call("sandbox_file_write", json!({ "path": "bytes", "content": "/2E=", "base64": true }));
    let bytes = client.call("sandbox_file_read", json!({ "path": "bytes" }));
    assert_eq!(bytes["content_base64"], "/2E=");
}

#[test]
fn nothing_outside_is_reached() {
    let scene = scene();
    let secret = scene.secret();
    scene.write("ws/.git/HEAD", "ref: refs/heads/main\n");
    scene.mkdir("ws/.git/hooks");
    let mut client = Client::start(&scene);
    // It is there for us; the twin inside the workspace shows that reading works.
    assert!(secret.exists());
    let read = client.refusal("sandbox_file_read", json!({ "path": secret }));
    assert_eq!(read["code"], "no_such_file", "{read}");
    std::os::unix::fs::symlink(&secret, scene.path("ws/link")).unwrap();
    std::fs::write(scene.path("ws/twin"), "seen").unwrap();
    assert_eq!(client.refusal("sandbox_file_read", json!({ "path": "link" }))["code"], "no_such_file");
    assert_eq!(client.call("sandbox_file_read", json!({ "path": "twin" }))["content"], "seen");
    let outside = scene.outside().join("made");
    for path in
        [outside.to_str().unwrap(), "../../etc/passwd", "/etc/passwd", "/workspace/../proc/sys/kernel/x"]
    {
        let refused = client.result("sandbox_file_write", json!({ "path": path, "content": "x" }));
        let wrote_inside = refused["isError"] != true;
        assert!(!wrote_inside || !outside.exists(), "{path}: {refused}");
    }
    assert!(!outside.exists());
    let hooks =
        client.result("sandbox_file_write", json!({ "path": ".git/hooks/pre-commit", "content": "x" }));
    assert_eq!(hooks["isError"], true, "{hooks}");
    assert_eq!(scene.read("ws/.git/hooks/pre-commit"), None);
}
