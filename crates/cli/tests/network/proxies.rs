//! Proxies: programs inside that insist on one, and a user outside who has one of their own.

use ringfence_testing::{Identity, Internet, MACHINE_V4, MACHINE_V6, Outcome, Scene, Test, eventually};

const HTTP: &str = "http://192.0.2.80:8888";
const SOCKS: &str = "socks5://192.0.2.80:1080";

fn each(check: impl Fn(&Internet, Identity)) {
    let Some(internet) = Internet::get() else { return };
    internet.services.proxies();
    for identity in Identity::all() {
        check(internet, identity);
    }
}

fn run(internet: &Internet, identity: Identity, test: impl FnOnce(Test) -> Test, script: &str) -> Outcome {
    let scene = Scene::new(identity);
    let test = test(Test::in_scene(&scene).args(["--timeout", "30s"]));
    internet.machine.within(|| test.run(["bash", "-c", script]))
}

/// Who asked the web server for this path, and at which of its addresses.
fn asked_by(internet: &Internet, path: &str) -> (String, String) {
    let find = || internet.web.requests().into_iter().rfind(|request| request["uri"] == path);
    // nginx writes its log when the answer is through.
    eventually("the request is in the log", || find().is_some());
    let request = find().expect("a request");
    let text = |key: &str| request[key].as_str().unwrap_or_default().to_owned();
    (text("from"), text("address"))
}

/// The proxies run where the servers do, so that they dial from the server's own address; a direct dial is the machine's.
#[track_caller]
fn assert_by_proxy(internet: &Internet, path: &str) {
    let (from, at) = asked_by(internet, path);
    assert_eq!(from, at, "{path}");
    assert!(from != MACHINE_V4 && from != MACHINE_V6, "{path}: {from} is the machine itself");
}

#[test]
fn the_usual_variables_lead_to_our_proxies() {
    each(|internet, identity| {
        let granted = |test: Test| test.args(["--allow-host", "good.test"]);
        let script = "for name in HTTP_PROXY http_proxy HTTPS_PROXY https_proxy ALL_PROXY all_proxy NO_PROXY no_proxy; do \
                      test -n \"${!name}\" || echo missing $name; done; \
                      curl -sSf -x $HTTP_PROXY http://good.test/; curl -sSf -x $HTTPS_PROXY https://good.test/; \
                      curl -sSf -x socks5h://198.18.0.2:1080 https://good.test/";
        let outcome = run(internet, identity, granted, script);
        outcome.code(0);
        assert!(!outcome.output.contains("missing"), "{}", outcome.describe());
        assert_eq!(outcome.output.matches("page of good.test").count(), 3, "{}", outcome.describe());
    });
}

/// Some programs look a name up first, and ask the proxy for the address that they got.
#[test]
fn a_looked_up_address_is_its_name_to_a_proxy() {
    each(|internet, identity| {
        let granted = |test: Test| test.args(["--allow-host", "good.test"]);
        let script = "export HTTPS_PROXY= https_proxy= ALL_PROXY= all_proxy=; \
                      curl -sSf -x socks5://198.18.0.2:1080 https://good.test/; \
                      a=$(/usr/bin/python3 -c \"import socket; print(socket.gethostbyname('good.test'))\"); \
                      curl -sSf -x http://198.18.0.2:3128 -p --connect-to good.test:443:$a:443 https://good.test/; \
                      curl -sSf -x http://198.18.0.2:3128 http://$a/";
        let outcome = run(internet, identity, granted, script);
        outcome.code(0).no_denials();
        assert_eq!(outcome.output.matches("page of good.test").count(), 3, "{}", outcome.describe());
        // One that no name has stays closed, and other ports of the name are.
        let script = "getent ahostsv4 good.test >/dev/null; \
                      curl -s --max-time 5 -x socks5://198.18.0.2:1080 http://198.18.77.7/; test $? = 97 || exit 1; \
                      curl -s --max-time 5 -x socks5://198.18.0.2:1080 http://good.test:22/; test $? = 97 || exit 2";
        let outcome = run(internet, identity, granted, script);
        outcome.code(0).denial("198.18.77.7").denial("good.test:22");
    });
}

#[test]
fn no_network_means_no_proxy() {
    each(|internet, identity| {
        run(
            internet,
            identity,
            |test| test,
            "curl -s --max-time 5 -x http://198.18.0.2:3128 http://good.test/; test $? = 7",
        )
        .code(0);
    });
}

/// The user's own proxy is what dials: its log has the name, and the target sees the proxy's address.
#[test]
fn the_users_own_proxy_is_used() {
    each(|internet, identity| {
        for (name, value, daemon) in [
            ("HTTPS_PROXY", HTTP, "tinyproxy"),
            ("ALL_PROXY", SOCKS, "microsocks"),
            ("https_proxy", HTTP, "tinyproxy"),
        ] {
            let before = internet.services.log_of(daemon).len();
            let flags = |test: Test| test.args(["--allow-host", "good.test"]).env(name, value);
            let path = format!("/{name}-as-{identity:?}");
            let outcome = run(internet, identity, flags, &format!("curl -sSf https://good.test{path}"));
            outcome.code(0).stdout_contains("page of good.test");
            assert_by_proxy(internet, &path);
            let log = internet.services.log_of(daemon);
            assert!(log[before..].contains("good.test"), "{name}: {}", &log[before..]);
        }
        let outcome = run(
            internet,
            identity,
            |test| test.args(["--allow-host", "good.test"]).env("HTTP_PROXY", HTTP),
            &format!("curl -sSf http://good.test/plain-as-{identity:?}"),
        );
        outcome.code(0).stdout_contains("page of good.test");
        assert_by_proxy(internet, &format!("/plain-as-{identity:?}"));
    });
}

#[test]
fn the_users_exceptions_are_dialled_directly() {
    each(|internet, identity| {
        let before = internet.services.log_of("tinyproxy").len();
        let flags = |test: Test| {
            test.args(["--allow-host", "good.test"]).env("HTTPS_PROXY", HTTP).env("NO_PROXY", "good.test")
        };
        let path = format!("/excepted-as-{identity:?}");
        run(internet, identity, flags, &format!("curl -sSf https://good.test{path}")).code(0);
        let (from, _) = asked_by(internet, &path);
        assert!(from == MACHINE_V4 || from == MACHINE_V6, "{from} is not the machine");
        assert!(!internet.services.log_of("tinyproxy")[before..].contains("good.test"));
    });
}

/// A proxy that resolves for us must not be asked for what is not granted, nor be spoken to by the command.
#[test]
fn the_users_own_proxy_grants_nothing() {
    each(|internet, identity| {
        let before = internet.services.log_of("tinyproxy").len();
        let flags = |test: Test| {
            test.args(["--allow-host", "good.test"]).env("HTTPS_PROXY", HTTP).env("HTTP_PROXY", HTTP)
        };
        let script = "curl -s --max-time 5 https://evil.test/; curl -s --max-time 5 -x http://192.0.2.80:8888 https://evil.test/; \
                      curl -s --max-time 5 -x $HTTPS_PROXY https://evil.test/; env | grep 192.0.2.80; true";
        let outcome = run(internet, identity, flags, script);
        outcome.code(0).stdout("").denial("evil.test");
        assert!(!internet.services.log_of("tinyproxy")[before..].contains("evil.test"));
    });
}
