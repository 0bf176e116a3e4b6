//! Each client as a small script on PATH that answers as the real one does: what is granted, set, shown and kept out.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ringfence_policy::{HostRule, Layer, Origin, ProfileName, merge};

use super::client::ClientError;
use super::found::{Findings, Found};
use super::surroundings::Surroundings;
use super::{Registry, apt, cargo, npm, pip};
use crate::places::Places;
use crate::state::StateDir;

struct Stage {
    _directory: tempfile::TempDir,
    root: PathBuf,
    variables: BTreeMap<OsString, OsString>,
    toml: String,
}

/// What a client's answer came to, in words.
#[derive(Debug, PartialEq)]
struct Grant {
    allow: Vec<String>,
    local: Vec<u16>,
    set: Vec<String>,
    read: Vec<PathBuf>,
    files: Vec<String>,
    notes: Vec<String>,
}

impl Stage {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        for name in ["ws", "home/.cargo", "home/.local/bin", "state"] {
            fs::create_dir_all(root.join(name)).unwrap();
        }
        let path = format!("{}:/usr/bin:/bin", root.join("home/.local/bin").display());
        let variables = BTreeMap::from([("PATH".into(), path.into())]);
        Self { _directory: directory, root, variables, toml: String::new() }
    }

    fn program(self, name: &str, script: &str) -> Self {
        let path = self.root.join("home/.local/bin").join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        self
    }

    fn file(self, name: &str, text: &str) -> Self {
        let path = self.root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.insert(name.into(), value.into());
        self
    }

    fn policy(mut self, toml: &str) -> Self {
        self.toml = toml.into();
        self
    }

    fn surroundings(&self) -> Surroundings {
        let places = Places {
            current: self.root.join("ws"),
            home: self.root.join("home"),
            system_config: self.root.join("none"),
            user_config: self.root.join("none"),
            state: StateDir::new(self.root.join("state")),
            profile: None,
            policy: None,
            library: None,
            tenant: None,
        };
        let layer = Layer::from_toml(&self.toml).unwrap();
        let policy = merge(ProfileName::Moderate, &[(Origin::flag("x"), layer)]).unwrap().policy;
        Surroundings::new(&places, &policy, self.variables.clone())
    }

    fn ask(
        &self,
        client: for<'a> fn(&'a Surroundings) -> Result<Found<'a>, ClientError>,
    ) -> Result<Grant, String> {
        let surroundings = self.surroundings();
        let Findings { layer, files, notes } =
            client(&surroundings).and_then(Found::into_findings).map_err(|error| error.to_string())?;
        Ok(Grant {
            allow: layer.network.allow.iter().map(HostRule::to_string).collect(),
            local: layer.network.local,
            set: layer.environment.set.into_iter().map(|(name, value)| format!("{name}={value}")).collect(),
            read: layer.filesystem.read,
            files: files.iter().map(|file| format!("{}: {}", file.target.display(), file.text)).collect(),
            notes,
        })
    }

    fn at(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }
}

/// pip's answer as `pip.py` prints it, with some of its keys.
fn pip_says(keys: &str) -> String {
    let mut answer = serde_json::json!({
        "index-url": "https://index.example/simple", "extra-index-url": [], "find-links": [], "trusted-host": [],
        "no-index": false, "cert": null, "client-cert": null, "proxy": "", "configured": [], "files": [], "links": [], "problem": null,
    });
    let keys: serde_json::Value = serde_json::from_str(keys).unwrap();
    for (key, value) in keys.as_object().unwrap() {
        answer[key] = value.clone();
    }
    format!("echo '{answer}'")
}

