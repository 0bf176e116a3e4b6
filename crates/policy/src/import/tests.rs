use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::{HostFiles, NetworkMode, Workspace};

fn places(file: &str) -> ImportPlaces {
    ImportPlaces { home: "/home/ann".into(), current: "/home/ann/app".into(), file: file.into() }
}

fn imported(from: ImportFrom, text: &str) -> Imported {
    let file = match from {
        ImportFrom::Srt => "/home/ann/.srt-settings.json",
        ImportFrom::ClaudeCode => "/home/ann/app/.claude/settings.json",
        ImportFrom::Codex => "/home/ann/.codex/config.toml",
        ImportFrom::Gemini => "/home/ann/.gemini/settings.json",
    };
    let imported = import(from, text, &places(file)).unwrap();
    imported.layer.validate().unwrap();
    let again = Layer::from_toml(&imported.layer.to_toml().unwrap()).unwrap();
    assert_eq!(again, imported.layer, "what is printed is what was meant");
    imported
}

impl Imported {
    fn became(&self, setting: &str) -> Became {
        let row = self.rows.iter().rev().find(|row| row.setting == setting);
        row.unwrap_or_else(|| panic!("no row for {setting}: {:#?}", self.rows)).became
    }
}

use Became::{CarriedOver, NotExpressible, Tightened};

#[test]
fn srt_clause_by_clause() {
    let text = r#"{
        "filesystem": {
            "denyRead": ["~/.ssh", "./secret"], "allowRead": [],
            "allowWrite": [".", "~/.cache/app", "/tmp/build", "src/*.ts"],
            "denyWrite": ["docs/", "~/.cache/app/keep", "/srv"]
        },
        "network": {
            "allowedDomains": ["example.com", "*.example.org:8443", "localhost:5432", "a.*.com"],
            "deniedDomains": ["bad.example.com"],
            "allowUnixSockets": ["/run/docker.sock"], "allowLocalBinding": true,
            "deniedResolvedAddresses": ["10.0.0.0/8"]
        },
        "enableWeakerNestedSandbox": true, "ripgrep": {"command": "rg"}, "fromTheFuture": 1
    }"#;
    let imported = imported(ImportFrom::Srt, text);
    let (files, network) = (&imported.layer.filesystem, &imported.layer.network);
    assert_eq!(files.host, Some(HostFiles::All));
    assert_eq!(files.workspace, Some(Workspace::Current));
    assert_eq!(files.hide, [Path::new("/home/ann/.ssh"), Path::new("/home/ann/app/secret")]);
    assert_eq!(files.protect, [".gitmodules", ".ripgreprc", "docs/"]);
    assert!(files.write.is_empty(), "an exception in it takes the grant away: {:?}", files.write);
    assert_eq!(network.mode, Some(NetworkMode::Allow));
    assert_eq!(
        network.allow.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["example.com", "*.example.org:8443"]
    );
    assert_eq!(network.deny.len(), 1);
    assert_eq!(network.local, [5432]);
    for (setting, became) in [
        ("filesystem.denyRead: ~/.ssh", CarriedOver),
        ("filesystem.allowWrite: .", CarriedOver),
        ("filesystem.allowWrite: /tmp/build", Tightened),
        ("filesystem.allowWrite: src/*.ts", NotExpressible),
        ("filesystem.denyWrite: docs/", CarriedOver),
        ("filesystem.denyWrite: ~/.cache/app/keep", Tightened),
        ("filesystem.denyWrite: /srv", CarriedOver),
        ("network.allowedDomains: example.com", Tightened),
        ("network.allowedDomains: localhost:5432", CarriedOver),
        ("network.allowedDomains: a.*.com", NotExpressible),
        ("network.deniedDomains: bad.example.com", CarriedOver),
        ("network.allowUnixSockets", Tightened),
        ("network.allowLocalBinding", CarriedOver),
        ("network.deniedResolvedAddresses: 10.0.0.0/8", CarriedOver),
        ("enableWeakerNestedSandbox", Tightened),
        ("ripgrep", NotExpressible),
        ("fromTheFuture", NotExpressible),
    ] {
        assert_eq!(imported.became(setting), became, "{setting}");
    }
}

