//! An issuer of tokens, as an identity provider is one: a key on P-256, a set of keys, and a small server for it on loopback.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::{Value, json};

pub(crate) const SECRET: &str = "planted-secret-of-tokens-0123456789abcdef";

/// Claims that are good for a while.
pub(crate) fn claims(subject: &str, role: &str) -> Value {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_secs();
    json!({ "iss": "https://id.example", "aud": "ringfence", "sub": subject, "role": role, "exp": now + 3600 })
}

fn text(header: &Value, claims: &Value) -> String {
    let coded = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    format!("{}.{}", coded(header), coded(claims))
}

/// Signed with a secret.
pub(crate) fn by_secret(secret: &str, claims: &Value) -> String {
    let text = text(&json!({ "alg": "HS256", "typ": "JWT" }), claims);
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    format!("{text}.{}", URL_SAFE_NO_PAD.encode(hmac::sign(&key, text.as_bytes())))
}

/// Signed by nobody.
pub(crate) fn unsigned(claims: &Value) -> String {
    format!("{}.", text(&json!({ "alg": "none" }), claims))
}

pub(crate) struct SigningKey {
    kid: &'static str,
    pair: EcdsaKeyPair,
}

impl SigningKey {
    pub(crate) fn new(kid: &'static str) -> Self {
        let random = SystemRandom::new();
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).expect("a key");
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8.as_ref(), &random);
        Self { kid, pair: pair.expect("a key") }
    }

    pub(crate) fn sign(&self, claims: &Value) -> String {
        let text = text(&json!({ "alg": "ES256", "kid": self.kid }), claims);
        let signature = self.pair.sign(&SystemRandom::new(), text.as_bytes()).expect("a signature");
        format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    fn public(&self) -> Value {
        let point = self.pair.public_key().as_ref();
        let coded = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        json!({ "kty": "EC", "crv": "P-256", "kid": self.kid, "x": coded(&point[1..33]), "y": coded(&point[33..]) })
    }
}

pub(crate) fn key_set(keys: &[&SigningKey]) -> String {
    json!({ "keys": keys.iter().map(|key| key.public()).collect::<Vec<_>>() }).to_string()
}

/// Serves a set of keys, or what a test makes it say. With TLS where it is given a certificate.
pub(crate) struct KeyServer {
    pub(crate) address: SocketAddr,
    answer: Arc<Mutex<(u16, String)>>,
    asked: Arc<AtomicUsize>,
}

impl KeyServer {
    pub(crate) fn start(body: String, tls: Option<Arc<rustls::ServerConfig>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let (answer, asked) = (Arc::new(Mutex::new((200, body))), Arc::new(AtomicUsize::new(0)));
        let (told, count) = (Arc::clone(&answer), Arc::clone(&asked));
        // Ends with the process that runs this one test.
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                count.fetch_add(1, Ordering::SeqCst);
                let (status, body) = told.lock().expect("an answer").clone();
                match &tls {
                    None => converse(&mut stream, status, &body),
                    Some(config) => {
                        let Ok(mut connection) = rustls::ServerConnection::new(Arc::clone(config)) else {
                            return;
                        };
                        converse(&mut rustls::Stream::new(&mut connection, &mut stream), status, &body);
                        connection.send_close_notify();
                        let _ = connection.complete_io(&mut stream);
                    }
                }
            }
        });
        Self { address, answer, asked }
    }

    pub(crate) fn says(&self, status: u16, body: String) {
        *self.answer.lock().expect("an answer") = (status, body);
    }

    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

fn converse(stream: &mut (impl std::io::Read + Write), status: u16, body: &str) {
    let mut reader = BufReader::new(&mut *stream);
    let mut line = String::new();
    while matches!(reader.read_line(&mut line), Ok(1..)) && line != "\r\n" {
        line.clear();
    }
    let head =
        format!("HTTP/1.1 {status} told\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
    let _ = stream.write_all(head.as_bytes());
    let _ = stream.write_all(body.as_bytes());
    let _ = stream.flush();
}
