//! Device nodes: those of the host must not be there, and none can be made.

use std::path::Path;

use crate::attempt::{Twin, attempt};
use crate::row::Row;

/// Devices that lead to the kernel, the disks or other tenants. Rows are made for those that this host has.
const DEVICES: &[&str] = &[
    "/dev/autofs",
    "/dev/btrfs-control",
    "/dev/cpu/0/msr",
    "/dev/cpu_dma_latency",
    "/dev/fuse",
    "/dev/hpet",
    "/dev/hwrng",
    "/dev/kmsg",
    "/dev/kvm",
    "/dev/loop-control",
    "/dev/loop0",
    "/dev/mapper/control",
    "/dev/mem",
    "/dev/net/tun",
    "/dev/nvram",
    "/dev/port",
    "/dev/rtc0",
    "/dev/sda",
    "/dev/snapshot",
    "/dev/tty1",
    "/dev/uinput",
    "/dev/userfaultfd",
    "/dev/vcs",
    "/dev/vda",
    "/dev/vfio/vfio",
    "/dev/vhost-net",
    "/dev/vhost-vsock",
    "/dev/vsock",
];

pub(crate) fn rows() -> Vec<Row> {
    let present = DEVICES.iter().filter(|path| Path::new(path).exists() && opens_on_host(path));
    let opened = present.map(|path| {
        attempt(format!("open{}", path.replace('/', "-")), "opens a device of the host")
            .probe(["open-device", path])
            .twin(Twin::HostAsRoot)
    });
    let made = [("null", "c", "1", "3"), ("zero", "c", "1", "5"), ("kmsg", "c", "1", "11")].map(
        |(name, kind, major, minor)| {
            attempt(format!("make-device-{name}"), "makes a device node in the workspace and opens it")
                .probe(["make-device", "node", kind, major, minor])
                .twin(Twin::HostAsRoot)
        },
    );
    let made_elsewhere = ["/tmp", "/dev/shm", "/dev"].map(|dir| {
        let node = format!("{dir}/rftest-{{token}}");
        attempt(
            format!("make-device-in{}", dir.replace('/', "-")),
            "makes a device node in a private directory",
        )
        .shell(&format!("trap 'rm -f {node}' EXIT; mknod -m 666 {node} c 1 3; : <{node}"))
        .twin(Twin::HostAsRoot)
    });
    opened.chain(made).chain(made_elsewhere).collect()
}

/// Some nodes have no device behind them (or are busy): no twin could show anything.
fn opens_on_host(path: &str) -> bool {
    // Only root can tell; the twins are skipped without it anyway.
    !rustix::process::geteuid().is_root() || std::fs::File::open(path).is_ok()
}
