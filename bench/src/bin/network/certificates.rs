//! An authority of this run alone, and the server's certificate by it.

use std::sync::Arc;

use anyhow::Result;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;

use crate::place::{NAME, SECRET_NAME};

#[derive(Debug)]
pub(crate) struct Certificates {
    /// PEM.
    pub(crate) authority: String,
    pub(crate) server: Arc<ServerConfig>,
}

impl Certificates {
    pub(crate) fn make() -> Result<Self> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "Ringfence bench authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate()?;
        let authority = pem(params.self_signed(&key)?.der());
        let issuer = Issuer::new(params, key);

        let key = KeyPair::generate()?;
        let names = [NAME, SECRET_NAME].map(str::to_owned).to_vec();
        let certificate = CertificateParams::new(names)?.signed_by(&key, &issuer)?;
        let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        let server = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)?;
        Ok(Self { authority, server: server.into() })
    }
}

fn pem(der: &[u8]) -> String {
    let mut text = String::from("-----BEGIN CERTIFICATE-----\n");
    for line in STANDARD.encode(der).as_bytes().chunks(64) {
        text.extend(line.iter().copied().map(char::from));
        text.push('\n');
    }
    text + "-----END CERTIFICATE-----\n"
}
