//! User and group id maps of a user namespace.

use std::fs::OpenOptions;
use std::io::{self, Write};

/// One id inside a user namespace and the id that it is outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdMap {
    pub inside: u32,
    pub outside: u32,
}

fn write_proc(process: &str, file: &str, text: &str) -> io::Result<()> {
    // One write: the kernel takes a map whole or not at all.
    OpenOptions::new().write(true).open(format!("/proc/{process}/{file}"))?.write_all(text.as_bytes())
}

/// Give up setgroups(2) in the namespace of `process` ("self" or a pid): an ordinary user must, before a gid map.
pub fn deny_setgroups(process: &str) -> io::Result<()> {
    write_proc(process, "setgroups", "deny")
}

/// Write both maps of `process` ("self" or a pid).
pub fn write_id_map(process: &str, user: IdMap, group: IdMap) -> io::Result<()> {
    write_proc(process, "uid_map", &format!("{} {} 1\n", user.inside, user.outside))?;
    write_proc(process, "gid_map", &format!("{} {} 1\n", group.inside, group.outside))
}