#[test]
fn a_home_that_is_closed_but_for_the_project() {
    let text = r#"{"filesystem": {"denyRead": ["/home"], "allowRead": ["."], "allowWrite": ["."], "denyWrite": []},
                   "network": {"allowedDomains": [], "deniedDomains": []}}"#;
    let files = imported(ImportFrom::Srt, text).layer.filesystem;
    assert_eq!((files.host, files.toolchains), (Some(HostFiles::System), Some(false)));
    assert_eq!(files.workspace, Some(Workspace::Current));
    assert!(files.hide.is_empty() && files.read.is_empty(), "{files:?}");
}

#[test]
fn what_limits_the_network_otherwise_closes_it() {
    for limit in [
        r#""httpProxyPort": 3128"#,
        r#""mitmProxy": {"socketPath": "/x", "domains": ["a.b"]}"#,
        r#""deniedDomains": ["*"]"#,
        r#""deniedDomains": ["not a host"]"#,
        r#""deniedDomains": ["*:443"]"#,
        r#""deniedResolvedAddresses": ["8.8.0.0/16"]"#,
    ] {
        let text = format!(r#"{{"network": {{"allowedDomains": ["example.com"], {limit}}}}}"#);
        let network = imported(ImportFrom::Srt, &text).layer.network;
        assert_eq!(network.mode, Some(NetworkMode::Off), "{limit}");
        assert!(network.allow.is_empty(), "{limit}");
    }
}

#[test]
fn no_policy_where_the_system_would_be_hidden() {
    for path in ["/", "/usr", "/etc/*.key", "//"] {
        let text = format!(r#"{{"filesystem": {{"denyRead": ["{path}"]}}}}"#);
        let error = import(ImportFrom::Srt, &text, &places("/x")).unwrap_err();
        assert!(matches!(error, ImportError::HidesSystem { .. }), "{path}: {error}");
    }
    let text = r#"{"filesystem": {"denyRead": ["~bob/x"]}}"#;
    assert!(matches!(import(ImportFrom::Srt, text, &places("/x")), Err(ImportError::BadValue { .. })));
    assert!(matches!(import(ImportFrom::Srt, "{", &places("/x")), Err(ImportError::Unreadable(_))));
}

#[test]
fn claude_code_clause_by_clause() {
    let text = r#"{
        "permissions": {
            "allow": ["Edit(//srv/shared/**)", "WebFetch(domain:docs.example.com)", "Bash(npm test:*)", "Read(~/x)"],
            "deny": ["Read(./.env)", "Read(~/.aws/**)", "Edit(/locks/**)", "Bash(curl:*)", "WebFetch(domain:evil.example)", "WebSearch"],
            "additionalDirectories": ["../lib"], "defaultMode": "acceptEdits"
        },
        "sandbox": {
            "enabled": true, "excludedCommands": ["docker"], "allowUnsandboxedCommands": true,
            "filesystem": {"denyRead": ["secrets"], "allowWrite": ["~/.cache/x"]},
            "network": {"allowedDomains": ["api.example.com"]}
        },
        "model": "x"
    }"#;
    let imported = imported(ImportFrom::ClaudeCode, text);
    let (files, network) = (&imported.layer.filesystem, &imported.layer.network);
    assert_eq!(files.workspace, Some(Workspace::Current));
    let hidden = ["/home/ann/.aws", "/home/ann/app/.env", "/home/ann/app/secrets"];
    assert_eq!(files.hide, hidden.map(PathBuf::from));
    assert_eq!(files.write, ["/home/ann/.cache/x", "/home/ann/lib", "/srv/shared"].map(PathBuf::from));
    assert_eq!(files.protect, [".gitmodules", ".ripgreprc", "locks/"]);
    assert_eq!(network.allow.len(), 2);
    assert_eq!(network.deny.len(), 1);
    for (setting, became) in [
        ("permissions.deny: Bash(curl:*)", NotExpressible),
        ("permissions.deny: WebSearch", NotExpressible),
        ("permissions.allow: Bash(npm test:*)", NotExpressible),
        ("permissions.defaultMode", NotExpressible),
        ("sandbox.excludedCommands: docker", Tightened),
        ("sandbox.allowUnsandboxedCommands", Tightened),
        ("sandbox.enabled", CarriedOver),
    ] {
        assert_eq!(imported.became(setting), became, "{setting}");
    }
}

#[test]
fn a_pattern_in_the_workspace_takes_the_workspace() {
    let text = r#"{"permissions": {"deny": ["Read(./.env.*)"]}}"#;
    let imported = imported(ImportFrom::ClaudeCode, text);
    assert_eq!(imported.layer.filesystem.workspace, Some(Workspace::Private));
    assert_eq!(imported.layer.filesystem.hide, [Path::new("/home/ann/app")]);
    assert_eq!(imported.became("permissions.deny: Read(./.env.*)"), Tightened);
}

#[test]
fn paths_of_claude_code_begin_where_it_says() {
    let text = r#"{"permissions": {"deny": ["Read(/a)", "Read(//a)", "Read(a)"]}, "sandbox": {"filesystem": {"denyRead": ["b"]}}}"#;
    let hide =
        |file: &str| import(ImportFrom::ClaudeCode, text, &places(file)).unwrap().layer.filesystem.hide;
    let project = ["/a", "/home/ann/app/a", "/home/ann/app/b"].map(PathBuf::from);
    assert_eq!(hide("/home/ann/app/.claude/settings.json"), project);
    let user = ["/a", "/home/ann/.claude/a", "/home/ann/.claude/b", "/home/ann/app/a"].map(PathBuf::from);
    assert_eq!(hide("/home/ann/.claude/settings.json"), user);
}

#[test]
fn codex_modes() {
    let files = |text: &str| imported(ImportFrom::Codex, text).layer;
    assert_eq!(files("").filesystem.workspace, Some(Workspace::Private), "read-only is the default");
    let full = "sandbox_mode = \"workspace-write\"\n[sandbox_workspace_write]\nwritable_roots = [\"~/.cache\"]\n\
                network_access = true\nexclude_slash_tmp = true";
    let layer = files(full);
    assert_eq!(layer.filesystem.workspace, Some(Workspace::Current));
    assert_eq!(layer.filesystem.protect, [".agents/", ".codex/", ".git/"]);
    assert!(layer.filesystem.write.is_empty(), "{:?}", layer.filesystem);
    assert_eq!(layer.network.mode, Some(NetworkMode::Open));
    let not_used = files("sandbox_mode = \"read-only\"\n[sandbox_workspace_write]\nnetwork_access = true");
    assert_eq!(not_used.network.mode, Some(NetworkMode::Off));
    let danger = files("sandbox_mode = \"danger-full-access\"");
    assert_eq!(danger.filesystem.workspace, Some(Workspace::Current));
    assert!(import(ImportFrom::Codex, "sandbox_mode = \"none\"", &places("/x")).is_err());
}

#[test]
fn codex_permission_profiles() {
    let text = r#"
        default_permissions = "edit"
        approval_policy = "on-request"
        [permissions.edit.filesystem]
        ":minimal" = "read"
        "/srv/data" = "read"
        "/srv/out" = "write"
        "~/.netrc" = "deny"
        ":slash_tmp" = "write"
        [permissions.edit.filesystem.":workspace_roots"]
        "." = "write"
        "docs" = "read"
        ".env" = "deny"
        [permissions.edit.network]
        enabled = true
        [permissions.edit.network.domains]
        "api.example.com" = "allow"
        "**.example.org" = "allow"
        "tracker.example.org" = "deny"
    "#;
    let imported = imported(ImportFrom::Codex, text);
    let (files, network) = (&imported.layer.filesystem, &imported.layer.network);
    assert_eq!(files.host, Some(HostFiles::System));
    assert_eq!(files.workspace, Some(Workspace::Current));
    assert_eq!(files.protect, [".agents/", ".codex/", ".git/", "docs"]);
    assert_eq!(files.hide, ["/home/ann/.netrc", "/home/ann/app/.env"].map(PathBuf::from));
    assert_eq!(files.read, ["/srv/data", "/srv/out"].map(PathBuf::from));
    assert!(files.write.is_empty());
    assert_eq!(network.mode, Some(NetworkMode::Allow));
    assert_eq!(
        network.allow.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["*.example.org", "api.example.com"]
    );
    assert_eq!(network.deny.len(), 1);
    assert_eq!(imported.became("approval_policy"), NotExpressible);
    let unknown = "default_permissions = \"nosuch\"";
    assert!(import(ImportFrom::Codex, unknown, &places("/x")).is_err());
    let limited = text.replace("enabled = true", "enabled = true\nmode = \"limited\"");
    let limited = import(ImportFrom::Codex, &limited, &places("/x")).unwrap();
    assert_eq!(limited.layer.network.mode, Some(NetworkMode::Off));
    let granted =
        |imported: &Imported| imported.rows.iter().filter(|row| row.policy.contains("network.allow")).count();
    assert_eq!((granted(&imported), granted(&limited)), (2, 0), "no row grants what the policy does not");
    assert!(limited.rows.iter().any(|row| row.why == "another setting closes it"));
}

#[test]
fn codex_profiles_that_build_on_others() {
    let layer = |text: &str| import(ImportFrom::Codex, text, &places("/x")).map(|imported| imported.layer);
    let text = r#"
        default_permissions = "child"
        [permissions.child]
        extends = "base"
        [permissions.child.filesystem]
        ":root" = "read"
        [permissions.child.network]
        enabled = true
        [permissions.base]
        extends = ":workspace"
        [permissions.base.filesystem]
        "~/private" = "deny"
        "~/app/locked" = "read"
        [permissions.base.network.domains]
        "api.example.com" = "allow"
    "#;
    let found = layer(text).unwrap();
    assert_eq!(found.filesystem.host, Some(HostFiles::All));
    assert_eq!(found.filesystem.hide, [Path::new("/home/ann/private")], "what is inherited is denied");
    assert!(found.filesystem.protect.contains(&"locked".to_owned()), "{:?}", found.filesystem);
    assert_eq!(found.network.allow.len(), 1);
    // The child counts for more.
    let closed = text.replace("\":root\" = \"read\"", "\":root\" = \"deny\"");
    let found = layer(&closed).unwrap();
    assert_eq!(found.filesystem.host, Some(HostFiles::System));
    assert_eq!(found.filesystem.workspace, Some(Workspace::Current));
    for (from, to) in [
        ("extends = \"base\"", "extends = \"nosuch\""),
        ("extends = \":workspace\"", "extends = \"child\""),
        ("extends = \":workspace\"", "extends = 1"),
        ("\":root\" = \"read\"", "\":home\" = \"deny\""),
        ("\":root\" = \"read\"", "\":root\" = { \"home\" = \"deny\" }"),
        ("\"~/private\" = \"deny\"", "\"/**/*.key\" = \"deny\""),
    ] {
        assert!(layer(&text.replace(from, to)).is_err(), "{to}");
    }
    // A further root has the same exceptions.
    let roots = r#"
        default_permissions = "wide"
        [permissions.wide.workspace_roots]
        "/srv/a" = true
        "/srv/b" = false
        [permissions.wide.filesystem.":workspace_roots"]
        "." = "write"
        ".env" = "deny"
    "#;
    let files = layer(roots).unwrap().filesystem;
    assert_eq!(files.read, [Path::new("/srv/a")]);
    assert_eq!(files.hide, ["/home/ann/app/.env", "/srv/a/.env"].map(PathBuf::from));
    let some = roots.replace("\".\" = \"write\"", "\"docs\" = \"read\"");
    assert_eq!(
        layer(&some).unwrap().filesystem.read,
        ["/home/ann/app/docs", "/srv/a/docs"].map(PathBuf::from)
    );
}

#[test]
fn the_config_profile_that_is_chosen_counts() {
    let text =
        "profile = \"ro\"\nsandbox_mode = \"workspace-write\"\n[profiles.ro]\nsandbox_mode = \"read-only\"";
    let imported = imported(ImportFrom::Codex, text);
    assert_eq!(imported.layer.filesystem.workspace, Some(Workspace::Private));
    assert_eq!(imported.became("profile: ro"), CarriedOver);
    let of = |text: &str| import(ImportFrom::Codex, text, &places("/x"));
    let alone = of(&text.replace("sandbox_mode = \"workspace-write\"\n", "")).unwrap();
    assert_eq!(alone.layer.filesystem.workspace, Some(Workspace::Private));
    for (from, to) in [
        ("\"ro\"", "\"nosuch\""),
        ("profile = \"ro\"", "profile = 1"),
        ("sandbox_mode = \"read-only\"", "default_permissions = \":read-only\""),
    ] {
        assert!(of(&text.replacen(from, to, 1)).is_err(), "{to}");
    }
}

#[test]
fn no_row_grants_what_another_setting_takes_back() {
    let text = r#"{"network": {"allowedDomains": ["x.com", "y.com:8443", "localhost:3000"], "deniedDomains": ["*"]}}"#;
    let imported = imported(ImportFrom::Srt, text);
    assert_eq!(imported.layer.network.mode, Some(NetworkMode::Off));
    for row in &imported.rows {
        assert!(!row.policy.contains("network.allow") && !row.policy.contains("network.local"), "{row:?}");
    }
}

#[test]
fn gemini_clause_by_clause() {
    let text = r#"{ // mine
        "tools": {"sandbox": "docker", "sandboxAllowedPaths": ["/srv/data", "~"], "sandboxNetworkAccess": true,
                  "exclude": ["run_shell_command"]}, "ui": {} }"#;
    let imported = imported(ImportFrom::Gemini, text);
    let files = &imported.layer.filesystem;
    assert_eq!((files.host, files.workspace.clone()), (Some(HostFiles::System), Some(Workspace::Current)));
    assert_eq!(files.read, [Path::new("/srv/data")]);
    assert!(files.write.is_empty());
    assert_eq!(imported.layer.network.mode, Some(NetworkMode::Open));
    assert_eq!(imported.became("tools.exclude"), NotExpressible);
    assert_eq!(
        super::import(ImportFrom::Gemini, "{}", &places("/x")).unwrap().layer.network.mode,
        Some(NetworkMode::Off)
    );
}