#[test]
fn pip_with_nothing_configured_needs_its_hosts_and_nothing_else() {
    let says = pip_says(r#"{"links": ["https://files.example/a.whl", "https://files.example/b.whl"]}"#);
    let grant = Stage::new().program("python3", &says).ask(pip::ask).unwrap();
    assert_eq!(grant.allow, ["files.example:443", "index.example:443"]);
    assert_eq!((grant.set, grant.read, grant.notes), (vec![], vec![], vec![]));
}

#[test]
fn what_pip_is_told_by_variables_and_hidden_files_goes_in_without_credentials() {
    let stage = Stage::new().file("home/ca.pem", "").variable("PIP_EXTRA_INDEX_URL", "x");
    let says = pip_says(&format!(
        r#"{{"index-url": "https://me:pw@index.example/simple", "extra-index-url": ["http://more.example:8080/"],
            "trusted-host": ["more.example"], "cert": "{0}/ca.pem",
            "configured": [{{"file": "{0}/pip.conf", "key": "index-url"}}, {{"file": "{0}/pip.conf", "key": "cert"}},
                           {{"file": "/etc/pip.conf", "key": "trusted-host"}}]}}"#,
        stage.at("home").display()
    ));
    let stage = stage.program("python3", &says);
    let grant = stage.ask(pip::ask).unwrap();
    assert_eq!(grant.allow, ["index.example:443", "more.example:8080"]);
    let cert = stage.at("home/ca.pem");
    assert_eq!(
        grant.set,
        [
            format!("PIP_CERT={}", cert.display()),
            "PIP_EXTRA_INDEX_URL=http://more.example:8080/".into(),
            "PIP_INDEX_URL=https://index.example/simple".into(),
        ]
    );
    assert_eq!(grant.read, [cert]);
    assert_eq!(grant.notes, ["the credentials in PIP_INDEX_URL stay outside"]);
}

