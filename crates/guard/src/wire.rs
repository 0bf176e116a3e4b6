//! What guard and the sandbox's owner say to each other: one small message a datagram.

use std::ffi::{CString, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use ringfence_linux::Exited;

/// From the owner to guard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToGuard {
    /// Send this signal to the command's process group.
    Signal(i32),
    /// Stop every process of the sandbox, or let them go on.
    StopAll,
    ContinueAll,
    /// Make so many TCP sockets, and send them out.
    Sockets {
        v4: u8,
        v6: u8,
    },
    /// Start a command of a session. With its stdio, and before that, if `elsewhere`, a file with what to run.
    Exec {
        id: u32,
        elsewhere: bool,
        program: Vec<u8>,
    },
    /// Send a signal to a process group of a session.
    SignalGroup {
        group: i32,
        signal: i32,
    },
    /// Kill all that a command of a session started, wherever it went.
    KillTree {
        id: u32,
    },
    /// Start a worker that serves files on the channel that comes with this.
    Files,
    /// Send two sockets out, IPv4 and IPv6, to connect to a port of this loopback with.
    Plug {
        id: u32,
    },
    /// Tell how full the private layer is.
    Space {
        id: u32,
    },
}

/// What to run in a session, as it travels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    pub argv: Vec<CString>,
    pub environment: Vec<CString>,
    /// Where a name without a slash is looked up.
    pub path: OsString,
    pub directory: PathBuf,
    /// Rows and columns of a terminal of its own.
    pub terminal: Option<(u16, u16)>,
}

/// What the command was doing when it could not be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExecStage {
    Directory,
    Stdio,
    Program,
}

/// From the sandbox to its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromGuard {
    /// The sandbox's network namespace is made; with a socket that tells of its unix sockets, then others of its
    /// shape.
    Network,
    /// Sockets made in the sandbox's network namespace: the rest of its shape, or those that were asked for.
    Sockets,
    /// The walls are up; with the seccomp listener and, if asked for, the terminal's master end.
    Ready,
    /// A step of the set-up failed.
    Failed { step: String, subject: String, errno: i32 },
    /// The command could not be started.
    NotStarted { stage: ExecStage, errno: i32 },
    /// The command ended; the private places that had no space left then, as the bits that the owner gave them.
    Exited { how: Exited, full: u8 },
    /// A command of a session, or why it did not start.
    InSession { id: u32, news: News },
    /// The sockets that were asked for under this number; none if they could not be made.
    Plug { id: u32 },
    /// Bytes used and in all.
    Space { id: u32, used: u64, all: u64 },
}

/// What became of a command in a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// It runs, below its shim; with its terminal's master end if it has one.
    Started {
        pid: i32,
        shim: i32,
    },
    NotStarted {
        stage: ExecStage,
        errno: i32,
    },
    /// It ended; what it left may still run. CPU time in microseconds, the largest resident size in bytes.
    Ended {
        how: Exited,
        full: u8,
        cpu: u64,
        memory: u64,
    },
    /// Nothing of it is left.
    Gone,
}

fn number(bytes: &[u8]) -> Option<i32> {
    Some(i32::from_le_bytes(bytes.get(..4)?.try_into().ok()?))
}

fn long(bytes: &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(..8)?.try_into().ok()?))
}

fn tagged(tag: u8, value: i32) -> Vec<u8> {
    let mut bytes = vec![tag];
    bytes.extend(value.to_le_bytes());
    bytes
}

fn stage_of(byte: u8) -> ExecStage {
    match byte {
        0 => ExecStage::Directory,
        1 => ExecStage::Stdio,
        _ => ExecStage::Program,
    }
}

impl ToGuard {
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Signal(signal) => tagged(b's', *signal),
            Self::StopAll => vec![b'z'],
            Self::ContinueAll => vec![b'c'],
            Self::Sockets { v4, v6 } => vec![b'n', *v4, *v6],
            Self::Exec { id, elsewhere, program } => {
                let mut bytes = tagged(b'x', *id as i32);
                bytes.push(u8::from(*elsewhere));
                bytes.extend(program);
                bytes
            }
            Self::SignalGroup { group, signal } => {
                let mut bytes = tagged(b'g', *group);
                bytes.extend(signal.to_le_bytes());
                bytes
            }
            Self::KillTree { id } => tagged(b'k', *id as i32),
            Self::Files => vec![b'f'],
            Self::Plug { id } => tagged(b'p', *id as i32),
            Self::Space { id } => tagged(b'd', *id as i32),
        }
    }

    pub fn decode(bytes: &[u8]) -> Option<Self> {
        match bytes.split_first()? {
            (b's', rest) => Some(Self::Signal(number(rest)?)),
            (b'z', []) => Some(Self::StopAll),
            (b'c', []) => Some(Self::ContinueAll),
            (b'n', [v4, v6]) => Some(Self::Sockets { v4: *v4, v6: *v6 }),
            (b'x', rest) => Some(Self::Exec {
                id: number(rest)? as u32,
                elsewhere: *rest.get(4)? == 1,
                program: rest.get(5..)?.to_vec(),
            }),
            (b'g', rest) => Some(Self::SignalGroup { group: number(rest)?, signal: number(rest.get(4..)?)? }),
            (b'k', rest) => Some(Self::KillTree { id: number(rest)? as u32 }),
            (b'f', []) => Some(Self::Files),
            (b'p', rest) => Some(Self::Plug { id: number(rest)? as u32 }),
            (b'd', rest) => Some(Self::Space { id: number(rest)? as u32 }),
            _ => None,
        }
    }
}

