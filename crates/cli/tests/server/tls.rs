//! The server's other doors: TLS by files, and unix sockets. curl is the client, as a user's would be.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ringfence_testing::{Scene, Server, Test, eventually};
use rustix::process::Signal;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::json;

use crate::scene;

/// A certificate that is its own authority, and its key, both PEM.
pub(crate) struct Certificate {
    pub(crate) chain: String,
    key: String,
}

pub(crate) fn certificate(names: &[&str]) -> Certificate {
    let key = rcgen::KeyPair::generate().expect("a key");
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let made = rcgen::CertificateParams::new(names).and_then(|params| params.self_signed(&key));
    let pem = |kind: &str, der: &[u8]| {
        let coded = STANDARD.encode(der);
        let lines: Vec<&str> =
            coded.as_bytes().chunks(64).filter_map(|line| str::from_utf8(line).ok()).collect();
        format!("-----BEGIN {kind}-----\n{}\n-----END {kind}-----\n", lines.join("\n"))
    };
    let chain = pem("CERTIFICATE", made.expect("a certificate").der());
    Certificate { chain, key: pem("PRIVATE KEY", key.serialized_der()) }
}

impl Certificate {
    /// For a server of the test's own.
    pub(crate) fn server_config(&self) -> Arc<rustls::ServerConfig> {
        let chain = CertificateDer::from_pem_slice(self.chain.as_bytes()).expect("a certificate");
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes()).expect("a key");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![chain], key);
        Arc::new(config.expect("a configuration"))
    }

    fn place(&self, scene: &Scene) -> [String; 4] {
        self.place_in(scene, ".")
    }

    pub(crate) fn place_in(&self, scene: &Scene, directory: &str) -> [String; 4] {
        let put = |name: &str, text: &str| {
            // As a tool that renews certificates does: a new file in place of the old one.
            let path = scene.path(directory).join(name);
            let new = scene.path(directory).join(format!("{name}.new"));
            std::fs::write(&new, text).expect("write");
            std::fs::set_permissions(&new, PermissionsExt::from_mode(0o600)).expect("a mode");
            std::fs::rename(&new, &path).expect("rename");
            path.display().to_string()
        };
        let (chain, key) = (put("chain.pem", &self.chain), put("key.pem", &self.key));
        ["--tls-cert".into(), chain, "--tls-key".into(), key]
    }
}

/// The status and body of a request by curl; status 0 where there was no answer.
pub(crate) fn curl(args: &[&str]) -> (u16, String) {
    let done = Command::new("curl")
        .args(["--silent", "--show-error", "--max-time", "60", "--write-out", "\n%{http_code}"])
        .args(args)
        .output()
        .expect("curl runs");
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    let (body, status) = text.rsplit_once('\n').expect("a status");
    (status.parse().expect("a status"), body.to_owned())
}

#[test]
fn every_address_speaks_tls() {
    let scene = scene();
    let certificate = certificate(&["localhost", "127.0.0.1"]);
    let server = Server::start(&scene, certificate.place(&scene));
    let ca = scene.path("ca.pem");
    scene.write("ca.pem", &certificate.chain);
    let url = server.first_url().expect("a first start").to_owned();
    assert!(url.starts_with("https://127.0.0.1:"), "{url}");
    let port = server.address().port();
    let base = format!("https://localhost:{port}");
    let ca = ca.display().to_string();
    let key = format!("Authorization: Bearer {}", server.key("ada", "operator"));
    let run = [
        "--cacert",
        &ca,
        "-H",
        &key,
        "-H",
        "Content-Type: application/json",
        "-d",
        "{\"command\":[\"echo\",\"hi\"]}",
        &format!("{base}/v1/run"),
    ];
    let (status, body) = curl(&run);
    assert_eq!(status, 200, "{body}");
    assert!(body.contains("\"stdout\":\"hi\\n\""), "{body}");
    // Names are checked here too.
    let me = format!("{base}/v1/me");
    for header in ["Host: evil.example", "Origin: https://evil.example", "Origin: null"] {
        let (status, body) = curl(&["--cacert", &ca, "-H", &key, "-H", header, &me]);
        assert_eq!(status, 421, "{header}: {body}");
    }
    let (status, _) = curl(&["--cacert", &ca, "-H", &key, "-H", &format!("Origin: {base}"), &me]);
    assert_eq!(status, 200);
    // Nothing is said in the clear, to nobody with an old version, and nobody vouches for a stranger.
    assert_eq!(curl(&[&format!("http://localhost:{port}/healthz")]).0, 0);
    assert_eq!(curl(&["--cacert", &ca, "--tlsv1.1", "--tls-max", "1.1", &me]).0, 0);
    assert_eq!(curl(&[&me]).0, 0);
}

#[test]
fn a_certificate_that_is_renewed_is_used() {
    let scene = scene();
    let (first, second) = (certificate(&["localhost"]), certificate(&["localhost"]));
    let server = Server::start(&scene, first.place(&scene));
    scene.write("first.pem", &first.chain);
    scene.write("second.pem", &second.chain);
    let url = format!("https://localhost:{}/healthz", server.address().port());
    let well = |name: &str| curl(&["--cacert", &scene.path(name).display().to_string(), &url]).0 == 200;
    assert!(well("first.pem") && !well("second.pem"));
    // Half of a pair, or rubbish, changes nothing.
    scene.write("key.pem", &second.key);
    server.signal(Signal::HUP);
    scene.write("chain.pem", "rubbish");
    server.signal(Signal::HUP);
    assert!(well("first.pem"));
    let _ = second.place(&scene);
    eventually("the new one is found without being told", || well("second.pem"));
    assert!(!well("first.pem"));
    let _ = first.place(&scene);
    server.signal(Signal::HUP);
    eventually("and when told", || well("first.pem"));
}