#[test]
fn an_index_on_this_machine_is_a_local_port_but_none_can_send_a_client_there() {
    let says =
        pip_says(r#"{"index-url": "http://localhost:3141/simple", "links": ["http://127.0.0.1:22/x"]}"#);
    let grant = Stage::new().program("python3", &says).ask(pip::ask).unwrap();
    assert_eq!((grant.allow, grant.local), (vec![], vec![3141]));
    assert!(grant.notes[0].contains("this machine: not granted"), "{:?}", grant.notes);
}

/// Nearer than the internet, dressed up or plain.
const NEAR: [&str; 11] = [
    "169.254.169.254",
    "[fd00:ec2::254]",
    "10.1.2.3:8080",
    "192.168.7.7",
    "100.64.0.9",
    "169.254.7.7",
    "[fd00::7]",
    "[fe80::1]",
    "[::ffff:10.1.2.3]",
    "[64:ff9b::a9fe:a9fe]",
    "127.8.8.8:22",
];

/// A rule for an address opens it, whatever it is: so no page of an index may make one.
#[test]
fn an_index_can_not_have_an_address_granted_that_is_not_public() {
    for near in NEAR {
        let url = format!("http://{near}/x");
        let says =
            pip_says(&serde_json::json!({ "links": ["https://files.example/a.whl", url] }).to_string());
        let grant = Stage::new().program("python3", &says).ask(pip::ask).unwrap();
        assert_eq!(
            (grant.allow, grant.local),
            (vec!["files.example:443".to_owned(), "index.example:443".into()], vec![]),
            "{near}"
        );
        assert!(grant.notes[0].contains(&url) && grant.notes[0].contains("not granted"), "{:?}", grant.notes);

        let config = r#"{"registry": "https://r.example/"}"#;
        let says = format!("case $1 in config) echo '{config}';; view) echo '\"{url}\"';; esac");
        let grant = Stage::new().program("npm", &says).ask(npm::ask).unwrap();
        assert_eq!((grant.allow, grant.local), (vec!["r.example:443".to_owned()], vec![]), "{near}");
        assert!(grant.notes[0].contains("not granted"), "{:?}", grant.notes);

        let says = CARGO_LOOKS_UP.replace("https://dl.'$host'", &format!("http://{near}"));
        let grant = Stage::new().program("cargo", &says).ask(cargo::ask).unwrap();
        assert_eq!((grant.allow, grant.local), (vec!["index.example:443".to_owned()], vec![]), "{near}");
        assert!(grant.notes[0].contains("not granted"), "{:?}", grant.notes);
    }
    // The user's own word is another thing, and what it granted is not said again.
    let says =
        pip_says(r#"{"index-url": "http://10.1.2.3/simple", "links": ["http://10.1.2.3/files/a.whl"]}"#);
    let grant = Stage::new().program("python3", &says).ask(pip::ask).unwrap();
    assert_eq!((grant.allow, grant.notes), (vec!["10.1.2.3:80".to_owned()], vec![]));
}

#[test]
fn a_client_that_the_sandbox_may_write_is_not_run() {
    let stage = Stage::new();
    let (marker, bin) = (stage.at("ran"), stage.at("home/.local/bin").display().to_string());
    let stage = stage
        .program("npm", &format!("touch {}", marker.display()))
        .policy(&format!("[filesystem]\nwrite = ['{bin}']"))
        .variable("PATH", &bin);
    assert_eq!(
        stage.ask(npm::ask).unwrap_err(),
        "there is no `npm` on PATH outside of what the sandbox may write"
    );
    assert!(!marker.exists());
}

/// `config list` prints this, `view` a tarball.
fn npm_says(config: &str) -> String {
    format!("case $1 in config) echo '{config}';; view) echo '\"https://tarballs.example/npm.tgz\"';; esac")
}

#[test]
fn npm_with_scopes_and_where_they_are_configured() {
    let stage = Stage::new()
        .file(
            "home/.npmrc",
            "registry=https://r.example/\n@a:registry=https://a.example:8443/\n//r.example/:_authToken=tok\n",
        )
        .variable("npm_config_cafile", "/etc/ssl/ca.pem");
    let config = format!(
        r#"{{"registry": "https://r.example/", "@a:registry": "https://a.example:8443/", "cafile": "/etc/ssl/ca.pem",
            "userconfig": "{}", "globalconfig": "/usr/etc/none", "strict-ssl": true}}"#,
        stage.at("home/.npmrc").display()
    );
    let stage = stage.program("npm", &npm_says(&config));
    let grant = stage.ask(npm::ask).unwrap();
    assert_eq!(grant.allow, ["a.example:8443", "r.example:443", "tarballs.example:443"]);
    // A shell drops a variable that is named like a scope.
    let set = [
        "npm_config_cafile=/etc/ssl/ca.pem",
        "npm_config_globalconfig=/run/ringfence/npmrc",
        "npm_config_registry=https://r.example/",
    ];
    assert_eq!(grant.set, set);
    assert_eq!(grant.files, ["/run/ringfence/npmrc: @a:registry=\"https://a.example:8443/\"\n"]);
    assert!(grant.notes.is_empty(), "{:?}", grant.notes);
    // The project's own registry is neither granted nor overruled: what it tries is denied by name.
    let stage = stage.file("ws/.npmrc", "registry=https://evil.example/");
    let grant = stage.ask(npm::ask).unwrap();
    assert!(!grant.allow.iter().any(|rule| rule.contains("evil")));
    assert_eq!(grant.set, set[..2]);
}

