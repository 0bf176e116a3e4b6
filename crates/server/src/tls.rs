//! The server's certificate, from files that may be replaced while it runs.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use ringfence_service::{ErrorCode, ServiceError};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

/// How often the files are looked at.
const LOOK: Duration = Duration::from_secs(5);

/// A chain and its key, both PEM.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    pub cert: PathBuf,
    pub key: PathBuf,
}

/// What tells a file from the one that was there before.
type Stamp = [(u64, u64, i64, i64, u64); 2];

#[derive(Debug)]
pub(crate) struct Certificates {
    files: TlsFiles,
    current: RwLock<Arc<CertifiedKey>>,
    seen: Mutex<Option<Stamp>>,
}

fn bad(path: &Path, why: impl std::fmt::Display) -> ServiceError {
    ServiceError::new(
        ErrorCode::BadRequest,
        format!("{}: {why}", path.display()),
        "give a PEM chain with --tls-cert and its private key with --tls-key",
    )
}

impl Certificates {
    pub(crate) fn load(files: TlsFiles) -> Result<Arc<Self>, ServiceError> {
        let seen = Mutex::new(stamp(&files));
        let current = RwLock::new(Arc::new(read(&files)?));
        Ok(Arc::new(Self { files, current, seen }))
    }

    /// For new connections; those that are open keep what they began with.
    pub(crate) fn config(self: &Arc<Self>) -> Result<Arc<ServerConfig>, ServiceError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| bad(&self.files.cert, error))?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(self) as Arc<dyn ResolvesServerCert>);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }

    /// Read the files again. A chain and a key that don't fit, perhaps since only one was replaced yet, change nothing.
    pub(crate) fn reload(&self) {
        let stamp = stamp(&self.files);
        match read(&self.files) {
            Ok(read) => {
                *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(read);
                tracing::info!("the certificate was read again");
            }
            Err(error) => tracing::warn!(why = error.message, "the certificate stays the one from before"),
        }
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = stamp;
    }

    /// Follow the files for as long as the server runs.
    pub(crate) async fn follow(&self) {
        loop {
            tokio::time::sleep(LOOK).await;
            let seen = *self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            let now = stamp(&self.files);
            if now.is_some() && now != seen {
                self.reload();
            }
        }
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

fn stamp(files: &TlsFiles) -> Option<Stamp> {
    let of = |path: &Path| {
        let facts = std::fs::metadata(path).ok()?;
        Some((facts.dev(), facts.ino(), facts.mtime(), facts.mtime_nsec(), facts.size()))
    };
    Some([of(&files.cert)?, of(&files.key)?])
}

fn read(files: &TlsFiles) -> Result<CertifiedKey, ServiceError> {
    let TlsFiles { cert, key } = files;
    let facts = std::fs::metadata(key).map_err(|error| bad(key, error))?;
    if facts.mode() & 0o007 != 0 {
        return Err(bad(key, "everybody on this machine can read this key: chmod 600"));
    }
    let chain = CertificateDer::pem_file_iter(cert).map_err(|error| bad(cert, error))?;
    let chain: Vec<_> = chain.collect::<Result<_, _>>().map_err(|error| bad(cert, error))?;
    if chain.is_empty() {
        return Err(bad(cert, "there is no certificate in it"));
    }
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| bad(key, error))?;
    let provider = rustls::crypto::ring::default_provider();
    CertifiedKey::from_der(chain, secret, &provider).map_err(|error| bad(key, error))
}