/// srt's own decision on Linux, from its documents: the deepest of deny and allow for a read, deny over allow for a write.
struct Reference {
    deny_read: Vec<String>,
    allow_read: Vec<String>,
    allow_write: Vec<String>,
    deny_write: Vec<String>,
}

fn absolute(text: &str) -> String {
    let full = match text.strip_prefix("~/") {
        Some(rest) => format!("/home/ann/{rest}"),
        None if text.starts_with('/') => text.to_owned(),
        None if text == "~" => "/home/ann".to_owned(),
        None => format!("/home/ann/app/{text}"),
    };
    let parts = full.split('/').filter(|part| !matches!(*part, "" | "."));
    format!("/{}", parts.collect::<Vec<_>>().join("/"))
}

/// Does `pattern` match `path` or a directory above it?
fn matches(pattern: &str, path: &str) -> bool {
    fn go(pattern: &[&str], path: &[&str]) -> bool {
        match (pattern, path) {
            ([], _) => true,
            (["**"], _) => !path.is_empty(),
            (["**", rest @ ..], _) => (0..=path.len()).any(|skip| go(rest, &path[skip..])),
            ([first, rest @ ..], [part, path @ ..]) => one(first, part) && go(rest, path),
            _ => false,
        }
    }
    fn one(pattern: &str, part: &str) -> bool {
        match pattern.split_once('*') {
            None => pattern == part,
            Some((start, end)) => {
                part.len() >= start.len() + end.len() && part.starts_with(start) && part.ends_with(end)
            }
        }
    }
    let pattern = absolute(pattern);
    let (pattern, path): (Vec<&str>, Vec<&str>) = (
        pattern.split('/').filter(|part| !part.is_empty()).collect(),
        path.split('/').filter(|part| !part.is_empty()).collect(),
    );
    go(&pattern, &path)
}