#[test]
fn a_key_that_others_read_or_that_does_not_fit_is_refused() {
    let scene = scene();
    let (one, other) = (certificate(&["localhost"]), certificate(&["localhost"]));
    let refused = |flags: &[String], word: &str| {
        let outcome = Test::in_scene(&scene)
            .verb(["serve", "--listen", "127.0.0.1:0"])
            .args(flags.iter().cloned())
            .call();
        assert_ne!(outcome.exit, 0, "{}", outcome.describe());
        outcome.stderr_contains(word);
    };
    let flags = one.place(&scene);
    std::fs::set_permissions(scene.path("key.pem"), PermissionsExt::from_mode(0o644)).expect("a mode");
    refused(&flags, "chmod 600");
    std::fs::write(scene.path("key.pem"), &other.key).expect("write");
    std::fs::set_permissions(scene.path("key.pem"), PermissionsExt::from_mode(0o600)).expect("a mode");
    refused(&flags, "key.pem");
    std::fs::write(scene.path("chain.pem"), "").expect("write");
    refused(&flags, "no certificate");
    refused(&flags[..2], "--tls-key");
}

#[test]
fn no_sandbox_shows_the_key() {
    let scene = scene();
    let server = Server::start(&scene, certificate(&["localhost"]).place(&scene));
    let key = format!("Authorization: Bearer {}", server.key("ada", "operator"));
    let body = json!({ "command": ["cat", scene.path("key.pem").to_string_lossy()] }).to_string();
    let url = format!("https://localhost:{}/v1/run", server.address().port());
    let (status, answer) =
        curl(&["-k", "-H", &key, "-H", "Content-Type: application/json", "-d", &body, &url]);
    assert_eq!(status, 200, "{answer}");
    assert!(!answer.contains("PRIVATE KEY") && !answer.contains("\"exit_code\":0"), "{answer}");
}

#[test]
fn a_unix_socket_is_a_door_for_one_user() {
    let scene = scene();
    let path = scene.path("socket");
    let socket = path.display().to_string();
    let server = Server::start(&scene, ["--socket", &socket]);
    assert_eq!(std::fs::metadata(&path).expect("a socket").permissions().mode() & 0o777, 0o600);
    let key = format!("Authorization: Bearer {}", server.key("ada", "operator"));
    let ask =
        |more: &[&str], url: &str| curl(&[&["--unix-socket", &socket, "-H", &key], more, &[url]].concat());
    assert_eq!(ask(&[], "http://localhost/v1/me").0, 200);
    assert_eq!(ask(&[], "http://evil.example/v1/me").0, 421);
    assert_eq!(ask(&["-H", "Origin: http://evil.example"], "http://localhost/v1/me").0, 421);
    assert_eq!(curl(&["--unix-socket", &socket, "http://localhost/v1/me"]).0, 401);
    // A second server leaves the first one's alone.
    let second =
        Test::in_scene(&scene).state(scene.path("other")).verb(["serve", "--socket", &socket]).call();
    assert_ne!(second.exit, 0);
    second.stderr_contains(&socket);
    assert_eq!(ask(&[], "http://localhost/v1/me").0, 200);
    let mut server = server;
    server.kill();
    assert!(path.exists(), "killed: it stays");
    let again = Server::start(&scene, ["--socket", &socket]);
    assert_eq!(ask(&[], "http://localhost/v1/me").0, 200);
    assert_eq!(again.stop().exit, 0);
    assert!(!path.exists(), "ended: it is gone");
}

#[test]
fn with_a_unix_socket_alone_there_is_no_port() {
    let scene = scene();
    let path = scene.path("socket");
    let socket = path.display().to_string();
    let told = scene.path("told");
    let out = std::fs::File::create(&told).expect("a file");
    let running =
        Test::in_scene(&scene).verb(["serve", "--json", "--unix", &socket]).stdout_file(out).spawn_call();
    let text = || std::fs::read_to_string(&told).unwrap_or_default();
    eventually("it listens", || text().ends_with('\n'));
    let told: serde_json::Value = serde_json::from_str(&text()).expect("JSON");
    assert_eq!(told["addresses"], json!([format!("unix:{socket}")]));
    let url = told["first_url"].as_str().expect("a first start");
    let token = url.split_once("token=").expect("a token").1;
    let body = json!({ "token": token }).to_string();
    let kind = "Content-Type: application/json";
    let login = "http://localhost/v1/login";
    assert_eq!(curl(&["--unix-socket", &socket, "-H", kind, "-d", &body, login]).0, 201);
    let tables = format!("/proc/{}/net/tcp", running.pid());
    let own: Vec<String> = std::fs::read_dir(format!("/proc/{}/fd", running.pid()))
        .expect("its descriptors")
        .flatten()
        .filter_map(|entry| Some(std::fs::read_link(entry.path()).ok()?.display().to_string()))
        .filter_map(|target| Some(target.strip_prefix("socket:[")?.trim_end_matches(']').to_owned()))
        .collect();
    for table in [tables.clone(), format!("{tables}6")] {
        let rows = std::fs::read_to_string(table).expect("a table");
        let inode = |row: &str| row.split_whitespace().nth(9).map(str::to_owned);
        assert!(!rows.lines().filter_map(inode).any(|inode| own.contains(&inode)), "{rows}");
    }
    running.signal(Signal::TERM);
    assert_eq!(running.wait().exit, 0);
}
