//! The sandbox's own certificate authority: trusted inside, for the hosts whose TLS ends here and for no others.
//!
//! Its key is made in this process, is never written anywhere, and goes with the process. Name constraints keep it from
//! vouching for any other host, should the key ever get out.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    GeneralSubtree, IsCa, KeyPair, KeyUsagePurpose, NameConstraints, SanType, SerialNumber,
};
use ring::rand::{SecureRandom, SystemRandom};
use ringfence_policy::{HostName, HostPattern, Network};
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::{CertifiedKey, SingleCertAndKey};

use crate::http::Protocol;
use crate::lock::Lock;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// A clock inside, in a virtual machine for example, may be behind.
const BEFORE: Duration = DAY;
/// Beyond any session: the key is gone when its sandbox is, and programs inside read the certificate once.
const AUTHORITY: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);
const LEAF: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// A leaf is made anew when this much of its time is over.
const FRESH: Duration = Duration::from_secs(3 * 24 * 60 * 60);
/// Names below a wildcard may be many.
const MOST_CACHED: usize = 256;

pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    /// One key for all leaves: they differ in the name.
    leaf_key: KeyPair,
    provider: Arc<CryptoProvider>,
    made: Lock<BTreeMap<(HostName, Protocol), Made>>,
}

struct Made {
    config: Arc<ServerConfig>,
    at: SystemTime,
}

impl Authority {
    /// For the hosts that the policy gives secrets or HTTP rules.
    pub(crate) fn new(network: &Network, provider: Arc<CryptoProvider>) -> Result<Self, rcgen::Error> {
        let mut params = params(&format!("Ringfence sandbox {}", random_hex()), AUTHORITY);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.name_constraints = Some(NameConstraints {
            permitted_subtrees: terminated(network).into_iter().map(GeneralSubtree::DnsName).collect(),
            excluded_subtrees: Vec::new(),
        });
        Ok(Self {
            issuer: CertifiedIssuer::self_signed(params, KeyPair::generate()?)?,
            leaf_key: KeyPair::generate()?,
            provider,
            made: Lock::default(),
        })
    }

    /// The certificate to trust inside.
    pub(crate) fn pem(&self) -> String {
        let encoded = STANDARD.encode(self.issuer.der());
        let lines =
            encoded.as_bytes().chunks(64).map(|line| String::from_utf8_lossy(line).into_owned() + "\n");
        format!("-----BEGIN CERTIFICATE-----\n{}-----END CERTIFICATE-----\n", lines.collect::<String>())
    }

    /// How to be this host for a client that speaks this protocol.
    pub(crate) fn server_config(
        &self,
        name: &HostName,
        protocol: Protocol,
    ) -> Result<Arc<ServerConfig>, Box<dyn std::error::Error + Send + Sync>> {
        let key = (name.clone(), protocol);
        let mut made = self.made.lock();
        let is_fresh = |made: &&Made| made.at.elapsed().is_ok_and(|age| age < FRESH);
        if let Some(found) = made.get(&key).filter(is_fresh) {
            return Ok(found.config.clone());
        }
        let mut config = ServerConfig::builder_with_provider(self.provider.clone())
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(SingleCertAndKey::from(self.leaf(name)?)));
        config.alpn_protocols = vec![protocol.alpn().to_vec()];
        let config = Arc::new(config);
        if made.len() >= MOST_CACHED {
            made.clear();
        }
        made.insert(key, Made { config: config.clone(), at: SystemTime::now() });
        Ok(config)
    }

    fn leaf(&self, name: &HostName) -> Result<CertifiedKey, Box<dyn std::error::Error + Send + Sync>> {
        let mut params = params("Ringfence", LEAF);
        params.subject_alt_names = vec![SanType::DnsName(name.as_str().try_into()?)];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let certificate = params.signed_by(&self.leaf_key, &self.issuer)?;
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(self.leaf_key.serialize_der()));
        let key = self.provider.key_provider.load_private_key(key)?;
        Ok(CertifiedKey::new(vec![certificate.der().clone()], key))
    }
}

/// The names for which TLS may end here. A constraint covers what is below a name as well.
fn terminated(network: &Network) -> Vec<String> {
    let secrets = network.secrets.iter().flat_map(|secret| &secret.hosts);
    let secrets = secrets.filter_map(|rule| match &rule.pattern {
        HostPattern::Name(name) | HostPattern::Below(name) => Some(name.to_string()),
        HostPattern::Address(_) | HostPattern::Group(_) => None,
    });
    let mut names: Vec<String> =
        network.http.iter().map(|rule| rule.host.to_string()).chain(secrets).collect();
    names.sort();
    names.dedup();
    names
}

fn params(subject: &str, validity: Duration) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, subject);
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(BEFORE);
    params.not_before = epoch + now.saturating_sub(BEFORE);
    params.not_after = epoch + (now + validity);
    let mut serial = random();
    // Positive, and not shorter for it.
    serial[0] = serial[0] & 0x7f | 0x40;
    params.serial_number = Some(SerialNumber::from_slice(&serial));
    params
}

fn random() -> [u8; 16] {
    let mut bytes = [0; 16];
    SystemRandom::new().fill(&mut bytes).expect("the kernel's random numbers");
    bytes
}

/// Two sandboxes of one user never have the same authority's name: clients find an issuer by it.
fn random_hex() -> String {
    random()[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
#[path = "authority_tests.rs"]
mod tests;
