//! Where names lead: a granted name whose address is private, link-local, metadata or this machine's own is not dialled,
//! however the address is dressed up, and not when it changes between two questions.

use std::io::Write;
use std::net::TcpListener;

use ringfence_testing::{
    Answer, CLOSED, EVIL, EVIL_V6, Internet, MACHINE_PRIVATE, MACHINE_V4, MACHINE_V6, METADATA, NAT64_TEN,
    TEN, UNIQUE_LOCAL,
};

use crate::attempt::{Attempt, attempt};
use crate::row::Row;

pub(crate) fn rows() -> Vec<Row> {
    let mut rows: Vec<Row> = CLOSED
        .iter()
        .map(|(class, address)| {
            let name = format!("{class}.evil.test");
            attempt(format!("leads-to-{class}"), format!("connects to a granted name that is {address}"))
                .grant([format!("{name}:4242")])
                .python(&format!("escaped(greeted('{name}'))"))
                .denied(name)
                .row()
        })
        .collect();
    rows.extend(dressed_up());
    rows.extend(to_the_machine());
    rows.extend(changing());
    rows.extend(open());
    rows.extend(direct());
    rows
}

/// Answers that hide an address in another one.
fn dressed_up() -> Vec<Row> {
    let row = |name: &str, address: &'static str| {
        let host = format!("{name}.evil.test");
        let (asked, told) = (host.clone(), host.clone());
        attempt(format!("leads-to-{name}"), format!("connects to a granted name that is {address}"))
            .set_up(move |internet, _| {
                internet.dns.point(&told, &[address]);
                Vec::new()
            })
            .grant([format!("{host}:4242")])
            .python(&format!("escaped(greeted('{asked}'))"))
            .denied(host)
            .row()
    };
    vec![
        row("mapped-private", "::ffff:10.1.2.3"),
        row("mapped-metadata", "::ffff:169.254.169.254"),
        attempt("alias-to-private", "connects to a granted name that is another name for a private one")
            .grant(["alias-to-private.evil.test:4242"])
            .python("escaped(greeted('alias-to-private.evil.test'))")
            .denied("alias-to-private.evil.test")
            .row(),
        attempt("service-to-private", "follows a service record of a granted domain into private space")
            .grant(["evil.test:4242", "_echo._tcp.evil.test:4242"])
            .python(
                "_, answers, reply = ask('{dns}', question(wire('_echo._tcp.evil.test'), 33))\n\
                 if not answers: held('no service record')\n\
                 escaped(greeted('private-10.evil.test'))",
            )
            .row(),
        attempt("hosts-file-private", "connects to a granted name that the hosts file says is private")
            .grant(["private-by-hosts-file.test:4242"])
            .python("escaped(greeted('private-by-hosts-file.test'))")
            .denied("private-by-hosts-file.test")
            .row(),
        attempt("private-range-is-not-all", "reaches metadata with a private range granted")
            .grant(["metadata.evil.test:4242"])
            .flags(["--allow-private", "10.0.0.0/8"])
            .python("escaped(greeted('metadata.evil.test'))")
            .denied("metadata.evil.test")
            .row(),
        attempt("other-private-range", "reaches 192.168.7.7 with another private range granted")
            .grant(["private-192.evil.test:4242"])
            .flags(["--allow-private", "10.0.0.0/8"])
            .python("escaped(greeted('private-192.evil.test'))")
            .denied("private-192.evil.test")
            .twin_with(["--allow-host", "private-192.evil.test:4242", "--allow-private", "192.168.0.0/16"]),
        attempt("redirect-to-private", "follows a redirect of a granted server into private space")
            .grant(["good.test:80"])
            .shell("curl -sfL --max-time 5 http://good.test/to-private | grep 'at 10.1.2.3'")
            .denied(TEN)
            .row(),
        attempt("redirect-to-evil", "follows a redirect of a granted server to one that is not")
            .grant(["good.test:80"])
            .shell("curl -sfL --max-time 5 http://good.test/to-evil | grep 'page of evil.test'")
            .denied("evil.test")
            .row(),
    ]
}

