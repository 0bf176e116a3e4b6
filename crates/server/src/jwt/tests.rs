use std::process::Command;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, RSA_PKCS1_SHA256, RsaKeyPair};
use serde_json::{Value, json};

use super::*;

const NOW: i64 = 1_700_000_000_000;
const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";

fn config() -> JwtConfig {
    toml::from_str(
        "issuer = 'https://id.example'\naudience = 'ringfence'\nrole_claim = 'role'\nmax_role = 'operator'\n[users]\n'boss' = 'ada'\n",
    )
    .unwrap()
}

fn coded(value: &Value) -> String {
    URL_SAFE_NO_PAD.encode(value.to_string())
}

fn claims() -> Value {
    json!({ "iss": "https://id.example", "aud": "ringfence", "sub": "eve", "role": "operator", "exp": NOW / 1000 + 100 })
}

fn with(name: &str, value: Value) -> Value {
    let mut all = claims();
    all[name] = value;
    all
}

fn without(name: &str) -> Value {
    let mut all = claims();
    all.as_object_mut().unwrap().remove(name);
    all
}

/// Sign a text of two parts.
type Signer<'a> = &'a dyn Fn(&[u8]) -> Vec<u8>;

fn signed(header: &str, body: &str, sign: Signer) -> String {
    let text = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(body));
    format!("{text}.{}", URL_SAFE_NO_PAD.encode(sign(text.as_bytes())))
}

fn by_secret(secret: &[u8]) -> impl Fn(&[u8]) -> Vec<u8> {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
    move |text| hmac::sign(&key, text).as_ref().to_vec()
}

fn hs(claims: &Value) -> String {
    signed(&json!({ "alg": "HS256", "typ": "JWT" }).to_string(), &claims.to_string(), &by_secret(SECRET))
}

fn asked(token: &str) -> Result<Bearer, Disbelief> {
    believe(&config(), &KeySet::secret(SECRET), token, NOW)
}

struct Issuer {
    rsa: RsaKeyPair,
    rsa_pem: String,
    point: EcdsaKeyPair,
    jwks: Value,
}

/// Real keys: an RSA pair from openssl, since ring makes none, and one on P-256.
fn issuer() -> Issuer {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("rsa.pem");
    let made = Command::new("openssl")
        .args(["genpkey", "-quiet", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out"])
        .arg(&path)
        .output()
        .expect("openssl makes the RSA key of this test");
    assert!(made.status.success(), "{made:?}");
    let openssl = |args: &[&str]| {
        let done = Command::new("openssl").args(args).arg("-in").arg(&path).output().unwrap();
        assert!(done.status.success(), "{done:?}");
        done.stdout
    };
    let rsa = RsaKeyPair::from_pkcs8(&openssl(&["pkcs8", "-topk8", "-nocrypt", "-outform", "DER"])).unwrap();
    let rsa_pem = String::from_utf8(openssl(&["pkey", "-pubout"])).unwrap();
    let random = SystemRandom::new();
    let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
    let point = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8.as_ref(), &random).unwrap();
    let public: ring::signature::RsaPublicKeyComponents<Vec<u8>> = rsa.public_key().into();
    let place = point.public_key().as_ref();
    let coded = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
    let jwks = json!({ "keys": [
        { "kty": "RSA", "kid": "r", "use": "sig", "alg": "RS256", "n": coded(&public.n), "e": coded(&public.e) },
        { "kty": "EC", "kid": "e", "crv": "P-256", "x": coded(&place[1..33]), "y": coded(&place[33..]) },
        { "kty": "oct", "kid": "o", "k": coded(SECRET) },
    ] });
    Issuer { rsa, rsa_pem, point, jwks }
}

impl Issuer {
    fn rs(&self, header: &Value, claims: &Value) -> String {
        signed(&header.to_string(), &claims.to_string(), &|text| {
            let mut signature = vec![0; self.rsa.public().modulus_len()];
            self.rsa.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text, &mut signature).unwrap();
            signature
        })
    }

    fn es(&self, header: &Value, claims: &Value) -> String {
        signed(&header.to_string(), &claims.to_string(), &|text| {
            self.point.sign(&SystemRandom::new(), text).unwrap().as_ref().to_vec()
        })
    }

    fn keys(&self) -> KeySet {
        KeySet::from_jwks(self.jwks.to_string().as_bytes()).unwrap()
    }
}

