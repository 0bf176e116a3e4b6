//! Running a package client outside, to ask it something: no input, a deadline, and a bound on what it says.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::surroundings::Surroundings;

/// For a client that has to reach its registry.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);
/// What a client may say, far above any answer that is asked for.
const MOST: u64 = 4 << 20;

#[derive(Debug, thiserror::Error)]
pub(super) enum ClientError {
    #[error("there is no `{0}` on PATH outside of what the sandbox may write")]
    Missing(&'static str),
    #[error("cannot start {program}: {error}")]
    Start { program: String, error: io::Error },
    #[error("{program} has no answer after {} s", PATIENCE.as_secs())]
    Slow { program: String },
    #[error("{program} failed: {said}")]
    Failed { program: String, said: String },
    #[error("{program} gave an answer that can't be read: {why}")]
    Answer { program: String, why: String },
    #[error("it is configured with `{url}`, which can't be granted: {why}")]
    Url { url: String, why: String },
    #[error("it is configured with no registry that is reached over the network")]
    Nothing,
    #[error(
        "{what} may say where packages come from, and a sandbox may have written it: it is neither believed nor left out"
    )]
    NotBelieved { what: String },
    #[error("its setting `{0}` can't be handed in")]
    Setting(String),
    #[error("cannot make {path}: {error}")]
    Scratch { path: String, error: io::Error },
}

/// One call of a client.
pub(super) struct Call<'a> {
    surroundings: &'a Surroundings,
    program: &'a Path,
    command: Command,
}

impl<'a> Call<'a> {
    pub(super) fn new(surroundings: &'a Surroundings, program: &'a Path) -> Self {
        let mut command = Command::new(program);
        command
            .env_clear()
            .envs(surroundings.variables())
            .env("PATH", surroundings.path())
            .env("HOME", surroundings.safe_home())
            // Neither the workspace's configuration nor its modules are found from here.
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Self { surroundings, program, command }
    }

    pub(super) fn args<const N: usize>(mut self, args: [&str; N]) -> Self {
        self.command.args(args);
        self
    }

    pub(super) fn path_arg(mut self, path: &Path) -> Self {
        self.command.arg(path);
        self
    }

    pub(super) fn variable(mut self, name: &str, value: impl AsRef<std::ffi::OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// What it printed, if it ended well.
    pub(super) fn answer(self) -> Result<String, ClientError> {
        let name = self.program.display().to_string();
        let ended = self.finish()?;
        if ended.success {
            return Ok(ended.stdout);
        }
        Err(ClientError::Failed { program: name, said: last_line(&ended.stderr) })
    }

    /// Let it run; its exit status is no matter.
    pub(super) fn finish(mut self) -> Result<Ended, ClientError> {
        debug_assert!(!self.surroundings.is_hostile(self.program));
        let program = self.program.display().to_string();
        let start = |error| ClientError::Start { program: program.clone(), error };
        let mut child = self.command.spawn().map_err(start)?;
        let heard = listen(&mut child, Instant::now() + PATIENCE);
        if heard.is_err() {
            let _ = child.kill();
        }
        let status = child.wait();
        let (stdout, stderr) = heard.map_err(|_| ClientError::Slow { program: program.clone() })?;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ok(Ended {
            success: status.is_ok_and(|status| status.success()),
            stdout: text(stdout),
            stderr: text(stderr),
        })
    }
}

#[derive(Debug)]
pub(super) struct Ended {
    success: bool,
    stdout: String,
    pub(super) stderr: String,
}

/// Both streams up to their ends.
fn listen(child: &mut Child, deadline: Instant) -> io::Result<(Vec<u8>, Vec<u8>)> {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let (mut out, mut err) = (child.stdout.take(), child.stderr.take());
    while out.is_some() || err.is_some() {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let mut waiting = Vec::with_capacity(2);
        waiting.extend(out.as_ref().map(|stream| PollFd::from_borrowed_fd(stream.as_fd(), PollFlags::IN)));
        waiting.extend(err.as_ref().map(|stream| PollFd::from_borrowed_fd(stream.as_fd(), PollFlags::IN)));
        let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        match poll(&mut waiting, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let ready: Vec<bool> = waiting.iter().map(|fd| !fd.revents().is_empty()).collect();
        let (first, second) =
            if out.is_some() { (ready[0], ready.get(1) == Some(&true)) } else { (false, ready[0]) };
        if first {
            take(&mut out, &mut stdout)?;
        }
        if second {
            take(&mut err, &mut stderr)?;
        }
    }
    Ok((stdout, stderr))
}

/// What is there now; the stream is let go at its end, or when it has said too much.
fn take(stream: &mut Option<impl Read>, into: &mut Vec<u8>) -> io::Result<()> {
    let Some(open) = stream else { return Ok(()) };
    let mut buffer = [0; 16 << 10];
    let count = open.read(&mut buffer)?;
    into.extend_from_slice(&buffer[..count]);
    if count == 0 || into.len() as u64 > MOST {
        *stream = None;
    }
    Ok(())
}

fn last_line(text: &str) -> String {
    let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or("it says nothing");
    super::url::without_credentials(&line.chars().take(300).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(script: &str) -> Result<String, ClientError> {
        let places = crate::Places::from_env().unwrap();
        let policy = ringfence_policy::profile(ringfence_policy::ProfileName::Moderate);
        let surroundings = Surroundings::new(&places, &policy, std::env::vars_os().collect());
        Call::new(&surroundings, Path::new("/bin/sh")).args(["-c", script]).answer()
    }

    #[test]
    fn the_answer_and_the_reason() {
        assert_eq!(call("echo yes; echo no >&2; pwd").unwrap(), "yes\n/\n");
        let error = call("echo why >&2; exit 3").unwrap_err();
        assert_eq!(error.to_string(), "/bin/sh failed: why");
        let error = call("echo cannot reach https://me:pw@index.example/x >&2; exit 1").unwrap_err();
        assert_eq!(error.to_string(), "/bin/sh failed: cannot reach https://index.example/x");
    }

    #[test]
    fn much_output_on_both_streams_is_no_deadlock() {
        let text =
            call("head -c 300000 /dev/zero | tr '\\0' e >&2; head -c 300000 /dev/zero | tr '\\0' o").unwrap();
        assert_eq!(text.len(), 300_000);
    }
}
