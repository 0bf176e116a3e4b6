//! `connect`, carried out by the owner. A path leads to a socket of the host as easily as to one of the sandbox's own,
//! and before Landlock ABI 9 no other wall is there: a unix socket is connected to only if it was made inside.
//!
//! Invariant: the call itself never goes on. Its descriptor and address could be others by then; here both are copies,
//! looked at and used as they are. So is what the denials say of it exact.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ringfence_egress::{DNS, HTTP_PROXY};
use ringfence_linux::seccomp::{Listener, Notification};
use ringfence_linux::{Borrower, UnixSockets, as_user, connect_bytes, read_memory};
use ringfence_policy::{Blocked, NetworkReason};
use rustix::event::{PollFd, PollFlags};
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, ResolveFlags, Statx, StatxFlags, fcntl_getfl, fcntl_setfl, open,
    openat2, statx,
};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, socket_domain, socket_error, socket_timeout};
use rustix::net::{AddressFamily, SocketType};

use super::egress::{Caller, Egress};
use crate::denial::{Denial, DenialKind, Denials};
use crate::plan::{MappedIds, Mount, Plan};

/// `struct sockaddr_storage`.
const LONGEST_ADDRESS: u64 = 128;
const FAMILY: usize = 2;
/// How often a full queue is tried again, and how often it is seen that a waiting caller is gone.
const TRIES: usize = 100;
const AGAIN: Duration = Duration::from_millis(5);
const LOOK: Duration = Duration::from_millis(100);

/// A call that can't be answered yet.
struct Waiting {
    id: u64,
    socket: OwnedFd,
    what: WaitsFor,
    /// The socket's own limit for this.
    until: Option<Instant>,
}

enum WaitsFor {
    /// The kernel, which tells by the socket itself.
    Kernel,
    /// A place in the queue of a unix socket's server.
    Room(Target),
    /// Egress, to listen where this goes to.
    Egress { order: u64, to: Internet },
}

/// An internet address and who wants to go there.
struct Internet {
    address: Vec<u8>,
    to: SocketAddr,
    stream: bool,
    /// Its thread, which waits until it is answered.
    caller: u32,
}

/// Where a connection goes to.
enum Target {
    /// The address, as given.
    Given(Vec<u8>),
    /// A socket in the filesystem, held.
    Held(OwnedFd),
}

/// The owner's side of every `connect`.
pub(super) struct Connects<'a> {
    plan: &'a Plan,
    /// guard, outside.
    root: i32,
    sockets: Option<UnixSockets>,
    /// Mounts that nobody but the sandbox makes sockets on; looked up when first needed.
    private: Option<Vec<u64>>,
    waiting: Vec<Waiting>,
    borrower: Borrower,
}

impl<'a> Connects<'a> {
    pub(super) fn new(plan: &'a Plan, root: i32) -> Self {
        Self { plan, root, sockets: None, private: None, waiting: Vec::new(), borrower: Borrower::default() }
    }

    /// The sandbox's network namespace can be asked for its sockets from now on.
    pub(super) fn know(&mut self, sockets: OwnedFd) {
        self.sockets = Some(UnixSockets::from(sockets));
    }

    /// Carry out one call, or keep it until it can be answered.
    pub(super) fn carry(
        &mut self,
        listener: &Listener,
        call: &Notification,
        egress: Option<&mut Egress>,
        denials: &mut Denials,
    ) -> std::io::Result<()> {
        match self.attempt(listener, call, egress, denials) {
            Ok(Some(waiting)) => {
                self.waiting.push(waiting);
                Ok(())
            }
            Ok(None) => listener.return_value(call.id, 0),
            Err(errno) => listener.deny(call.id, errno.raw_os_error()),
        }
    }