impl Reference {
    fn reads(&self, path: &str) -> bool {
        let literal = |text: &String| text.strip_suffix("/**").unwrap_or(text).to_owned();
        let reopened = self.allow_read.iter().map(literal).filter(|text| !text.contains('*'));
        !self.deny_read.iter().any(|deny| matches(deny, path))
            || reopened.into_iter().any(|allow| matches(&allow, path))
    }

    fn writes(&self, path: &str) -> bool {
        let plain = |text: &String| !text.strip_suffix("/**").unwrap_or(text).contains('*');
        self.allow_write
            .iter()
            .filter(|text| plain(text))
            .any(|allow| matches(allow.trim_end_matches("/**"), path))
            && !self.deny_write.iter().any(|deny| matches(deny, path))
    }
}

/// What a sandbox with this layer could do at most.
fn layer_reads(layer: &Layer, path: &Path) -> bool {
    let files = &layer.filesystem;
    let granted = files.host == Some(HostFiles::All)
        || layer_grants(layer, path)
        || files.read.iter().any(|read| path.starts_with(read));
    granted && !files.hide.iter().any(|hide| path.starts_with(hide))
}

fn layer_grants(layer: &Layer, path: &Path) -> bool {
    let files = &layer.filesystem;
    (files.workspace == Some(Workspace::Current) && path.starts_with("/home/ann/app"))
        || files.write.iter().any(|write| path.starts_with(write))
}

