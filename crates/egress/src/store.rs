//! The secret store: values that `ringfence secret set` keeps, sealed one by one, in one file of a directory.
//!
//! ChaCha20-Poly1305 with a random nonce for each value and the name as associated data, so that neither a value nor
//! the name it is stored under can be changed or exchanged. Names are readable without the key. The key is in the
//! desktop's keyring where there is one, else in a file of its own that only its owner can read.

mod files;
mod key;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use zeroize::{Zeroize, Zeroizing};

pub use key::KeyPlace;

const FILE: &str = "secrets.json";
const LOCK: &str = "secrets.lock";
const VERSION: u32 = 1;
/// Above any token or key that is sent in a header or a form.
const LONGEST_VALUE: usize = 64 << 10;
const LONGEST_NAME: usize = 128;

/// What can go wrong. No message holds a value.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("cannot {what} {path}: {source}")]
    Io { what: &'static str, path: PathBuf, source: io::Error },
    #[error("{path} is not a secret store of this version: {why}; move it away and set the secrets again")]
    Format { path: PathBuf, why: String },
    #[error("{path} can be read or written by others; make it private with `chmod 600 {path}`")]
    Permissions { path: PathBuf },
    #[error("the key of the secret store is not in {place}: {why}; {fix}")]
    Key { place: KeyPlace, why: String, fix: &'static str },
    #[error("no secret `{name}` is stored; store it with `ringfence secret set {name}`")]
    Missing { name: String },
    #[error(
        "the stored secret `{name}` does not open with the store's key; set it again with `ringfence secret set {name}`"
    )]
    Sealed { name: String },
    #[error(
        "`{name}` cannot be the name of a secret: use up to 128 letters, digits and `_`, the first not a digit"
    )]
    Name { name: String },
    #[error("the value of `{name}` cannot be stored: {why}")]
    Value { name: String, why: &'static str },
}

/// Sealed values by name, in one directory.
#[derive(Debug)]
pub struct SecretStore {
    directory: PathBuf,
    /// A new key goes there if it answers.
    keyring: key::Keyring,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Book {
    version: u32,
    key: KeyPlace,
    /// Name to nonce and sealed value, in base64.
    secrets: BTreeMap<String, String>,
}

impl SecretStore {
    /// Nothing is read or made yet: a store without a file is an empty one.
    pub fn open(directory: &Path) -> Result<Self, StoreError> {
        Ok(Self { directory: directory.to_owned(), keyring: key::Keyring::of_the_system() })
    }

    /// The same without a look at the keyring, so that a test touches nothing of its user.
    #[cfg(test)]
    pub(crate) fn open_with_key_file(directory: &Path) -> Self {
        Self { directory: directory.to_owned(), keyring: key::Keyring::none() }
    }

    /// Keep `value` under `name`, in place of what was there.
    pub fn set(&self, name: &str, value: &SecretString) -> Result<(), StoreError> {
        check_name(name)?;
        check_value(name, value.expose_secret())?;
        let _lock = files::lock(&self.directory, LOCK)?;
        let (mut book, key) = match self.read()? {
            Some(book) => {
                let key = key::read(&self.directory, book.key, &self.keyring)?;
                (book, key)
            }
            None => {
                let (place, key) = key::make(&self.directory, &self.keyring)?;
                (Book { version: VERSION, key: place, secrets: BTreeMap::new() }, key)
            }
        };
        book.secrets.insert(name.to_owned(), seal(&key, name, value.expose_secret()));
        self.write(&book)
    }

    pub fn get(&self, name: &str) -> Result<SecretString, StoreError> {
        let missing = || StoreError::Missing { name: name.to_owned() };
        let book = self.read()?.ok_or_else(missing)?;
        let sealed = book.secrets.get(name).ok_or_else(missing)?;
        let key = key::read(&self.directory, book.key, &self.keyring)?;
        unseal(&key, name, sealed).ok_or_else(|| StoreError::Sealed { name: name.to_owned() })
    }

