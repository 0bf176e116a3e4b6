//! The owner's side: a carrier process shows what only root can show, gives its rights up, and becomes the program that makes
//! the namespaces. Whatever it mounts is in a mount namespace of its own, and gone with it.

use std::ffi::{CString, OsStr};
use std::fs::{DirBuilder, File};
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ringfence_guard::{FromGuard, GUARD_VERSION};
use ringfence_linux::{
    Exited, Fork, Namespaces, attach, become_user, cloexec_from, clone_tree, exec, exit_now, fork_into,
    give_up_capabilities, is_hung_up, mount_tmpfs, move_fd, recv_from_process, set_die_with_parent,
    start_session, tell_senders, unblock_all, unshare_mounts, wait_for,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, MemfdFlags, Mode, OFlags, fstat, memfd_create, open};
use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::bundle::{Packing, Told};
use super::order::Order;
use super::sources::{CONTROL, EXECUTABLE, Given, STAGE, Source, sources};
use crate::plan::Plan;
use crate::providers::native::{Steps, Wanted, map_from_outside, map_trees, other_version};
use crate::refusal::Refusal;

/// How much of what the program complains of is told.
const COMPLAINT: u64 = 2_000;
/// How long the program may take until guard is there: what hangs is ended, and said so.
const PATIENCE: Duration = Duration::from_secs(30);
/// Guard's first word is a short one.
const FIRST_WORD: usize = 256;
/// Descriptors from here on are at no number that the program is given.
const CLEAR: i32 = 16;
const OTHERS_MAY_EXECUTE: u32 = 0o001;
const STAGE_INODES: u64 = 4_096;

/// The program that made the namespaces, this process's child. Its own child is guard.
#[derive(Debug)]
pub(in crate::providers) struct Outer {
    pid: i32,
    pidfd: OwnedFd,
    waited: bool,
}

impl Outer {
    pub(in crate::providers) fn kill(&self) {
        let _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
    }

    /// How it ended, and what it and all below it used.
    pub(in crate::providers) fn wait(&mut self) -> Option<(Exited, u64, u64)> {
        self.waited = true;
        wait_for(self.pid).ok().flatten()
    }
}

impl Drop for Outer {
    fn drop(&mut self) {
        if !self.waited {
            self.kill();
            self.wait();
        }
    }
}

/// What is to be started, and with what.
pub(in crate::providers) struct Errand<'a> {
    pub(in crate::providers) plan: &'a Plan,
    /// As it is called.
    pub(in crate::providers) program: &'a str,
    /// What the program is told.
    pub(in crate::providers) told: &'a dyn Fn(&Given) -> Result<Told, Refusal>,
    pub(in crate::providers) order: &'a Order,
    pub(in crate::providers) stdio: [OwnedFd; 3],
    /// The owner's end of the control channel, and guard's.
    pub(in crate::providers) control: BorrowedFd<'a>,
    pub(in crate::providers) far_control: OwnedFd,
    /// With cgroup v2, the group that all of it starts in.
    pub(in crate::providers) cgroup: Option<BorrowedFd<'a>>,
}

/// Guard, in the namespaces that the program made.
pub(in crate::providers) struct Made {
    pub(in crate::providers) outer: Outer,
    pub(in crate::providers) pid: i32,
    pub(in crate::providers) pidfd: OwnedFd,
}

