//! `ringfence secret`: values in egress' own store, in the state directory. No value is ever given back.

use std::io::{self, Read};

use ringfence_egress::{KeyPlace, SecretStore, StoreError};
use ringfence_policy::SecretSource;
use secrecy::SecretString;
use serde::Serialize;
use zeroize::Zeroizing;

use crate::error::{ErrorCode, ServiceError};
use crate::places::Places;

/// In the state directory; egress is told the same.
const DIRECTORY: &str = "secrets";
/// More than the store takes, so that it says what is wrong.
const MOST: usize = (64 << 10) + 2;

/// What is stored: the names, and where the key to them is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StoredSecrets {
    pub names: Vec<String>,
    /// `None` while nothing was ever stored.
    pub key: Option<KeyPlace>,
}

/// A value on its way into the store: wiped when it is dropped, and never printed.
#[derive(Debug)]
pub struct SecretValue(SecretString);

impl SecretValue {
    /// Let `typed` write the value and say how long it is. `None` if it gives none.
    pub fn fill(
        typed: impl FnOnce(&mut [u8]) -> io::Result<Option<usize>>,
    ) -> Result<Option<Self>, ServiceError> {
        // Full size at once: a buffer that grows leaves copies behind.
        let mut bytes = Zeroizing::new(vec![0; MOST]);
        let length = typed(&mut bytes).map_err(|error| bad(format!("the value can't be read: {error}")))?;
        let Some(length) = length else { return Ok(None) };
        let text = std::str::from_utf8(&bytes[..length])
            .map_err(|_| bad("the value is not UTF-8 text: it could not be put into a request"))?;
        // The end of a line is not part of it.
        let line = text.strip_suffix('\n').map_or(text, |line| line.strip_suffix('\r').unwrap_or(line));
        Ok(Some(Self(SecretString::from(line))))
    }

    /// Everything that `from` has. It should not be buffered: a buffer keeps a copy.
    pub fn read(mut from: impl Read) -> Result<Self, ServiceError> {
        let read = Self::fill(|into| {
            let mut length = 0;
            loop {
                match from.read(&mut into[length..]) {
                    Ok(0) => return Ok(Some(length)),
                    Ok(count) => length += count,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
        })?;
        read.ok_or_else(|| bad("there is no value"))
    }
}

/// Keep a value, in place of an older one. Where the key to it is.
pub fn set_secret(places: &Places, name: &str, value: &SecretValue) -> Result<KeyPlace, ServiceError> {
    // A name that no rule could say is of no use.
    if SecretSource::parse(&format!("store:{name}")).is_err() {
        return Err(ServiceError::new(
            ErrorCode::BadRequest,
            "that can't be the name of a secret: use letters, digits and `_`, the first not a digit",
            "the value never goes on the command line: `ringfence secret set NAME` asks for it",
        ));
    }
    places.state.ensure()?;
    let store = open(places)?;
    store.set(name, &value.0).map_err(failed)?;
    store.key_place().map_err(failed)?.ok_or_else(|| bad("the store is empty after a value was stored"))
}

pub fn stored_secrets(places: &Places) -> Result<StoredSecrets, ServiceError> {
    let store = open(places)?;
    Ok(StoredSecrets { names: store.names().map_err(failed)?, key: store.key_place().map_err(failed)? })
}

pub fn remove_secret(places: &Places, name: &str) -> Result<(), ServiceError> {
    if open(places)?.remove(name).map_err(failed)? {
        return Ok(());
    }
    Err(ServiceError::new(
        ErrorCode::BadRequest,
        "no secret of that name is stored",
        "see `ringfence secret ls`",
    ))
}

fn open(places: &Places) -> Result<SecretStore, ServiceError> {
    SecretStore::open(&places.own().join(DIRECTORY)).map_err(failed)
}

fn bad(message: impl Into<String>) -> ServiceError {
    ServiceError::new(ErrorCode::BadRequest, message, "`ringfence secret set --help` has examples")
}

/// The store's messages say what to do after a semicolon.
fn failed(error: StoreError) -> ServiceError {
    let code = match error {
        StoreError::Name { .. } | StoreError::Value { .. } | StoreError::Missing { .. } => {
            ErrorCode::BadRequest
        }
        _ => ErrorCode::State,
    };
    let text = error.to_string();
    let (message, hint) = text.split_once("; ").unwrap_or((&text, "check the state directory's files"));
    ServiceError::new(code, message, hint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::StateDir;
    use secrecy::ExposeSecret;

    #[test]
    fn the_end_of_the_line_is_not_part_of_a_value() {
        for (typed, value) in
            [("abc\n", "abc"), ("abc\r\n", "abc"), ("abc", "abc"), ("a\nb\n", "a\nb"), ("\n", "")]
        {
            assert_eq!(SecretValue::read(typed.as_bytes()).unwrap().0.expose_secret(), value);
        }
        assert!(SecretValue::read([0xff, 0xfe].as_slice()).is_err());
        let shown = format!("{:?}", SecretValue::read("abcdef".as_bytes()).unwrap());
        assert!(!shown.contains("abcdef"), "{shown}");
    }

    #[test]
    fn set_listed_and_removed_without_a_word_of_the_value() {
        let root = tempfile::tempdir().unwrap();
        let mut places = Places::from_env().unwrap();
        places.state = StateDir::new(root.path().join("state"));
        assert_eq!(stored_secrets(&places).unwrap(), StoredSecrets { names: vec![], key: None });
        let value = SecretValue::read("very-secret-indeed".as_bytes()).unwrap();
        set_secret(&places, "TOKEN", &value).unwrap();
        assert_eq!(stored_secrets(&places).unwrap().names, ["TOKEN"]);
        for entry in std::fs::read_dir(places.state.path().join(DIRECTORY)).unwrap().flatten() {
            let text = std::fs::read(entry.path()).unwrap();
            assert!(!String::from_utf8_lossy(&text).contains("very-secret-indeed"), "{:?}", entry.path());
        }
        for bad in ["", "a b", "TOKEN=abc", "../x", "1X", "very-secret-indeed"] {
            let error = set_secret(&places, bad, &value).unwrap_err();
            assert!(!error.message.contains("very-secret") && !error.hint.contains("very-secret"));
        }
        assert!(set_secret(&places, "EMPTY", &SecretValue::read("\n".as_bytes()).unwrap()).is_err());
        remove_secret(&places, "TOKEN").unwrap();
        assert!(remove_secret(&places, "TOKEN").is_err());
    }
}