/// Strings behind each other, each with its length before it.
struct Strings(Vec<u8>);

impl Strings {
    fn add(&mut self, text: &[u8]) {
        self.0.extend((text.len() as u32).to_le_bytes());
        self.0.extend(text);
    }

    fn add_all(&mut self, texts: &[CString]) {
        self.0.extend((texts.len() as u32).to_le_bytes());
        for text in texts {
            self.add(text.as_bytes());
        }
    }
}

/// The same, taken apart.
struct Parts<'a>(&'a [u8]);

impl<'a> Parts<'a> {
    fn count(&mut self) -> Option<usize> {
        let (count, rest) = self.0.split_at_checked(4)?;
        self.0 = rest;
        usize::try_from(number(count)?).ok()
    }

    fn next(&mut self) -> Option<&'a [u8]> {
        let length = self.count()?;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(text)
    }

    fn strings(&mut self) -> Option<Vec<CString>> {
        let count = self.count()?;
        // Each takes four bytes at least: a count can't make room for more than there is.
        let mut strings = Vec::with_capacity(count.min(self.0.len() / 4));
        for _ in 0..count {
            strings.push(CString::new(self.next()?).ok()?);
        }
        Some(strings)
    }
}

impl Program {
    pub fn encode(&self) -> Vec<u8> {
        let mut strings = Strings(Vec::new());
        strings.add_all(&self.argv);
        strings.add_all(&self.environment);
        strings.add(self.path.as_bytes());
        strings.add(self.directory.as_os_str().as_bytes());
        let mut bytes = strings.0;
        if let Some((rows, columns)) = self.terminal {
            bytes.extend(rows.to_le_bytes());
            bytes.extend(columns.to_le_bytes());
        }
        bytes
    }

    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut parts = Parts(bytes);
        let argv = parts.strings()?;
        let environment = parts.strings()?;
        let path = OsString::from_vec(parts.next()?.to_vec());
        let directory = PathBuf::from(OsString::from_vec(parts.next()?.to_vec()));
        let terminal = match *parts.0 {
            [] => None,
            [a, b, c, d] => Some((u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d]))),
            _ => return None,
        };
        Some(Self { argv, environment, path, directory, terminal })
    }
}

fn encode_exited(how: Exited) -> Vec<u8> {
    match how {
        Exited::Code(code) => tagged(b'e', code),
        Exited::Signal(signal) => tagged(b'k', signal),
    }
}

fn decode_exited(bytes: &[u8]) -> Option<Exited> {
    match bytes.split_first()? {
        (b'e', rest) => Some(Exited::Code(number(rest)?)),
        (b'k', rest) => Some(Exited::Signal(number(rest)?)),
        _ => None,
    }
}

impl News {
    fn encode(self) -> Vec<u8> {
        match self {
            Self::Started { pid, shim } => {
                let mut bytes = tagged(b's', pid);
                bytes.extend(shim.to_le_bytes());
                bytes
            }
            Self::NotStarted { stage, errno } => {
                let mut bytes = tagged(b'n', errno);
                bytes.push(stage as u8);
                bytes
            }
            Self::Ended { how, full, cpu, memory } => {
                let mut bytes = encode_exited(how);
                bytes.push(full);
                bytes.extend(cpu.to_le_bytes());
                bytes.extend(memory.to_le_bytes());
                bytes
            }
            Self::Gone => vec![b'g'],
        }
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        Some(match bytes.split_first()? {
            (b's', rest) => Self::Started { pid: number(rest)?, shim: number(rest.get(4..)?)? },
            (b'n', rest) => Self::NotStarted { stage: stage_of(*rest.get(4)?), errno: number(rest)? },
            (b'g', []) => Self::Gone,
            (b'e' | b'k', rest) => Self::Ended {
                how: decode_exited(bytes)?,
                full: *rest.get(4)?,
                cpu: long(rest.get(5..)?)?,
                memory: long(rest.get(13..)?)?,
            },
            _ => return None,
        })
    }
}

