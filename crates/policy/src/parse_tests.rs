//! Reading every key, and what is said about a file that can not be read.

use super::*;
use crate::schema::json_schema;

#[test]
fn the_table_of_keys_is_the_schema() {
    let schema = json_schema();
    let properties =
        |value: &Value| -> Vec<String> { value["properties"].as_object().unwrap().keys().cloned().collect() };
    let mut top: Vec<String> = KEYS[0].1.iter().map(|(key, _)| (*key).to_owned()).collect();
    for (section, keys) in &KEYS[1..] {
        top.push((*section).to_owned());
        let reference = schema["properties"][section]["$ref"].as_str().unwrap();
        let definition = schema.pointer(reference.trim_start_matches('#')).unwrap();
        let mut known: Vec<String> = keys.iter().map(|(key, _)| (*key).to_owned()).collect();
        known.sort();
        let mut real = properties(definition);
        real.sort();
        assert_eq!(known, real, "{section}");
    }
    top.sort();
    let mut real = properties(&schema);
    real.sort();
    assert_eq!(top, real);
}

#[test]
fn reads_every_key() {
    let text = r#"
        profile = "restrictive"
        image = "python-3.11"
        waive = ["network"]
        [filesystem]
        host = "all"
        toolchains = true
        workspace = "/srv/work"
        read = ["~/notes", "data", "/srv"]
        write = ["/srv/out"]
        hide = ["/srv/keys"]
        tmp = "64MiB"
        unprotect = [".vscode"]
        [network]
        mode = "allow"
        allow = ["*.example.org:443", "@work"]
        deny = ["bad.example.org"]
        private = ["10.0.0.0/8", "fd00::5"]
        local = [5432]
        no_sni = ["old.example.org"]
        groups = { work = ["192.0.2.10:22", "[2001:db8::1]:22"] }
        http = [{ host = "Api.Example.org", methods = ["GET"], paths = ["/repos"] }, { host = "b.example.org" }]
        [limits]
        cpus = 1.5
        memory = 1048576
        processes = "none"
        disk = "1G"
        open_files = 64
        output = "none"
        wall_time = 1.5
        connections = 64
        bandwidth = "1M"
        [syscalls]
        profile = "default"
        allow = ["ptrace"]
        deny = ["socket"]
        compat = false
        [environment]
        set = { A = "1" }
        pass = ["MY_*"]
        [identity]
        user = "dev"
        hostname = "box"
        [[network.secrets]]
        name = "TOKEN"
        from = "env:TOKEN"
        hosts = ["api.example.org"]
        [[network.secrets]]
        name = "OTHER"
        from = "cmd:pass show other"
        hosts = ["*.example.org:443"]
        body = true
    "#;
    let layer = Layer::from_toml(text).unwrap();
    insta::assert_json_snapshot!("every_key", layer);
    let json = serde_json::to_string(&layer).unwrap();
    assert_eq!(Layer::from_json(&json).unwrap(), layer);
    assert_eq!(Layer::from_toml(&layer.to_toml().unwrap()).unwrap(), layer);
}