/// The file takes the place of one that npm inside could not see, and never of one that is shown and says something.
#[test]
fn scopes_of_npm_take_no_shown_file_away() {
    let stage = Stage::new()
        .file("home/.npmrc", "@a:registry=https://me:pw@a.example/\n")
        .file("shown/npmrc", "fund=false\n");
    let config = |global: &str| {
        format!(
            r#"{{"registry": "https://r.example/", "userconfig": "{}", "globalconfig": "{}"}}"#,
            stage.at("home/.npmrc").display(),
            stage.at(global).display()
        )
    };
    let (hidden, shown) = (config("none"), config("shown/npmrc"));
    let read = |name: &str| format!("[filesystem]\nread = ['{}']", stage.at(name).display());
    let (read_global, read_both) = (read("shown"), read(""));
    let stage = stage.program("npm", &npm_says(&hidden));
    let grant = stage.ask(npm::ask).unwrap();
    assert_eq!(grant.set, ["npm_config_globalconfig=/run/ringfence/npmrc"]);
    assert_eq!(grant.files, ["/run/ringfence/npmrc: @a:registry=\"https://a.example/\"\n"]);
    assert_eq!(grant.notes, ["the credentials in @a:registry stay outside"]);

    let stage = stage.program("npm", &npm_says(&shown)).policy(&read_global);
    assert_eq!(stage.ask(npm::ask).unwrap().set, ["npm_config_userconfig=/run/ringfence/npmrc"]);

    let stage = stage.policy(&read_both).variable("npm_config_@b:registry", "https://b.example/");
    let grant = stage.ask(npm::ask).unwrap();
    assert_eq!(grant.set, ["npm_config_@b:registry=https://b.example/"]);
    assert!(grant.files.is_empty());
    assert!(grant.notes.iter().any(|note| note.contains("a shell may drop")), "{:?}", grant.notes);
}

