//! The end of a session whose keeper does not answer, which is killed, and its sandbox with it, or does not understand, which is
//! told to end by a signal.

use std::io;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::client::{Sandbox, SessionError};
use super::killed::sweep_after;
use super::place::{Pillars, ProcessId};

/// Far longer than the kernel takes to end what was killed.
const DEATH: Duration = Duration::from_secs(60);

impl Sandbox {
    /// End the sandbox whether its keeper answers or not; when this returns nothing of it runs. What a killed keeper could
    /// not check at its end is not checked: a keeper that answers is asked instead.
    pub fn end_by_force(&self) -> Result<Vec<String>, SessionError> {
        match self.look() {
            Ok(_) => return self.end_whole(),
            Err(SessionError::Ended { .. }) if !self.is_alive() => return self.end_whole(),
            Err(SessionError::OtherVersion { .. }) => {
                if let Ok(notes) = self.end_whole() {
                    return Ok(notes);
                }
            }
            Err(_) => {}
        }
        let pillars = self.pillars()?;
        let failed = |source| SessionError::Io { doing: "kill the session's keeper", source };
        signal(pillars.keeper, Signal::KILL).map_err(failed)?;
        self.wait_for_death(pillars)?;
        sweep_after(self.place());
        Ok(vec![format!("the keeper of `{}` did not answer and was killed", self.name())])
    }

    /// For a keeper that understands nothing else: it ends the sandbox as if it had been asked.
    pub(super) fn end_by_signal(&self) -> Result<(), SessionError> {
        let pillars = self.pillars()?;
        let failed = |source| SessionError::Io { doing: "tell the session's keeper to end", source };
        signal(pillars.keeper, Signal::TERM).map_err(failed)?;
        self.wait_for_death(pillars)
    }

    fn pillars(&self) -> Result<Pillars, SessionError> {
        self.place().pillars().ok_or_else(|| SessionError::Refused {
            why: format!("it is not known which process keeps session `{}`", self.name()),
            fix: "it was made by another ringfence: end its keeper yourself, then remove it".into(),
        })
    }

    /// guard ends when its keeper does, and with guard all that is inside.
    fn wait_for_death(&self, pillars: Pillars) -> Result<(), SessionError> {
        let deadline = Instant::now() + DEATH;
        while self.is_alive() || is_running(pillars.guard) {
            if Instant::now() >= deadline {
                let source = io::ErrorKind::TimedOut.into();
                return Err(SessionError::Io { doing: "see the end of the session", source });
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }
}

/// By a descriptor: a pid alone may be another's by now.
fn signal(process: ProcessId, signal: Signal) -> io::Result<()> {
    let Some(pid) = Pid::from_raw(process.pid) else { return Err(io::ErrorKind::InvalidData.into()) };
    let pidfd = match pidfd_open(pid, PidfdFlags::empty()) {
        Err(rustix::io::Errno::SRCH) => return Ok(()),
        opened => opened?,
    };
    match process.is_there() {
        true => Ok(pidfd_send_signal(pidfd, signal)?),
        false => Ok(()),
    }
}

/// One that has ended and that nobody has waited for yet is gone for us: all below it ended first.
pub(super) fn is_running(process: ProcessId) -> bool {
    let stat = ringfence_linux::read_kernel_file(format!("/proc/{}/stat", process.pid)).unwrap_or_default();
    let is_dead = stat.rsplit_once(") ").is_none_or(|(_, fields)| fields.starts_with(['Z', 'X']));
    !is_dead && process.is_there()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use serde_json::json;

    use super::*;

    /// The same pid and the same ticks, but of another start of the machine: not ours to end.
    #[test]
    fn a_process_of_another_boot_is_nobody_of_ours() {
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let own = ProcessId::of(child.id() as i32).unwrap();
        let mut written = serde_json::to_value(own).unwrap();
        assert_eq!(serde_json::from_value::<ProcessId>(written.clone()).unwrap(), own);
        assert!(own.boot.is_some() && is_running(own));
        written["boot"] = "00000000-0000-4000-8000-000000000000".into();
        let other: ProcessId = serde_json::from_value(written.clone()).unwrap();
        assert!(!is_running(other));
        signal(other, Signal::KILL).unwrap();
        assert!(child.try_wait().unwrap().is_none(), "a process of another boot was killed");
        for bad in ["", "00000000", "+0000000-0000-4000-8000-000000000000", "not-a-boot-id"] {
            written["boot"] = bad.into();
            assert!(serde_json::from_value::<ProcessId>(written.clone()).is_err(), "{bad}");
        }
        // As older ones wrote it.
        let old: ProcessId = serde_json::from_value(json!({ "pid": own.pid, "start": own.start })).unwrap();
        assert!(is_running(old));
        signal(old, Signal::KILL).unwrap();
        assert!(!child.wait().unwrap().success());
    }
}