fn layer_writes(layer: &Layer, path: &Path) -> bool {
    let protected = |name: &String| path.starts_with(Path::new("/home/ann/app").join(name));
    layer_grants(layer, path)
        && !layer.filesystem.hide.iter().any(|hide| path.starts_with(hide))
        && !layer.filesystem.protect.iter().any(protected)
}

fn setting() -> impl Strategy<Value = String> {
    let part = prop_oneof![4 => "[ab]", 1 => Just("*".to_owned()), 1 => Just("**".to_owned()), 1 => Just("a*".to_owned())];
    let rest = prop::collection::vec(part, 0..4).prop_map(|parts| parts.join("/"));
    let start = prop_oneof![Just(""), Just("./"), Just("~/"), Just("~/app/"), Just("/srv/"), Just("/home/")];
    (start, rest, prop_oneof![Just(""), Just("/"), Just("/**")])
        .prop_map(
            |(start, rest, end)| {
                if rest.is_empty() { start.to_owned() } else { format!("{start}{rest}{end}") }
            },
        )
        .prop_map(|text| if text.is_empty() { ".".to_owned() } else { text })
}

fn some() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(setting(), 0..3)
}

fn path() -> impl Strategy<Value = String> {
    let parts = prop::collection::vec("[ab]{1,2}", 0..4).prop_map(|parts| parts.join("/"));
    (prop_oneof![Just("/home/ann/app/"), Just("/home/ann/"), Just("/srv/"), Just("/home/")], parts)
        .prop_map(|(start, rest)| format!("{start}{rest}"))
}

