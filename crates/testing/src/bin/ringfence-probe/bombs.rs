//! Taking more than the limits give: processes, memory, disk, inodes, fds; and outliving the run.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use ringfence_linux::probe_calls;

use crate::verdict::{Attempted, held, number, word};

pub(crate) fn attempt(name: &str, args: &[String]) -> Option<Attempted> {
    Some(match name {
        "fork-bomb" => fork_bomb(args),
        "thread-bomb" => thread_bomb(args),
        "memory-bomb" => memory_bomb(args),
        "disk-bomb" => disk_bomb(args),
        "inode-bomb" => inode_bomb(args),
        "fd-bomb" => fd_bomb(args),
        "dump-core" => dump_core(),
        "linger" => linger(args),
        "linger-session" => linger_session(args),
        "linger-double-fork" => linger_double_fork(args),
        "linger-stubborn" => linger_stubborn(args),
        "linger-relay" => linger_relay(args),
        _ => return None,
    })
}

const LONG: Duration = Duration::from_secs(60);

/// `fork-bomb N`: N children that stay.
fn fork_bomb(args: &[String]) -> Attempted {
    let wanted: usize = number(args, 0)?;
    let mut children = Vec::new();
    let mut why = None;
    while children.len() < wanted && why.is_none() {
        match probe_calls::fork_child(|| {
            std::thread::sleep(LONG);
            0
        }) {
            Ok(pid) => children.push(pid),
            Err(error) => why = Some(error),
        }
    }
    for pid in &children {
        let _ = probe_calls::kill(*pid, 9);
    }
    match why {
        None => Ok(format!("{wanted} processes")),
        Some(error) => held(format!("{error} after {} processes", children.len())),
    }
}

/// `thread-bomb N`
fn thread_bomb(args: &[String]) -> Attempted {
    let wanted: usize = number(args, 0)?;
    for count in 0..wanted {
        let builder = std::thread::Builder::new().stack_size(64 << 10);
        if let Err(error) = builder.spawn(|| std::thread::sleep(LONG)) {
            return held(format!("{error} after {count} threads"));
        }
    }
    Ok(format!("{wanted} threads"))
}

/// `memory-bomb MEGABYTES`: touch that much.
fn memory_bomb(args: &[String]) -> Attempted {
    let wanted: usize = number(args, 0)?;
    let mut blocks: Vec<Vec<u8>> = Vec::new();
    for count in 0..wanted {
        let mut block = Vec::new();
        if let Err(error) = block.try_reserve_exact(1 << 20) {
            return held(format!("{error} after {count} MB"));
        }
        block.resize(1 << 20, count as u8 | 1);
        blocks.push(std::hint::black_box(block));
    }
    Ok(format!("{} MB", blocks.len()))
}

/// `disk-bomb DIR MEGABYTES`
fn disk_bomb(args: &[String]) -> Attempted {
    let (dir, wanted): (_, usize) = (word(args, 0)?, number(args, 1)?);
    let path = Path::new(dir).join(format!("bomb-{}", std::process::id()));
    let mut file = File::create(&path)?;
    let block = vec![7u8; 1 << 20];
    for count in 0..wanted {
        if let Err(error) = file.write_all(&block) {
            // The file stays: whoever set the limit can see that it was reached.
            return held(format!("{error} after {count} MB"));
        }
    }
    let _ = fs::remove_file(&path);
    Ok(format!("{wanted} MB"))
}

/// `inode-bomb DIR N`: N empty files.
fn inode_bomb(args: &[String]) -> Attempted {
    let (dir, wanted): (_, usize) =
        (Path::new(word(args, 0)?).join(format!("inodes-{}", std::process::id())), number(args, 1)?);
    fs::create_dir(&dir)?;
    let mut result = Ok(format!("{wanted} files"));
    for count in 0..wanted {
        if let Err(error) = File::create(dir.join(count.to_string())) {
            result = held(format!("{error} after {count} files"));
            break;
        }
    }
    let _ = fs::remove_dir_all(&dir);
    result
}

/// `fd-bomb N`
fn fd_bomb(args: &[String]) -> Attempted {
    let wanted: usize = number(args, 0)?;
    // As many as the hard limit gives: the soft one is only a habit.
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let all = rustix::process::Rlimit { current: limit.maximum, maximum: limit.maximum };
    let _ = rustix::process::setrlimit(rustix::process::Resource::Nofile, all);
    let mut files = Vec::new();
    for count in 0..wanted {
        match File::open("/dev/null") {
            Ok(file) => files.push(file),
            Err(error) => return held(format!("{error} after {count} files")),
        }
    }
    Ok(format!("{} open files", files.len()))
}

/// Die in a way that dumps core, with the limit raised as far as it goes.
fn dump_core() -> Attempted {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Core);
    let all = rustix::process::Rlimit { current: limit.maximum, maximum: limit.maximum };
    let _ = rustix::process::setrlimit(rustix::process::Resource::Core, all);
    std::process::abort();
}

/// `linger MARKER`: just stay.
fn linger(args: &[String]) -> Attempted {
    word(args, 0)?;
    println!("lingering");
    std::thread::sleep(LONG);
    Ok("was not stopped".into())
}

/// `linger-session MARKER`: leave the session first.
fn linger_session(args: &[String]) -> Attempted {
    probe_calls::fork_child(|| {
        let _ = rustix::process::setsid();
        std::thread::sleep(LONG);
        0
    })?;
    linger(args)
}

/// `linger-double-fork MARKER`: become nobody's child.
fn linger_double_fork(args: &[String]) -> Attempted {
    probe_calls::fork_child(|| {
        let _ = rustix::process::setsid();
        let _ = probe_calls::fork_child(|| {
            std::thread::sleep(LONG);
            0
        });
        0
    })?;
    linger(args)
}

/// `linger-stubborn MARKER`: deaf to every signal that can be ignored.
fn linger_stubborn(args: &[String]) -> Attempted {
    probe_calls::ignore_signals();
    linger_double_fork(args)
}

/// `linger-relay MARKER`: never the same process for long. Bounded, so that a twin ends by itself.
fn linger_relay(args: &[String]) -> Attempted {
    probe_calls::fork_child(|| {
        let _ = rustix::process::setsid();
        hand_on(500)
    })?;
    linger(args)
}

/// The child does the same after a moment; the parent ends at once.
fn hand_on(times: u32) -> i32 {
    if times == 0 {
        return 0;
    }
    let next = probe_calls::fork_child(|| {
        std::thread::sleep(Duration::from_millis(20));
        hand_on(times - 1)
    });
    i32::from(next.is_err())
}
