//! What a process can see of its own confinement, as JSON: the receipt is checked against it.

use std::fs;
use std::path::Path;

use rustix::fs::{Access, statvfs};
use serde_json::{Map, Value, json};

/// Everything at once.
pub(crate) fn collect() -> Value {
    json!({
        "pid": std::process::id(),
        "uid": rustix::process::getuid().as_raw(),
        "gid": rustix::process::getgid().as_raw(),
        "landlock_layers": ringfence_linux::probe_calls::landlock_layers(),
        "status": status(),
        "namespaces": namespaces(),
        "uid_map": id_map("uid_map"),
        "gid_map": id_map("gid_map"),
        "mounts": mounts(),
        "limits": limits(),
        "hostname": rustix::system::uname().nodename().to_string_lossy(),
        "init": read("/proc/1/comm").trim_end(),
        "interfaces": interfaces(),
        "loopback_up": std::net::TcpListener::bind("127.0.0.1:0").is_ok(),
        "environment": std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned()).collect::<Vec<_>>(),
        "cgroup": read("/proc/self/cgroup").lines().collect::<Vec<_>>(),
        "devices": entries("/dev"),
        "processes": entries("/proc").into_iter().filter(|name| name.bytes().all(|b| b.is_ascii_digit())).count(),
        "masked_but_readable": masked_but_readable(),
        "fixed_but_writable": fixed_but_writable(),
        "sizes": sizes(),
        "writable": writable(),
        "cwd": std::env::current_dir().unwrap_or_default(),
        "fds": entries("/proc/self/fd").len(),
    })
}

fn read(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn entries(path: &str) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(path)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// The lines of `/proc/self/status` that speak of privilege.
fn status() -> Value {
    const WANTED: &[&str] = &[
        "CapInh",
        "CapPrm",
        "CapEff",
        "CapBnd",
        "CapAmb",
        "NoNewPrivs",
        "Seccomp",
        "Seccomp_filters",
        "Groups",
    ];
    let text = read("/proc/self/status");
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs
        .filter(|(name, _)| WANTED.contains(name))
        .map(|(name, value)| (name.to_owned(), Value::from(value.trim())))
        .collect::<Map<_, _>>()
        .into()
}

fn namespaces() -> Value {
    entries("/proc/self/ns")
        .into_iter()
        .filter_map(|name| {
            let link = fs::read_link(format!("/proc/self/ns/{name}")).ok()?;
            Some((name, Value::from(link.to_string_lossy())))
        })
        .collect::<Map<_, _>>()
        .into()
}

fn id_map(name: &str) -> Value {
    let text = read(format!("/proc/self/{name}"));
    text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

/// Path, type and flags of each mount.
fn mounts() -> Value {
    read("/proc/self/mountinfo")
        .lines()
        .filter_map(|line| {
            let (head, tail) = line.split_once(" - ")?;
            let fields: Vec<&str> = head.split(' ').collect();
            Some(json!({
                "path": fields.get(4)?,
                "flags": fields.get(5)?.split(',').collect::<Vec<_>>(),
                "type": tail.split(' ').next()?,
                "options": tail.split(' ').nth(2)?.split(',').collect::<Vec<_>>(),
            }))
        })
        .collect()
}

/// Soft and hard limits by their name in `/proc/self/limits`.
fn limits() -> Value {
    read("/proc/self/limits")
        .lines()
        .skip(1)
        .filter_map(|line| {
            let (name, rest) = line.split_at_checked(26)?;
            let mut values = rest.split_whitespace();
            Some((name.trim().to_owned(), json!([values.next()?, values.next()?])))
        })
        .collect::<Map<_, _>>()
        .into()
}

fn interfaces() -> Vec<String> {
    let text = read("/proc/net/dev");
    text.lines().skip(2).filter_map(|line| Some(line.split_once(':')?.0.trim().to_owned())).collect()
}

/// Bytes and inodes of the private filesystems.
fn sizes() -> Value {
    let home = std::env::var("HOME").unwrap_or_default();
    ["/tmp", "/dev/shm", "/workspace", home.as_str()]
        .into_iter()
        .filter_map(|path| {
            let stat = statvfs(path).ok()?;
            Some((path.to_owned(), json!({"bytes": stat.f_blocks * stat.f_frsize, "inodes": stat.f_files})))
        })
        .collect::<Map<_, _>>()
        .into()
}

/// The OCI runtime's masked paths that give something away all the same.
fn masked_but_readable() -> Vec<&'static str> {
    const MASKED: &[&str] = &[
        "/proc/acpi",
        "/proc/asound",
        "/proc/interrupts",
        "/proc/kcore",
        "/proc/keys",
        "/proc/latency_stats",
        "/proc/timer_list",
        "/proc/timer_stats",
        "/proc/sched_debug",
        "/proc/scsi",
        "/sys/firmware",
        "/sys/devices/virtual/powercap",
    ];
    let mut byte = [0u8; 1];
    let mut shows = |path: &str| {
        let entries = fs::read_dir(path).map_or(0, Iterator::count);
        let bytes = fs::File::open(path).and_then(|mut file| std::io::Read::read(&mut file, &mut byte));
        entries > 0 || bytes.is_ok_and(|bytes| bytes > 0)
    };
    MASKED.iter().copied().filter(|path| shows(path)).collect()
}

/// The OCI runtime's read-only paths that can be written all the same; files are opened, not written.
fn fixed_but_writable() -> Vec<&'static str> {
    const FIXED: &[&str] = &[
        "/proc/bus",
        "/proc/fs",
        "/proc/irq",
        "/proc/sys",
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/kernel/hostname",
        "/proc/sys/net/ipv4/ip_forward",
        "/proc/sysrq-trigger",
    ];
    FIXED.iter().copied().filter(|path| rustix::fs::access(*path, Access::WRITE_OK).is_ok()).collect()
}

/// Which of the usual directories can be written.
fn writable() -> Value {
    let home = std::env::var("HOME").unwrap_or_default();
    [
        "/",
        "/usr",
        "/etc",
        "/bin",
        "/dev",
        "/proc/sys",
        "/sys",
        "/tmp",
        "/dev/shm",
        "/workspace",
        home.as_str(),
    ]
    .into_iter()
    .map(|path| (path.to_owned(), Value::from(rustix::fs::access(path, Access::WRITE_OK).is_ok())))
    .collect::<Map<_, _>>()
    .into()
}
