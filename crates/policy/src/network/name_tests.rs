//! Tricks in names, one by one.

use crate::network::name::{HostName, HostNameError};

fn is(text: &str, name: &str) {
    assert_eq!(HostName::parse(text).map(|name| name.to_string()), Ok(name.to_owned()), "{text:?}");
}

#[test]
fn one_name_has_one_form() {
    is("example.org", "example.org");
    is("EXAMPLE.Org", "example.org");
    is("example.org.", "example.org");
    is("localhost", "localhost");
    is("_acme-challenge.example.org", "_acme-challenge.example.org");
    is("r3---sn-abc.example", "r3---sn-abc.example");
    is("1.2.3.4.example.org", "1.2.3.4.example.org");
    is("3com.example", "3com.example");
    is("example.0xyz", "example.0xyz");
    is("127.0.0.1.nip.example", "127.0.0.1.nip.example");
    is(&format!("{}.example", "a".repeat(63)), &format!("{}.example", "a".repeat(63)));
}

#[test]
fn other_scripts_become_ascii_once() {
    is("bücher.example", "xn--bcher-kva.example");
    is("BÜCHER.example", "xn--bcher-kva.example");
    // The same letter, composed of two.
    is("bu\u{308}cher.example", "xn--bcher-kva.example");
    is("XN--BCHER-KVA.example", "xn--bcher-kva.example");
    is("faß.example", "xn--fa-hia.example");
    is("例え.テスト", "xn--r8jz45g.xn--zckzah");
    // Dots of other scripts are dots.
    is("a。b．c｡example", "a.b.c.example");
    is("ｅｘａｍｐｌｅ.org", "example.org");
    // A soft hyphen, and a zero width space: ignored by IDNA.
    is("ex\u{ad}ample.org", "example.org");
    is("exa\u{200b}mple.org", "example.org");
    is("①.example", "1.example");
    is("ℂ.example", "c.example");
    is("example.org。", "example.org");
}

#[test]
fn a_look_alike_is_another_name() {
    let apple = HostName::parse("apple.example").unwrap();
    // Cyrillic а, р, е; Greek ο; a dotless i; a Cherokee letter; combining marks.
    for text in ["аpple.example", "аррle.example", "applе.example", "appⅼe.examplе", "ap\u{307}ple.example"]
    {
        let other = HostName::parse(text).unwrap();
        assert_ne!(other, apple, "{text}");
        assert!(other.as_str().contains("xn--"), "{text} is {other}");
    }
    assert_ne!(HostName::parse("gοοgle.example"), HostName::parse("google.example"));
    assert_ne!(HostName::parse("lınux.example"), HostName::parse("linux.example"));
}

#[test]
fn tricks_are_refused() {
    let characters = [
        "a\0b.example",
        "example.org\0.evil.example",
        "example.org\n",
        "example.org\r\nHost: evil.example",
        " example.org",
        "example.org ",
        "exa mple.org",
        "example.org\t",
        "example%2eorg",
        "example.org%00",
        "user@example.org",
        "example.org:443",
        "example.org/",
        "example.org\\evil",
        "example.org?x",
        "example.org#x",
        "[example.org]",
        "*.example.org",
        "example,org",
        "example.org;evil",
        "\"example.org\"",
        "example.org\u{7f}",
        "exa\u{ff05}mple.org",
        "example.org\u{ff0f}evil",
        "example.org\u{ff1a}443",
        "user\u{ff20}example.org",
        "a\u{ff0a}.example",
        "example.org\u{2100}",
    ];
    for text in characters {
        let error = HostName::parse(text).unwrap_err();
        assert!(matches!(error, HostNameError::Character { .. }), "{text:?}: {error:?}");
        assert!(!error.to_string().contains(|c: char| c.is_control()), "{error}");
    }
    let idna = [
        "xn--a.example",
        "xn--.example",
        "xn--\u{fc}.example",
        "a\u{202e}b.example",
        "\u{300}.example",
        "a\u{fffd}.example",
        "xn--bcher-kva8.example",
        "a\u{200d}b.example",
        "xn--ls8h-.example",
        "\u{5d0}a.example",
    ];
    for text in idna {
        let error = HostName::parse(text).unwrap_err();
        assert!(matches!(error, HostNameError::Idna { .. }), "{text:?}: {error:?}");
    }
    for text in [
        ".",
        "..",
        ".example.org",
        "example..org",
        "example.org..",
        "example.org.。",
        "\u{ad}.example",
        "\u{ad}",
    ] {
        let error = HostName::parse(text).unwrap_err();
        assert!(matches!(error, HostNameError::EmptyLabel { .. }), "{text:?}: {error:?}");
    }
    for text in ["-a.example", "a-.example", "a.-", "-"] {
        assert!(matches!(HostName::parse(text), Err(HostNameError::Hyphen { .. })), "{text:?}");
    }
    assert_eq!(HostName::parse(""), Err(HostNameError::Empty));
}

