//! The store's key: in the desktop's keyring, through the `secret-tool` program of libsecret, or in a file.
//!
//! The program speaks to whatever implements the freedesktop Secret Service; linking a D-Bus client for one lookup
//! would cost more than the rest of the store. It is given the key, outside of every sandbox: so it is the system's own,
//! wherever PATH leads.

use std::fmt;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ring::rand::{SecureRandom, SystemRandom};
use ringfence_linux::system_program;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::{StoreError, files};

const FILE: &str = "secrets.key";
const PROGRAM: &str = "secret-tool";
/// The keyring may ask its user for a password.
const UNLOCK: Duration = Duration::from_secs(60);

pub(super) type Key = Zeroizing<[u8; 32]>;

/// Where the key of a store is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyPlace {
    /// The desktop's keyring (freedesktop Secret Service).
    Keyring,
    /// A file beside the store, mode 0600.
    File,
}

impl fmt::Display for KeyPlace {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            KeyPlace::Keyring => "the desktop's keyring",
            KeyPlace::File => "its key file",
        })
    }
}

/// The program that speaks to the keyring.
#[derive(Debug)]
pub(super) struct Keyring {
    program: Option<PathBuf>,
    /// Without a session bus the program would try to start one.
    has_bus: bool,
}

pub(super) fn read(directory: &Path, place: KeyPlace, keyring: &Keyring) -> Result<Key, StoreError> {
    let (text, fix) = match place {
        KeyPlace::File => {
            let bytes = files::read_private(&directory.join(FILE))?;
            (
                bytes.ok_or("there is no such file".to_owned()),
                "restore `secrets.key`, or remove the store and set the secrets again",
            )
        }
        KeyPlace::Keyring => (
            keyring.call(&["lookup"], directory, None),
            "unlock the keyring, or remove the store and set the secrets again",
        ),
    };
    let key = text.and_then(|text| from_hex(&text).ok_or_else(|| "what is there is not a key".to_owned()));
    key.map_err(|why| StoreError::Key { place, why, fix })
}

/// A new key, kept where it can be: in the keyring if it gives back what it was given.
pub(super) fn make(directory: &Path, keyring: &Keyring) -> Result<(KeyPlace, Key), StoreError> {
    let mut key = Key::default();
    SystemRandom::new().fill(key.as_mut()).expect("the kernel's random numbers");
    let text = to_hex(&key);
    if keyring.may_be_there() {
        let kept = keyring.call(&["store", "--label=Ringfence secret store"], directory, Some(&text));
        if kept.is_ok() && read(directory, KeyPlace::Keyring, keyring).is_ok_and(|back| back == key) {
            return Ok((KeyPlace::Keyring, key));
        }
    }
    files::write_private(directory, FILE, &text)?;
    Ok((KeyPlace::File, key))
}

impl Keyring {
    /// The desktop's, if the program for it is installed in the system.
    pub(super) fn of_the_system() -> Self {
        let bus = std::env::var_os("DBUS_SESSION_BUS_ADDRESS");
        Self { program: system_program(PROGRAM), has_bus: bus.is_some_and(|address| !address.is_empty()) }
    }

    /// None at all.
    #[cfg(test)]
    pub(super) fn none() -> Self {
        Self { program: None, has_bus: false }
    }

    #[cfg(test)]
    pub(super) fn by(program: &Path) -> Self {
        Self { program: Some(program.to_owned()), has_bus: true }
    }

    fn may_be_there(&self) -> bool {
        self.program.is_some() && self.has_bus
    }

    /// One call of the program; its output.
    fn call(
        &self,
        verb: &[&str],
        directory: &Path,
        input: Option<&[u8]>,
    ) -> Result<Zeroizing<Vec<u8>>, String> {
        let program = self
            .program
            .as_deref()
            .ok_or_else(|| format!("`{PROGRAM}` is not installed in a directory of the system"))?;
        let mut child = Command::new(program)
            .args(verb)
            .args(["application", "ringfence", "store"])
            .arg(directory)
            .stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("cannot start `{PROGRAM}`: {error}"))?;
        if let (Some(mut stdin), Some(input)) = (child.stdin.take(), input) {
            let _ = stdin.write_all(input);
        }
        // 64 bytes fit into the pipe: the program ends without being read from.
        if !ends_in_time(&mut child) {
            return Err(format!("`{PROGRAM}` did not find it"));
        }
        let mut output = Zeroizing::new(Vec::with_capacity(256));
        if let Some(stdout) = child.stdout.take() {
            let _ = stdout.take(256).read_to_end(&mut output);
        }
        Ok(output)
    }
}

fn ends_in_time(child: &mut Child) -> bool {
    let deadline = Instant::now() + UNLOCK;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return status.success(),
            Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(10)),
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                return false;
            }
        }
    }
}

fn to_hex(key: &Key) -> Zeroizing<Vec<u8>> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    Zeroizing::new(
        key.iter()
            .flat_map(|byte| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]])
            .collect(),
    )
}

fn from_hex(text: &[u8]) -> Option<Key> {
    let text = text.trim_ascii();
    if text.len() != 64 {
        return None;
    }
    let mut key = Key::default();
    for (byte, pair) in key.iter_mut().zip(text.chunks_exact(2)) {
        let digit = |c: u8| char::from(c).to_digit(16);
        *byte = (digit(pair[0])? << 4 | digit(pair[1])?) as u8;
    }
    Some(key)
}
