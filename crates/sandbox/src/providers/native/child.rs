//! The child's whole life before and as guard: first process of the new namespaces.

use std::ffi::{CString, OsStr, OsString};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ringfence_guard::{
    Command, FromGuard, OomScore, Program, SessionGuard, Stdio, await_command, serve, serve_session,
};
use ringfence_linux::seccomp::{self, Listen, install};
use ringfence_linux::{
    Helper, LandlockAccess, LandlockRule, LandlockRuleset, LandlockTarget, MAX_FDS, MountFlags, NetworkShape,
    NewNetwork, Pending, Settings, clone_tree, close_except, drop_all_capabilities, enter_network, exit_now,
    hide_arguments, is_hung_up, make_network, move_fd, open_pty, recv_with_fds, release_old_root,
    reset_signal_actions, restrict_tree, scrub_environment, send_with_fds, set_die_with_parent, set_dumpable,
    set_hostname, set_limit, unshare_cgroup, window_size,
};
use rustix::fs::{FileType, Mode, OFlags, SeekFrom, fcntl_getfl, fstat, open, seek};
use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::Resource;

use super::anew::{Anew, Belongings};
use super::faults::Steps;
use super::hand_out::{Handed, Unpacked};
use super::identity;
use super::root::{Builder, Trees, still_covered};
use super::setup::{Failure, failure};
use crate::plan::{Access, Mount, Plan};
use crate::protect::Pins;
use crate::request::Stream;

/// Bits for places of limited size that are full: the disk limit's layer, and the temporary files'.
pub(crate) const DISK_FULL: u8 = 1;
pub(crate) const TMP_FULL: u8 = 2;
const PRIVATE: &[(&str, u8)] = &[("/var/tmp", DISK_FULL), ("/tmp", TMP_FULL), ("/dev/shm", TMP_FULL)];

/// What `ps` shows of guard, and of all that is forked from it and runs no command.
const GUARD: &str = "ringfence guard";

/// Processes that a session's guard may have beyond its commands' limit, so that it can start another beside a fork bomb.
const GUARD_RESERVE: u64 = 8;

/// What the owner prepared before the fork.
pub(in crate::providers) struct Inheritance<'a> {
    pub(in crate::providers) plan: &'a Plan,
    pub(in crate::providers) start: Start<'a>,
    pub(in crate::providers) maker: Maker,
    pub(in crate::providers) steps: Steps,
    /// What its network has beside loopback.
    pub(in crate::providers) shape: Option<&'a NetworkShape>,
    /// With what to begin anew, where another program started it.
    pub(in crate::providers) anew: Option<Anew>,
}

/// Who made the namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::providers) enum Maker {
    /// The owner, whose fork this is.
    Owner,
    /// Another program, which has mapped the ids and put each source of the plan into [`SOURCES`].
    Program,
    /// The first process of a container, whose fork this is: the owner sends all that is shown, and nothing else of the host is here.
    Container,
}

/// Where another program puts what the plan shows, by index, before the root is made of it.
pub(in crate::providers) const SOURCES: &str = "/.ringfence";
/// The file on stdin, beside them.
pub(in crate::providers) const STDIN_SOURCE: &str = "stdin";

/// What is known of the order when the sandbox is made.
pub(in crate::providers) enum Start<'a> {
    /// All of it.
    Now(Order<'a>),
    /// Nothing yet: it is waited for before what comes with it is mounted.
    Open,
    /// Nothing yet, but it brings no more than a command: the walls are closed before it comes.
    Closed { filter: Option<&'a seccomp::Program> },
}

/// What comes with one order, beside its plan.
pub(in crate::providers) struct Order<'a> {
    pub(in crate::providers) argv: &'a [OsString],
    pub(in crate::providers) stream: Stream,
    pub(in crate::providers) pins: &'a Pins,
    pub(in crate::providers) stdio: [OwnedFd; 3],
    pub(in crate::providers) filter: Option<&'a seccomp::Program>,
}

