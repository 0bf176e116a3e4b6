//! The one change of a protected `.git/config` that everyday git makes: which remote branch a branch follows.
//!
//! git writes `config.lock` and renames it over `config`, which is a mountpoint and refuses. Where the two differ in
//! tracking sections only, the owner of the sandbox carries the change out itself; everything else stays refused.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, open, openat, unlinkat};

/// A config is small; what is larger is not git's own work.
const MOST_BYTES: u64 = 1 << 20;

/// The git directory of a repository that was there at the start.
#[derive(Debug)]
pub(crate) struct GitDirectory {
    fd: OwnedFd,
    config: u64,
}

impl GitDirectory {
    /// `config` is the inode that is pinned.
    pub(super) fn open(path: &Path, config: u64) -> io::Result<Self> {
        let fd =
            open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self { fd, config })
    }

    /// Is `directory` this one?
    pub(crate) fn is(&self, directory: &OwnedFd) -> bool {
        match (fstat(&self.fd), fstat(directory)) {
            (Ok(own), Ok(other)) => own.st_dev == other.st_dev && own.st_ino == other.st_ino,
            _ => false,
        }
    }

    /// Take `config.lock` over into `config` if only tracking differs. What is compared is what is written: the lock
    /// file may change under our hands.
    pub(crate) fn accept_tracking(&self) -> io::Result<bool> {
        let new = self.read("config.lock")?;
        let old = self.read("config")?;
        if !differs_in_tracking_only(&old, &new) {
            return Ok(false);
        }
        let config: File =
            openat(&self.fd, "config", OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?
                .into();
        if fstat(&config)?.st_ino != self.config {
            return Ok(false);
        }
        config.write_all_at(new.as_bytes(), 0)?;
        config.set_len(new.len() as u64)?;
        unlinkat(self.fd.as_fd(), "config.lock", AtFlags::empty())?;
        Ok(true)
    }

    fn read(&self, name: &str) -> io::Result<String> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat(&self.fd, name, flags, Mode::empty())?;
        if FileType::from_raw_mode(fstat(&file)?.st_mode) != FileType::RegularFile {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut text = String::new();
        File::from(file).take(MOST_BYTES + 1).read_to_string(&mut text)?;
        if text.len() as u64 > MOST_BYTES { Err(io::ErrorKind::InvalidInput.into()) } else { Ok(text) }
    }
}

fn differs_in_tracking_only(old: &str, new: &str) -> bool {
    let remotes: Vec<&str> =
        old.lines().filter_map(|line| line.strip_prefix("[remote \"")?.strip_suffix("\"]")).collect();
    without_tracking(old, &remotes) == without_tracking(new, &remotes)
}

/// The text less the `[branch "…"]` sections that say nothing but which branch of a known remote is followed.
fn without_tracking(text: &str, remotes: &[&str]) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut section = String::new();
    let mut plain = false;
    for line in text.split_inclusive('\n') {
        if line.trim_start().starts_with('[') {
            if !plain {
                kept.push_str(&section);
            }
            section.clear();
            plain = is_branch_header(line);
        } else {
            plain &= is_tracking(line, remotes);
        }
        section.push_str(line);
    }
    if !plain {
        kept.push_str(&section);
    }
    kept
}

/// Exactly as git writes it: anything odd, such as a setting on the header's own line, is not a plain header.
fn is_branch_header(line: &str) -> bool {
    let name = line.strip_prefix("[branch \"").and_then(|rest| rest.strip_suffix("\"]\n"));
    name.is_some_and(is_branch_name)
}

fn is_branch_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '-' | '_' | '.' | '+' | '@' | '#');
    !name.is_empty() && name.chars().all(plain)
}

fn is_tracking(line: &str, remotes: &[&str]) -> bool {
    let Some((key, value)) =
        line.strip_prefix('\t').and_then(|line| line.strip_suffix('\n')?.split_once(" = "))
    else {
        return false;
    };
    match key {
        // A remote that is no name would be taken for an address, and an address can be a program.
        "remote" | "pushRemote" => value == "." || remotes.contains(&value),
        "merge" => value.strip_prefix("refs/heads/").is_some_and(is_branch_name),
        "rebase" => matches!(value, "true" | "false"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "[core]\n\tbare = false\n[remote \"origin\"]\n\turl = x\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n";

    #[test]
    fn following_a_branch_of_a_known_remote_is_tracking() {
        let new = format!("{OLD}[branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n");
        assert!(differs_in_tracking_only(OLD, &new));
        assert!(differs_in_tracking_only(&new, OLD));
    }

    #[test]
    fn anything_else_is_not() {
        for added in [
            "[core]\n\tfsmonitor = ./evil\n",
            "[branch \"main\"]\n\tremote = ext::sh -c evil\n\tmerge = refs/heads/main\n",
            "[branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n\tmergeOptions = --evil\n",
            "[branch \"a\"] remote = origin\n",
            "[branch \"a\"]\n\tremote = origin \\\n\n[alias]\n\tst = !evil\n",
            "[branch \"a\\\"]\n[alias\"]\n\tremote = origin\n",
            "[branch \"a\"]\n\tremote = origin\n;[core]\n\tpager = evil\n",
            "\tpager = evil\n",
        ] {
            assert!(!differs_in_tracking_only(OLD, &format!("{OLD}{added}")), "{added}");
        }
        assert!(!differs_in_tracking_only(OLD, ""));
    }
}
