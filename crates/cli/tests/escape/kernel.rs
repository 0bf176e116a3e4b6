//! Namespaces, mounts, keyrings, clock, names, other entry points: the attempts that need real arguments.

use ringfence_testing::{HostQueue, HostSharedMemory, Scene};

use crate::attempt::{Props, Twin, attempt};
use crate::row::Row;

pub(crate) fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for name in ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"] {
        rows.push(
            attempt(format!("unshare-{name}"), "makes a namespace of its own")
                .probe(["unshare", name])
                .denied("unshare")
                .twin(Twin::Namespaces),
        );
        rows.push(
            attempt(format!("clone-{name}"), "forks into a namespace of its own")
                .probe(["clone", name])
                .denied("clone")
                .twin(Twin::Namespaces),
        );
    }
    rows.extend([
        attempt("clone3-user", "forks into a user namespace by clone3")
            .probe(["clone3", "user"])
            .twin(Twin::Namespaces),
        attempt("unshare-program", "makes a user namespace by the usual program")
            .shell("unshare --user --map-root-user true")
            .denied("unshare")
            .twin(Twin::Host),
    ]);
    rows.extend(calls());
    rows.extend(mounts());
    rows.extend(identity());
    rows.extend(ipc());
    rows
}

fn calls() -> Vec<Row> {
    let row = |name: &str, call: &str, args: &[&str], twin: Twin| {
        attempt(name, format!("{call} with usable arguments"))
            .probe(args.iter().copied())
            .denied(call)
            .twin(twin)
    };
    vec![
        row("setns", "setns", &["setns", "uts"], Twin::Namespaces),
        row("io-uring", "io_uring_setup", &["io-uring"], Twin::Host),
        row("bpf", "bpf", &["bpf"], Twin::HostAsRoot),
        row("userfaultfd", "userfaultfd", &["userfaultfd"], Twin::Host),
        row("perf", "perf_event_open", &["perf"], Twin::HostAsRoot),
        row("add-key", "add_key", &["add-key"], Twin::Host),
        row("keyctl", "keyctl", &["keyctl"], Twin::Host),
        row("personality", "personality", &["personality"], Twin::Host),
        row("clock", "clock_settime", &["clock"], Twin::ReachesKernel),
        row("hostname", "sethostname", &["hostname"], Twin::Namespaces),
        row("domainname", "setdomainname", &["domainname"], Twin::Namespaces),
        row("chroot", "chroot", &["chroot"], Twin::Namespaces),
        attempt("int80", "enters the kernel as a 32-bit program")
            .probe(["int80"])
            .killed_or_held()
            .twin(Twin::Host),
        attempt("x32", "enters the kernel as an x32 program")
            .probe(["x32"])
            .killed_or_held()
            .twin(Twin::ReachesKernel),
    ]
}

fn mounts() -> Vec<Row> {
    let row = |name: &str, call: &str, args: &[&str]| {
        attempt(name, format!("{call} inside"))
            .set_up(|scene| {
                scene.mkdir("ws/a");
                scene.mkdir("ws/b");
                Props::default()
            })
            .probe(args.iter().copied())
            .denied(call)
            .twin(Twin::Namespaces)
    };
    vec![
        row("mount-tmpfs", "mount", &["mount-tmpfs", "a"]),
        row("mount-bind", "mount", &["bind-over", "a", "b"]),
        row("mount-remount", "mount", &["remount-writable", "/proc"]),
        row("mount-shared", "mount", &["make-shared"]),
        row("umount", "umount2", &["unmount", "/proc"]),
        row("fsopen", "fsopen", &["fsopen"]),
        row("open-tree", "open_tree", &["open-tree"]),
        row("pivot-root", "pivot_root", &["pivot-root"]),
    ]
}

/// Becoming somebody else, and lifting what holds a process.
fn identity() -> Vec<Row> {
    let as_root = |name: &str, what: &str, args: &[&str]| {
        attempt(name, what).probe(args.iter().copied()).twin(Twin::HostAsRoot)
    };
    vec![
        as_root("setuid-0", "becomes root", &["setuid", "0"]),
        as_root("setgroups", "drops its groups", &["setgroups"]),
        as_root("capability-sys-admin", "asks for CAP_SYS_ADMIN back", &["capability", "21"]),
        as_root("capability-dac-override", "asks for CAP_DAC_OVERRIDE back", &["capability", "1"]),
        as_root("capability-net-admin", "asks for CAP_NET_ADMIN back", &["capability", "12"]),
        as_root("lower-nice", "takes priority over others", &["lower-nice"]),
        attempt("core-limit", "raises the size of core dumps").probe(["core-limit"]).twin(Twin::Host),
        attempt("file-limit", "raises the number of open files to the host's limit")
            .set_up(|_| {
                let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
                Props::default().var("most", limit.maximum.unwrap_or(1 << 20))
            })
            .probe(["file-limit", "{most}"])
            .twin(Twin::Host),
    ]
}

fn ipc() -> Vec<Row> {
    let queue = |scene: &Scene| format!("/{}", scene.token);
    vec![
        attempt("shared-memory", "finds System V shared memory of the host")
            .set_up(|_| {
                let memory = HostSharedMemory::create();
                Props::default().var("key", memory.key()).keep(memory)
            })
            .probe(["shared-memory", "{key}"])
            .twin(Twin::Host),
        attempt("message-queue", "opens a message queue of the host")
            .set_up(move |scene| {
                let name = queue(scene);
                // The system call takes the name without its slash.
                let made = HostQueue::create(name.trim_start_matches('/'));
                Props::default().var("queue", name.trim_start_matches('/')).keep(made)
            })
            .probe(["message-queue", "{queue}"])
            .twin(Twin::Host),
        attempt("dev-shm", "finds POSIX shared memory of the host")
            .set_up(|scene| {
                let path = std::path::Path::new("/dev/shm").join(&scene.token);
                std::fs::write(&path, &scene.token).expect("write in /dev/shm");
                Props::default().keep(Removed(path))
            })
            .probe(["read", "/dev/shm/{token}", "{token}"])
            .twin(Twin::Host),
    ]
}

/// A file that goes away with the attempt.
struct Removed(std::path::PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