    fn attempt(
        &mut self,
        listener: &Listener,
        call: &Notification,
        egress: Option<&mut Egress>,
        denials: &mut Denials,
    ) -> Result<Option<Waiting>, Errno> {
        let socket = self.borrower.borrow(call.pid, call.args[0] as i32).map_err(|error| errno(&error))?;
        let family = socket_domain(&socket)?;
        let address = read_address(call)?;
        if !listener.is_alive(call.id) {
            // Whatever was read may be another process's. Nobody waits for this answer.
            return Err(Errno::INTR);
        }
        if family == AddressFamily::UNIX {
            let target = self.unix_target(call, address, denials)?;
            return match self.connect_unix(&socket, &target) {
                Ok(()) => Ok(None),
                Err(Errno::AGAIN) if !fcntl_getfl(&socket)?.contains(OFlags::NONBLOCK) => {
                    Ok(Some(waiting(call.id, socket, WaitsFor::Room(target))))
                }
                Err(error) => Err(error),
            };
        }
        let Some(to) = internet_address(family, &address) else {
            // Other families ask what its caller may do.
            return self.as_inside(|| at_once(&socket, &address).0)?.map(|()| None);
        };
        let stream = rustix::net::sockopt::socket_type(&socket) == Ok(SocketType::STREAM);
        let internet = Internet { address, to, stream, caller: call.pid };
        match egress {
            Some(egress) if stream && leads_out(to) => {
                if !egress.admits(to, || process_name(call.pid), denials) {
                    return Err(Errno::CONNREFUSED);
                }
                if !egress.is_open() {
                    return self.reach(call.id, socket, internet, Some(egress), denials);
                }
                let order = egress.listen(to);
                Ok(Some(waiting(call.id, socket, WaitsFor::Egress { order, to: internet })))
            }
            egress => self.reach(call.id, socket, internet, egress, denials),
        }
    }

    /// Connect to an internet address, which is one of this namespace or leads nowhere.
    fn reach(
        &self,
        id: u64,
        socket: OwnedFd,
        Internet { address, to, stream, caller }: Internet,
        egress: Option<&mut Egress>,
        denials: &mut Denials,
    ) -> Result<Option<Waiting>, Errno> {
        // As who is here: an internet socket knows since it was made whose it is, and asks for no right to connect.
        let (connected, blocks) = at_once(&socket, &address);
        match (egress, connected) {
            (Some(egress), Ok(()) | Err(Errno::INPROGRESS)) => {
                // Egress is at it by now: what is only written down is looked up beside that.
                if let Some(from) = local_address(&socket) {
                    let (process, shim) = (process_name(caller), denials.shim_above(caller));
                    egress.remember(from, Caller { process, shim });
                }
            }
            // To connect a datagram socket sends nothing, and many programs do so only to see which way an address lies.
            // Where there is a way, egress hears of what is sent.
            (Some(egress), Err(Errno::NETUNREACH)) if !stream => {
                egress.refused_datagram(to, process_name(caller), denials);
            }
            (None, Err(error)) if leads_out(to) && is_refusal(error) => {
                let (host, reason) = (to.ip().to_string(), NetworkReason::Off);
                let process = process_name(caller);
                let blocked = Blocked::Network { host, port: Some(to.port()), process, reason };
                denials.add(Denial::new(DenialKind::Network, &blocked));
            }
            _ => {}
        }
        match connected {
            Ok(()) => Ok(None),
            // Only a socket that has just been told to connect; one that is connecting already says ALREADY. Within a
            // machine it is connected by now.
            Err(Errno::INPROGRESS) if blocks && rustix::net::getpeername(&socket).is_ok() => Ok(None),
            Err(Errno::INPROGRESS) if blocks => Ok(Some(waiting(id, socket, WaitsFor::Kernel))),
            Err(error) => Err(error),
        }
    }

    /// Connect without waiting, as the sandbox's user.
    fn connect_unix(&self, socket: &OwnedFd, target: &Target) -> Result<(), Errno> {
        match target {
            Target::Given(address) => self.as_inside(|| at_once(socket, address).0)?,
            Target::Held(file) => {
                let address = unix_address(&format!("/proc/self/fd/{}", file.as_raw_fd()));
                self.as_inside(|| at_once(socket, &address).0)?
            }
        }
    }