#[test]
fn a_good_token_is_believed() {
    let bearer = asked(&hs(&claims())).unwrap();
    assert_eq!((bearer.role, bearer.local), (Role::Operator, false));
    assert!(bearer.user.starts_with("jwt.eve."), "{bearer:?}");
    assert_eq!(asked(&hs(&with("aud", json!(["other", "ringfence"])))).unwrap(), bearer);
    assert_eq!(asked(&hs(&with("role", json!(["none", "operator", "admin"])))).unwrap(), bearer);
    // Within the skew of clocks.
    for name in ["nbf", "iat"] {
        assert_eq!(asked(&hs(&with(name, json!(NOW / 1000 + 59)))).unwrap(), bearer);
    }
    let late = Bearer { expires: Some(NOW + 1000), ..bearer };
    assert_eq!(asked(&hs(&with("exp", json!(NOW / 1000 - 59)))).unwrap(), late);
}

#[test]
fn a_token_is_worth_no_more_than_the_configuration_says() {
    assert_eq!(asked(&hs(&with("role", json!("admin")))).unwrap().role, Role::Operator);
    assert_eq!(asked(&hs(&with("role", json!("approver")))).unwrap().role, Role::Viewer);
    assert_eq!(asked(&hs(&with("role", json!("root")))), Err(Disbelief::NoRole));
    assert_eq!(asked(&hs(&without("role"))), Err(Disbelief::NoRole));
    let mapped = asked(&hs(&with("sub", json!("boss")))).unwrap();
    assert_eq!((mapped.user.as_str(), mapped.local), ("ada", true));
    // No subject is anybody else's name, whatever it says.
    for subject in ["ada", "admin", "local", "../ada", "ADA", "a/b", "jwt.ada", "ada\0", "ä"] {
        let bearer = asked(&hs(&with("sub", json!(subject)))).unwrap();
        assert!(bearer.user.starts_with(PREFIX) && bearer.user.len() <= 64, "{bearer:?}");
        assert!(!bearer.local && !bearer.user.contains(['/', '\0']), "{bearer:?}");
    }
    assert_ne!(name_of("a", "bc"), name_of("ab", "c"));
    assert_ne!(name_of("a", "Ada"), name_of("a", "ada"));
    let mut pointed = config();
    pointed.role_claim = "/realm_access/roles".into();
    let token = hs(&with("realm_access", json!({ "roles": ["viewer"] })));
    assert_eq!(believe(&pointed, &KeySet::secret(SECRET), &token, NOW).unwrap().role, Role::Viewer);
}