/// Start the program, wait until guard waits inside, and give it its order.
pub(in crate::providers) fn launch(errand: Errand<'_>, steps: &Steps) -> Result<Made, Refusal> {
    let Errand { plan, program, told, order, stdio, control, far_control, cgroup } = errand;
    let mut sources = sources(plan, file_behind(&stdio[0]));
    let staged = map(plan, &mut sources, steps)?;
    let executable = steps.run("open this program", "", || {
        Ok(fcntl_dupfd_cloexec(
            open("/proc/self/exe", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?,
            CLEAR,
        )?)
    })?;
    let far_control =
        steps.run("keep the control channel", "", || Ok(fcntl_dupfd_cloexec(far_control, CLEAR)?))?;
    let mode = steps.run("look at this program", "", || Ok(fstat(&executable)?.st_mode))?;
    if plan.ids.mapped.is_some() && mode & OTHERS_MAY_EXECUTE == 0 {
        return Err(Refusal::bad(
            format!("{program} starts ringfence again as a user without rights, who may not execute it"),
            "chmod o+rx the ringfence program, or use --provider native",
        ));
    }
    let complaints = steps.run("keep what the program says", "", || {
        Ok(File::from(fcntl_dupfd_cloexec(memfd_create("ringfence", MemfdFlags::CLOEXEC)?, CLEAR)?))
    })?;
    steps.run("have the kernel say who speaks", "", || tell_senders(control, true))?;
    let given = Given { sources };
    let told = told(&given)?;
    let shown = match told.bundle {
        Some(bundle) => {
            let mapped = staged.into_iter().map(|staged| (staged.at, staged.tree));
            Shown::Bundle(Packing::new(bundle, given.sources, mapped.collect()))
        }
        None => Shown::Staged(staged),
    };
    let words: Vec<CString> = told
        .words
        .into_iter()
        .map(|word| CString::new(word.as_bytes()))
        .collect::<Result<_, _>>()
        .map_err(|_| Refusal::bad("a path with a NUL byte can't be shown", "leave it out"))?;
    let outside = plan.ids.mapped.map(|mapped| mapped.outside);
    let forked = steps.run("start the carrier", "", || fork_into(Namespaces::default(), cgroup))?;
    let Fork::Parent { pid, pidfd } = forked else {
        let carrier = Carrier { shown, outside, control: far_control, executable, words };
        let failed = carrier.become_program(&complaints);
        let _ = writeln!(&complaints, "{failed}");
        exit_now(125)
    };
    let mut outer = Outer { pid, pidfd, waited: false };
    drop((far_control, executable, shown));
    let heard =
        await_guard(control, PATIENCE).map_err(|error| Refusal::step("hear from guard", "", &error))?;
    let (pid, pidfd) = match heard {
        Heard::Guard(pid, pidfd) => (pid, pidfd),
        Heard::Other(version) => {
            outer.kill();
            outer.wait();
            return Err(other_version(version));
        }
        Heard::Nobody => return Err(complaint(program, outer, complaints, "it ended without a word")),
        Heard::Nothing => return Err(complaint(program, outer, complaints, "it hung, and was ended")),
    };
    steps.run("hand out the sandbox", "", || order.send(control, &stdio))?;
    Ok(Made { outer, pid, pidfd })
}

/// What came of a program that was to start guard.
#[derive(Debug)]
enum Heard {
    /// Guard waits: its number here, and a hold on it.
    Guard(i32, OwnedFd),
    /// Guard speaks another version: it gets no order.
    Other(u16),
    /// The channel ended first.
    Nobody,
    /// Not in time.
    Nothing,
}

fn await_guard(control: BorrowedFd<'_>, patience: Duration) -> io::Result<Heard> {
    let patience = Timespec::try_from(patience).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut polled = [PollFd::from_borrowed_fd(control, PollFlags::IN)];
    if rustix::io::retry_on_intr(|| poll(&mut polled, Some(&patience)))? == 0 {
        return Ok(Heard::Nothing);
    }
    let Some((said, pid)) = recv_from_process(control, FIRST_WORD)? else { return Ok(Heard::Nobody) };
    tell_senders(control, false)?;
    let waits = match FromGuard::decode(&said) {
        Some(FromGuard::Waiting { version: GUARD_VERSION }) => true,
        Some(FromGuard::Waiting { version }) => return Ok(Heard::Other(version)),
        _ => false,
    };
    let Some(number) = rustix::process::Pid::from_raw(pid).filter(|_| waits) else {
        return Ok(Heard::Nobody);
    };
    let pidfd = pidfd_open(number, PidfdFlags::empty())?;
    // It held its end when it was found: that number was not somebody else's by then.
    Ok(if is_hung_up(control)? { Heard::Nobody } else { Heard::Guard(pid, pidfd) })
}

/// In the program's own words, or else in `ours`.
fn complaint(program: &str, mut outer: Outer, mut complaints: File, ours: &str) -> Refusal {
    outer.kill();
    outer.wait();
    let mut text = Vec::new();
    let _ = complaints.rewind();
    let _ = complaints.take(COMPLAINT).read_to_end(&mut text);
    let text: String = String::from_utf8_lossy(&text).trim().replace('\n', "; ");
    let why = if text.is_empty() { ours.to_owned() } else { text };
    Refusal::Failed {
        step: format!("make a sandbox with {program}"),
        subject: String::new(),
        why,
        fix: format!("see `ringfence provider ls`, try `{program}` by itself, or use --provider native"),
    }
}

/// Where the file on stdin is, if it is one and has a name.
pub(in crate::providers) fn file_behind(stdin: &OwnedFd) -> Option<PathBuf> {
    let facts = fstat(stdin).ok()?;
    if FileType::from_raw_mode(facts.st_mode) != FileType::RegularFile {
        return None;
    }
    let path = std::fs::read_link(format!("/proc/self/fd/{}", stdin.as_raw_fd())).ok()?;
    let named = rustix::fs::lstat(&path).ok()?;
    // A pipe that took its place would be shown; guard looks again at what it gets.
    (named.st_dev == facts.st_dev && named.st_ino == facts.st_ino).then_some(path)
}

/// A tree that the carrier shows, and where.
struct Staged {
    at: PathBuf,
    is_dir: bool,
    tree: OwnedFd,
}

/// For root: what the sandbox sees as its own, mapped, and the file on stdin, which the sandbox's user may not find.
fn map(plan: &Plan, sources: &mut [Source], steps: &Steps) -> Result<Vec<Staged>, Refusal> {
    if plan.ids.mapped.is_none() {
        return Ok(Vec::new());
    }
    let holder = Holder::start(plan, steps)?;
    let mut trees: Vec<(Option<usize>, OwnedFd)> = map_trees(holder.pid, plan, Wanted::All, steps)?
        .into_iter()
        .map(|(at, tree)| (Some(at), tree))
        .collect();
    if let Some(stdin) = sources.iter().find(|source| source.index.is_none()) {
        trees.push((None, steps.run("clone the mount of", &stdin.from, || clone_tree(&stdin.from))?));
    }
    let mut staged = Vec::with_capacity(trees.len());
    for (index, tree) in trees {
        let Some(source) = sources.iter_mut().find(|source| source.index == index) else { continue };
        let facts = steps.run("look at", &source.from, || Ok(fstat(&tree)?))?;
        let is_dir = FileType::from_raw_mode(facts.st_mode).is_dir();
        source.from = source.staged();
        staged.push(Staged { at: source.from.clone(), is_dir, tree });
    }
    Ok(staged)
}

/// A process that does nothing but have a user namespace, whose map shows the files' owner as the unused id.
struct Holder {
    pid: i32,
    /// It ends when this does.
    _leash: OwnedFd,
}

impl Holder {
    fn start(plan: &Plan, steps: &Steps) -> Result<Self, Refusal> {
        let (held, leash) = steps
            .run("make a pipe", "", || Ok(rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?))?;
        let forked = steps.run("make namespaces", "", || fork_into(Namespaces::USER, None))?;
        let Fork::Parent { pid, .. } = forked else {
            drop(leash);
            let _ = rustix::io::read(&held, &mut [0; 1]);
            exit_now(0)
        };
        let holder = Self { pid, _leash: leash };
        steps.run("write the id map", "", || map_from_outside(pid, &plan.ids))?;
        Ok(holder)
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = ringfence_linux::kill_process(self.pid, 9);
        let _ = wait_for(self.pid);
    }
}

/// How the carrier shows what the plan takes from the host.
enum Shown {
    /// What is mapped, where the program finds it; the rest is where it always is.
    Staged(Vec<Staged>),
    /// All of it, beside a bundle.
    Bundle(Packing),
}

/// The child, before it is the program.
struct Carrier {
    shown: Shown,
    outside: Option<u32>,
    control: OwnedFd,
    executable: OwnedFd,
    words: Vec<CString>,
}

impl Carrier {
    /// Returns only if that failed, with what did.
    fn become_program(self, complaints: &File) -> String {
        let Self { shown, outside, control, executable, words } = self;
        let failed = |what: &'static str| move |error: io::Error| format!("cannot {what}: {error}");
        let done = || -> Result<(), String> {
            unblock_all().map_err(failed("let signals through"))?;
            // What is typed at the caller's terminal is for the owner, which passes it on.
            start_session().map_err(failed("leave the terminal"))?;
            let packing = match shown {
                Shown::Staged(staged) => {
                    stage(&staged).map_err(failed("show what is mapped"))?;
                    None
                }
                // Root takes all of it before it gives its rights up; anybody else has none to take it with before `lay_out`.
                Shown::Bundle(mut packing) => {
                    if outside.is_some() {
                        packing.take()?;
                    }
                    Some(packing)
                }
            };
            let null = open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
                .map_err(|error| failed("open /dev/null")(error.into()))?;
            for (file, number) in [(null.as_fd(), 0), (null.as_fd(), 1), (complaints.as_fd(), 2)] {
                move_fd(file, number).map_err(failed("let go of stdio"))?;
            }
            if let Some(outside) = outside {
                become_user(outside, outside, true).map_err(failed("give root up"))?;
            }
            // A caller that is root of some namespace only has some; the program needs none, and may refuse to have any.
            give_up_capabilities().map_err(failed("give capabilities up"))?;
            if let Some(packing) = packing {
                packing.lay_out()?;
            }
            cloexec_from(3).map_err(failed("let go of descriptors"))?;
            for (file, number) in [(control.as_fd(), CONTROL), (executable.as_fd(), EXECUTABLE)] {
                move_fd(file, number).map_err(failed("keep descriptors"))?;
            }
            set_die_with_parent().map_err(failed("be tied to the owner"))
        };
        if let Err(words) = done() {
            return words;
        }
        let program = words.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
        match exec(&words, &[], OsStr::new("")) {
            Err(error) => format!("cannot start {program}: {error}"),
            Ok(never) => match never {},
        }
    }
}

/// In a mount namespace of the carrier's own.
fn stage(staged: &[Staged]) -> io::Result<()> {
    if staged.is_empty() {
        return Ok(());
    }
    unshare_mounts()?;
    let umask = rustix::process::umask(Mode::empty());
    mount_tmpfs(Path::new(STAGE), None, STAGE_INODES, 0o755)?;
    DirBuilder::new().mode(0o755).create(Path::new(STAGE).join("ringfence"))?;
    for Staged { at, is_dir, tree } in staged {
        if *is_dir {
            DirBuilder::new().mode(0o755).create(at)?;
        } else {
            File::create(at)?;
        }
        attach(tree.as_fd(), at)?;
    }
    rustix::process::umask(umask);
    Ok(())
}

#[cfg(test)]
mod tests {
    use ringfence_linux::control_pair;

    use super::*;

    #[test]
    fn a_program_that_hangs_is_waited_for_no_longer_than_that() {
        let (near, far) = control_pair().unwrap();
        assert!(matches!(await_guard(near.as_fd(), Duration::from_millis(10)).unwrap(), Heard::Nothing));
        drop(far);
        assert!(matches!(await_guard(near.as_fd(), Duration::from_secs(60)).unwrap(), Heard::Nobody));
    }

    #[test]
    fn a_guard_of_another_build_gets_no_order() {
        for (said, version) in [
            (FromGuard::Waiting { version: 7 }.encode(), 7),
            (b"a".to_vec(), 0),
            (b"a\xff\xff".to_vec(), u16::MAX),
        ] {
            let (near, far) = control_pair().unwrap();
            tell_senders(near.as_fd(), true).unwrap();
            ringfence_linux::send_with_fds(far.as_fd(), &said, &[]).unwrap();
            let heard = await_guard(near.as_fd(), Duration::from_secs(60)).unwrap();
            assert!(matches!(heard, Heard::Other(other) if other == version), "{heard:?}");
            let refusal = other_version(version);
            assert!(refusal.to_string().contains(&format!("speaks version {version}")), "{refusal}");
            assert!(refusal.fix().contains("one build"), "{}", refusal.fix());
        }
    }

    #[test]
    fn what_hung_is_ended_and_said() {
        let pid = std::process::Command::new("sleep").arg("600").spawn().unwrap().id() as i32;
        let number = rustix::process::Pid::from_raw(pid).unwrap();
        let pidfd = pidfd_open(number, PidfdFlags::empty()).unwrap();
        let outer = Outer { pid, pidfd, waited: false };
        let silent = File::from(memfd_create("test", MemfdFlags::CLOEXEC).unwrap());
        let refusal = complaint("bwrap", outer, silent, "it hung, and was ended").to_string();
        assert!(refusal.contains("it hung, and was ended"), "{refusal}");
        assert!(matches!(wait_for(pid), Ok(None)), "it was left to be waited for");
    }
}