#[test]
fn what_the_policy_hides_is_not_shown_for_a_registry() {
    let stage = Stage::new().file("home/ca.pem", "x");
    let cafile = stage.at("home/ca.pem").display().to_string();
    let config = format!(r#"{{"registry": "https://r.example/", "cafile": "{cafile}"}}"#);
    let stage = stage.program("npm", &npm_says(&config));
    assert_eq!(stage.ask(npm::ask).unwrap().read, [stage.at("home/ca.pem")]);
    let hide = format!("[filesystem]\nhide = ['{cafile}']");
    let grant = stage.policy(&hide).ask(npm::ask).unwrap();
    assert!(grant.read.is_empty(), "{grant:?}");
    assert_eq!(grant.notes, [format!("{cafile} is hidden by the policy, and stays so")]);
}

#[test]
fn npm_hides_a_registry_with_credentials_and_it_is_found_all_the_same() {
    let stage = Stage::new().file("home/.npmrc", "registry=https://me:pw@r.example/npm/\n");
    let config = format!(r#"{{"userconfig": "{}"}}"#, stage.at("home/.npmrc").display());
    let grant = stage.program("npm", &npm_says(&config)).ask(npm::ask).unwrap();
    assert!(grant.allow.contains(&"r.example:443".to_owned()), "{grant:?}");
    assert_eq!(grant.set, ["npm_config_registry=https://r.example/npm/"]);
}

/// What cargo leaves in its home after it has looked a crate up.
const CARGO_LOOKS_UP: &str = r#"
grep -q 'registry = "mine"' "$4" && host=mine.example || host=index.example
mkdir -p $CARGO_HOME/registry/index/$host-0123456789abcdef
echo '{"dl": "https://dl.'$host'/{crate}/{version}"}' > $CARGO_HOME/registry/index/$host-0123456789abcdef/config.json
exit 1"#;

#[test]
fn cargo_tells_its_own_index_and_where_downloads_are() {
    let stage = Stage::new().program("cargo", CARGO_LOOKS_UP);
    let grant = stage.ask(cargo::ask).unwrap();
    assert_eq!(grant.allow, ["dl.index.example:443", "index.example:443"]);
    assert_eq!((grant.set, grant.read, grant.notes), (vec![], vec![], vec![]));
    assert_eq!(fs::read_dir(stage.at("state")).unwrap().count(), 0, "nothing is left");
}

#[test]
fn cargo_with_a_mirror_and_a_registry_of_ones_own() {
    let config = "[source.crates-io]\nreplace-with = 'mirror'\n[source.mirror]\nregistry = 'sparse+https://mirror.example:8443/'\n\
                  [registries.mine]\nindex = 'sparse+https://mine.example/'\n";
    let stage = Stage::new()
        .program("cargo", CARGO_LOOKS_UP)
        .file("home/.cargo/config.toml", config)
        .file("ws/.cargo/config.toml", "[registries.evil]\nindex = 'sparse+https://evil.example/'\n")
        .variable("CARGO_REGISTRIES_OLD_INDEX", "https://git.example/index")
        .variable("CARGO_REGISTRIES_OLD_TOKEN", "tok");
    let grant = stage.ask(cargo::ask).unwrap();
    assert_eq!(
        grant.allow,
        [
            "dl.index.example:443",
            "dl.mine.example:443",
            "git.example:443",
            "mine.example:443",
            "mirror.example:8443"
        ]
    );
    assert_eq!(grant.set, ["CARGO_REGISTRIES_OLD_INDEX=https://git.example/index"]);
    assert_eq!(grant.read, [stage.at("home/.cargo/config.toml")]);
    assert!(grant.notes[0].contains("is a git repository"), "{:?}", grant.notes);
}

#[test]
fn a_cargo_configuration_with_a_token_stays_outside() {
    let config = "[registries.mine]\nindex = 'sparse+https://mine.example/'\ntoken = 'tok'\n";
    let stage = Stage::new().program("cargo", CARGO_LOOKS_UP).file("home/.cargo/config.toml", config);
    let grant = stage.ask(cargo::ask).unwrap();
    assert_eq!(grant.read, [] as [PathBuf; 0]);
    assert!(grant.notes[0].contains("holds a token and stays outside"), "{:?}", grant.notes);
}

#[test]
fn cargo_with_vendored_sources_has_nothing_to_reach() {
    let config = "[source.crates-io]\nreplace-with = 'vendored'\n[source.vendored]\ndirectory = 'vendor'\n";
    let stage = Stage::new().program("cargo", CARGO_LOOKS_UP).file("home/.cargo/config.toml", config);
    assert_eq!(
        stage.ask(cargo::ask).unwrap_err(),
        "it is configured with no registry that is reached over the network"
    );
}

#[test]
fn apt_lists_its_own_places() {
    let says = "printf '%s\\n' http://deb.example/debian/ https://me:pw@deb.example:8443/x/ http://deb.example/debian/ \
                cdrom:[disc]/ file:/srv/mirror/ mirror+https://mirrors.example/list tor+http://x.onion/";
    let grant = Stage::new()
        .program("apt-get", says)
        .program("apt-config", "echo \"HTTP='http://proxy.example:3128'\"")
        .ask(apt::ask)
        .unwrap();
    assert_eq!(grant.allow, ["deb.example:80", "deb.example:8443", "mirrors.example:443"]);
    assert!(grant.notes.iter().all(|note| !note.contains("pw@")), "{:?}", grant.notes);
    assert_eq!(grant.notes.len(), 3, "{:?}", grant.notes);
}

/// A package index on loopback, for one test: `pages` by path. A page that is an address is a redirect there.
fn serve(pages: &[(&'static str, &str)]) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let pages: Vec<_> = pages.iter().map(|(path, page)| (*path, (*page).to_owned())).collect();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut request = [0; 4096];
            let count = stream.read(&mut request).unwrap_or(0);
            let line = String::from_utf8_lossy(&request[..count]).into_owned();
            let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
            let page = pages.iter().find(|(known, _)| *known == path).map(|(_, page)| page.as_str());
            let (status, body) = match page {
                None => ("404 Not Found".to_owned(), ""),
                Some(to) if to.starts_with("http:") => (format!("302 Found\r\nLocation: {to}"), ""),
                Some(page) => ("200 OK".to_owned(), page),
            };
            let length = body.len();
            let body = if line.starts_with("HEAD") { "" } else { body };
            let _ = write!(
                stream,
                "HTTP/1.1 {status}\r\nContent-Type: text/html\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
            );
        }
    });
    port
}

/// Something on this machine that no index has a say in, and how often it was connected to.
fn bystander() -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let seen = Arc::<AtomicUsize>::default();
    let counted = seen.clone();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            counted.fetch_add(1, Ordering::SeqCst);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        }
    });
    (port, seen)
}

