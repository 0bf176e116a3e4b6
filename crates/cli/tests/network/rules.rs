//! Rules mean what they say, programs inside keep their own ports, and who is refused is told why.

use ringfence_testing::{Identity, Internet, Scene, Test};

/// The port is part of the grant, and so is what a wildcard leaves out.
#[test]
fn rules_are_what_they_say() {
    let Some(internet) = Internet::get() else { return };
    for identity in Identity::all() {
        let try_it = |flags: &[&str], script: &str| {
            let scene = Scene::new(identity);
            let test = Test::in_scene(&scene).args(["--timeout", "30s"]).args(flags.iter().copied());
            internet.machine.within(|| test.run(["bash", "-c", script]))
        };
        // Without a port: 80 and 443.
        for address in ["http://good.test/", "https://good.test/", "https://GOOD.test./"] {
            try_it(&["--allow-host", "good.test"], &format!("curl -sSf {address}")).code(0).no_denials();
        }
        try_it(&["--allow-host", "good.test"], "curl -sSf http://good.test:8080/").denial("good.test");
        try_it(&["--allow-host", "*.good.test"], "curl -sSf https://a.good.test/").code(0);
        try_it(&["--allow-host", "*.good.test"], "curl -sSf http://a.b.c.good.test/").code(0);
        try_it(&["--allow-host", "m\u{fc}nchen.test"], "curl -sSf http://xn--mnchen-3ya.test/").code(0);
        try_it(&["--allow-host", "by-hosts-file.test"], "curl -sSf http://by-hosts-file.test/").code(0);
        let private = ["--allow-host", "private-10.evil.test", "--allow-private", "10.1.2.0/24"];
        try_it(&private, "curl -sSf http://private-10.evil.test/").code(0).stdout_contains("at 10.1.2.3");
        try_it(&["--allow-host", "10.1.2.3:80"], "curl -sSf http://10.1.2.3/").code(0);
        let no_sni = ["--allow-host", "good.test", "--allow-no-sni", "good.test"];
        let handshake =
            "openssl s_client -connect good.test:443 -noservername </dev/null 2>&1 | grep -q 'BEGIN CERT'";
        try_it(&no_sni, handshake).code(0);
        let port = crate::addresses::loopback_server(internet).to_string();
        for loopback in ["127.0.0.1", "::1", "localhost"] {
            let script = format!(
                "/usr/bin/python3 -c \"import socket; print(socket.create_connection(('{loopback}', {port}), 5).recv(99))\""
            );
            try_it(&["--allow-local", &port], &script).code(0).stdout_contains("the machine itself");
        }
        try_it(&["--allow-host", "localhost:80"], "true").refused("--allow-local 80");
        try_it(
            &["--network", "open"],
            "curl -sSf https://good.test/ && curl -sSf --noproxy '*' http://192.0.2.66/",
        )
        .code(0);
        try_it(
            &["--network", "open"],
            "curl -sSf6 --noproxy '*' https://good.test/ && curl -sSf --noproxy '*' 'http://[2001:db8::66]/'",
        )
        .code(0);
    }
}

/// Programs inside keep their own ports: what egress listens on is none of theirs.
#[test]
fn programs_inside_speak_to_each_other() {
    let Some(internet) = Internet::get() else { return };
    for identity in Identity::all() {
        let scene = Scene::new(identity);
        let script = "cd /tmp && echo mine > index.html; /usr/bin/python3 -m http.server 8099 --bind 0.0.0.0 >/dev/null 2>&1 & \
                      for n in $(seq 100); do curl -s http://127.0.0.1:8099/index.html && break; sleep 0.05; done; \
                      curl -sSf https://good.test/; kill $!";
        let test =
            Test::in_scene(&scene).args(["--allow-host", "good.test", "--allow-host", "good.test:8099"]);
        let outcome = internet.machine.within(|| test.run(["bash", "-c", script]));
        outcome.stdout_contains("mine").stdout_contains("page of good.test");
    }
}

/// Who it was that was refused: by name, by address, and through a proxy.
#[test]
fn a_denial_names_its_process() {
    let Some(internet) = Internet::get() else { return };
    for identity in Identity::all() {
        let scene = Scene::new(identity);
        let test = Test::in_scene(&scene).args(["--allow-host", "good.test"]);
        let script = format!(
            "curl -s https://evil.test/; {} curl -s http://192.0.2.66/; wget -q -t1 -O- http://sub.evil.test/; true",
            crate::attempt::WITHOUT_PROXIES
        );
        let outcome = internet.machine.within(|| test.run(["bash", "-c", &script]));
        let denials =
            outcome.json.as_ref().and_then(|json| json["denials"].as_array().cloned()).unwrap_or_default();
        for (what, process) in
            [("evil.test:443", "curl"), ("192.0.2.66:80", "curl"), ("sub.evil.test", "wget")]
        {
            let found = denials.iter().find(|denial| denial["what"] == what);
            let found = found.unwrap_or_else(|| panic!("no denial of {what}\n{}", outcome.describe()));
            assert_eq!(found["process"], process, "{found}");
        }
    }
}

/// An HTTP client that is refused is told why, in words.
#[test]
fn a_refused_request_says_why() {
    let Some(internet) = Internet::get() else { return };
    for identity in Identity::all() {
        let scene = Scene::new(identity);
        let test = Test::in_scene(&scene).args(["--allow-host", "good.test"]);
        let script = "curl -s -w '%{http_code}\\n' -H 'Host: evil.test' http://good.test/; \
                      curl -s -w '%{http_code}\\n' -x http://198.18.0.2:3128 http://evil.test/; \
                      curl -sv -x http://198.18.0.2:3128 https://evil.test/ 2>&1 | grep '< HTTP'";
        let outcome = internet.machine.within(|| test.run(["bash", "-c", script]));
        let text = &outcome.output;
        assert_eq!(text.matches("403").count(), 3, "{}", outcome.describe());
        assert!(text.contains("--allow-host evil.test"), "{}", outcome.describe());
    }
}
