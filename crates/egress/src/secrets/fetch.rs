//! Where values come from: a variable, a file, a command, the store.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use ringfence_policy::SecretSource;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use secrecy::SecretString;
use zeroize::{Zeroize, Zeroizing};

use super::{LONGEST, Problem};
use crate::store::SecretStore;

/// A password manager may ask its user something.
const PATIENCE: Duration = Duration::from_secs(120);

/// `written`: what the sandbox may write.
pub(super) fn fetch(
    source: &SecretSource,
    store: &Path,
    written: &[PathBuf],
) -> Result<SecretString, Problem> {
    match source {
        SecretSource::Env(name) => from_variable(name),
        SecretSource::File(path) => from_file(path),
        SecretSource::Command(command) => from_command(command, &search_path(written), PATIENCE),
        SecretSource::Store(name) => {
            let problem = |error: crate::StoreError| {
                Problem::new(error.to_string(), "see `ringfence secret ls` for what is stored")
            };
            SecretStore::open(store).and_then(|store| store.get(name)).map_err(problem)
        }
    }
}

fn from_variable(name: &str) -> Result<SecretString, Problem> {
    match std::env::var(name) {
        Ok(value) => Ok(value.into()),
        Err(std::env::VarError::NotPresent) => {
            Err(Problem::new(format!("the variable `{name}` is not set"), format!("set it: `export {name}`")))
        }
        // The error's own text would have the value.
        Err(std::env::VarError::NotUnicode(_)) => Err(not_text()),
    }
}

fn from_file(path: &Path) -> Result<SecretString, Problem> {
    let unreadable = |error: io::Error| Problem::new(error.to_string(), "name a file that you can read");
    let file = OpenOptions::new()
        .read(true)
        // A FIFO without a writer would be waited for.
        .custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32)
        .open(path)
        .map_err(unreadable)?;
    if !file.metadata().map_err(unreadable)?.is_file() {
        return Err(Problem::new("it is not a regular file", "name a file that holds only the value"));
    }
    text_of(read_bounded(file).map_err(unreadable)?)
}

/// Its words go to the caller's stderr, where a password manager asks; its output is the value.
fn from_command(command: &str, path: &OsStr, patience: Duration) -> Result<SecretString, Problem> {
    let fix = "run it by hand to see what it does";
    let mut child = Command::new("/bin/sh")
        .arg("-c")
        .arg(command)
        .env("PATH", path)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        // A group of its own, so that nothing of it stays when its time is over.
        .process_group(0)
        .spawn()
        .map_err(|error| Problem::new(format!("cannot start /bin/sh: {error}"), fix))?;
    let output = match child.stdout.take() {
        Some(stdout) => read_bounded(Patient { pipe: stdout, deadline: Instant::now() + patience }),
        None => Ok(Zeroizing::default()),
    };
    if output.is_err() {
        let _ = ringfence_linux::kill_group(child.id() as i32, 9);
    }
    let status = child.wait().map_err(|error| Problem::new(error.to_string(), fix))?;
    let output = output.map_err(|error| match error.kind() {
        io::ErrorKind::TimedOut => {
            Problem::new(format!("it did not end within {} s", patience.as_secs()), fix)
        }
        _ => Problem::new(error.to_string(), fix),
    })?;
    if !status.success() {
        return Err(Problem::new(format!("it failed ({status})"), fix));
    }
    text_of(output)
}

/// The caller's PATH without what a sandbox can have put there: a virtual environment of the workspace, or a directory
/// that is meant as below the current one.
fn search_path(written: &[PathBuf]) -> OsString {
    let path = env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
    let is_written = |entry: &Path| {
        let real = entry.canonicalize();
        let below = |place: &PathBuf| {
            entry.starts_with(place) || real.as_ref().is_ok_and(|real| real.starts_with(place))
        };
        written.iter().any(below)
    };
    let kept = env::split_paths(&path).filter(|entry| entry.is_absolute() && !is_written(entry));
    // Nothing in it came with a colon.
    env::join_paths(kept).unwrap_or_default()
}

/// A pipe that is read until a deadline. No thread: what comes next drops the privileges of one thread only.
struct Patient {
    pipe: ChildStdout,
    deadline: Instant,
}

impl Read for Patient {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        match poll(&mut [PollFd::new(&self.pipe, PollFlags::IN)], Some(&left))? {
            0 => Err(io::ErrorKind::TimedOut.into()),
            _ => self.pipe.read(buffer),
        }
    }
}

/// At most one byte more than a value may have, and two for the line break.
fn read_bounded(mut source: impl Read) -> io::Result<Zeroizing<Vec<u8>>> {
    const MOST: usize = LONGEST + 3;
    // Whole from the start: a buffer that grows leaves parts of the value behind.
    let mut bytes = Zeroizing::new(vec![0; MOST]);
    let mut filled = 0;
    while filled < MOST {
        match source.read(&mut bytes[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

/// Without the line break that editors and `echo` add.
fn text_of(mut bytes: Zeroizing<Vec<u8>>) -> Result<SecretString, Problem> {
    let text = std::str::from_utf8(&bytes).map_err(|_| not_text())?;
    let text = text.strip_suffix('\n').map_or(text, |text| text.strip_suffix('\r').unwrap_or(text));
    let value = SecretString::from(text);
    bytes.zeroize();
    Ok(value)
}

fn not_text() -> Problem {
    Problem::new("it is not UTF-8 text", "give a value that is text")
}

#[cfg(test)]
pub(super) fn command_within(command: &str, patience: Duration) -> Result<SecretString, Problem> {
    from_command(command, OsStr::new("/usr/bin:/bin"), patience)
}
