//! The child's whole life before and as guard: first process of the new namespaces.

use std::ffi::{CString, OsStr};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ringfence_guard::{Command, FromGuard, OomScore, SessionGuard, Stdio, serve, serve_session};
use ringfence_linux::seccomp::{Listen, Program, install};
use ringfence_linux::{
    Helper, LandlockAccess, LandlockRule, LandlockRuleset, LandlockTarget, MAX_FDS, MountFlags, NewNetwork,
    Settings, clone_tree, close_except, drop_all_capabilities, enter_network, exit_now, is_hung_up,
    make_network, move_fd, open_pty, recv_with_fds, release_old_root, restrict_tree, scrub_environment,
    send_with_fds, set_die_with_parent, set_dumpable, set_hostname, set_limit, unshare_cgroup, window_size,
};
use rustix::fs::{FileType, Mode, OFlags, SeekFrom, fcntl_getfl, fstat, open, seek};
use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::Resource;

use super::faults::Steps;
use super::identity;
use super::setup::{Failure, build_root, failure};
use crate::plan::{Access, Mount, Plan};
use crate::protect::Pins;
use crate::request::{Request, Stream};

/// Bits for places of limited size that are full: the disk limit's layer, and the temporary files'.
pub(crate) const DISK_FULL: u8 = 1;
pub(crate) const TMP_FULL: u8 = 2;
const PRIVATE: &[(&str, u8)] = &[("/var/tmp", DISK_FULL), ("/tmp", TMP_FULL), ("/dev/shm", TMP_FULL)];

/// Processes that a session's guard may have beyond its commands' limit, so that it can start another beside a fork bomb.
const GUARD_RESERVE: u64 = 8;

/// What the owner prepared before the fork.
pub(super) struct Inheritance<'a> {
    pub(super) request: &'a Request,
    pub(super) plan: &'a Plan,
    pub(super) pins: &'a Pins,
    pub(super) stdio: [OwnedFd; 3],
    pub(super) filter: Option<&'a Program>,
}

/// Build the walls, close them, then be guard. Never returns.
pub(super) fn live(control: OwnedFd, inheritance: Inheritance<'_>) -> ! {
    let plan = inheritance.plan;
    match close_walls(&control, inheritance) {
        Ok((Some(command), score)) => serve(control.as_fd(), command, &score, PRIVATE),
        Ok((None, score)) => {
            let processes =
                plan.limits.processes.map(|processes| own_processes(plan, processes, Stream::Session));
            serve_session(control, &SessionGuard { score, private: PRIVATE, processes })
        }
        Err(Failure { step, subject, errno }) => {
            let message = FromGuard::Failed { step: step.into(), subject, errno };
            let _ = send_with_fds(control.as_fd(), &message.encode(), &[]);
            exit_now(1)
        }
    }
}

/// The walls are closed when this returns. With the command, or none for a session.
fn close_walls(
    control: &OwnedFd,
    inheritance: Inheritance<'_>,
) -> Result<(Option<Command>, OomScore), Failure> {
    let Inheritance { request, plan, pins, mut stdio, filter } = inheritance;
    let steps = Steps::for_side("child");
    scrub_environment();
    let keep = [control.as_fd(), stdio[0].as_fd(), stdio[1].as_fd(), stdio[2].as_fd()];
    steps.run("let go of the caller's descriptors", "", || close_except(&keep))?;
    let helper = steps.run("start a helper thread", "", Helper::start)?;
    let network = match plan.own_network {
        true => {
            let furniture = match &plan.egress {
                Some(egress) => {
                    let settings = steps.run("hold the kernel's settings", "", Settings::hold)?;
                    Some((egress.shape.clone(), settings))
                }
                None => None,
            };
            let make = move || make_network(furniture.as_ref().map(|(shape, settings)| (shape, settings)));
            Some(steps.run("make a network namespace", "", || helper.give(make))?)
        }
        false => None,
    };
    let trees = receive_trees(control, plan, &steps)?;
    identity::enter(&plan.ids, &steps)?;
    let own_stdin = on_read_only_mount(&stdio[0]);
    if let Some(stdin) = &own_stdin {
        stdio[0] = steps.run("hand in stdin", "", || Ok(fcntl_dupfd_cloexec(stdin, 3)?))?;
    }
    build_root(plan, pins, trees, &steps)?;
    let released = steps.run("release the old root", "", || helper.give(release_old_root))?;
    let (stdio, master) = place_stdio(request, stdio, &steps)?;
    let landlock = match plan.landlock {
        true => Some(landlock(plan, &stdio, &steps)?),
        false => None,
    };
    if let Some(network) = network {
        let network = steps.run("enter the network namespace", "", || {
            let network = network.wait()?;
            enter_network(network.namespace.as_fd()).map(|()| network)
        })?;
        steps.run("report the network", "", || report_network(control, &network))?;
    }
    steps.run("set the hostname", "", || set_hostname(&plan.hostname))?;
    enter_cgroup(control, &steps)?;
    steps.run("release the old root", "", || released.wait())?;
    steps.run("end the helper thread", "", || helper.finish())?;
    steps.run("make a cgroup namespace", "", unshare_cgroup)?;
    identity::rename(&plan.ids, &steps)?;
    set_limits(request, plan, &steps)?;
    steps.run("drop capabilities", "", drop_all_capabilities)?;
    if let Some(landlock) = landlock {
        steps.run("enforce Landlock", "", || landlock.enforce())?;
    }
    let score = steps.run("open guard's score", "", OomScore::open)?;
    steps.run("make guard opaque", "", || set_dumpable(false))?;
    steps.run("tie guard to its owner", "", || {
        set_die_with_parent()?;
        // Only now can the owner's death not be missed; if it has died already, so must this.
        if is_hung_up(control.as_fd())? { exit_now(1) } else { Ok(()) }
    })?;
    let listener = match filter {
        Some(filter) => steps.run("install the seccomp filter", "", || install(filter, Listen::Yes))?,
        None => None,
    };
    let mut fds = Vec::new();
    fds.extend(listener.as_ref().map(AsFd::as_fd));
    fds.extend(master.as_ref().map(AsFd::as_fd));
    fds.extend(own_stdin.as_ref().filter(|_| request.stream != Stream::Terminal).map(AsFd::as_fd));
    steps.run("report", "", || send_with_fds(control.as_fd(), &FromGuard::Ready.encode(), &fds))?;
    drop((listener, master, own_stdin));
    match request.stream {
        Stream::Session => Ok((None, score)),
        _ => Ok((Some(command(request, plan, stdio, &steps)?), score)),
    }
}