impl FromGuard {
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Network => vec![b'w'],
            Self::Sockets => vec![b's'],
            Self::Ready => vec![b'r'],
            Self::Failed { step, subject, errno } => {
                let mut bytes = tagged(b'f', *errno);
                // A datagram has a size; a path that long is cut, not lost.
                bytes.extend(step.bytes().take(256));
                bytes.push(0);
                bytes.extend(subject.bytes().take(4096));
                bytes
            }
            Self::NotStarted { stage, errno } => {
                let mut bytes = tagged(b'n', *errno);
                bytes.push(*stage as u8);
                bytes
            }
            Self::Exited { how, full } => {
                let mut bytes = encode_exited(*how);
                bytes.push(*full);
                bytes
            }
            Self::InSession { id, news } => {
                let mut bytes = tagged(b'i', *id as i32);
                bytes.extend(news.encode());
                bytes
            }
            Self::Plug { id } => tagged(b'p', *id as i32),
            Self::Space { id, used, all } => {
                let mut bytes = tagged(b'd', *id as i32);
                bytes.extend(used.to_le_bytes());
                bytes.extend(all.to_le_bytes());
                bytes
            }
        }
    }

    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (tag, rest) = bytes.split_first()?;
        Some(match tag {
            b'w' => Self::Network,
            b's' => Self::Sockets,
            b'r' => Self::Ready,
            b'f' => {
                let errno = number(rest)?;
                let text = String::from_utf8_lossy(&rest[4..]).into_owned();
                let (step, subject) = text.split_once('\0')?;
                Self::Failed { step: step.into(), subject: subject.into(), errno }
            }
            b'n' => Self::NotStarted { stage: stage_of(*rest.get(4)?), errno: number(rest)? },
            b'e' | b'k' => Self::Exited { how: decode_exited(bytes)?, full: *rest.get(4)? },
            b'i' => Self::InSession { id: number(rest)? as u32, news: News::decode(rest.get(4..)?)? },
            b'p' => Self::Plug { id: number(rest)? as u32 },
            b'd' => Self::Space {
                id: number(rest)? as u32,
                used: long(rest.get(4..)?)?,
                all: long(rest.get(12..)?)?,
            },
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_survives_the_wire() {
        for message in [
            ToGuard::Signal(15),
            ToGuard::StopAll,
            ToGuard::ContinueAll,
            ToGuard::Sockets { v4: 3, v6: 0 },
            ToGuard::Exec { id: 7, elsewhere: true, program: Vec::new() },
            ToGuard::Exec { id: u32::MAX, elsewhere: false, program: vec![1, 2, 3] },
            ToGuard::SignalGroup { group: 12, signal: 15 },
            ToGuard::KillTree { id: 3 },
            ToGuard::Files,
            ToGuard::Plug { id: 9 },
            ToGuard::Space { id: 9 },
        ] {
            assert_eq!(ToGuard::decode(&message.encode()), Some(message));
        }
        for message in [
            FromGuard::Network,
            FromGuard::Sockets,
            FromGuard::Ready,
            FromGuard::Failed { step: "mount".into(), subject: "/a\nb".into(), errno: 13 },
            FromGuard::NotStarted { stage: ExecStage::Program, errno: 2 },
            FromGuard::NotStarted { stage: ExecStage::Directory, errno: 13 },
            FromGuard::Exited { how: Exited::Code(3), full: 0 },
            FromGuard::Exited { how: Exited::Signal(9), full: 2 },
            FromGuard::InSession { id: 1, news: News::Started { pid: 44, shim: 43 } },
            FromGuard::InSession { id: 2, news: News::NotStarted { stage: ExecStage::Program, errno: 2 } },
            FromGuard::InSession {
                id: 3,
                news: News::Ended { how: Exited::Signal(11), full: 1, cpu: 1 << 40, memory: 7 },
            },
            FromGuard::InSession { id: u32::MAX, news: News::Gone },
            FromGuard::Plug { id: 1 },
            FromGuard::Space { id: 2, used: 3, all: 4 },
        ] {
            assert_eq!(FromGuard::decode(&message.encode()), Some(message));
        }
    }

    fn program(terminal: Option<(u16, u16)>) -> Program {
        let text = |text: &str| CString::new(text).unwrap();
        Program {
            argv: vec![text("sh"), text("")],
            environment: vec![text("A=b\nc")],
            path: "/bin:/usr/bin".into(),
            directory: OsString::from_vec(b"/work\xff".to_vec()).into(),
            terminal,
        }
    }

    #[test]
    fn a_program_survives_the_wire_and_no_cut_one_is_taken() {
        for program in [program(None), program(Some((24, 80)))] {
            let bytes = program.encode();
            assert_eq!(Program::decode(&bytes), Some(program.clone()));
            for length in
                (0..bytes.len()).filter(|length| program.terminal.is_none() || *length != bytes.len() - 4)
            {
                assert_eq!(Program::decode(&bytes[..length]), None, "cut at {length}");
            }
        }
    }

    #[test]
    fn a_count_of_strings_that_are_not_there_takes_no_memory() {
        assert_eq!(Program::decode(&[0xff, 0xff, 0xff, 0x7f]), None);
    }

    #[test]
    fn a_cut_or_strange_message_is_none() {
        assert_eq!(ToGuard::decode(b""), None);
        assert_eq!(ToGuard::decode(b"s\x01"), None);
        assert_eq!(FromGuard::decode(b"e\x00\x00"), None);
        assert_eq!(FromGuard::decode(b"?"), None);
    }
}
