//! A network namespace with a mount namespace, held by descriptors of the test process and by nothing else: no name in
//! `/run/netns`, no process. When the test process ends, however it ends, both are gone.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::process::{Child, Command};
use std::sync::Mutex;
use std::sync::mpsc::{Sender, channel};

use ringfence_linux::probe_calls;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

const CLONE_FS: i32 = 0x0000_0200;
const CLONE_NEWNS: i32 = 0x0002_0000;
const CLONE_NEWNET: i32 = 0x4000_0000;

type Job = Box<dyn FnOnce() + Send>;

#[derive(Debug)]
pub struct Place {
    network: OwnedFd,
    mounts: OwnedFd,
    keeper: Mutex<Sender<Job>>,
    servers: Mutex<Vec<Child>>,
}

impl Place {
    /// New namespaces, with `lo` up and nothing else, and what `furnish` mounts.
    pub(super) fn make(furnish: impl FnOnce() + Send + 'static) -> Self {
        let (report, made) = channel();
        let (keeper, jobs) = channel::<Job>();
        // Servers are started by this thread, which lives as long as the process: they die with their *thread*.
        let work = move || {
            probe_calls::unshare(CLONE_FS | CLONE_NEWNS | CLONE_NEWNET).expect("new namespaces");
            ringfence_linux::make_private().expect("private mounts");
            ringfence_linux::loopback_up().expect("bring lo up");
            furnish();
            let open = |name: &str| -> OwnedFd {
                File::open(format!("/proc/thread-self/ns/{name}")).expect("a namespace file").into()
            };
            report.send((open("net"), open("mnt"))).expect("somebody waits");
            while let Ok(job) = jobs.recv() {
                job();
            }
        };
        std::thread::Builder::new().name("place".into()).spawn(work).expect("start a thread");
        let (network, mounts) = made.recv().expect("make a place: see the panic above");
        Self { network, mounts, keeper: Mutex::new(keeper), servers: Mutex::default() }
    }

    /// Do something there, in a thread of its own. Processes that it starts are there too.
    ///
    /// # Panics
    /// As `act` does.
    pub fn within<T: Send>(&self, act: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                self.enter();
                act()
            });
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Run something there for as long as the test process lives.
    pub fn stay(&self, name: &str, act: impl FnOnce() + Send + 'static) {
        let name = name.to_owned();
        self.order(move || {
            std::thread::Builder::new().name(name).spawn(act).expect("start a thread");
        });
    }

    /// Start a process there that dies with the test process: the command must go through `setpriv --pdeathsig`.
    pub(super) fn serve(&self, command: impl FnOnce() -> Command + Send + 'static) {
        let server = self.order(move || {
            let mut command = command();
            command.spawn().unwrap_or_else(|error| panic!("start {command:?}: {error}"))
        });
        self.servers.lock().expect("the servers").push(server);
    }

    /// A path that names the network namespace, for `ip`.
    pub(super) fn network_path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.network.as_raw_fd())
    }

    fn order<T: Send + 'static>(&self, act: impl FnOnce() -> T + Send + 'static) -> T {
        let (reply, answer) = channel();
        let job: Job = Box::new(move || {
            let _ = reply.send(act());
        });
        self.keeper.lock().expect("the keeper").send(job).expect("the keeper lives");
        answer.recv().expect("the keeper did its work: see the panic above")
    }

    fn enter(&self) {
        probe_calls::unshare(CLONE_FS).expect("a root directory of its own");
        for (namespace, kind) in
            [(&self.mounts, LinkNameSpaceType::Mount), (&self.network, LinkNameSpaceType::Network)]
        {
            move_into_link_name_space(namespace.as_fd(), Some(kind)).expect("enter a namespace");
        }
    }
}
