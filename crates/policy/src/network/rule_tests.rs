//! Rules as they are written: hosts, HTTP, secrets.

use crate::network::http::HttpRule;
use crate::network::path::{is_below, plain_path};
use crate::network::rule::HostRule;
use crate::network::secret::{SecretRule, SecretSource};

fn rule(text: &str) -> HostRule {
    HostRule::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn a_rule_is_printed_as_it_is_read() {
    for (text, printed) in [
        ("api.example.com", "api.example.com"),
        ("API.example.com.:8443", "api.example.com:8443"),
        ("*.example.com:443", "*.example.com:443"),
        ("*.BÜCHER.example", "*.xn--bcher-kva.example"),
        ("192.0.2.10:22", "192.0.2.10:22"),
        ("[2001:db8::1]:22", "[2001:db8::1]:22"),
        ("2001:db8::1", "[2001:db8::1]"),
        ("[::ffff:192.0.2.10]:22", "192.0.2.10:22"),
        ("@work", "@work"),
    ] {
        assert_eq!(rule(text).to_string(), printed);
        assert_eq!(rule(printed), rule(text));
    }
    assert_eq!(rule("a.example").ports(), [80, 443]);
    assert_eq!(rule("a.example:22").ports(), [22]);
}

#[test]
fn wrong_rules() {
    let wrong = [
        "",
        "*",
        "*.",
        "*:443",
        "*example.com",
        "a.*.example.com",
        "*.*.example.com",
        "https://api.example.com/v1",
        "https://user:pass@api.example.com:8443/v1",
        "api.example.com/v1",
        "api.example.com:https",
        "api.example.com:0",
        "@",
        "@Work",
        "@work:443",
        "*.192.0.2.10",
        "0x7f.1:80",
        "fe80::1%eth0",
        "a b",
    ];
    let lines = wrong.map(|text| format!("{text:?}\n  => {}", HostRule::parse(text).unwrap_err()));
    insta::assert_snapshot!("wrong_rules", lines.join("\n"));
}

#[test]
fn what_can_not_be_granted() {
    for text in [
        "localhost:8080",
        "a.localhost",
        "*.localhost",
        "127.0.0.1:5432",
        "127.9.9.9",
        "[::1]:80",
        "[::127.0.0.1]",
        "[64:ff9b::127.0.0.1]",
        "[2002:7f00:1::]",
    ] {
        assert!(rule(text).grantable().unwrap_err().to_string().contains("--allow-local"), "{text}");
    }
    for text in ["0.0.0.0", "[::]", "224.0.0.1", "[ff02::1]", "255.255.255.255", "[64:ff9b::]"] {
        assert!(
            rule(text).grantable().unwrap_err().to_string().contains("nothing can be connected to"),
            "{text}"
        );
    }
    for text in
        ["10.0.0.1:22", "169.254.1.1:80", "[fd00::1]:22", "[fe80::1]:80", "@work", "*.com", "internal"]
    {
        assert_eq!(rule(text).grantable(), Ok(()), "{text}");
    }
    insta::assert_snapshot!(rule("127.0.0.1:5432").grantable().unwrap_err(), @"`127.0.0.1:5432` is this machine itself; to let the sandbox reach a service here, use --allow-local 5432 (network.local)");
    insta::assert_snapshot!(rule("localhost").grantable().unwrap_err(), @"`localhost` is this machine itself; to let the sandbox reach a service here, use --allow-local PORT (network.local)");
    insta::assert_snapshot!(rule("0.0.0.0").grantable().unwrap_err(), @"`0.0.0.0` is an unspecified address, nothing can be connected to there");
}

#[test]
fn covering() {
    for (wide, narrow) in [
        ("a.example", "a.example"),
        ("a.example", "a.example:443"),
        ("*.example", "a.example"),
        ("*.example", "b.a.example:80"),
        ("*.example", "*.a.example"),
        ("*.example:22", "a.example:22"),
        ("192.0.2.1", "192.0.2.1:80"),
    ] {
        assert!(rule(wide).covers(&rule(narrow)), "{wide} {narrow}");
    }
    for (wide, narrow) in [
        ("a.example:443", "a.example"),
        ("*.example", "example"),
        ("*.a.example", "*.example"),
        ("a.example", "*.a.example"),
        ("*.example", "a.example:22"),
        ("192.0.2.1", "192.0.2.2"),
        ("*.2", "192.0.2.2"),
    ] {
        let Ok(wide) = HostRule::parse(wide) else { continue };
        assert!(!wide.covers(&rule(narrow)), "{wide} {narrow}");
    }
}

#[test]
fn plain_paths() {
    for (path, plain) in [
        ("/", "/"),
        ("/repos/a", "/repos/a"),
        ("/repos/", "/repos/"),
        ("/%72epos/a%20b", "/repos/a%20b"),
        ("/a%c3%bc", "/a%C3%BC"),
        ("/a.b/..c/c..", "/a.b/..c/c.."),
        ("/v1;x=1/a:b@c", "/v1;x=1/a:b@c"),
    ] {
        assert_eq!(plain_path(path).as_deref(), Some(plain), "{path}");
    }
    for path in [
        "",
        "*",
        "repos",
        "//",
        "//evil.example/x",
        "/a//b",
        "/.",
        "/..",
        "/a/../b",
        "/a/./b",
        "/a/..",
        "/a/..;/b",
        "/a/..;x=1/b",
        "/;/a",
        "/a/%2e%2e/b",
        "/a/%2E./b",
        "/a%2fb",
        "/a%5cb",
        "/a\\..\\b",
        "/a%252e",
        "/a%25",
        "/a%00",
        "/a%0d%0aX",
        "/a%",
        "/a%4",
        "/a%zz",
        "/a b",
        "/a?b",
        "/a#b",
        "/ü",
        "/a\0",
        "/a\n",
        "/a%3bb",
        "/a%u002e",
    ] {
        assert_eq!(plain_path(path), None, "{path:?}");
    }
    assert!(
        is_below("/repos", "/repos") && is_below("/repos/x", "/repos") && is_below("/repos/x", "/repos/")
    );
    assert!(!is_below("/repository", "/repos") && !is_below("/repos", "/repos/") && is_below("/x", "/"));
}

fn http(methods: &[&str], paths: &[&str]) -> HttpRule {
    let list = |list: &[&str]| list.iter().map(|&item| item.to_owned()).collect();
    HttpRule { host: "api.example.com".parse().unwrap(), methods: list(methods), paths: list(paths) }
}

#[test]
fn http_rules() {
    let read = http(&["GET", "HEAD"], &["/repos", "/user/"]);
    assert!(
        read.allows("GET", "/repos/a") && read.allows("HEAD", "/user/x") && read.allows("GET", "/%72epos")
    );
    for (method, path) in [
        ("POST", "/repos"),
        ("get", "/repos"),
        ("GET", "/user"),
        ("GET", "/repository"),
        ("GET", "/repos/../admin"),
        ("GET", "/repos/%2e%2e/admin"),
        ("GET", "/repos%2f..%2fadmin"),
        ("GET", "*"),
        ("GET", "http://api.example.com/repos"),
    ] {
        assert!(!read.allows(method, path), "{method} {path}");
    }
    // Without paths there is nothing to be read in two ways.
    assert!(http(&["GET"], &[]).allows("GET", "/a%2fb") && !http(&["GET"], &[]).allows("PUT", "/"));
    assert!(http(&[], &["/a"]).allows("PATCH", "/a"));

    assert!(
        http(&[], &[]).covers(&read) && http(&["GET", "HEAD"], &["/"]).covers(&read) && read.covers(&read)
    );
    assert!(
        !read.covers(&http(&[], &["/repos"]))
            && !read.covers(&http(&["GET"], &[]))
            && !read.covers(&http(&["GET"], &["/"]))
    );

    assert_eq!(read.problem(), None);
    insta::assert_snapshot!(http(&["get"], &[]).problem().unwrap(), @"`get` is not a method, write it in upper case, like GET");
    insta::assert_snapshot!(http(&["CONNECT"], &[]).problem().unwrap(), @"CONNECT asks for a tunnel, not for a path, and is never let through");
    insta::assert_snapshot!(http(&[], &["repos"]).problem().unwrap(), @"`repos` is not a path prefix, write it like /repos/ with nothing encoded, no `..` and no query");
    assert!(http(&[], &["/a/../b"]).problem().is_some() && http(&[], &["/%61"]).problem().is_some());
    assert_eq!(read.to_string(), "api.example.com GET,HEAD /repos,/user/");
    assert_eq!(http(&[], &[]).to_string(), "api.example.com * *");
}

#[test]
fn secrets() {
    let secret = |text: &str| SecretRule::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    for text in [
        "GITHUB_TOKEN=env:GITHUB_TOKEN@api.example.com",
        "A=file:/run/keys/a@b@api.example.com,*.example.org:8443",
        "A=cmd:pass show 'x=y' | head -1@api.example.com+body",
        "A=store:MINE@api.example.com",
    ] {
        assert_eq!(secret(text).to_string(), text);
    }
    let parsed = secret("A=file:~/x@a.example:8443,b.example");
    assert_eq!(parsed.from, SecretSource::File("~/x".into()));
    let host = |text: &str| crate::network::host::Host::parse(text).unwrap();
    assert!(parsed.is_for(&host("a.example"), 8443) && !parsed.is_for(&host("a.example"), 443));
    assert!(parsed.is_for(&host("b.example"), 443) && !parsed.is_for(&host("c.b.example"), 443));

    let value = "ghp_planted";
    for text in [
        "ghp_planted",
        "A=ghp_planted@api.example.com",
        "A=user:ghp_planted@api.example.com",
        "A=env:ghp-planted@api.example.com",
        "A=store:ghp-planted@api.example.com",
        "ghp_planted=",
        "1=ghp_planted",
        "A=cmd:ghp_planted",
        "A=file:@api.example.com",
    ] {
        let error = SecretRule::parse(text).unwrap_err();
        assert!(!error.to_string().contains("planted") || text.starts_with(value), "{error}");
    }
    let error = |text: &str| SecretRule::parse(text).unwrap_err().to_string();
    insta::assert_snapshot!(error("A"), @"a secret is written like NAME=env:VARIABLE@HOST, with file:PATH, cmd:COMMAND or store:NAME in the place of env:VARIABLE; the value itself is never written");
    insta::assert_snapshot!(error("A=env:B"), @"secret `A` has no host to be used for, write it like A=env:A@api.example.com");
    insta::assert_snapshot!(error("A=env:B@"), @"secret `A` has no host to be used for, write it like A=env:A@api.example.com");
    insta::assert_snapshot!(error("A=B@a.example"), @"the source of a secret is env:VARIABLE, file:PATH, cmd:COMMAND or store:NAME; the value itself is never written");
    insta::assert_snapshot!(error("A=env:B@192.0.2.1"), @"secret `A`: `192.0.2.1` is no host name; a secret goes only to names, whose certificates are checked");
    insta::assert_snapshot!(error("A=env:B@localhost"), @"secret `A`: `localhost` is this machine itself; to let the sandbox reach a service here, use --allow-local PORT (network.local)");
    assert!(error("A=env:B@a b").contains("is not a host name"));
}