/// Send out what belongs to the network namespace but is used from outside.
fn report_network(control: &OwnedFd, network: &NewNetwork) -> std::io::Result<()> {
    let (first, more) = network.served.split_at(network.served.len().min(MAX_FDS - 1));
    let mut fds = vec![network.sockets.as_fd()];
    fds.extend(first.iter().map(AsFd::as_fd));
    send_with_fds(control.as_fd(), &FromGuard::Network.encode(), &fds)?;
    for some in more.chunks(MAX_FDS) {
        let fds: Vec<_> = some.iter().map(AsFd::as_fd).collect();
        send_with_fds(control.as_fd(), &FromGuard::Sockets.encode(), &fds)?;
    }
    Ok(())
}

/// A file that is only to be read, opened again on a read-only mount: its owner could change its mode and times
/// otherwise. The owner of the sandbox gets it too, since it has a position of its own. `None`: not a file, or one
/// whose path leads elsewhere by now.
fn on_read_only_mount(stdin: &OwnedFd) -> Option<OwnedFd> {
    let facts = fstat(stdin).ok()?;
    if FileType::from_raw_mode(facts.st_mode) != FileType::RegularFile {
        return None;
    }
    let link = |fd: &OwnedFd| format!("/proc/self/fd/{}", fd.as_raw_fd());
    let tree = clone_tree(&std::fs::read_link(link(stdin)).ok()?).ok()?;
    let found = fstat(&tree).ok()?;
    if found.st_dev != facts.st_dev || found.st_ino != facts.st_ino {
        // Not even opened: it may be a pipe by now, and wait for ever.
        return None;
    }
    restrict_tree(tree.as_fd(), MountFlags::READ_ONLY).ok()?;
    let again = open(link(&tree), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    seek(&again, SeekFrom::Start(seek(stdin, SeekFrom::Current(0)).ok()?)).ok()?;
    Some(again)
}

/// The owner's mapped trees, at their places in the plan, and after them the workspace's layers. Also the signal that the id map is written.
fn receive_trees(control: &OwnedFd, plan: &Plan, steps: &Steps) -> Result<Vec<Option<OwnedFd>>, Failure> {
    let mut trees: Vec<Option<OwnedFd>> = Vec::new();
    trees.resize_with(plan.mounts.len() + 1, || None);
    loop {
        let message = steps.run("hear from the owner", "", || recv_with_fds(control.as_fd()))?;
        // The last message is one byte; others carry an index, in two bytes, for each descriptor.
        match message.bytes.len() {
            0 => exit_now(1),
            1 => return Ok(trees),
            _ => {}
        }
        for (index, tree) in message.bytes.chunks_exact(2).zip(message.fds) {
            let index = usize::from(u16::from_le_bytes([index[0], index[1]]));
            if let Some(slot) = trees.get_mut(index) {
                *slot = Some(tree);
            }
        }
    }
}

fn enter_cgroup(control: &OwnedFd, steps: &Steps) -> Result<(), Failure> {
    let message = steps.run("hear from the owner", "", || recv_with_fds(control.as_fd()))?;
    if message.bytes.is_empty() {
        exit_now(1);
    }
    for entrance in message.fds {
        steps.run("enter the cgroup", "", || Ok(rustix::io::write(&entrance, b"0")?))?;
    }
    Ok(())
}

/// What RLIMIT_NPROC is for commands: guard is one of them, and a session's shim. Where a cgroup counts too it should be the one to refuse,
/// since it says so.
fn own_processes(plan: &Plan, processes: u32, stream: Stream) -> u64 {
    let slack = if plan.limits.cgroup.processes.is_some() { 8 } else { 1 };
    u64::from(processes) + slack + u64::from(stream == Stream::Session)
}

fn set_limits(request: &Request, plan: &Plan, steps: &Steps) -> Result<(), Failure> {
    // A core of at most one byte is none, and also keeps the kernel from piping it to a program on the host.
    steps.run("switch core dumps off", "", || set_limit(Resource::Core, 1))?;
    if let Some(open_files) = plan.limits.open_files {
        steps.run("limit open files", "", || set_limit(Resource::Nofile, open_files.into()))?;
    }
    if let Some(processes) = plan.limits.processes {
        let reserve = if request.stream == Stream::Session { GUARD_RESERVE } else { 0 };
        let own = own_processes(plan, processes, request.stream) + reserve;
        steps.run("limit processes", "", || set_limit(Resource::Nproc, own))?;
    }
    Ok(())
}

/// The command's stdio, and the far end of its terminal if it has one. guard itself keeps nothing of the caller's.
fn place_stdio(
    request: &Request,
    files: [OwnedFd; 3],
    steps: &Steps,
) -> Result<(Stdio, Option<OwnedFd>), Failure> {
    let size = window_size(files[0].as_fd());
    let null = steps.run("open /dev/null", "", || {
        Ok(open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?)
    })?;
    for number in 0..3 {
        steps.run("let go of the caller's stdio", "", || move_fd(null.as_fd(), number))?;
    }
    if null.as_raw_fd() <= 2 {
        // It was put on one of the three, which stays open.
        std::mem::forget(null);
    }
    if request.stream != Stream::Terminal {
        return Ok((Stdio::Files(files), None));
    }
    let pty = steps.run("open a terminal", "", || open_pty(Path::new("/dev/pts/ptmx"), size))?;
    Ok((Stdio::Terminal(pty.slave), Some(pty.master)))
}

fn landlock(plan: &Plan, stdio: &Stdio, steps: &Steps) -> Result<LandlockRuleset, Failure> {
    let mut rules = landlock_rules(plan);
    if let Stdio::Files(files) = stdio {
        rules.extend(files.iter().enumerate().filter_map(|(number, file)| reopening(file, number == 0)));
    }
    steps.run("make Landlock rules", "", || LandlockRuleset::new(&rules))
}

/// The same paths as the mounts, after the pivot.
fn landlock_rules(plan: &Plan) -> Vec<LandlockRule<'_>> {
    let rule = |path, access| LandlockRule { target: LandlockTarget::Path(path), access };
    let mut rules = vec![
        rule(Path::new("/"), LandlockAccess::List),
        rule(Path::new("/dev"), LandlockAccess::Device),
        rule(Path::new("/proc"), LandlockAccess::Device),
    ];
    for mount in &plan.mounts {
        let access = match mount {
            Mount::Bind { access: Access::Read, .. } => LandlockAccess::Read,
            Mount::Bind { .. }
            | Mount::Overlay { .. }
            | Mount::Layered { .. }
            | Mount::Private { .. }
            | Mount::Temporary { .. } => LandlockAccess::Write,
            _ => continue,
        };
        rules.push(rule(mount.target(), access));
    }
    rules
}

