//! A program of the host's that a provider drives: where it may be, whether it can be trusted, and which version it is.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use super::{Cause, Presence};
use crate::refusal::Refusal;

const SETUID: u32 = 0o4000;
/// What the kernel shows for an owner that has no number here.
const NOBODY: u32 = 65_534;
/// The longest answer to `--version` that is read.
const ANSWER: usize = 400;
/// How long it may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why a program can't be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Distrust {
    /// It is in none of the places.
    Absent,
    Setuid(PathBuf),
    /// Others than root can write it, or it can't be looked at.
    Writable(PathBuf),
}

impl Distrust {
    pub(super) fn cause(&self) -> Cause {
        match self {
            Self::Absent => Cause::Absent,
            Self::Setuid(_) => Cause::Setuid,
            Self::Writable(_) => Cause::Untrusted,
        }
    }
}

/// Why a provider can't be used, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lack {
    pub(super) cause: Cause,
    pub(super) why: String,
    pub(super) fix: String,
}

impl From<Lack> for Presence {
    fn from(Lack { cause, why, fix }: Lack) -> Self {
        Self::Missing { cause, why, fix }
    }
}

impl From<Lack> for Refusal {
    fn from(lack: Lack) -> Self {
        Self::bad(lack.why, lack.fix)
    }
}

/// The program in the first of `places` that has it. What a workspace puts first on PATH is not looked at.
pub(super) fn find_program(name: &str, places: &[&Path]) -> Result<PathBuf, Distrust> {
    let found = places.iter().map(|place| place.join(name)).find(|path| path.is_file());
    let path = found.ok_or(Distrust::Absent)?;
    let Ok(facts) = path.metadata() else { return Err(Distrust::Writable(path)) };
    if facts.permissions().mode() & SETUID != 0 {
        return Err(Distrust::Setuid(path));
    }
    let id_map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    if !is_roots(facts.uid(), &id_map) || facts.permissions().mode() & 0o022 != 0 {
        return Err(Distrust::Writable(path));
    }
    Ok(path)
}

/// In a user namespace that does not have the host's root, what is root's is shown as nobody's.
fn is_roots(owner: u32, id_map: &str) -> bool {
    let is_host = id_map.split_whitespace().eq(["0", "0", "4294967295"]);
    owner == 0 || (owner == NOBODY && !is_host)
}

/// What it answers to `--version`, or why that can't be known. One that hangs is ended.
pub(super) fn ask_version(program: &Path) -> Result<String, String> {
    ask_within(program, PATIENCE)
}

fn ask_within(program: &Path, patience: Duration) -> Result<String, String> {
    let asked = format!("{} --version", program.display());
    let failed = |error: io::Error| format!("{asked} failed: {error}");
    let mut child = Command::new(program)
        .arg("--version")
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        // What it starts can be ended with it.
        .process_group(0)
        .spawn()
        .map_err(failed)?;
    let answered = hear(&mut child, Instant::now() + patience);
    if answered.is_err() {
        let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
        let _ = child.wait();
    }
    let text = answered.map_err(|error| match error.kind() {
        io::ErrorKind::TimedOut => {
            format!("{asked} did not answer within {} s, and was ended", patience.as_secs_f64())
        }
        _ => failed(error),
    })?;
    match text.trim() {
        "" => Err(format!("{asked} says nothing")),
        text => Ok(text.to_owned()),
    }
}

/// The beginning of what it says, once it has ended.
fn hear(child: &mut Child, deadline: Instant) -> io::Result<String> {
    let mut said = Vec::new();
    if let Some(mut output) = child.stdout.take() {
        let mut part = [0; ANSWER];
        while said.len() < ANSWER {
            wait_until(&output, deadline)?;
            match output.read(&mut part[said.len()..])? {
                0 => break,
                more => said.extend_from_slice(&part[said.len()..][..more]),
            }
        }
    }
    wait_until(&pidfd_open(Pid::from_child(child), PidfdFlags::empty())?, deadline)?;
    child.wait()?;
    Ok(String::from_utf8_lossy(&said).into_owned())
}

/// Until there is something to be read: of a process, its end.
fn wait_until(what: &impl AsFd, deadline: Instant) -> io::Result<()> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(what, PollFlags::IN)], Some(&left)) {
            Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_trusted_is_not_used() {
        let place = tempfile::tempdir().unwrap();
        let program = place.path().join("tool");
        let find = || find_program("tool", &[place.path()]);
        assert_eq!(find(), Err(Distrust::Absent));
        std::fs::write(&program, "").unwrap();
        let mode = |mode| std::fs::set_permissions(&program, std::fs::Permissions::from_mode(mode)).unwrap();
        mode(0o4755);
        assert_eq!(find(), Err(Distrust::Setuid(program.clone())));
        mode(0o777);
        assert_eq!(find(), Err(Distrust::Writable(program.clone())));
    }

    #[test]
    fn it_must_be_roots() {
        let host = "         0          0 4294967295\n";
        let inside = "      1000       1000          1\n";
        assert!(is_roots(0, host) && is_roots(0, inside) && is_roots(NOBODY, inside));
        assert!(!is_roots(NOBODY, host) && !is_roots(1000, host) && !is_roots(1000, inside));
    }

    /// What it started holds its output open, and would keep us as long.
    #[test]
    fn one_that_hangs_is_ended_and_said_so() {
        let place = tempfile::tempdir().unwrap();
        let script = |text: &str| {
            let program = place.path().join("tool");
            std::fs::write(&program, format!("#!/bin/sh\n{text}\n")).unwrap();
            std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
            program
        };
        let patience = Duration::from_millis(300);
        let numbers = place.path().join("numbers");
        for rest in ["wait", "exec >&-; wait", "echo tool 1.0; wait"] {
            let began = Instant::now();
            let line = format!("/bin/sleep 60 & echo $$ $! > {}; {rest}", numbers.display());
            let said = ask_within(&script(&line), patience).unwrap_err();
            assert!(said.contains("--version did not answer within 0.3 s, and was ended"), "{said}");
            assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
            for number in std::fs::read_to_string(&numbers).unwrap().split_whitespace() {
                let ended = || {
                    let status = std::fs::read_to_string(format!("/proc/{number}/stat"));
                    status.map_or(true, |status| status.contains(") Z "))
                };
                while !ended() {
                    assert!(began.elapsed() < Duration::from_secs(20), "{number} runs on");
                    std::thread::sleep(Duration::from_millis(5));
                }
            }
        }
        let long = Duration::from_secs(20);
        assert_eq!(ask_within(&script("echo tool 1.0"), long), Ok("tool 1.0".into()));
        assert!(ask_within(&script("exit 3"), long).unwrap_err().ends_with("says nothing"));
        assert_eq!(ask_within(&script("yes"), long).unwrap().len(), ANSWER - 1);
        assert!(ask_within(&place.path().join("absent"), long).unwrap_err().contains("failed"));
    }
}