    /// Every name, in order. The key is not needed.
    pub fn names(&self) -> Result<Vec<String>, StoreError> {
        Ok(self.read()?.map(|book| book.secrets.into_keys().collect()).unwrap_or_default())
    }

    /// Where the key is; `None` while nothing was ever stored.
    pub fn key_place(&self) -> Result<Option<KeyPlace>, StoreError> {
        Ok(self.read()?.map(|book| book.key))
    }

    /// Was it there?
    pub fn remove(&self, name: &str) -> Result<bool, StoreError> {
        if self.read()?.is_none_or(|book| !book.secrets.contains_key(name)) {
            return Ok(false);
        }
        let _lock = files::lock(&self.directory, LOCK)?;
        let Some(mut book) = self.read()? else { return Ok(false) };
        let was_there = book.secrets.remove(name).is_some();
        self.write(&book)?;
        Ok(was_there)
    }

    fn read(&self) -> Result<Option<Book>, StoreError> {
        let path = self.directory.join(FILE);
        let Some(bytes) = files::read_private(&path)? else { return Ok(None) };
        let format = |why: String| StoreError::Format { path: path.clone(), why };
        let book: Book = serde_json::from_slice(&bytes).map_err(|error| format(error.to_string()))?;
        if book.version != VERSION {
            return Err(format(format!("it has version {}, not {VERSION}", book.version)));
        }
        Ok(Some(book))
    }

    fn write(&self, book: &Book) -> Result<(), StoreError> {
        let bytes = serde_json::to_vec_pretty(book).unwrap_or_default();
        files::write_private(&self.directory, FILE, &bytes)
    }
}

/// The names that a policy can refer to by `store:NAME`.
fn check_name(name: &str) -> Result<(), StoreError> {
    let fine = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let digit_first = name.starts_with(|c: char| c.is_ascii_digit());
    if name.is_empty() || name.len() > LONGEST_NAME || digit_first || !name.chars().all(fine) {
        return Err(StoreError::Name {
            name: name.chars().take(LONGEST_NAME).flat_map(char::escape_default).collect(),
        });
    }
    Ok(())
}

fn check_value(name: &str, value: &str) -> Result<(), StoreError> {
    let why = if value.is_empty() {
        "it is empty"
    } else if value.len() > LONGEST_VALUE {
        "it is larger than 64 KiB"
    } else {
        return Ok(());
    };
    Err(StoreError::Value { name: name.to_owned(), why })
}

fn cipher(key: &key::Key) -> LessSafeKey {
    let key = UnboundKey::new(&CHACHA20_POLY1305, key.as_ref()).expect("a key of 32 bytes");
    LessSafeKey::new(key)
}

/// The version is bound as well: a later format can't be passed off as this one.
fn bound_to(name: &str) -> Aad<String> {
    Aad::from(format!("ringfence secret {VERSION} {name}"))
}

fn seal(key: &key::Key, name: &str, value: &str) -> String {
    let mut nonce = [0; NONCE_LEN];
    SystemRandom::new().fill(&mut nonce).expect("the kernel's random numbers");
    // Room for the tag at once: a buffer that grows would leave the value behind in the old one.
    let mut sealed = Vec::with_capacity(value.len() + CHACHA20_POLY1305.tag_len());
    sealed.extend_from_slice(value.as_bytes());
    cipher(key)
        .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), bound_to(name), &mut sealed)
        .expect("a value far below the cipher's limit");
    STANDARD.encode([nonce.as_slice(), &sealed].concat())
}

fn unseal(key: &key::Key, name: &str, sealed: &str) -> Option<SecretString> {
    let mut bytes = Zeroizing::new(STANDARD.decode(sealed).ok()?);
    let (nonce, value) = bytes.split_first_chunk_mut::<NONCE_LEN>()?;
    let nonce = Nonce::assume_unique_for_key(*nonce);
    let plain = cipher(key).open_in_place(nonce, bound_to(name), value).ok()?;
    let value = std::str::from_utf8(plain).ok().map(SecretString::from);
    plain.zeroize();
    value
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