#[test]
fn toml_errors() {
    let wrong = [
        "[filesystem]\nraed = [\"/srv\"]",
        "[filesystme]\nread = []",
        "memory = \"1G\"",
        "[network]\ncpus = 1",
        "[limits]\nquux = 1",
        "\"a.b\" = 1",
        "[filesystem]\nread = \"/srv\"",
        "[filesystem]\nread = [\"/srv\", 3]",
        "[filesystem]\nhost = \"al\"",
        "[filesystem]\ntoolchains = \"yes\"",
        "[filesystem]\nworkspace = \"here\"",
        "[filesystem]\ntmp = 0",
        "[filesystem]\nread = [\"\\u0000\"]",
        "[filesystem]\nread = [\"~bob/x\"]",
        "[filesystem]\nunprotect = [\".vscod\"]",
        "filesystem = 3",
        "profile = \"strict\"",
        "waive = [\"capabilities\"]",
        "waive = [\"limits.memry\"]",
        "[limits]\ncpus = 0",
        "[limits]\ncpus = inf",
        "[limits]\ncpus = \"two\"",
        "[limits]\nmemory = \"1Q\"",
        "[limits]\nmemory = -1",
        "[limits]\nmemory = 0",
        "[limits]\nprocesses = 1.5",
        "[limits]\nwall_time = \"soon\"",
        "[syscalls]\nallow = [\"PTRACE\"]",
        "[environment.set]\n\"A=B\" = \"1\"",
        "[environment]\npass = [\"*\"]",
        "[environment]\npass = [\"A*B\"]",
        "[identity]\nuser = \"Root User\"",
        "[identity]\nhostname = \"\"",
        "[network]\nallow = [\"a b\"]",
        "[network]\nallow = \"example.org\"",
        "[network]\nallow = [\"https://user:planted@example.org/x\"]",
        "[network]\nallow = [\"*\"]",
        "[network]\nallow = [\"localhost:8080\"]",
        "[network]\ndeny = [\"0x7f.1\"]",
        "[network]\nprivate = [\"127.0.0.0/8\"]",
        "[network]\nprivate = [\"10.0.0.1/8\"]",
        "[network]\nlocal = [0]",
        "[network]\nlocal = [70000]",
        "[network]\nno_sni = [\"*.example.org\"]",
        "[network.groups]\nWork = []",
        "[network.groups]\nwork = [\"@home\"]",
        "[network.groups]\nwork = [\"127.0.0.1\"]",
        "[network]\nhttps = []",
        "[[network.http]]\nmethods = [\"GET\"]",
        "[[network.http]]\nhost = \"a.example\"\nmethod = [\"GET\"]",
        "[[network.http]]\nhost = \"a.example\"\nmethods = [\"get\"]",
        "[[network.http]]\nhost = \"a.example\"\npaths = [\"/a/../b\"]",
        "[[network.http]]\nhost = \"*.example\"",
        "[network]\nsecrets = \"planted\"",
        "[[network.secrets]]\nname = \"A\"\nfrom = \"planted\"\nhosts = [\"a.example\"]",
        "[[network.secrets]]\nname = \"A\"\nfrom = [\"planted\"]\nhosts = [\"a.example\"]",
        "[[network.secrets]]\nname = \"A\"\nfrom = \"env:A\"",
        "[[network.secrets]]\nname = \"A\"\nfrom = \"env:A\"\nhosts = []",
        "[[network.secrets]]\nname = \"A B\"\nfrom = \"env:A\"\nhosts = [\"a.example\"]",
        "[[network.secrets]]\nname = \"A\"\nfrom = \"env:A\"\nhosts = [\"192.0.2.1\"]",
        "[[network.secrets]]\nname = \"A\"\nfrom = \"env:A\"\nhosts = [\"a.example\"]\n[[network.secrets]]\nname = \"A\"\nfrom = \"env:B\"\nhosts = [\"a.example\"]",
        "[limits]\nconnections = 0",
        "[limits]\nbandwidth = \"fast\"",
        "profile = \"moderate\"\nprofile = \"moderate\"",
        "profile = ",
    ];
    let lines: Vec<String> =
        wrong.iter().map(|text| format!("{text}\n  => {}", Layer::from_toml(text).unwrap_err())).collect();
    // What was written for a secret, or in a URL, is not repeated.
    assert!(lines.iter().all(|line| !line.split("=> ").last().unwrap_or_default().contains("planted")));
    insta::assert_snapshot!("toml_errors", lines.join("\n\n"));
}

#[test]
fn json_errors() {
    let wrong = [
        "{\"filesystem\":\n {\"raed\": []}}",
        "{\"limits\":\n {\"memory\": null}}",
        "{\"limits\":\n {\"memory\": true}}",
        "{\"profile\": \"moderate\", \"profile\": \"moderate\"}",
        "[1]",
        "{",
        "",
    ];
    let lines: Vec<String> =
        wrong.iter().map(|text| format!("{text}\n  => {}", Layer::from_json(text).unwrap_err())).collect();
    insta::assert_snapshot!("json_errors", lines.join("\n\n"));
}
