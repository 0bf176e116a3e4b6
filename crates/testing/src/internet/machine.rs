//! What is special about the machine's own files: its name server, its hosts file and the authority it trusts.

use std::fs;
use std::path::Path;
use std::process::Command;

use rustix::mount::{MountFlags, UnmountFlags, mount, mount_bind, unmount};

use super::daemon::show;
use super::{DNS, PATH};

/// Names that only the machine's hosts file knows.
const HOSTS: &str = "127.0.0.1 localhost\n::1 localhost\n192.0.2.10 by-hosts-file.test\n\
                     127.0.0.1 loopback-by-hosts-file.test\n10.1.2.3 private-by-hosts-file.test\n";

pub(super) fn resolv_conf() -> String {
    format!("nameserver {DNS}\noptions timeout:2 attempts:2\n")
}

/// Furnish a new mount namespace for the machine.
pub(super) fn furnish(authority: &str) {
    const SCRATCH: &str = "/mnt";
    mount("tmpfs", SCRATCH, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, Some(c"mode=0755"))
        .expect("mount a tmpfs");
    show(SCRATCH, "resolv.conf", &resolv_conf());
    show(SCRATCH, "hosts", HOSTS);
    let certificates = format!("{SCRATCH}/certs");
    fs::create_dir(&certificates).expect("mkdir");
    // As one bundle, and by hash: programs differ in which they read.
    for name in ["ca-certificates.crt", "test-authority.pem"] {
        fs::write(format!("{certificates}/{name}"), authority).expect("write the authority");
    }
    let mut rehash = Command::new("openssl");
    rehash.args(["rehash", &certificates]).env("PATH", PATH);
    assert!(rehash.output().expect("openssl starts").status.success(), "openssl rehash failed");
    assert!(Path::new("/etc/ssl/certs").is_dir(), "ca-certificates is installed: ./test installs it");
    mount_bind(&certificates, "/etc/ssl/certs").expect("bind the trusted authorities");
    // The binds keep what they show.
    unmount(SCRATCH, UnmountFlags::DETACH).expect("unmount the scratch place");
    // As many distributions have it: anybody may ping.
    fs::write("/proc/sys/net/ipv4/ping_group_range", "0 2147483647").expect("let everybody ping");
}