/// A server on the machine's own loopback, by every name and address that leads there.
fn to_the_machine() -> Vec<Row> {
    let names = [
        ("loopback", "localhost.evil.test"),
        ("loopback-alias", "alias-to-loopback.evil.test"),
        ("loopback-hosts-file", "loopback-by-hosts-file.test"),
        ("loopback-mapped", "mapped-loopback.evil.test"),
        ("loopback-other", "other-loopback.evil.test"),
        ("loopback-zero", "zero.evil.test"),
    ];
    let mut rows: Vec<Row> = names
        .into_iter()
        .map(|(name, asked)| {
            on_loopback(name, "connects to a granted name that is the machine itself")
                .grant([format!("{asked}:{{port}}")])
                .python(&format!("escaped(greeted('{asked}', {{port}}))"))
                .denied(asked)
                .row()
        })
        .collect();
    rows.extend(to_an_own_address());
    rows.extend([
        on_loopback("localhost", "connects to localhost, where a service of the user listens")
            .grant(["good.test"])
            .python("escaped(greeted('localhost', {port}))")
            .row(),
        on_loopback("local-other-port", "connects to a port of the machine that is not granted")
            .flags(["--allow-local", "1"])
            .python("escaped(greeted('127.0.0.1', {port}))")
            .twin_with(["--allow-local", "{port}"]),
        on_loopback("loopback-by-proxy", "asks the proxy for the machine's loopback")
            .grant(["good.test"])
            .python("escaped(greeting_on(*connect_through('{http_proxy}', '127.0.0.1:{port}')))")
            .said("was refused")
            .twin_python("escaped(greeted('127.0.0.1', {port}))"),
    ]);
    rows
}

/// The same server by the machine's other addresses, whatever class they are of: services of the user's listen there too.
fn to_an_own_address() -> Vec<Row> {
    let own = [("own-v4", MACHINE_V4), ("own-v6", MACHINE_V6), ("own-private", MACHINE_PRIVATE)];
    let on = |row: String, name: &'static str, address: &'static str| {
        let what = format!("connects to the machine's own {address}");
        on_loopback(&row, &what).set_up(move |internet, _| {
            internet.dns.point(&format!("{name}.evil.test"), &[address]);
            vec![("{port}".to_owned(), loopback_server(internet).to_string())]
        })
    };
    let mut rows = Vec::new();
    for (name, address) in own {
        let host = format!("{name}.evil.test");
        let dialled = format!("escaped(greeted('{host}', {{port}}))");
        rows.push(
            on(format!("leads-to-{name}"), name, address)
                .grant([format!("{host}:{{port}}")])
                .flags(["--allow-private", "10.0.0.0/8"])
                .python(&dialled)
                .denied(host.clone())
                .row(),
        );
        rows.push(
            on(format!("open-{name}"), name, address)
                .flags(["--network", "open", "--allow-private", "10.0.0.0/8"])
                .python(&dialled)
                .denied(host.clone())
                .row(),
        );
        rows.push(
            on(format!("open-{name}-direct"), name, address)
                .flags(["--network", "open", "--allow-private", "10.0.0.0/8"])
                .python(&format!("escaped(greeted('{address}', {{port}}))"))
                .denied(address)
                // The very address, written down, is another thing.
                .twin_with(["--allow-host", &format!("{}:{{port}}", bracketed(address))]),
        );
        rows.push(
            on(format!("{name}-by-proxy"), name, address)
                .grant([format!("{host}:{{port}}")])
                .flags(["--allow-private", "10.0.0.0/8"])
                .python(&format!(
                    "escaped(greeting_on(*connect_through('{{http_proxy}}', '{host}:{{port}}')))"
                ))
                .said("was refused")
                .twin_python(&dialled),
        );
    }
    rows
}

fn bracketed(address: &str) -> String {
    if address.contains(':') { format!("[{address}]") } else { address.to_owned() }
}

/// `{port}` is that of a greeting server on 127.0.0.1 and ::1 of the machine.
fn on_loopback(name: &str, what: &str) -> Attempt {
    attempt(name, what).set_up(|internet, _| {
        internet.dns.point("mapped-loopback.evil.test", &["::ffff:127.0.0.1"]);
        internet.dns.point("other-loopback.evil.test", &["127.8.8.8"]);
        vec![("{port}".to_owned(), loopback_server(internet).to_string())]
    })
}

/// A server of the user's, on all of the machine's loopback. Its thread ends with the test process.
pub(crate) fn loopback_server(internet: &Internet) -> u16 {
    static PORT: std::sync::OnceLock<u16> = std::sync::OnceLock::new();
    *PORT.get_or_init(|| {
        let listener = internet.machine.within(|| TcpListener::bind(("::", 0)).expect("bind on the machine"));
        let port = listener.local_addr().expect("its address").port();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let _ = stream.write_all(b"welcome to the machine itself\n");
            }
        });
        port
    })
}

/// Whoever is reached gets the token, so that the world can tell who that was.
const TRY: &str = "for _ in range(6):\n    try:\n        stream = dial('{host}', {port})\n        \
                   got = greeting_on(stream)\n        stream.sendall(b'{token}')\n    \
                   except OSError: continue\n    \
                   if not any(public in got for public in ('192.0.2.66', '2001:db8::66')): escaped(got)\n\
                   held('never')";

