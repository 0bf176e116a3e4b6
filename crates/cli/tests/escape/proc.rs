//! `/proc` and `/sys`: kernel settings, masked files, other processes, and the namespaces themselves.

use std::path::Path;

use ringfence_testing::{Stage, Victim};

use crate::attempt::{Props, Twin, attempt};
use crate::row::Row;

/// Kernel settings. They are opened and not written: an opened one could be.
const SETTINGS: &[&str] = &[
    "/proc/sys/kernel/core_pattern",
    "/proc/sys/kernel/modprobe",
    "/proc/sys/kernel/hostname",
    "/proc/sys/kernel/randomize_va_space",
    "/proc/sys/kernel/ns_last_pid",
    "/proc/sys/kernel/panic",
    "/proc/sys/vm/overcommit_memory",
    "/proc/sys/vm/drop_caches",
    "/proc/sys/fs/file-max",
    "/proc/sys/fs/binfmt_misc/register",
    "/proc/sys/net/ipv4/ip_forward",
    "/proc/sysrq-trigger",
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/sys/kernel/uevent_helper",
    "/sys/kernel/profiling",
    "/sys/power/state",
    "/sys/module/kernel/parameters/panic",
    "/sys/fs/cgroup/memory/tasks",
    "/sys/fs/cgroup/pids/cgroup.procs",
    "/sys/fs/cgroup/unified/cgroup.procs",
    "/sys/fs/cgroup/cgroup.procs",
    "/sys/fs/cgroup/devices/devices.allow",
];

/// Files that tell of the host or of other tenants.
const MASKED: &[&str] = &[
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/sched_debug",
    "/proc/pagetypeinfo",
    "/proc/slabinfo",
    "/proc/vmallocinfo",
    "/proc/kpagecount",
    "/proc/interrupts",
    "/proc/scsi/scsi",
    "/sys/firmware/acpi/tables/DSDT",
    "/sys/kernel/notes",
];

pub(crate) fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for path in SETTINGS.iter().filter(|path| Path::new(path).exists()) {
        rows.push(
            attempt(format!("setting{}", path.replace('/', "-")), "opens a kernel setting for writing")
                .probe(["open-write", path])
                .twin(Twin::HostAsRoot),
        );
    }
    for path in MASKED.iter().filter(|path| has_content(path)) {
        rows.push(
            attempt(format!("masked{}", path.replace('/', "-")), "reads a masked file")
                .probe(["read-any", path])
                .twin(Twin::HostAsRoot),
        );
    }
    for name in ["mnt", "pid", "net", "ipc", "uts", "user", "cgroup"] {
        rows.push(
            attempt(format!("namespace-{name}"), "is still in a namespace of the host")
                .set_up(move |_| {
                    let link =
                        std::fs::read_link(format!("/proc/self/ns/{name}")).expect("our own namespace");
                    Props::default().var("link", link.display())
                })
                .probe(["same-namespace", name, "{link}"])
                .twin(Twin::Host),
        );
    }
    rows.push(
        // One that every sandbox of this table is made with. Another may be the source of a secret.
        attempt("maker-cmdline", "reads the arguments that the sandbox was made with in those of PID 1")
            .set_up(|_| Props::default().var("made-with", Stage::get().probe_dir().display()))
            .probe(["read", "/proc/{target}/cmdline", "{made-with}"])
            .twin(Twin::Host),
    );
    rows.extend(processes());
    rows
}

fn processes() -> Vec<Row> {
    let with_victim = |name: &str, what: &str, args: &[&str]| {
        attempt(name, what)
            .set_up(|scene| {
                let victim = Victim::start(scene.identity, &scene.token);
                Props::default().var("victim", victim.pid()).keep(victim)
            })
            .probe(args.iter().copied())
            .twin(Twin::Host)
    };
    vec![
        with_victim("host-process", "signals a process of the host", &["sees-process", "{victim}"]),
        with_victim(
            "host-environ",
            "reads the environment of a process of the host",
            &["any-environ", "{token}"],
        ),
        with_victim(
            "host-process-root",
            "reads through the root of a process of the host",
            &["process-root", "{victim}", "{secret}", "{token}"],
        ),
        with_victim(
            "host-process-fds",
            "lists the files of a process of the host",
            &["process-fds", "{victim}"],
        ),
        with_victim(
            "any-process-root",
            "reads through any process",
            &["any-process-root", "{secret}", "{token}"],
        ),
        with_victim("host-process-kill", "kills a process of the host", &["kill", "{victim}", "9"]),
        with_victim("host-process-attach", "traces a process of the host", &["attach", "{victim}"]),
        with_victim(
            "host-process-memory",
            "reads the memory of a process of the host",
            &["vm-read", "{victim}"],
        ),
    ]
}

/// Without content on the host there is nothing to hide, and no twin.
fn has_content(path: &str) -> bool {
    use std::io::Read;
    let mut byte = [0u8; 1];
    let read = std::fs::File::open(path).and_then(|mut file| file.read(&mut byte));
    matches!(read, Ok(1)) || (Path::new(path).exists() && !rustix::process::geteuid().is_root())
}