/// What guard does once the walls are closed.
enum Duty {
    Run(Command),
    /// Of a session, with how many processes its commands may have.
    Serve(Option<u64>),
}

/// Build the walls, close them, then be guard. Never returns.
pub(in crate::providers) fn live(control: OwnedFd, inheritance: Inheritance<'_>) -> ! {
    let closed = close_walls(&control, inheritance);
    attend_to(control, closed)
}

/// The rest of it, where guard began anew after the root was made. Never returns.
pub(in crate::providers) fn live_on(
    control: OwnedFd,
    unpacked: &Unpacked,
    stream: Stream,
    belongings: Belongings,
    steps: &Steps,
) -> ! {
    let closed = close_others(&control, unpacked, stream, belongings, steps);
    attend_to(control, closed)
}

fn close_others(
    control: &OwnedFd,
    unpacked: &Unpacked,
    stream: Stream,
    belongings: Belongings,
    steps: &Steps,
) -> Result<(Duty, OomScore), FromGuard> {
    let plan = &unpacked.plan;
    let landlock = match plan.landlock {
        true => Some(landlock(plan, belongings.stdio.as_ref(), steps)?),
        false => None,
    };
    let (argv, filter) = unpacked.command();
    close_rest(Rest { control, plan, stream, argv, filter, belongings, landlock, ours: 0, steps })
}

fn attend_to(control: OwnedFd, closed: Result<(Duty, OomScore), FromGuard>) -> ! {
    match closed {
        Ok((Duty::Run(command), score)) => serve(control.as_fd(), command, &score, PRIVATE),
        Ok((Duty::Serve(processes), score)) => {
            serve_session(control, &SessionGuard { score, private: PRIVATE, processes })
        }
        Err(message) => {
            let _ = send_with_fds(control.as_fd(), &message.encode(), &[]);
            exit_now(1)
        }
    }
}

impl From<Failure> for FromGuard {
    fn from(Failure { step, subject, errno }: Failure) -> Self {
        Self::Failed { step: step.into(), subject, errno }
    }
}