/// A name whose answers take turns, each of them good for this one question only (a time to live of 0).
fn turning(name: &str, what: &str, turns: &'static [&'static [&'static str]]) -> Attempt {
    let host = format!("{name}.rebind.test");
    let told = host.clone();
    let attempt = attempt(name, what).set_up(move |internet, _| {
        let address = |text: &&str| text.parse().expect("an address");
        let turns = turns.iter().map(|set| set.iter().map(address).collect()).collect();
        internet.dns.set(&told, [Answer::Turns(turns)]);
        let alias = told.replace(".rebind.test", ".alias.rebind.test");
        internet.dns.set(&alias, [Answer::Alias(told.clone())]);
        vec![("{port}".to_owned(), "4242".to_owned())]
    });
    attempt.python(&TRY.replace("{host}", &host)).world(|internet, scene| {
        let contacts = internet.recorder.contacts();
        let told = |said: &[u8]| String::from_utf8_lossy(said).contains(&scene.token);
        let public = |at: &str| at == EVIL || at == EVIL_V6;
        match contacts.iter().find(|contact| told(&contact.said) && !public(&contact.at.to_string())) {
            Some(contact) => Err(format!("{} was reached", contact.at)),
            None => Ok(()),
        }
    })
}

/// Names that change their mind: between the look-up that is checked and the dial, and from one connection to the next.
fn changing() -> Vec<Row> {
    type Turns = &'static [&'static [&'static str]];
    const TURNS: &[(&str, &str, Turns)] = &[
        ("rebinding", "is public at first and private at the next question", &[&[EVIL], &[TEN]]),
        ("rebinding-back", "turns private and public by turns", &[&[TEN], &[EVIL], &[TEN], &[EVIL], &[TEN]]),
        ("rebinding-metadata", "turns to the metadata address", &[&[EVIL], &[METADATA]]),
        ("rebinding-v6", "turns from a public IPv6 address to a private one", &[&[EVIL_V6], &[UNIQUE_LOCAL]]),
        ("rebinding-metadata-v6", "turns to the metadata address of IPv6", &[&[EVIL_V6], &["fd00:ec2::254"]]),
        ("rebinding-nat64", "turns to a private address behind NAT64", &[&[EVIL_V6], &[NAT64_TEN]]),
        ("rebinding-family", "turns private in the other family", &[&[EVIL], &[UNIQUE_LOCAL]]),
        ("mixed-answer", "is public and private at the same time", &[&[TEN, EVIL]]),
        (
            "mixed-answer-v6",
            "is both at first, by IPv6, and private then",
            &[&[UNIQUE_LOCAL, EVIL_V6], &[UNIQUE_LOCAL]],
        ),
    ];
    let granted = |name: &str| [format!("{name}.rebind.test:4242")];
    let mut rows: Vec<Row> = TURNS
        .iter()
        .map(|(name, what, turns)| {
            turning(name, &format!("connects to a name that {what}"), turns).grant(granted(name)).row()
        })
        .collect();
    // The same behind another name, and where every public address is open.
    const PRIVATE: Turns = &[&[EVIL], &[TEN]];
    const TO_METADATA: Turns = &[&[EVIL], &[METADATA]];
    const PRIVATE_V6: Turns = &[&[EVIL_V6], &[UNIQUE_LOCAL]];
    for (name, turns) in [
        ("rebinding-alias", PRIVATE),
        ("rebinding-alias-metadata", TO_METADATA),
        ("rebinding-alias-v6", PRIVATE_V6),
    ] {
        let alias = format!("{name}.alias.rebind.test");
        let row = turning(name, "connects to another name for one that turns private", turns)
            .python(&TRY.replace("{host}", &alias));
        rows.push(row.grant([format!("{alias}:4242")]).row());
    }
    for (name, turns) in [("rebinding-open", PRIVATE), ("rebinding-open-v6", PRIVATE_V6)] {
        let row =
            turning(name, "connects to a name that turns private where everything public is open", turns);
        rows.push(row.flags(["--network", "open"]).row());
    }
    rows.extend(turning_to_the_machine());
    rows.push(
        turning(
            "rebinding-kept",
            "keeps a look-up of a public address, and connects to it when the name has become private",
            &[&[EVIL], &[TEN]],
        )
        .python(
            "def look_up(): return socket.getaddrinfo('rebinding-kept.rebind.test', 4242, socket.AF_INET, socket.SOCK_STREAM)[0][4]\n\
             address = look_up()\ntime.sleep(0.05)\n\
             for _ in range(6):\n    \
                 try: stream = socket.create_connection(address[:2], 5)\n    \
                 except OSError: continue\n    \
                 got = greeting_on(stream)\n    \
                 if '10.1.2.3' in got: escaped(got)\n    \
                 address = look_up()\n\
             held('never')",
        )
        .grant(granted("rebinding-kept"))
        .row(),
    );
    rows
}

/// Names that turn to the machine's own loopback, where a service of the user listens.
fn turning_to_the_machine() -> Vec<Row> {
    let row = |name: &'static str, first: &'static str, then: &'static str| {
        let host = format!("{name}.rebind.test");
        let told = host.clone();
        attempt(name, format!("connects to a name that turns to {then}"))
            .set_up(move |internet, _| {
                let turns = [first, then].map(|text| vec![text.parse().expect("an address")]);
                internet.dns.set(&told, [Answer::Turns(turns.into())]);
                vec![("{port}".to_owned(), loopback_server(internet).to_string())]
            })
            .grant([format!("{host}:{{port}}")])
            .python(&TRY.replace("{host}", &host))
            .denied(host)
            .row()
    };
    vec![
        row("rebinding-loopback", EVIL, "127.0.0.1"),
        row("rebinding-loopback-v6", EVIL_V6, "::1"),
        row("rebinding-loopback-mapped", EVIL_V6, "::ffff:127.0.0.1"),
        row("rebinding-unspecified", EVIL, "0.0.0.0"),
        row("rebinding-own", EVIL, MACHINE_V4),
        row("rebinding-own-v6", EVIL_V6, MACHINE_V6),
    ]
}

/// `--network open` is everything but what is closed to all.
fn open() -> Vec<Row> {
    let row = |name: &str, target: &str| {
        attempt(format!("open-{name}"), format!("connects to {target} where everything public is open"))
            .flags(["--network", "open"])
            .python(&format!("escaped(greeted('{target}'))"))
            .row()
    };
    vec![
        row("private", TEN),
        row("private-name", "private-10.evil.test"),
        row("metadata", "169.254.169.254"),
        row("metadata-name", "metadata.evil.test"),
        row("link-local", "169.254.7.7"),
        row("shared", "100.64.0.9"),
        row("unique-local", "fd00::7"),
        row("metadata-v6", "fd00:ec2::254"),
        row("nat64", "64:ff9b::a01:203"),
        row("mapped", "::ffff:10.1.2.3"),
        row("6to4", "2002:a01:203::1"),
        row("alias", "alias-to-private.evil.test"),
        on_loopback("open-loopback", "connects to the machine's loopback where everything public is open")
            .flags(["--network", "open"])
            .python("escaped(greeted('127.0.0.1', {port}))")
            .row(),
        on_loopback("open-loopback-name", "connects to a name of the machine's loopback where all is open")
            .flags(["--network", "open"])
            .python("escaped(greeted('localhost.evil.test', {port}))")
            .row(),
        attempt("open-denied", "connects to a denied name where everything public is open")
            .flags(["--network", "open", "--deny-host", "evil.test"])
            .python("escaped(greeted('evil.test'))")
            .denied("evil.test")
            .twin_with(["--network", "open"]),
    ]
}

/// Addresses instead of names.
fn direct() -> Vec<Row> {
    let row = |name: &str, target: &str, port: u16| {
        attempt(format!("direct-{name}"), format!("connects to the address {target}"))
            .grant(["good.test", "good.test:4242", "192.0.2.22:22"])
            .python(&format!("escaped(greeted('{target}', {port}))"))
    };
    vec![
        row("v4", EVIL, 4242).denied(EVIL).row(),
        row("v6", "2001:db8::66", 4242).denied("2001:db8::66").row(),
        row("of-a-granted-name", "192.0.2.10", 4242).denied("192.0.2.10").row(),
        row("mapped", "::ffff:192.0.2.66", 4242).said("was refused").row(),
        row("other-port-of-a-literal", "192.0.2.22", 4242).said("was refused").row(),
        row("beside-a-literal", "192.0.2.22", 25)
            .python("got = read(dial('192.0.2.22', 25), b'\\n')\nif b'220' in got: escaped(got)\nheld(got)")
            .row(),
        attempt("fake-address-unasked", "connects to addresses of the reserved range that stand for no name")
            .grant(["good.test:4242"])
            .set_up(|internet, _| {
                internet.dns.point("benchmark.evil.test", &["198.18.5.5"]);
                Vec::new()
            })
            .python("escaped(greeted('198.18.5.5'))")
            .said("was refused")
            .row(),
        attempt("fake-address-other-port", "connects to another port of a granted name's address")
            .grant(["echo.test:22"])
            .python("escaped(greeted('echo.test', 4242))")
            .denied("echo.test")
            .row(),
    ]
}
