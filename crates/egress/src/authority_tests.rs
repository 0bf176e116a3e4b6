use std::process::Command;

use ringfence_policy::NetworkMode;
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};

use super::*;
use crate::http::testing::http_rule;
use crate::testing::network;

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn authority() -> Authority {
    let mut network = network(NetworkMode::Allow, &[]);
    network.http.push(http_rule("api.example.com", &[], &[]));
    network.secrets.push("T=env:T@*.deep.example.org,one.example.net:8443".parse().unwrap());
    Authority::new(&network, provider()).unwrap()
}

fn name(text: &str) -> HostName {
    HostName::parse(text).unwrap()
}

fn leaf(authority: &Authority, host: &str) -> CertificateDer<'static> {
    authority.leaf(&name(host)).unwrap().cert[0].clone()
}

fn verify(authority: &Authority, host: &str, at: UnixTime) -> Result<(), rustls::Error> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.pem().as_bytes()).unwrap()).unwrap();
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider()).build().unwrap();
    let server = ServerName::try_from(host.to_owned()).unwrap();
    verifier.verify_server_cert(&leaf(authority, host), &[], &server, &[], at).map(|_| ())
}

/// As OpenSSL sees it, and with it most of what runs inside.
fn openssl_verify(authority: &Authority, host: &str) -> Result<(), String> {
    let directory = tempfile::tempdir().unwrap();
    let path = |file: &str| directory.path().join(file);
    std::fs::write(path("ca.pem"), authority.pem()).unwrap();
    std::fs::write(path("leaf.der"), leaf(authority, host)).unwrap();
    let openssl = |arguments: &[&str]| {
        Command::new("openssl")
            .args(arguments)
            .current_dir(directory.path())
            .output()
            .expect("openssl is installed")
    };
    assert!(openssl(&["x509", "-inform", "der", "-in", "leaf.der", "-out", "leaf.pem"]).status.success());
    let checked = openssl(&[
        "verify",
        "-x509_strict",
        "-purpose",
        "sslserver",
        "-verify_hostname",
        host,
        "-CAfile",
        "ca.pem",
        "leaf.pem",
    ]);
    if checked.status.success() { Ok(()) } else { Err(format!("{checked:?}")) }
}

#[test]
fn it_vouches_for_the_hosts_of_the_policy() {
    let authority = authority();
    for host in ["api.example.com", "a.deep.example.org", "a.b.deep.example.org", "one.example.net"] {
        verify(&authority, host, UnixTime::now()).unwrap();
        openssl_verify(&authority, host).unwrap();
    }
}

#[test]
fn it_can_not_vouch_for_any_other() {
    let authority = authority();
    for host in ["example.com", "example.org", "evil.test", "two.example.net", "com"] {
        assert!(verify(&authority, host, UnixTime::now()).is_err(), "{host}");
        let refused = openssl_verify(&authority, host).unwrap_err();
        assert!(refused.contains("permitted subtree violation"), "{host}: {refused}");
    }
}

#[test]
fn its_time_is_short() {
    let authority = authority();
    let after = |days: u64| {
        UnixTime::since_unix_epoch(Duration::from_secs(UnixTime::now().as_secs() + days * 86_400))
    };
    assert!(verify(&authority, "api.example.com", after(6)).is_ok());
    assert!(verify(&authority, "api.example.com", after(8)).is_err());
}

/// A session may live for months, and programs inside trust what they read at its start.
#[test]
fn the_authority_outlives_any_session() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("ca.pem");
    std::fs::write(&file, authority().pem()).unwrap();
    let year = 365 * 86_400;
    for (seconds, lives) in [(5 * year, true), (20 * year, false)] {
        let mut openssl = Command::new("openssl");
        openssl.args(["x509", "-noout", "-checkend", &seconds.to_string(), "-in"]).arg(&file);
        assert_eq!(openssl.status().expect("openssl is installed").success(), lives, "{seconds}");
    }
}

#[test]
fn no_two_are_alike_and_a_host_is_made_once() {
    let (one, two) = (authority(), authority());
    assert_ne!(one.pem(), two.pem());
    let config = |authority: &Authority, protocol| {
        authority.server_config(&name("api.example.com"), protocol).unwrap()
    };
    assert!(Arc::ptr_eq(&config(&one, Protocol::Http2), &config(&one, Protocol::Http2)));
    assert!(!Arc::ptr_eq(&config(&one, Protocol::Http2), &config(&one, Protocol::Http1)));
    for index in 0..MOST_CACHED * 2 {
        one.server_config(&name(&format!("n{index}.deep.example.org")), Protocol::Http1).unwrap();
    }
    assert!(one.made.lock().len() <= MOST_CACHED);
}

#[test]
fn only_the_certificate_can_be_had() {
    let pem = authority().pem();
    assert_eq!(pem.matches("-----BEGIN").count(), 1);
    assert!(pem.starts_with("-----BEGIN CERTIFICATE-----\n") && pem.lines().all(|line| line.len() <= 64));
}
