//! Reading, writing and renaming files that are not the sandbox's: by path, through links, handles and devices.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use ringfence_linux::probe_calls;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RenameFlags};

use crate::verdict::{Attempted, Stop, held, number, word};

pub(crate) fn attempt(name: &str, args: &[String]) -> Option<Attempted> {
    Some(match name {
        "read" => read(args),
        "read-any" => read_any(args),
        "read-through-swaps" => read_through_swaps(args),
        "write-through-swaps" => write_through_swaps(args),
        "list" => list(args),
        "stat" => stat(args),
        "write" => write(args),
        "open-write" => open_write(args),
        "may-write" => may_write(args),
        "create" => create(args),
        "create-deep" => create_deep(args),
        "overwrite-exe" => overwrite_exe(),
        "mkdir" => mkdir(args),
        "rename" => rename(args),
        "exchange" => exchange(args),
        "unlink" => unlink(args),
        "truncate" => truncate(args),
        "chmod" => chmod(args),
        "chown" => chown(args),
        "touch" => touch(args),
        "set-xattr" => set_xattr(args),
        "symlink" => symlink(args),
        "link" => link(args),
        "link-and-write" => link_and_write(args),
        "name-unnamed-file" => name_unnamed_file(args),
        "open-handle" => open_handle(args),
        "make-device" => make_device(args),
        "open-device" => open_device(args),
        "become-owner" => become_owner(),
        "fill-in-place" => fill_in_place(args),
        _ => return None,
    })
}

/// `read PATH TOKEN`: the file holds the token.
fn read(args: &[String]) -> Attempted {
    let (path, token) = (word(args, 0)?, word(args, 1)?);
    let bytes = fs::read(path)?;
    if String::from_utf8_lossy(&bytes).contains(token) {
        Ok(format!("read the secret in {path}"))
    } else {
        held(format!("{path} can be read but holds something else"))
    }
}

/// `read-any PATH`: the file has at least one byte.
fn read_any(args: &[String]) -> Attempted {
    let path = word(args, 0)?;
    let mut byte = [0u8; 1];
    match OpenOptions::new().read(true).open(path)?.read(&mut byte)? {
        0 => held(format!("{path} is empty")),
        _ => Ok(format!("read {path}")),
    }
}

/// `read-through-swaps PATH TOKEN UNTIL`: read a path that somebody swaps meanwhile, until the file UNTIL is there.
fn read_through_swaps(args: &[String]) -> Attempted {
    let (path, token, until) = (word(args, 0)?, word(args, 1)?, word(args, 2)?);
    let mut reads = 0u64;
    while !Path::new(until).exists() {
        if fs::read(path).is_ok_and(|bytes| String::from_utf8_lossy(&bytes).contains(token)) {
            return Ok(format!("read the secret after {reads} reads"));
        }
        reads += 1;
    }
    held(format!("{reads} reads, none saw the secret"))
}

/// `write-through-swaps PATH UNTIL`: write a path that somebody swaps meanwhile; the host looks where it landed.
fn write_through_swaps(args: &[String]) -> Attempted {
    let (path, until) = (word(args, 0)?, word(args, 1)?);
    let mut writes = 0u64;
    while !Path::new(until).exists() {
        if fs::write(path, "pwned").is_ok() {
            writes += 1;
        }
    }
    Ok(format!("{writes} writes went somewhere"))
}

fn list(args: &[String]) -> Attempted {
    let path = word(args, 0)?;
    match fs::read_dir(path)?.count() {
        0 => held(format!("{path} is empty")),
        entries => Ok(format!("{entries} entries in {path}")),
    }
}

fn stat(args: &[String]) -> Attempted {
    let path = word(args, 0)?;
    Ok(format!("{path} has {} bytes", fs::metadata(path)?.len()))
}

/// `write PATH`: replace the content.
fn write(args: &[String]) -> Attempted {
    let path = word(args, 0)?;
    let mut file = OpenOptions::new().write(true).truncate(true).open(path)?;
    file.write_all(b"pwned\n")?;
    Ok(format!("wrote {path}"))
}

/// `open-write PATH`: open for writing, write nothing. For files where a byte would change the machine.
fn open_write(args: &[String]) -> Attempted {
    open_for_writing(word(args, 0)?)
}

fn open_for_writing(path: &str) -> Attempted {
    OpenOptions::new().append(true).open(path)?;
    Ok(format!("opened {path} for writing"))
}

/// `may-write DIR`: the kernel would let us make a file there.
fn may_write(args: &[String]) -> Attempted {
    let path = word(args, 0)?;
    rustix::fs::access(path, rustix::fs::Access::WRITE_OK)?;
    Ok(format!("{path} can be written"))
}

/// `create PATH`: make a new file with content.
fn create(args: &[String]) -> Attempted {
    let path = Path::new(word(args, 0)?);
    OpenOptions::new().write(true).create_new(true).open(path)?.write_all(b"pwned\n")?;
    Ok(format!("created {}", path.display()))
}

/// `create-deep PATH`: make a new file with content, parents too.
fn create_deep(args: &[String]) -> Attempted {
    if let Some(parent) = Path::new(word(args, 0)?).parent() {
        fs::create_dir_all(parent)?;
    }
    create(args)
}

fn mkdir(args: &[String]) -> Attempted {
    let path = word(args, 0)?;
    fs::create_dir(path)?;
    Ok(format!("made {path}"))
}

fn rename(args: &[String]) -> Attempted {
    let (from, to) = (word(args, 0)?, word(args, 1)?);
    fs::rename(from, to)?;
    Ok(format!("renamed {from} to {to}"))
}

