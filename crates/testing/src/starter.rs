//! Starts programs that die with the test process, however it ends. The kernel kills them with the *thread* that started
//! them, so that one thread, which never ends, starts them all; where the caller's thread is in other namespaces, there.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::process::{Child, Command};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, OnceLock, PoisonError};

use ringfence_linux::probe_calls;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

type Job = Box<dyn FnOnce() + Send>;

const CLONE_FS: i32 = 0x0000_0200;

/// Start `command` where this thread is.
pub(crate) fn start(mut command: Command) -> io::Result<Child> {
    probe_calls::die_with_starter(&mut command);
    let there = Namespaces::own()?;
    let (reply, answer) = channel();
    let job: Job = Box::new(move || {
        let _ = reply.send(there.within(|| command.spawn()));
    });
    let starter = starter().lock().unwrap_or_else(PoisonError::into_inner);
    starter.send(job).map_err(|_| io::Error::other("the starter has ended"))?;
    drop(starter);
    answer.recv().map_err(io::Error::other)?
}

fn starter() -> &'static Mutex<Sender<Job>> {
    static STARTER: OnceLock<Mutex<Sender<Job>>> = OnceLock::new();
    STARTER.get_or_init(|| {
        let (starter, jobs) = channel::<Job>();
        let work = move || {
            while let Ok(job) = jobs.recv() {
                job();
            }
        };
        std::thread::Builder::new().name("starter".into()).spawn(work).expect("start a thread");
        Mutex::new(starter)
    })
}

/// Those of a thread that can be other than its process's: see [`crate::Place`].
struct Namespaces {
    mounts: File,
    network: File,
}

impl Namespaces {
    fn own() -> io::Result<Self> {
        let open = |name: &str| File::open(format!("/proc/thread-self/ns/{name}"));
        Ok(Self { mounts: open("mnt")?, network: open("net")? })
    }

    fn is_own(&self) -> io::Result<bool> {
        let own = Self::own()?;
        let same =
            |one: &File, other: &File| Ok::<_, io::Error>(one.metadata()?.ino() == other.metadata()?.ino());
        Ok(same(&self.mounts, &own.mounts)? && same(&self.network, &own.network)?)
    }

    fn enter(&self) -> io::Result<()> {
        let all = [(&self.mounts, LinkNameSpaceType::Mount), (&self.network, LinkNameSpaceType::Network)];
        Ok(all
            .into_iter()
            .try_for_each(|(file, kind)| move_into_link_name_space(file.as_fd(), Some(kind)))?)
    }

    /// Only for the starter's own thread.
    fn within<T>(&self, act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        if self.is_own()? {
            return act();
        }
        let home = Self::own()?;
        probe_calls::unshare(CLONE_FS)?;
        self.enter()?;
        let done = act();
        home.enter()?;
        done
    }
}