/// The walls are closed when this returns, and it is known what to do inside them.
fn close_walls(control: &OwnedFd, inheritance: Inheritance<'_>) -> Result<(Duty, OomScore), FromGuard> {
    let Inheritance { plan, start, maker, steps, shape, anew } = inheritance;
    scrub_environment();
    // Everybody inside can read them, and the caller's name what it wants: where a secret comes from, for one.
    steps.run("hide the arguments", "", || hide_arguments(GUARD))?;
    let mut keep = vec![control.as_fd()];
    if let Start::Now(order) = &start {
        keep.extend(order.stdio.iter().map(AsFd::as_fd));
    }
    keep.extend(anew.iter().map(|anew| anew.executable.as_fd()));
    steps.run("let go of the caller's descriptors", "", || close_except(&keep))?;
    let helper = steps.run("start a helper thread", "", Helper::start)?;
    let mut place = Place {
        control,
        plan,
        steps: &steps,
        network: begin_network(plan, shape, &helper, &steps)?,
        settled: false,
    };
    let (mut trees, stdin_tree) = match maker {
        Maker::Owner | Maker::Container => receive_all(control, plan, &steps)?,
        Maker::Program => (placed_trees(plan, &steps)?, None),
    };
    if maker != Maker::Program {
        identity::enter(&plan.ids, &steps)?;
    }
    let root = Builder::begin(plan, &mut trees, &steps)?;
    let handed;
    let (plan, order, filter) = match start {
        Start::Now(order) => (plan, Some(order), None),
        Start::Open => {
            place.settle()?;
            let (received, stdio) = Handed::receive(control, &steps)?;
            handed = received.unpack(plan);
            trees = receive_trees(control, &handed.plan, &steps)?;
            steps.run(STILL_COVERED, "", || root.is_still_covered())?;
            (&handed.plan, Some(handed.order(Stream::Inherit, stdio)), None)
        }
        Start::Closed { filter } => {
            place.settle()?;
            (plan, None, filter)
        }
    };
    let stream = order.as_ref().map_or(Stream::Inherit, |order| order.stream);
    let (argv, pins, mut stdio, filter) = match order {
        Some(Order { argv, pins, stdio, filter, .. }) => (argv, Some(pins), Some(stdio), filter),
        None => (&[][..], None, None, filter),
    };
    let own_stdin = stdio.as_ref().and_then(|files| on_read_only_mount(&files[0], &root, maker, stdin_tree));
    if let (Some(stdin), Some(files)) = (&own_stdin, &mut stdio) {
        files[0] = steps.run("hand in stdin", "", || Ok(fcntl_dupfd_cloexec(stdin, 3)?))?;
    }
    let ours = steps.run("look at the stage", "", || root.device())?;
    root.finish(plan, pins.unwrap_or(&Pins::default()), trees)?;
    let released = steps.run("release the old root", "", || helper.give(release_old_root))?;
    let (stdio, master) = place_stdio(stream, stdio, &steps)?;
    let anew = anew.filter(|_| identity::is_called_otherwise(&plan.ids));
    let landlock = match plan.landlock && anew.is_none() {
        true => Some(landlock(plan, stdio.as_ref(), &steps)?),
        false => None,
    };
    place.settle()?;
    steps.run("release the old root", "", || released.wait())?;
    steps.run("end the helper thread", "", || helper.finish())?;
    steps.run("make a cgroup namespace", "", unshare_cgroup)?;
    match maker {
        Maker::Owner | Maker::Container => identity::rename(&plan.ids, &steps)?,
        Maker::Program => identity::rename_again(&plan.ids, &steps)?,
    }
    set_limits(stream, plan, &steps)?;
    steps.run("drop capabilities", "", drop_all_capabilities)?;
    let belongings = Belongings { stdio, master, own_stdin };
    if let Some(anew) = anew {
        return Err(anew.begin(control, &belongings, &steps).into());
    }
    close_rest(Rest { control, plan, stream, argv, filter, belongings, landlock, ours, steps: &steps })
}

/// What is left to close when this process has its last name, and its capabilities are gone.
struct Rest<'a> {
    control: &'a OwnedFd,
    plan: &'a Plan,
    stream: Stream,
    argv: &'a [OsString],
    filter: Option<&'a seccomp::Program>,
    belongings: Belongings,
    landlock: Option<LandlockRuleset>,
    /// The device of what lies over the host's files.
    ours: u64,
    steps: &'a Steps,
}

fn close_rest(rest: Rest<'_>) -> Result<(Duty, OomScore), FromGuard> {
    let Rest { control, plan, stream, argv, filter, belongings, landlock, ours, steps } = rest;
    let Belongings { stdio, master, own_stdin } = belongings;
    if let Some(landlock) = landlock {
        steps.run("enforce Landlock", "", || landlock.enforce())?;
    }
    let score = steps.run("open guard's score", "", OomScore::open)?;
    // From inside, PID 1 is sent only what it has a handler for. Those of the runtimes are not made for a burst: their frames
    // overflow the stack that they run on, which is deadly for PID 1 too.
    steps.run("let go of signal handlers", "", reset_signal_actions)?;
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
    fds.extend(own_stdin.as_ref().filter(|_| stream != Stream::Terminal).map(AsFd::as_fd));
    steps.run("report", "", || send_with_fds(control.as_fd(), &FromGuard::ready().encode(), &fds))?;
    drop((listener, master, own_stdin));
    let duty = match (stdio, stream) {
        (_, Stream::Session) => {
            Duty::Serve(plan.limits.processes.map(|processes| own_processes(plan, processes, stream)))
        }
        (Some(stdio), _) => Duty::Run(command(argv, plan, stdio, steps)?),
        (None, _) => Duty::Run(ordered_command(control, plan, ours, steps)?),
    };
    Ok((duty, score))
}

/// What could show through, in a sandbox that waited, where a program of the host replaced it.
pub(super) const STILL_COVERED: &str = "see that what is covered is covered still";