    /// The sandbox's user is who a server sees at the other end, and whose right it is to search and to write.
    fn as_inside<T>(&self, action: impl FnOnce() -> T) -> Result<T, Errno> {
        match self.plan.ids.mapped {
            Some(MappedIds { outside, .. }) => {
                as_user(outside, outside, action).map_err(|error| errno(&error))
            }
            None => Ok(action()),
        }
    }

    fn unix_target(
        &mut self,
        call: &Notification,
        address: Vec<u8>,
        denials: &mut Denials,
    ) -> Result<Target, Errno> {
        let path = match address.get(FAMILY..) {
            _ if family_of(&address) != Some(AddressFamily::UNIX) => return Ok(Target::Given(address)),
            None | Some([]) => return Ok(Target::Given(address)),
            // Names belong to the network namespace; Landlock would not hold for what the owner does itself.
            Some([0, ..]) if self.plan.own_network => return Ok(Target::Given(address)),
            Some([0, ..]) => return Err(Errno::CONNREFUSED),
            Some(path) => path.split(|byte| *byte == 0).next().unwrap_or_default(),
        };
        let path = Path::new(std::ffi::OsStr::from_bytes(path));
        let file = self.find(call.pid, path)?;
        let facts = statx(&file, "", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS | StatxFlags::MNT_ID)?;
        if FileType::from_raw_mode(facts.stx_mode.into()) != FileType::Socket {
            return Err(Errno::CONNREFUSED);
        }
        if self.on_private_mount(facts.stx_mnt_id) || bound_at(self.sockets.as_ref(), self.root, &facts) {
            return Ok(Target::Held(file));
        }
        // One that nobody listens on, left from an earlier run, is not worth a word.
        if bound_at(UnixSockets::here().ok().as_ref(), self.root, &facts) {
            let blocked = Blocked::HostSocket { path: path.to_path_buf() };
            denials.add(Denial::new(DenialKind::File, &blocked));
        }
        Err(Errno::CONNREFUSED)
    }

    /// What the caller means by a path. Nothing leads out of its root.
    fn find(&self, tid: u32, path: &Path) -> Result<OwnedFd, Errno> {
        let directory = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = open(format!("/proc/{tid}/root"), directory, Mode::empty())?;
        let whole = match path.is_absolute() {
            true => path.to_path_buf(),
            // As it is called in there; a directory that was removed has no such name and nothing in it.
            false => {
                std::fs::read_link(format!("/proc/{tid}/cwd")).map_err(|error| errno(&error))?.join(path)
            }
        };
        let below: PathBuf = whole.components().filter(|part| part.as_os_str() != "/").collect();
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        self.as_inside(|| {
            let find = || openat2(&root, &below, flags, Mode::empty(), resolve);
            // The kernel asks to try again where `..` was followed while something on the machine was renamed.
            let settled = |found: &Result<_, Errno>| !matches!(found, Err(Errno::AGAIN));
            (0..TRIES).map(|_| find()).find(settled).unwrap_or(Err(Errno::ACCESS))
        })?
    }

    /// Is this one of the mounts that the sandbox has to itself?
    fn on_private_mount(&mut self, mount: u64) -> bool {
        let root = self.root;
        let plan = self.plan;
        self.private.get_or_insert_with(|| private_mounts(plan, root)).contains(&mount)
    }

