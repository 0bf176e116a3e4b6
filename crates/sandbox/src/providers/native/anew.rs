//! Guard, executed once more. What /proc shows of a process that can't be looked into belongs to the root of the user namespace in
//! which it was executed. A runtime executes guard in one where its root is the very id that commands have: they could change guard's
//! OOM score, say. So it executes itself again in the inner one, where nobody is called root, and closes the rest of the walls there.

use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use ringfence_guard::Stdio;
use ringfence_linux::{close_except, exec, inherited};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::{FdFlags, fcntl_setfd};
use serde::{Deserialize, Serialize};

use super::faults::Steps;
use super::setup::Failure;

/// The word, as the first argument, that makes this program guard that begins anew.
pub const GUARD_ANEW: &str = "--guard-anew";

/// What guard needs to begin anew: this executable, and its order as it came.
pub(in crate::providers) struct Anew {
    pub(in crate::providers) executable: OwnedFd,
    pub(in crate::providers) order: Vec<u8>,
}

/// What is handed on across the exec. Descriptors are by number.
#[derive(Serialize, Deserialize)]
struct Legacy {
    order: Vec<u8>,
    /// How many steps were taken.
    steps: u32,
    control: i32,
    stdio: Vec<i32>,
    is_terminal: bool,
    master: Option<i32>,
    own_stdin: Option<i32>,
}

/// The same, taken up.
pub(in crate::providers) struct Inherited {
    pub(in crate::providers) order: Vec<u8>,
    pub(in crate::providers) steps: u32,
    pub(in crate::providers) control: OwnedFd,
    pub(in crate::providers) belongings: Belongings,
}

/// The command's stdio, and what the owner gets of it.
pub(in crate::providers) struct Belongings {
    pub(super) stdio: Option<Stdio>,
    pub(super) master: Option<OwnedFd>,
    pub(super) own_stdin: Option<OwnedFd>,
}

impl Anew {
    /// Begin anew. Returns only if that failed.
    pub(super) fn begin(self, control: &OwnedFd, belongings: &Belongings, steps: &Steps) -> Failure {
        let done = steps.run("begin anew", "", || {
            let kept: Vec<&OwnedFd> = match &belongings.stdio {
                Some(Stdio::Files(files)) => files.iter().collect(),
                Some(Stdio::Terminal(slave)) => vec![slave],
                None => Vec::new(),
            };
            let legacy = Legacy {
                order: self.order,
                // This one is the last.
                steps: steps.taken(),
                control: control.as_raw_fd(),
                stdio: kept.iter().map(|fd| fd.as_raw_fd()).collect(),
                is_terminal: matches!(belongings.stdio, Some(Stdio::Terminal(_))),
                master: belongings.master.as_ref().map(AsRawFd::as_raw_fd),
                own_stdin: belongings.own_stdin.as_ref().map(AsRawFd::as_raw_fd),
            };
            let mut file = File::from(memfd_create("ringfence", MemfdFlags::CLOEXEC)?);
            file.write_all(&serde_json::to_vec(&legacy)?)?;
            file.rewind()?;
            let others = belongings.master.iter().chain(&belongings.own_stdin).chain([control]);
            for fd in kept.into_iter().chain(others).map(AsFd::as_fd).chain([file.as_fd()]) {
                fcntl_setfd(fd, FdFlags::empty())?;
            }
            let words = [
                format!("/proc/self/fd/{}", self.executable.as_raw_fd()),
                GUARD_ANEW.to_owned(),
                file.as_raw_fd().to_string(),
            ];
            let words = words.map(CString::new).into_iter().collect::<Result<Vec<_>, _>>()?;
            exec(&words, &[], OsStr::new(""))
        });
        match done {
            Ok(never) => match never {},
            Err(failure) => failure,
        }
    }
}

impl Inherited {
    /// What is at this number, and all that it names.
    pub(in crate::providers) fn take_up(number: i32) -> io::Result<Self> {
        let mut text = Vec::new();
        File::from(inherited(number)?).read_to_end(&mut text)?;
        let legacy: Legacy = serde_json::from_slice(&text)?;
        let control = inherited(legacy.control)?;
        let stdio = legacy.stdio.into_iter().map(inherited).collect::<io::Result<Vec<_>>>()?;
        let master = legacy.master.map(inherited).transpose()?;
        let own_stdin = legacy.own_stdin.map(inherited).transpose()?;
        let kept = stdio.iter().chain(&master).chain(&own_stdin).chain([&control]);
        close_except(&kept.map(AsFd::as_fd).collect::<Vec<_>>())?;
        let stdio = match <[OwnedFd; 3]>::try_from(stdio) {
            Ok(files) => Some(Stdio::Files(files)),
            Err(other) if legacy.is_terminal => other.into_iter().next().map(Stdio::Terminal),
            Err(_) => None,
        };
        let belongings = Belongings { stdio, master, own_stdin };
        Ok(Self { order: legacy.order, steps: legacy.steps, control, belongings })
    }
}