#[test]
fn claims_that_are_not_for_us_or_not_for_now_are_refused() {
    for (claims, why) in [
        (with("iss", json!("https://evil.example")), Disbelief::Claim("iss")),
        (with("iss", json!(["https://id.example"])), Disbelief::Claim("iss")),
        (without("iss"), Disbelief::Claim("iss")),
        (with("aud", json!("other")), Disbelief::Claim("aud")),
        (with("aud", json!([])), Disbelief::Claim("aud")),
        (with("aud", json!([["ringfence"]])), Disbelief::Claim("aud")),
        (with("aud", json!(["ringfence", 1])), Disbelief::Claim("aud")),
        (without("aud"), Disbelief::Claim("aud")),
        (without("exp"), Disbelief::Claim("exp")),
        (with("exp", json!("9999999999")), Disbelief::Claim("exp")),
        (with("exp", json!(null)), Disbelief::Claim("exp")),
        (with("exp", json!(-1)), Disbelief::Claim("exp")),
        (with("exp", json!(NOW / 1000 - 60)), Disbelief::Expired),
        (with("nbf", json!(NOW / 1000 + 61)), Disbelief::Early),
        (with("nbf", json!("0")), Disbelief::Claim("nbf")),
        (with("iat", json!(NOW / 1000 + 61)), Disbelief::Early),
        (with("sub", json!("")), Disbelief::Claim("user claim")),
        (with("sub", json!(7)), Disbelief::Claim("user claim")),
        (with("sub", json!("x".repeat(257))), Disbelief::Claim("user claim")),
        (without("sub"), Disbelief::Claim("user claim")),
    ] {
        assert_eq!(asked(&hs(&claims)), Err(why), "{claims}");
    }
}