/// The command of a sandbox whose walls were closed before it came.
fn ordered_command(control: &OwnedFd, plan: &Plan, ours: u64, steps: &Steps) -> Result<Command, FromGuard> {
    steps.run("wait for the order", "", || {
        send_with_fds(control.as_fd(), &FromGuard::waiting().encode(), &[])
    })?;
    let command = await_command(control.as_fd())?;
    let covered = plan.mounts.iter().filter_map(|mount| match mount {
        Mount::File { target, .. } | Mount::Hide { target } => Some(target.as_path()),
        _ => None,
    });
    steps.run(STILL_COVERED, "", || still_covered(covered, ours))?;
    steps.run("start the command", "", || Ok(()))?;
    Ok(command)
}

/// Where the sandbox is, beside its files: network, name and control group.
struct Place<'a> {
    control: &'a OwnedFd,
    plan: &'a Plan,
    steps: &'a Steps,
    network: Option<Pending<NewNetwork>>,
    settled: bool,
}

impl Place<'_> {
    /// Enter all of it. Once only: before an order is waited for, or beside what the helper does.
    fn settle(&mut self) -> Result<(), Failure> {
        let Self { control, plan, steps, .. } = *self;
        if std::mem::replace(&mut self.settled, true) {
            return Ok(());
        }
        if let Some(network) = self.network.take() {
            let network = steps.run("enter the network namespace", "", || {
                let network = network.wait()?;
                enter_network(network.namespace.as_fd()).map(|()| network)
            })?;
            steps.run("report the network", "", || report_network(control, &network))?;
        }
        steps.run("set the hostname", "", || set_hostname(&plan.hostname))?;
        enter_cgroup(control, steps)
    }
}

