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
        // An address is called by whatever name, where it is granted and where everything public is.
        let by_name = "curl -sSf --noproxy '*' -H 'Host: good.test' http://192.0.2.66/";
        for flags in [&["--allow-host", "192.0.2.66:80"][..], &["--network", "open"]] {
            try_it(flags, by_name).code(0).no_denials().stdout_contains("page of good.test at 192.0.2.66");
        }
        let denied = ["--network", "open", "--deny-host", "good.test"];
        try_it(&denied, by_name).denial("good.test");
        // The machine's own address, written down, is what the user means.
        let own = format!("{}:{port}", ringfence_testing::MACHINE_V4);
        let script = format!(
            "/usr/bin/python3 -c \"import socket; print(socket.create_connection(('{}', {port}), 5).recv(99))\"",
            ringfence_testing::MACHINE_V4
        );
        try_it(&["--allow-host", &own], &script).code(0).stdout_contains("the machine itself");
        // A denied address on one port is denied on that port, also to a name that leads there.
        let denied =
            ["--allow-host", "good.test", "--deny-host", "192.0.2.10:80", "--deny-host", "[2001:db8::10]:80"];
        try_it(&denied, "curl -sSf https://good.test/").code(0).no_denials();
        try_it(&denied, "curl -sSf http://good.test/").denial("good.test:80");
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

/// What was wrong with a request that nobody should take is said in the answer and in the denial.
#[test]
fn a_malformed_request_is_a_denial() {
    let Some(internet) = Internet::get() else { return };
    for identity in Identity::all() {
        let scene = Scene::new(identity);
        let test = Test::in_scene(&scene).args(["--allow-host", "good.test"]);
        let script = "ask() { exec 3<>/dev/tcp/$1/$2; printf \"$3\" >&3; cat <&3; }; \
                      ask good.test 80 'GET / HTTP/1.1\\r\\nHost: good.test\\r\\nHost: good.test\\r\\n\\r\\n'; \
                      ask 198.18.0.2 3128 'GET / HTTP/1.1\\r\\nHost: good.test\\r\\n\\r\\n'; \
                      ask 198.18.0.2 3128 'GET http://good.test/ HTTP/1.1\\nHost: good.test\\n\\n'";
        let outcome = internet.machine.within(|| test.run(["bash", "-c", script]));
        assert_eq!(outcome.output.matches("HTTP/1.1 400 ").count(), 3, "{}", outcome.describe());
        let denials = outcome.denials();
        for (what, why) in [
            ("good.test:80", "it has more than one Host"),
            ("198.18.0.2:3128", "the target must be a whole URL"),
            ("good.test:80", "a line ends without a carriage return"),
        ] {
            let found = denials.iter().any(|denial| denial.what == what && denial.remedy.contains(why));
            assert!(found, "no denial of {what} says: {why}\n{}", outcome.describe());
        }
    }
}

/// What is checked is what is dialled: a name is looked up once for each connection, and not again between the two.
#[test]
fn a_connection_looks_its_name_up_once() {
    use ringfence_testing::{Answer, EVIL, TEN};
    let Some(internet) = Internet::get() else { return };
    for identity in Identity::all() {
        let scene = Scene::new(identity);
        let name = format!("{}.rebind.test", scene.token.to_lowercase());
        let turns = [EVIL, TEN].map(|text| vec![text.parse().expect("an address")]);
        internet.dns.set(&name, [Answer::Turns(turns.into())]);
        let test = Test::in_scene(&scene).args(["--allow-host", &format!("{name}:4242")]);
        let script = format!("exec 3<>/dev/tcp/{name}/4242 && head -1 <&3");
        let outcome = internet.machine.within(|| test.run(["bash", "-c", &script]));
        outcome.code(0).stdout_contains("welcome to 192.0.2.66");
        let asked = internet.dns.queries(&name);
        assert_eq!(asked.iter().filter(|query| query.kind == 1).count(), 1, "{asked:?}");
    }
}

/// Groups that the user has in a file, by their name.
#[test]
fn a_group_is_its_rules() {
    let Some(internet) = Internet::get() else { return };
    for identity in Identity::all() {
        let scene = Scene::new(identity);
        scene.write("policy.toml", "[network.groups]\nours = ['good.test:80', '*.api.test']\n");
        let file = scene.path("policy.toml").display().to_string();
        let test = Test::in_scene(&scene).args(["--policy", &file, "--allow-host", "@ours"]);
        let script = "curl -sSf http://good.test/; curl -s https://good.test/; true";
        let outcome = internet.machine.within(|| test.run(["bash", "-c", script]));
        outcome.code(0).stdout_contains("page of good.test").denial("good.test:443");
    }
}

/// Clients that send a GREASE ECH extension name the host outside of it, and are carried.
#[test]
fn an_empty_encrypted_hello_is_fine() {
    let Some(internet) = Internet::get() else { return };
    for identity in Identity::all() {
        let scene = Scene::new(identity);
        let test = Test::in_scene(&scene).args(["--allow-host", "good.test"]);
        // The extension goes behind the others: its length is added to the two that hold it.
        let script = "message = hello(b'good.test')\nbody = bytearray(message[4:])\n\
                      ech = b'\\0' + struct.pack('>HHB', 1, 1, 7) + struct.pack('>H', 32) + os.urandom(32)\n\
                      ech += struct.pack('>H', 144) + os.urandom(144)\n\
                      ech = struct.pack('>HH', 0xfe0d, len(ech)) + ech\n\
                      at = 2 + 32 + 1 + 2 + 4 + 2\nsize = struct.unpack('>H', body[at:at + 2])[0]\n\
                      body[at:at + 2] = struct.pack('>H', size + len(ech))\nbody = bytes(body) + ech\n\
                      message = b'\\x01' + struct.pack('>I', len(body))[1:] + body\n\
                      escaped(server_hello('good.test', records(message)))";
        let outcome = internet.machine.within(|| test.run(crate::attempt::python(script)));
        outcome.code(0).stdout_contains("a server answered").no_denials();
    }
}
