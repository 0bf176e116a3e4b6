//! The order as it travels to a guard that was started anew, inside: all of the plan that guard carries out.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::{fmt, io};

use ringfence_linux::seccomp::Program;
use ringfence_linux::{CgroupLimits, Hierarchy, NetworkShape, SocketShape};
use ringfence_policy::ProviderName;
use serde::{Deserialize, Serialize};

use crate::plan::{Ids, Plan, PlannedLimits};
use crate::protect::Pins;
use crate::providers::native::{Handed, Steps, Unpacked, as_stdio};
use crate::receipt::Receipt;
use crate::request::{Request, Stream};
use crate::session::Link;

#[derive(Serialize, Deserialize)]
pub(in crate::providers) struct Order {
    handed: Handed,
    pub(super) stream: Stream,
    ids: Ids,
    hostname: String,
    own_network: bool,
    landlock: bool,
    processes: Option<u32>,
    /// A cgroup counts them too.
    counted: bool,
    open_files: Option<u32>,
    disk: Option<u64>,
    shape: Option<Shape>,
    /// The step that a test makes fail.
    pub(super) fault: Option<String>,
}

/// A network's shape, in a form that can be written down.
#[derive(Serialize, Deserialize)]
struct Shape {
    local: Vec<(IpAddr, u8)>,
    sockets: Vec<Socket>,
}

#[derive(Serialize, Deserialize)]
enum Socket {
    Udp(SocketAddr),
    Tcp(SocketAddr),
    SpareV4,
    SpareV6,
    IcmpV4,
    IcmpV6,
}

impl fmt::Debug for Order {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Order").field("stream", &self.stream).finish_non_exhaustive()
    }
}

impl Order {
    pub(in crate::providers) fn new(
        request: &Request,
        plan: &Plan,
        pins: &Pins,
        filter: Option<&Program>,
    ) -> Self {
        Self {
            handed: Handed::new(request, plan, pins, filter),
            stream: request.stream,
            ids: plan.ids.clone(),
            hostname: plan.hostname.clone(),
            own_network: plan.own_network,
            landlock: plan.landlock,
            processes: plan.limits.processes,
            counted: plan.limits.cgroup.processes.is_some(),
            open_files: plan.limits.open_files,
            disk: plan.limits.disk,
            shape: plan.egress.as_ref().map(|egress| Shape::of(&egress.shape)),
            fault: Steps::wanted_fault(),
        }
    }

    pub(in crate::providers) fn send(&self, control: BorrowedFd<'_>, stdio: &[OwnedFd; 3]) -> io::Result<()> {
        Link::new(control.try_clone_to_owned()?).send(self, &stdio.each_ref().map(AsFd::as_fd))
    }

    /// `None`: the owner has gone.
    pub(super) fn receive(control: &OwnedFd) -> io::Result<Option<(Self, [OwnedFd; 3])>> {
        let Some((order, fds)) = Link::new(control.try_clone()?).receive::<Self>()? else { return Ok(None) };
        Ok(Some((order, as_stdio(fds)?)))
    }

    /// The plan as far as guard needs it, what comes with the command, and the network's shape.
    pub(super) fn unpack(self, provider: ProviderName) -> (Unpacked, Option<NetworkShape>) {
        let processes = self.counted.then_some(self.processes.unwrap_or(0));
        let base = Plan {
            provider,
            program: None,
            mounts: Vec::new(),
            late: Vec::new(),
            workspace: None,
            ids: self.ids,
            hostname: self.hostname,
            own_network: self.own_network,
            egress: None,
            limits: PlannedLimits {
                cgroup: CgroupLimits { processes, ..CgroupLimits::default() },
                processes: self.processes,
                open_files: self.open_files,
                disk: self.disk,
                output: None,
                wall_time: None,
            },
            environment: Vec::new(),
            directory: "/".into(),
            landlock: self.landlock,
            seccomp: true,
            unix_datagrams: false,
            cgroups: Hierarchy::Absent { why: String::new(), fix: String::new() },
            attached: Vec::new(),
            receipt: Receipt::new(provider.as_str()),
        };
        (self.handed.unpack(&base), self.shape.map(Shape::into_network))
    }
}

impl Shape {
    fn of(shape: &NetworkShape) -> Self {
        let sockets = shape.sockets.iter().map(|socket| match *socket {
            SocketShape::Udp(at) => Socket::Udp(at),
            SocketShape::Tcp(at) => Socket::Tcp(at),
            SocketShape::SpareV4 => Socket::SpareV4,
            SocketShape::SpareV6 => Socket::SpareV6,
            SocketShape::IcmpV4 => Socket::IcmpV4,
            SocketShape::IcmpV6 => Socket::IcmpV6,
        });
        Self { local: shape.local.clone(), sockets: sockets.collect() }
    }

    fn into_network(self) -> NetworkShape {
        let sockets = self.sockets.into_iter().map(|socket| match socket {
            Socket::Udp(at) => SocketShape::Udp(at),
            Socket::Tcp(at) => SocketShape::Tcp(at),
            Socket::SpareV4 => SocketShape::SpareV4,
            Socket::SpareV6 => SocketShape::SpareV6,
            Socket::IcmpV4 => SocketShape::IcmpV4,
            Socket::IcmpV6 => SocketShape::IcmpV6,
        });
        NetworkShape { local: self.local, sockets: sockets.collect() }
    }
}