/// Codex's own decision, from its documents: a profile over what it extends, key by key; the deepest rule, and of those that are
/// as deep deny over write over read.
type CodexRules = std::collections::BTreeMap<(&'static str, &'static str), &'static str>;

fn codex_access(layers: &[&CodexRules], path: &str) -> &'static str {
    let mut rules = CodexRules::new();
    layers.iter().for_each(|layer| rules.extend(layer.iter()));
    let place = |key: &str, below: &str| match (key, below) {
        (":root", _) => "/".to_owned(),
        (":workspace_roots", ".") => absolute("."),
        (":workspace_roots", below) => absolute(below),
        (key, _) => absolute(key),
    };
    let rank = |access: &str| ["read", "write", "deny"].iter().position(|known| *known == access);
    let fitting = rules.iter().filter_map(|((key, below), access)| {
        let place = place(key, below);
        Path::new(path)
            .starts_with(&place)
            .then(|| (Path::new(&place).components().count(), rank(access), *access))
    });
    fitting.max().map_or("deny", |(_, _, access)| access)
}

fn codex_text(name: &str, extends: Option<&str>, rules: &CodexRules) -> String {
    let lines = |scoped: bool| -> String {
        let those = rules.iter().filter(|((key, _), _)| (*key == ":workspace_roots") == scoped);
        those
            .map(|((key, below), access)| format!("{:?} = {access:?}\n", if scoped { below } else { key }))
            .collect()
    };
    let extends = extends.map(|base| format!("extends = {base:?}\n")).unwrap_or_default();
    format!(
        "[permissions.{name}]\n{extends}[permissions.{name}.filesystem]\n{}[permissions.{name}.filesystem.\":workspace_roots\"]\n{}",
        lines(false),
        lines(true)
    )
}