#[test]
fn what_a_resolver_takes_for_an_address_is_no_name() {
    let numbers = [
        "2130706433",
        "017700000001",
        "0x7f000001",
        "0X7F000001",
        "0x",
        "127.1",
        "127.0.1",
        "127.0.0.1",
        "127.0.0.1.",
        "0177.0.0.1",
        "0x7f.0.0.1",
        "0x7f.1",
        "127.0.0.0x1",
        "127.0.0.01",
        "256.256.256.256",
        "1.2.3.4.5",
        "example.1",
        "example.0x1f",
        "１２７.0.0.1",
        "127。0。0。1",
        "①②⑦.0.0.1",
        "0ｘ7f.1",
        "4294967296",
    ];
    for text in numbers {
        assert!(matches!(HostName::parse(text), Err(HostNameError::Number { .. })), "{text:?}");
    }
    for text in ["::1", "[::1]", "::ffff:127.0.0.1", "fe80::1%lo", "[::]", "2001:db8::1"] {
        assert!(HostName::parse(text).is_err(), "{text:?}");
    }
}

#[test]
fn lengths() {
    let name =
        |n: usize| [&"a".repeat(63) as &str, &"b".repeat(63), &"c".repeat(63), &"d".repeat(n)].join(".");
    assert!(HostName::parse(&name(61)).is_ok_and(|name| name.as_str().len() == 253));
    assert!(HostName::parse(&format!("{}.", name(61))).is_ok());
    for text in [
        name(62),
        "a".repeat(64),
        format!("{}.example", "ü".repeat(60)),
        "a.".repeat(600),
        "ü".repeat(10_000),
    ] {
        assert!(matches!(HostName::parse(&text), Err(HostNameError::TooLong { .. })), "{text}");
    }
}

#[test]
fn on_the_wire_a_name_is_ascii() {
    assert_eq!(HostName::parse_ascii("EXAMPLE.org."), HostName::parse("example.org"));
    assert_eq!(HostName::parse_ascii("xn--bcher-kva.example"), HostName::parse("bücher.example"));
    for text in ["bücher.example", "ｅxample.org", "example。org"] {
        assert!(matches!(HostName::parse_ascii(text), Err(HostNameError::Character { .. })), "{text}");
    }
}

#[test]
fn below_means_whole_labels() {
    let name = |text: &str| HostName::parse(text).unwrap();
    assert!(name("a.example.org").is_below(&name("example.org")));
    assert!(name("a.b.example.org").is_below(&name("example.org")));
    for other in ["example.org", "badexample.org", "example.org.evil", "org"] {
        assert!(!name(other).is_below(&name("example.org")), "{other}");
    }
    assert!(name("a.localhost").is_localhost() && !name("notlocalhost").is_localhost());
}

#[test]
fn errors() {
    let error = |text: &str| HostName::parse(text).unwrap_err().to_string();
    insta::assert_snapshot!(error(""), @"a host name is empty, write one like example.org");
    insta::assert_snapshot!(error("a b"), @"`a b` is not a host name, it has ` `; write only the name, like example.org");
    insta::assert_snapshot!(error("a\nb"), @r"`a\nb` is not a host name, it has `\n`; write only the name, like example.org");
    insta::assert_snapshot!(error("a..b"), @"`a..b` is not a host name, there is nothing between two dots");
    insta::assert_snapshot!(error("127.1"), @"`127.1` ends in a number, so that some programs take it for an address; write an address as four decimal numbers, like 192.0.2.10");
    insta::assert_snapshot!(error("xn--a"), @"`xn--a` is not a name that IDNA allows");
}
