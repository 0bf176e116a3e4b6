//! What guard and the sandbox's owner say to each other: one small message a datagram.

use ringfence_linux::Exited;

/// guard may be another program than its owner, where another program makes the sandbox. It says first which version of what
/// is here it speaks; a change of it is a new one, and an owner that speaks another gives no order.
pub const GUARD_VERSION: u16 = 1;

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
    /// Start a shim, which takes its order from the channel that comes with this.
    Shim {
        id: u32,
    },
    /// Send a signal to a process group of a session.
    SignalGroup {
        group: i32,
        signal: i32,
    },
    /// Kill all below a shim, wherever it went.
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
    Ready { version: u16 },
    /// Made ahead, as far as can be; the order is waited for.
    Waiting { version: u16 },
    /// A step of the set-up failed.
    Failed { step: String, subject: String, errno: i32 },
    /// The command could not be started.
    NotStarted { stage: ExecStage, errno: i32 },
    /// The command ended; the private places that had no space left then, as the bits that the owner gave them; CPU time in
    /// microseconds and largest resident size of it, of guard, and of what guard has reaped.
    Exited { how: Exited, full: u8, cpu: u64, memory: u64 },
    /// The command of a shim, or why it did not start.
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
    /// It ended. CPU time in microseconds, the largest resident size in bytes.
    Ended {
        how: Exited,
        full: u8,
        cpu: u64,
        memory: u64,
        /// Something that it started still runs.
        left: bool,
    },
    /// Nothing of it is left any more.
    Nothing,
    /// The shim itself is gone, and all below it.
    Gone,
}

pub(crate) fn number(bytes: &[u8]) -> Option<i32> {
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

fn versioned(tag: u8, version: u16) -> Vec<u8> {
    let [low, high] = version.to_le_bytes();
    vec![tag, low, high]
}

/// Those that came before there were versions said nothing.
fn version_of(bytes: &[u8]) -> Option<u16> {
    match *bytes {
        [] => Some(0),
        [low, high] => Some(u16::from_le_bytes([low, high])),
        _ => None,
    }
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
            Self::Shim { id } => tagged(b'x', *id as i32),
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
            (b'x', rest) => Some(Self::Shim { id: number(rest)? as u32 }),
            (b'g', rest) => Some(Self::SignalGroup { group: number(rest)?, signal: number(rest.get(4..)?)? }),
            (b'k', rest) => Some(Self::KillTree { id: number(rest)? as u32 }),
            (b'f', []) => Some(Self::Files),
            (b'p', rest) => Some(Self::Plug { id: number(rest)? as u32 }),
            (b'd', rest) => Some(Self::Space { id: number(rest)? as u32 }),
            _ => None,
        }
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
            Self::Ended { how, full, cpu, memory, left } => {
                let mut bytes = encode_exited(how);
                bytes.push(full);
                bytes.extend(cpu.to_le_bytes());
                bytes.extend(memory.to_le_bytes());
                bytes.push(u8::from(left));
                bytes
            }
            Self::Nothing => vec![b'0'],
            Self::Gone => vec![b'g'],
        }
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        Some(match bytes.split_first()? {
            (b's', rest) => Self::Started { pid: number(rest)?, shim: number(rest.get(4..)?)? },
            (b'n', rest) => Self::NotStarted { stage: stage_of(*rest.get(4)?), errno: number(rest)? },
            (b'0', []) => Self::Nothing,
            (b'g', []) => Self::Gone,
            (b'e' | b'k', rest) => Self::Ended {
                how: decode_exited(bytes)?,
                full: *rest.get(4)?,
                cpu: long(rest.get(5..)?)?,
                memory: long(rest.get(13..)?)?,
                left: *rest.get(21)? != 0,
            },
            _ => return None,
        })
    }
}

impl FromGuard {
    /// Of this guard.
    pub fn ready() -> Self {
        Self::Ready { version: GUARD_VERSION }
    }

    pub fn waiting() -> Self {
        Self::Waiting { version: GUARD_VERSION }
    }

    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Network => vec![b'w'],
            Self::Sockets => vec![b's'],
            Self::Ready { version } => versioned(b'r', *version),
            Self::Waiting { version } => versioned(b'a', *version),
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
            Self::Exited { how, full, cpu, memory } => {
                let mut bytes = encode_exited(*how);
                bytes.push(*full);
                bytes.extend(cpu.to_le_bytes());
                bytes.extend(memory.to_le_bytes());
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
            b'r' => Self::Ready { version: version_of(rest)? },
            b'a' => Self::Waiting { version: version_of(rest)? },
            b'f' => {
                let errno = number(rest)?;
                let text = String::from_utf8_lossy(&rest[4..]).into_owned();
                let (step, subject) = text.split_once('\0')?;
                Self::Failed { step: step.into(), subject: subject.into(), errno }
            }
            b'n' => Self::NotStarted { stage: stage_of(*rest.get(4)?), errno: number(rest)? },
            b'e' | b'k' => Self::Exited {
                how: decode_exited(bytes)?,
                full: *rest.get(4)?,
                cpu: long(rest.get(5..)?)?,
                memory: long(rest.get(13..)?)?,
            },
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
            ToGuard::Shim { id: u32::MAX },
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
            FromGuard::ready(),
            FromGuard::waiting(),
            FromGuard::Ready { version: u16::MAX },
            FromGuard::Failed { step: "mount".into(), subject: "/a\nb".into(), errno: 13 },
            FromGuard::NotStarted { stage: ExecStage::Program, errno: 2 },
            FromGuard::NotStarted { stage: ExecStage::Directory, errno: 13 },
            FromGuard::Exited { how: Exited::Code(3), full: 0, cpu: 0, memory: u64::MAX },
            FromGuard::Exited { how: Exited::Signal(9), full: 2, cpu: 1 << 40, memory: 7 },
            FromGuard::InSession { id: 1, news: News::Started { pid: 44, shim: 43 } },
            FromGuard::InSession { id: 2, news: News::NotStarted { stage: ExecStage::Program, errno: 2 } },
            FromGuard::InSession {
                id: 3,
                news: News::Ended { how: Exited::Signal(11), full: 1, cpu: 1 << 40, memory: 7, left: true },
            },
            FromGuard::InSession { id: 4, news: News::Nothing },
            FromGuard::InSession { id: u32::MAX, news: News::Gone },
            FromGuard::Plug { id: 1 },
            FromGuard::Space { id: 2, used: 3, all: 4 },
        ] {
            assert_eq!(FromGuard::decode(&message.encode()), Some(message));
        }
    }

    #[test]
    fn a_cut_or_strange_message_is_none() {
        assert_eq!(ToGuard::decode(b""), None);
        assert_eq!(ToGuard::decode(b"s\x01"), None);
        assert_eq!(FromGuard::decode(b"e\x00\x00"), None);
        assert_eq!(FromGuard::decode(b"?"), None);
        assert_eq!(FromGuard::decode(b"r\x01"), None);
    }

    #[test]
    fn a_guard_that_says_no_version_is_of_none() {
        assert_eq!(FromGuard::decode(b"r"), Some(FromGuard::Ready { version: 0 }));
        assert_eq!(FromGuard::decode(b"a"), Some(FromGuard::Waiting { version: 0 }));
    }
}