    /// What to wait for, beside what the loop waits for already.
    pub(super) fn polled(&self) -> impl Iterator<Item = PollFd<'_>> {
        let open = self.waiting.iter().filter(|waiting| matches!(waiting.what, WaitsFor::Kernel));
        open.map(|waiting| PollFd::from_borrowed_fd(waiting.socket.as_fd(), PollFlags::OUT))
    }

    /// When to look at the waiting ones at the latest.
    pub(super) fn patience(&self) -> Option<Duration> {
        let full = self.waiting.iter().any(|waiting| matches!(waiting.what, WaitsFor::Room(_)));
        if full { Some(AGAIN) } else { (!self.waiting.is_empty()).then_some(LOOK) }
    }

    /// Answer those that can be answered, and let go of those that nobody waits for any more.
    pub(super) fn look(
        &mut self,
        listener: &Listener,
        mut egress: Option<&mut Egress>,
        denials: &mut Denials,
    ) {
        for waiting in std::mem::take(&mut self.waiting) {
            if !listener.is_alive(waiting.id) {
                continue;
            }
            let id = waiting.id;
            let answer = match self.look_at(waiting, egress.as_deref_mut(), denials) {
                Ok(Some(waiting)) => {
                    self.waiting.push(waiting);
                    continue;
                }
                Ok(None) => listener.return_value(id, 0),
                Err(error) => listener.deny(id, error.raw_os_error()),
            };
            // A caller that is gone by now needs no answer.
            drop(answer);
        }
    }

    fn look_at(
        &self,
        waiting: Waiting,
        egress: Option<&mut Egress>,
        denials: &mut Denials,
    ) -> Result<Option<Waiting>, Errno> {
        let late = waiting.until.is_some_and(|until| Instant::now() >= until);
        let Waiting { id, socket, what, until } = waiting;
        match what {
            WaitsFor::Room(target) => match self.connect_unix(&socket, &target) {
                Err(Errno::AGAIN) if !late => {
                    Ok(Some(Waiting { id, socket, what: WaitsFor::Room(target), until }))
                }
                done => done.map(|()| None),
            },
            WaitsFor::Kernel => match connected(&socket) {
                Some(done) => done.map(|()| None),
                None if late => Err(Errno::INPROGRESS),
                None => Ok(Some(Waiting { id, socket, what: WaitsFor::Kernel, until })),
            },
            WaitsFor::Egress { order, to } => {
                let Some(egress) = egress else { return Err(Errno::NETUNREACH) };
                match egress.answer(order) {
                    None => Ok(Some(Waiting { id, socket, what: WaitsFor::Egress { order, to }, until })),
                    Some(None) => self.reach(id, socket, to, Some(egress), denials),
                    Some(Some(reason)) => {
                        egress.refused_for(to.to, process_name(to.caller), reason, denials);
                        Err(Errno::CONNREFUSED)
                    }
                }
            }
        }
    }
}

fn errno(error: &std::io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::ACCESS, Errno::from_raw_os_error)
}

/// Connect without waiting, whether the socket would wait or not; and would it?
fn at_once(socket: &OwnedFd, address: &[u8]) -> (Result<(), Errno>, bool) {
    let flags = match fcntl_getfl(socket) {
        Ok(flags) => flags,
        Err(error) => return (Err(error), false),
    };
    let blocks = !flags.contains(OFlags::NONBLOCK);
    if blocks && let Err(error) = fcntl_setfl(socket, flags | OFlags::NONBLOCK) {
        return (Err(error), blocks);
    }
    let connected = connect_bytes(socket.as_fd(), address).map_err(|error| errno(&error));
    let restored = if blocks { fcntl_setfl(socket, flags) } else { Ok(()) };
    (connected.and(restored), blocks)
}

fn waiting(id: u64, socket: OwnedFd, what: WaitsFor) -> Waiting {
    let limit = socket_timeout(&socket, Timeout::Send).ok().flatten();
    Waiting { id, socket, what, until: limit.map(|limit| Instant::now() + limit) }
}

/// How a connection that was begun ended, once it has.
fn connected(socket: &OwnedFd) -> Option<Result<(), Errno>> {
    let mut polled = [PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::OUT)];
    let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    match rustix::event::poll(&mut polled, Some(&now)) {
        Ok(0) => None,
        _ => Some(socket_error(socket).unwrap_or_else(Err)),
    }
}

/// The address of the call, copied once.
fn read_address(call: &Notification) -> Result<Vec<u8>, Errno> {
    let length = call.args[2] as u32 as u64;
    if length > LONGEST_ADDRESS {
        return Err(Errno::INVAL);
    }
    let mut address = vec![0; length as usize];
    read_memory(call.pid, call.args[1], &mut address).map_err(|error| errno(&error))?;
    Ok(address)
}