fn has_pip() -> bool {
    let asked = std::process::Command::new("/usr/bin/python3").args(["-I", "-c", "import pip"]).output();
    let has = asked.is_ok_and(|output| output.status.success());
    if !has {
        eprintln!("skipped: /usr/bin/python3 has no pip");
    }
    has
}

fn ask_pip_about(port: u16) -> Grant {
    let stage = Stage::new()
        .variable("PIP_INDEX_URL", &format!("http://127.0.0.1:{port}/simple"))
        .variable("PIP_CONFIG_FILE", "/dev/null")
        .variable("PYTHONPATH", "/nonexistent");
    stage.ask(pip::ask).unwrap()
}

/// The script itself, run by a Python that has pip; there may be none here.
#[test]
fn the_real_pip_answers_for_an_index_with_and_without_pip() {
    if !has_pip() {
        return;
    }
    let with = serve(&[(
        "/simple/pip/",
        "<a href=\"../../files/pip-99.0-py3-none-any.whl\">pip-99.0-py3-none-any.whl</a>",
    )]);
    let without = serve(&[
        ("/simple/", "<a href=\"/simple/thing/\">thing</a>"),
        ("/simple/thing/", "<a href=\"/files/thing-1.0.tar.gz\">thing-1.0.tar.gz</a>"),
    ]);
    for port in [with, without] {
        let grant = ask_pip_about(port);
        assert_eq!((grant.allow, grant.local), (vec![], vec![port]));
        assert_eq!(grant.set, [format!("PIP_INDEX_URL=http://127.0.0.1:{port}/simple")]);
        assert_eq!(grant.notes, [] as [String; 0]);
    }
}

/// By an address, by a name that has one, by a redirect, or in place of the index's own page.
#[test]
fn the_real_pip_is_sent_to_nothing_near_by() {
    if !has_pip() {
        return;
    }
    let (near, seen) = bystander();
    let file = "pip-99.0-py3-none-any.whl";
    let link = |to: &str| format!("<a href=\"{to}/{file}\">{file}</a>");
    let at = |host: &str| format!("http://{host}:{near}");
    let links = [at("127.0.0.1"), at("localhost"), at("[::ffff:127.0.0.1]")].map(|to| link(&to)).concat();
    let linked = serve(&[("/simple/pip/", &links)]);
    let redirected = serve(&[
        ("/simple/pip/", &link("/files")),
        ("/files/pip-99.0-py3-none-any.whl", "http:/files/again"),
        ("/files/again", &at("localhost")),
    ]);
    let elsewhere = serve(&[("/simple/pip/", &at("localhost"))]);
    for port in [linked, redirected] {
        let grant = ask_pip_about(port);
        assert_eq!((grant.allow, grant.local), (vec![], vec![port]));
        let refused = grant.notes.iter().any(|note| note.contains("this machine: not granted"));
        assert!(refused, "{:?}", grant.notes);
    }
    let grant = ask_pip_about(elsewhere);
    assert_eq!((grant.allow, grant.local), (vec![], vec![elsewhere]));
    assert!(
        grant.notes.iter().any(|note| note.contains("only its own host is granted")),
        "{:?}",
        grant.notes
    );
    assert_eq!(seen.load(Ordering::SeqCst), 0, "it was asked");
    // It is there, and a user who means it is taken at their word.
    ask_pip_about(near);
    assert!(seen.load(Ordering::SeqCst) > 0);
}

#[test]
fn a_client_is_not_started_in_the_workspace() {
    let error = Stage::new().program("npm", "pwd >&2; exit 1").ask(npm::ask).unwrap_err();
    assert!(error.ends_with("failed: /"), "{error}");
}

#[test]
fn names_read_back() {
    for registry in Registry::ALL {
        assert_eq!(registry.to_string().parse(), Ok(registry));
    }
    assert!("pypi".parse::<Registry>().is_err());
}