/// Have the network namespace made beside the rest, if there is to be one.
fn begin_network(
    plan: &Plan,
    shape: Option<&NetworkShape>,
    helper: &Helper,
    steps: &Steps,
) -> Result<Option<Pending<NewNetwork>>, Failure> {
    if !plan.own_network {
        return Ok(None);
    }
    let furniture = match shape {
        Some(shape) => {
            let settings = steps.run("hold the kernel's settings", "", Settings::hold)?;
            Some((shape.clone(), settings))
        }
        None => None,
    };
    let make = move || make_network(furniture.as_ref().map(|(shape, settings)| (shape, settings)));
    Ok(Some(steps.run("make a network namespace", "", || helper.give(make))?))
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
fn on_read_only_mount(
    stdin: &OwnedFd,
    root: &Builder<'_>,
    maker: Maker,
    given: Option<OwnedFd>,
) -> Option<OwnedFd> {
    let facts = fstat(stdin).ok()?;
    if FileType::from_raw_mode(facts.st_mode) != FileType::RegularFile {
        return None;
    }
    let link = |fd: &OwnedFd| format!("/proc/self/fd/{}", fd.as_raw_fd());
    let tree = match maker {
        Maker::Owner => root.clone_of_host(&std::fs::read_link(link(stdin)).ok()?).ok()?,
        Maker::Program => clone_tree(&Path::new(SOURCES).join(STDIN_SOURCE)).ok()?,
        Maker::Container => given?,
    };
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
fn receive_trees(control: &OwnedFd, plan: &Plan, steps: &Steps) -> Result<Trees, Failure> {
    Ok(receive_all(control, plan, steps)?.0)
}

/// The place of the file on stdin among the trees, where the owner sends that too.
pub(in crate::providers) fn stdin_place(plan: &Plan) -> usize {
    plan.mounts.len() + 1
}

fn receive_all(control: &OwnedFd, plan: &Plan, steps: &Steps) -> Result<(Trees, Option<OwnedFd>), Failure> {
    let mut trees: Trees = Vec::new();
    trees.resize_with(stdin_place(plan) + 1, || None);
    loop {
        let message = steps.run("hear from the owner", "", || recv_with_fds(control.as_fd()))?;
        // The last message is one byte; others carry an index, in two bytes, for each descriptor.
        match message.bytes.len() {
            0 => exit_now(1),
            1 => {
                let stdin = trees.pop().flatten();
                return Ok((trees, stdin));
            }
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

/// What another program put in place, at the places in the plan, and after them the workspace's layers. All of it: nothing else of
/// the host is there to be cloned.
fn placed_trees(plan: &Plan, steps: &Steps) -> Result<Trees, Failure> {
    let mut trees: Trees = Vec::with_capacity(plan.mounts.len() + 1);
    for index in 0..=plan.mounts.len() {
        let path = Path::new(SOURCES).join(index.to_string());
        let is_there = path.symlink_metadata().is_ok();
        trees.push(match is_there {
            true => Some(steps.run("clone the mount of", &path, || clone_tree(&path))?),
            false => None,
        });
    }
    Ok(trees)
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

fn set_limits(stream: Stream, plan: &Plan, steps: &Steps) -> Result<(), Failure> {
    // A core of at most one byte is none, and also keeps the kernel from piping it to a program on the host.
    steps.run("switch core dumps off", "", || set_limit(Resource::Core, 1))?;
    if let Some(open_files) = plan.limits.open_files {
        steps.run("limit open files", "", || set_limit(Resource::Nofile, open_files.into()))?;
    }
    if let Some(processes) = plan.limits.processes {
        let reserve = if stream == Stream::Session { GUARD_RESERVE } else { 0 };
        let own = own_processes(plan, processes, stream) + reserve;
        steps.run("limit processes", "", || set_limit(Resource::Nproc, own))?;
    }
    Ok(())
}

/// The command's stdio, where it is known, and the far end of its terminal if it has one. guard itself keeps nothing of the
/// caller's.
fn place_stdio(
    stream: Stream,
    files: Option<[OwnedFd; 3]>,
    steps: &Steps,
) -> Result<(Option<Stdio>, Option<OwnedFd>), Failure> {
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
    let Some(files) = files else { return Ok((None, None)) };
    if stream != Stream::Terminal {
        return Ok((Some(Stdio::Files(files)), None));
    }
    let size = window_size(files[0].as_fd());
    let pty = steps.run("open a terminal", "", || open_pty(Path::new("/dev/pts/ptmx"), size))?;
    Ok((Some(Stdio::Terminal(pty.slave)), Some(pty.master)))
}

fn landlock(plan: &Plan, stdio: Option<&Stdio>, steps: &Steps) -> Result<LandlockRuleset, Failure> {
    let mut rules = landlock_rules(plan);
    if let Some(Stdio::Files(files)) = stdio {
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

fn command(argv: &[OsString], plan: &Plan, stdio: Stdio, steps: &Steps) -> Result<Command, Failure> {
    let Program { argv, environment, path, directory, .. } =
        program(argv, plan).map_err(|error| failure("use", "an argument with a NUL byte", &error))?;
    steps.run("start the command", "", || Ok(()))?;
    Ok(Command { argv, environment, path, directory, stdio, processes: None })
}

/// What to start, with what it finds.
pub(super) fn program(argv: &[OsString], plan: &Plan) -> std::io::Result<Program> {
    let c_string = |bytes: &[u8]| CString::new(bytes).map_err(|_| std::io::ErrorKind::InvalidInput);
    let argv = argv.iter().map(|argument| c_string(argument.as_bytes())).collect::<Result<_, _>>()?;
    let mut environment = Vec::with_capacity(plan.environment.len() + 1);
    let mut path = OsStr::new("").to_owned();
    for (name, value) in &plan.environment {
        environment.push(c_string(format!("{name}={value}").as_bytes())?);
        if name == "PATH" {
            path = value.into();
        }
    }
    environment.push(c_string(&[b"PWD=", plan.directory.as_os_str().as_bytes()].concat())?);
    Ok(Program { argv, environment, path, directory: plan.directory.clone(), terminal: None })
}
