//! The certificates of the test internet: one authority that the machine trusts, and servers that are what they say,
//! somebody else, out of date, or trusted by nobody.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose, date_time_ymd,
};

/// A certificate with its key, both PEM.
#[derive(Clone, Debug)]
pub struct Credentials {
    pub certificate: String,
    pub key: String,
}

#[derive(Debug)]
pub struct Certificates {
    /// The authority that the machine trusts.
    pub authority: String,
    /// For the names of honest servers.
    pub good: Credentials,
    /// Of a name that nobody asks for.
    pub other_name: Credentials,
    /// For `expired.test`, until 2020.
    pub expired: Credentials,
    /// For `selfsigned.test`.
    pub self_signed: Credentials,
    /// For `unknown-ca.test`, by an authority that nobody trusts.
    pub unknown_authority: Credentials,
}

impl Certificates {
    pub(super) fn make(honest: &[&str]) -> Self {
        let trusted = Authority::new("Ringfence test authority");
        let stranger = Authority::new("Some other authority");
        Self {
            good: trusted.sign(leaf(honest)),
            other_name: trusted.sign(leaf(&["somebody-else.test"])),
            expired: {
                let mut params = leaf(&["expired.test"]);
                params.not_before = date_time_ymd(2019, 1, 1);
                params.not_after = date_time_ymd(2020, 1, 1);
                trusted.sign(params)
            },
            self_signed: {
                let key = KeyPair::generate().expect("a key");
                let made = leaf(&["selfsigned.test"]).self_signed(&key).expect("a certificate");
                credentials(made.der(), &key)
            },
            unknown_authority: stranger.sign(leaf(&["unknown-ca.test"])),
            authority: trusted.certificate,
        }
    }
}

struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
}

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().expect("a key");
        let made = params.self_signed(&key).expect("an authority");
        let certificate = pem("CERTIFICATE", made.der());
        Self { issuer: Issuer::new(params, key), certificate }
    }

    fn sign(&self, params: CertificateParams) -> Credentials {
        let key = KeyPair::generate().expect("a key");
        let made = params.signed_by(&key, &self.issuer).expect("a certificate");
        credentials(made.der(), &key)
    }
}

fn leaf(names: &[&str]) -> CertificateParams {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names.clone()).expect("names for a certificate");
    params.distinguished_name.push(DnType::CommonName, names[0].clone());
    params
}

fn credentials(certificate: &[u8], key: &KeyPair) -> Credentials {
    Credentials {
        certificate: pem("CERTIFICATE", certificate),
        key: pem("PRIVATE KEY", &key.serialize_der()),
    }
}

fn pem(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines: Vec<&str> =
        text.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).expect("base64 is ASCII")).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}