/// `exchange A B`: swap two names in one step.
fn exchange(args: &[String]) -> Attempted {
    let (a, b) = (word(args, 0)?, word(args, 1)?);
    rustix::fs::renameat_with(CWD, a, CWD, b, RenameFlags::EXCHANGE)?;
    Ok(format!("exchanged {a} and {b}"))
}

fn unlink(args: &[String]) -> Attempted {
    let path = word(args, 0)?;
    if fs::symlink_metadata(path)?.is_dir() {
        fs::remove_dir(path)?
    } else {
        fs::remove_file(path)?
    }
    Ok(format!("removed {path}"))
}

fn truncate(args: &[String]) -> Attempted {
    let path = word(args, 0)?;
    File::options().write(true).open(path)?.set_len(0)?;
    Ok(format!("truncated {path}"))
}

fn chmod(args: &[String]) -> Attempted {
    let path = word(args, 0)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o777))?;
    Ok(format!("changed the mode of {path}"))
}

/// `chown PATH`: give the file to the owner it already has, which needs the same rights.
fn chown(args: &[String]) -> Attempted {
    let path = word(args, 0)?;
    let meta = fs::metadata(path)?;
    std::os::unix::fs::chown(path, Some(meta.uid()), Some(meta.gid()))?;
    Ok(format!("changed the owner of {path}"))
}

fn touch(args: &[String]) -> Attempted {
    let path = word(args, 0)?;
    let now = rustix::fs::Timestamps {
        last_access: rustix::fs::Timespec { tv_sec: 1, tv_nsec: 0 },
        last_modification: rustix::fs::Timespec { tv_sec: 1, tv_nsec: 0 },
    };
    rustix::fs::utimensat(CWD, path, &now, AtFlags::empty())?;
    Ok(format!("changed the times of {path}"))
}

fn set_xattr(args: &[String]) -> Attempted {
    let path = word(args, 0)?;
    rustix::fs::setxattr(path, "user.ringfence-probe", b"1", rustix::fs::XattrFlags::empty())?;
    Ok(format!("set an attribute of {path}"))
}

fn symlink(args: &[String]) -> Attempted {
    let (target, path) = (word(args, 0)?, word(args, 1)?);
    std::os::unix::fs::symlink(target, path)?;
    Ok(format!("made the link {path}"))
}

fn link(args: &[String]) -> Attempted {
    let (from, to) = (word(args, 0)?, word(args, 1)?);
    fs::hard_link(from, to)?;
    Ok(format!("linked {from} as {to}"))
}

/// `link-and-write FROM TO`: write a file by a second name.
fn link_and_write(args: &[String]) -> Attempted {
    link(args)?;
    write(&args[1..])
}

/// `name-unnamed-file DIR PATH`: make a file without a name in DIR, then link it as PATH.
fn name_unnamed_file(args: &[String]) -> Attempted {
    let (dir, path) = (word(args, 0)?, word(args, 1)?);
    let fd = rustix::fs::open(dir, OFlags::TMPFILE | OFlags::RDWR, Mode::from_raw_mode(0o644))?;
    rustix::io::write(&fd, b"pwned\n")?;
    let magic = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&fd));
    rustix::fs::linkat(CWD, magic, CWD, path, AtFlags::SYMLINK_FOLLOW)?;
    Ok(format!("gave an unnamed file the name {path}"))
}

fn open_handle(args: &[String]) -> Attempted {
    let path = word(args, 0)?;
    probe_calls::open_by_handle(Path::new(path))?;
    Ok(format!("opened {path} by its handle"))
}

/// `make-device PATH TYPE MAJOR MINOR`: make a device node and open it.
fn make_device(args: &[String]) -> Attempted {
    let path = word(args, 0)?;
    let kind = match word(args, 1)? {
        "c" => FileType::CharacterDevice,
        "b" => FileType::BlockDevice,
        other => return Err(Stop::Broken(format!("{other} is no device type"))),
    };
    let device = rustix::fs::makedev(number(args, 2)?, number(args, 3)?);
    rustix::fs::mknodat(CWD, path, kind, Mode::from_raw_mode(0o666), device)?;
    File::open(path)?;
    Ok(format!("made and opened the device {path}"))
}

fn open_device(args: &[String]) -> Attempted {
    let path = word(args, 0)?;
    File::open(path)?;
    Ok(format!("opened {path}"))
}

/// Run as a setuid program: did it raise us?
fn become_owner() -> Attempted {
    let (real, effective) = (rustix::process::getuid().as_raw(), rustix::process::geteuid().as_raw());
    if real == effective {
        return held(format!("still uid {real}"));
    }
    Ok(format!("uid {real} acts as {effective}"))
}

/// `fill-in-place PATH`: write through a shared mapping's sibling, `O_RDWR` without truncation.
fn fill_in_place(args: &[String]) -> Attempted {
    let path = word(args, 0)?;
    OpenOptions::new().read(true).write(true).open(path)?.write_all(b"pwned")?;
    Ok(format!("wrote over {path}"))
}

/// Keep the program's own file, become another program, then open the file for writing: a running program
/// can't be written, one that was left can.
fn overwrite_exe() -> Attempted {
    use std::os::fd::AsRawFd;
    use std::os::unix::process::CommandExt;
    let file = rustix::fs::open("/proc/self/exe", OFlags::PATH, Mode::empty())?;
    rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty())?;
    let script = format!(
        "if true >>/proc/self/fd/{}; then echo 'escaped: opened the program for writing'; else echo held: sh; exit 1; fi",
        file.as_raw_fd()
    );
    Err(std::process::Command::new("/bin/sh").args(["-c", &script]).exec().into())
}