fn family_of(address: &[u8]) -> Option<AddressFamily> {
    let bytes = address.get(..FAMILY)?;
    Some(AddressFamily::from_raw(u16::from_ne_bytes([bytes[0], bytes[1]])))
}

fn unix_address(path: &str) -> Vec<u8> {
    let mut bytes = AddressFamily::UNIX.as_raw().to_ne_bytes().to_vec();
    bytes.extend(path.as_bytes());
    bytes.push(0);
    bytes
}

/// Private places of the plan that are their own mounts inside, by the ids of those mounts. Where something of the
/// host's lies over one of them, that is what is there, so it does not count.
fn private_mounts(plan: &Plan, root: i32) -> Vec<u64> {
    let directory = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(root) = open(format!("/proc/{root}/root"), directory, Mode::empty()) else { return Vec::new() };
    let is_on_top = |at: usize| {
        let target = plan.mounts[at].target();
        plan.mounts[at + 1..].iter().all(|later| later.target() != target)
    };
    let places = plan.mounts.iter().enumerate().filter(|(at, mount)| {
        let private = matches!(
            mount,
            Mount::Private { .. } | Mount::Temporary { .. } | Mount::Overlay { .. } | Mount::Layered { .. }
        );
        private && is_on_top(*at)
    });
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS;
    places
        .filter_map(|(_, mount)| {
            let below = mount.target().strip_prefix("/").ok()?;
            let place = openat2(&root, below, directory, Mode::empty(), resolve).ok()?;
            Some(statx(&place, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID).ok()?.stx_mnt_id)
        })
        .collect()
}

/// Is a socket of that network namespace bound to this file?
fn bound_at(sockets: Option<&UnixSockets>, process: i32, file: &Statx) -> bool {
    // Some filesystems show other device numbers than they have.
    let (Some(sockets), Some((major, minor))) = (sockets, device_of_mount(process, file.stx_mnt_id)) else {
        return false;
    };
    sockets.bound_at(major, minor, file.stx_ino).unwrap_or(false)
}

/// The device number of the filesystem of a mount, as the kernel itself has it.
fn device_of_mount(process: i32, mount: u64) -> Option<(u32, u32)> {
    let table = std::fs::read_to_string(format!("/proc/{process}/mountinfo")).ok()?;
    table.lines().find_map(|line| {
        let mut fields = line.split(' ');
        if fields.next()?.parse::<u64>().ok()? != mount {
            return None;
        }
        let (major, minor) = fields.nth(1)?.split_once(':')?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    })
}

/// Nobody is there, or there is no way.
fn is_refusal(error: Errno) -> bool {
    matches!(error, Errno::CONNREFUSED | Errno::NETUNREACH | Errno::HOSTUNREACH | Errno::ADDRNOTAVAIL)
}

/// Is this an address of somebody else's?
fn leads_out(to: SocketAddr) -> bool {
    let ip = to.ip().to_canonical();
    !ip.is_loopback() && !ip.is_unspecified() && ![DNS.ip(), HTTP_PROXY.ip()].contains(&ip)
}

fn process_name(tid: u32) -> Option<String> {
    let file = open(format!("/proc/{tid}/comm"), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let mut name = [0; 64];
    let length = rustix::io::read(&file, &mut name).ok()?;
    let name = String::from_utf8_lossy(name.get(..length)?);
    // The program may have given itself any name.
    Some(name.trim_end_matches('\n').chars().map(|c| if c.is_control() { '?' } else { c }).collect())
}

fn local_address(socket: &OwnedFd) -> Option<SocketAddr> {
    rustix::net::getsockname(socket).ok()?.try_into().ok()
}

fn internet_address(family: AddressFamily, address: &[u8]) -> Option<SocketAddr> {
    if family_of(address)? != family {
        return None;
    }
    let port = u16::from_be_bytes(address.get(2..4)?.try_into().ok()?);
    let ip = match family {
        AddressFamily::INET => IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::try_from(address.get(4..8)?).ok()?)),
        AddressFamily::INET6 => IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(address.get(8..24)?).ok()?)),
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}