fn codex_rules() -> impl Strategy<Value = CodexRules> {
    let keys = prop::sample::select(vec![
        (":root", ""),
        ("~", ""),
        ("~/a", ""),
        ("~/app", ""),
        ("~/app/a", ""),
        ("~/app/a/b", ""),
        ("/home/ann/app/b", ""),
        ("/srv", ""),
        ("/srv/a", ""),
        (":workspace_roots", "."),
        (":workspace_roots", "a"),
        (":workspace_roots", "a/b"),
    ]);
    prop::collection::btree_map(keys, prop::sample::select(vec!["read", "write", "deny"]), 0..5)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn an_import_from_codex_gives_no_more_than_its_source(
        base in codex_rules(), child in codex_rules(), own in 0usize..3, paths in prop::collection::vec(path(), 8),
    ) {
        let read: CodexRules = [((":root", ""), "read")].into();
        let workspace: CodexRules = [((":root", ""), "read"), ((":workspace_roots", "."), "write")].into();
        let (extends, below) = [(None, CodexRules::new()), (Some(":read-only"), read), (Some(":workspace"), workspace)][own].clone();
        let text = format!(
            "default_permissions = \"child\"\n{}{}",
            codex_text("child", Some("base"), &child),
            codex_text("base", extends, &base)
        );
        let Ok(imported) = import(ImportFrom::Codex, &text, &places("/x")) else { return Ok(()) };
        for path in paths {
            let (at, access) = (Path::new(&path), codex_access(&[&below, &base, &child], &path));
            if layer_writes(&imported.layer, at) {
                prop_assert_eq!(access, "write", "{} can be written: {}\n{:#?}", path, text, imported.layer.filesystem);
            }
            if layer_reads(&imported.layer, at) {
                prop_assert_ne!(access, "deny", "{} can be read: {}\n{:#?}", path, text, imported.layer.filesystem);
            }
        }
        imported.layer.validate().unwrap();
    }

    #[test]
    fn an_import_gives_no_more_than_its_source(
        deny_read in some(), allow_read in some(), allow_write in some(), deny_write in some(),
        paths in prop::collection::vec(path(), 8),
    ) {
        let text = serde_json::json!({"filesystem": {
            "denyRead": deny_read, "allowRead": allow_read, "allowWrite": allow_write, "denyWrite": deny_write,
        }}).to_string();
        let Ok(imported) = import(ImportFrom::Srt, &text, &places("/x")) else { return Ok(()) };
        let reference = Reference { deny_read, allow_read, allow_write, deny_write };
        for path in paths {
            let at = Path::new(&path);
            if layer_writes(&imported.layer, at) {
                prop_assert!(reference.writes(&path), "{path} can be written: {text}\n{:#?}", imported.layer.filesystem);
            }
            if layer_reads(&imported.layer, at) {
                prop_assert!(reference.reads(&path), "{path} can be read: {text}\n{:#?}", imported.layer.filesystem);
            }
        }
        imported.layer.validate().unwrap();
    }

    #[test]
    fn any_text_is_an_error_or_a_policy(text in ".{0,200}", from in 0usize..4) {
        if let Ok(imported) = import(ImportFrom::ALL[from], &text, &places("/x/y")) {
            imported.layer.validate().unwrap();
        }
    }
}