#[test]
fn what_is_no_token_is_refused() {
    let good = hs(&claims());
    let (text, signature) = good.rsplit_once('.').unwrap();
    let (head, body) = text.split_once('.').unwrap();
    for (token, why) in [
        (String::new(), Disbelief::Malformed),
        ("..".into(), Disbelief::Malformed),
        (text.into(), Disbelief::Malformed),
        (format!("{good}."), Disbelief::Malformed),
        (format!("{good}.x"), Disbelief::Malformed),
        (format!("{good}="), Disbelief::Malformed),
        (format!(" {good}"), Disbelief::Malformed),
        (format!("{text}."), Disbelief::Signature),
        (format!("{text}.{}", &signature[..signature.len() - 4]), Disbelief::Signature),
        (format!("{head}.{}.{signature}", coded(&with("role", json!("admin")))), Disbelief::Signature),
        (format!("{}.{body}.{signature}", coded(&json!([]))), Disbelief::Malformed),
        (format!("{head}.{body}.{}", "A".repeat(LONGEST)), Disbelief::TooLong),
    ] {
        assert_eq!(asked(&token), Err(why), "{token}");
    }
    // Signed, but two readers would understand two things.
    let header = r#"{"alg":"HS256"}"#;
    let twice = claims().to_string().replacen('{', r#"{"role":"admin","#, 1);
    assert_eq!(asked(&signed(header, &twice, &by_secret(SECRET))), Err(Disbelief::Twice));
    let twice = r#"{"alg":"none","alg":"HS256"}"#;
    assert_eq!(asked(&signed(twice, &claims().to_string(), &by_secret(SECRET))), Err(Disbelief::Twice));
    let deep = claims().to_string().replacen('{', r#"{"a":{"b":1,"b":2},"#, 1);
    assert_eq!(asked(&signed(header, &deep, &by_secret(SECRET))), Err(Disbelief::Twice));
    let nested = format!(r#"{{"a":{}{}}}"#, "[".repeat(2000), "]".repeat(2000));
    assert_eq!(asked(&signed(header, &nested, &by_secret(SECRET))), Err(Disbelief::Malformed));
    for name in ["crit", "b64", "zip", "enc"] {
        let header = json!({ "alg": "HS256", name: ["exp"] }).to_string();
        let token = signed(&header, &claims().to_string(), &by_secret(SECRET));
        assert_eq!(asked(&token), Err(Disbelief::Critical(name)));
    }
}

/// What a library does that lets the token choose: the twin of the table below.
fn naive(public_key: &str, token: &str) -> bool {
    let (text, signature) = token.rsplit_once('.').unwrap();
    let header: Value =
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text.split('.').next().unwrap()).unwrap()).unwrap();
    match header["alg"].as_str().unwrap().to_ascii_lowercase().as_str() {
        "none" => true,
        "hs256" => {
            by_secret(public_key.as_bytes())(text.as_bytes()) == URL_SAFE_NO_PAD.decode(signature).unwrap()
        }
        _ => false,
    }
}

#[test]
fn a_token_does_not_choose_how_it_is_believed() {
    let issuer = issuer();
    let keys = issuer.keys();
    let asked = |token: &str| believe(&config(), &keys, token, NOW);
    let body = claims();
    for good in [
        issuer.rs(&json!({ "alg": "RS256", "kid": "r" }), &body),
        issuer.es(&json!({ "alg": "ES256", "kid": "e" }), &body),
        // The only key of its kind needs no name; where keys could be fetched from is not read.
        issuer.rs(&json!({ "alg": "RS256", "jku": "http://192.0.2.1/", "x5u": "http://192.0.2.1/" }), &body),
    ] {
        assert_eq!(asked(&good).unwrap().role, Role::Operator);
    }
    // Unsigned.
    for alg in ["none", "None", "NONE", "nOnE"] {
        let token = signed(&json!({ "alg": alg }).to_string(), &body.to_string(), &|_| Vec::new());
        assert!(naive(&issuer.rsa_pem, &token), "the attack works where the token chooses");
        assert_eq!(asked(&token), Err(Disbelief::Algorithm));
    }
    // The public key, which everybody knows, as a shared secret.
    let jwks = issuer.jwks.to_string();
    let n = issuer.jwks["keys"][0]["n"].as_str().unwrap();
    for secret in [issuer.rsa_pem.as_str(), issuer.rsa_pem.trim_end(), jwks.as_str(), n, ""] {
        for header in [json!({ "alg": "HS256", "kid": "r" }), json!({ "alg": "HS256" })] {
            let token = signed(&header.to_string(), &body.to_string(), &by_secret(secret.as_bytes()));
            assert_eq!(naive(&issuer.rsa_pem, &token), secret == issuer.rsa_pem);
            assert_eq!(asked(&token), Err(Disbelief::Algorithm));
        }
    }
    // A shared secret that lay in the set is no key.
    let token =
        signed(&json!({ "alg": "HS256", "kid": "o" }).to_string(), &body.to_string(), &by_secret(SECRET));
    assert_eq!(asked(&token), Err(Disbelief::Algorithm));
    // Another's key: named as ours, brought along, unnamed, by tricks with its name.
    let other = self::issuer();
    let own = &other.jwks["keys"][0];
    for (header, why) in [
        (json!({ "alg": "RS256", "kid": "r" }), Disbelief::Signature),
        (json!({ "alg": "RS256" }), Disbelief::Signature),
        (json!({ "alg": "RS256", "jwk": own }), Disbelief::Signature),
        (json!({ "alg": "RS256", "kid": "r", "jwk": own, "x5c": ["x"] }), Disbelief::Signature),
        (json!({ "alg": "RS256", "kid": "../../dev/null" }), Disbelief::UnknownKey),
        (json!({ "alg": "RS256", "kid": "' OR 1=1 --" }), Disbelief::UnknownKey),
        (json!({ "alg": "RS256", "kid": "e" }), Disbelief::UnknownKey),
        (json!({ "alg": "RS256", "kid": "" }), Disbelief::UnknownKey),
        (json!({ "alg": "RS256", "kid": ["r"] }), Disbelief::Malformed),
        (json!({ "alg": "RS256", "kid": null }), Disbelief::Malformed),
        (json!({ "alg": ["RS256"] }), Disbelief::Algorithm),
        (json!({ "alg": "RS384", "kid": "r" }), Disbelief::Algorithm),
        (json!({ "alg": "rs256", "kid": "r" }), Disbelief::Algorithm),
        (json!({ "kid": "r" }), Disbelief::Algorithm),
    ] {
        assert_eq!(asked(&other.rs(&header, &body)), Err(why), "{header}");
    }
    // One kind of key's signature under the other's name, and signatures that are nothing but zeros.
    assert_eq!(asked(&issuer.es(&json!({ "alg": "RS256", "kid": "r" }), &body)), Err(Disbelief::Signature));
    assert_eq!(asked(&issuer.rs(&json!({ "alg": "ES256", "kid": "e" }), &body)), Err(Disbelief::Signature));
    for length in [0, 64, 256] {
        let header = json!({ "alg": if length == 256 { "RS256" } else { "ES256" } }).to_string();
        let token = signed(&header, &body.to_string(), &|_| vec![0; length]);
        assert_eq!(asked(&token), Err(Disbelief::Signature));
    }
    // A secret is configured: no public key is asked for.
    let token = issuer.rs(&json!({ "alg": "RS256", "kid": "r" }), &body);
    assert_eq!(believe(&config(), &KeySet::secret(SECRET), &token, NOW), Err(Disbelief::Algorithm));
}

#[test]
fn a_set_of_keys_is_read_strictly() {
    let issuer = issuer();
    let rsa = &issuer.jwks["keys"][0];
    let changed = |name: &str, value: Value| {
        let mut key = rsa.clone();
        key[name] = value;
        json!({ "keys": [key] })
    };
    for (set, why) in [
        (json!({}), "missing field"),
        (json!({ "keys": [] }), "no public key"),
        (json!({ "keys": [issuer.jwks["keys"][2]] }), "no public key"),
        (json!({ "keys": [rsa, rsa] }), "one `kid`"),
        (json!({ "keys": vec![rsa; 65] }), "more than 64"),
        (changed("use", json!("enc")), "no public key"),
        (changed("key_ops", json!(["encrypt"])), "no public key"),
        (changed("alg", json!("PS256")), "no public key"),
        (changed("alg", json!("HS256")), "no public key"),
        (changed("n", json!("!")), "no public key"),
    ] {
        let refused = KeySet::from_jwks(set.to_string().as_bytes()).unwrap_err();
        assert!(refused.contains(why), "{refused}: {set}");
    }
    assert!(KeySet::from_jwks(&vec![b' '; 300 << 10]).unwrap_err().contains("longer"));
    // 1024 bits are in the set, and verify nothing.
    let short = changed("n", json!(URL_SAFE_NO_PAD.encode([0xff; 128])));
    let keys = KeySet::from_jwks(short.to_string().as_bytes()).unwrap();
    let token = issuer.rs(&json!({ "alg": "RS256", "kid": "r" }), &claims());
    assert_eq!(believe(&config(), &keys, &token, NOW), Err(Disbelief::Signature));
}

#[test]
fn a_source_is_one_and_safe() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("secret");
    let refused = |change: &dyn Fn(&mut JwtConfig)| {
        let mut config = config();
        change(&mut config);
        Tokens::new(config).err().map(|error| error.message)
    };
    let says = |told: Option<String>, word: &str| {
        assert!(told.as_ref().is_some_and(|told| told.contains(word)), "{told:?}")
    };
    says(refused(&|_| {}), "give one of");
    says(refused(&|config| config.jwks_url = Some("http://127.0.0.1/".into())), "must be https");
    says(refused(&|config| config.jwks_url = Some("ftp://127.0.0.1/".into())), "must be https");
    says(refused(&|config| config.jwks_url = Some("file:///etc/passwd".into())), "jwks_url");
    let by_file = |config: &mut JwtConfig| config.secret_file = Some(path.clone());
    says(refused(&by_file), "No such file");
    let write = |bytes: &[u8], mode: u32| {
        std::fs::write(&path, bytes).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    };
    write(SECRET, 0o644);
    says(refused(&by_file), "chmod 600");
    write(b"short\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n", 0o600);
    says(refused(&by_file), "at least 32");
    write(SECRET, 0o600);
    assert_eq!(refused(&by_file), None);
    says(
        refused(&|config| {
            config.secret_file = Some(path.clone());
            config.jwks_url = Some("https://id.example/keys".into());
        }),
        "give one of",
    );
}