/// `/dev/stdin` and its like open a file that was handed in once more: with the access that was handed in. One that is
/// appended to is not opened again, since that could overwrite what was there before.
fn reopening(file: &OwnedFd, reads: bool) -> Option<LandlockRule<'_>> {
    let access = match FileType::from_raw_mode(fstat(file).ok()?.st_mode) {
        FileType::CharacterDevice => LandlockAccess::Device,
        FileType::RegularFile if reads => LandlockAccess::ReadFile,
        FileType::RegularFile if !fcntl_getfl(file).ok()?.contains(OFlags::APPEND) => {
            LandlockAccess::WriteFile
        }
        _ => return None,
    };
    Some(LandlockRule { target: LandlockTarget::File(file.as_fd()), access })
}

fn command(request: &Request, plan: &Plan, stdio: Stdio, steps: &Steps) -> Result<Command, Failure> {
    let c_string = |bytes: &[u8]| {
        CString::new(bytes).map_err(|_| {
            failure("use", "an argument with a NUL byte", &std::io::ErrorKind::InvalidInput.into())
        })
    };
    let argv = request.argv.iter().map(|argument| c_string(argument.as_bytes())).collect::<Result<_, _>>()?;
    let mut environment = Vec::with_capacity(plan.environment.len() + 1);
    let mut path = OsStr::new("").to_owned();
    for (name, value) in &plan.environment {
        environment.push(c_string(format!("{name}={value}").as_bytes())?);
        if name == "PATH" {
            path = value.into();
        }
    }
    environment.push(c_string(&[b"PWD=", plan.directory.as_os_str().as_bytes()].concat())?);
    steps.run("start the command", "", || Ok(()))?;
    let directory = plan.directory.clone();
    Ok(Command { argv, environment, path, directory, stdio, processes: None })
}
