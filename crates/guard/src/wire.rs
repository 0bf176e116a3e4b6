//! What guard and the sandbox's owner say to each other: one small message a datagram.

use ringfence_linux::Exited;

/// From the owner to guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
}

fn number(bytes: &[u8]) -> Option<i32> {
    Some(i32::from_le_bytes(bytes.get(..4)?.try_into().ok()?))
}

fn tagged(tag: u8, value: i32) -> Vec<u8> {
    let mut bytes = vec![tag];
    bytes.extend(value.to_le_bytes());
    bytes
}

impl ToGuard {
    pub fn encode(self) -> Vec<u8> {
        match self {
            Self::Signal(signal) => tagged(b's', signal),
            Self::StopAll => vec![b'z'],
            Self::ContinueAll => vec![b'c'],
            Self::Sockets { v4, v6 } => vec![b'n', v4, v6],
        }
    }

    pub fn decode(bytes: &[u8]) -> Option<Self> {
        match bytes.split_first()? {
            (b's', rest) => Some(Self::Signal(number(rest)?)),
            (b'z', []) => Some(Self::StopAll),
            (b'c', []) => Some(Self::ContinueAll),
            (b'n', [v4, v6]) => Some(Self::Sockets { v4: *v4, v6: *v6 }),
            _ => None,
        }
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
                let (tag, value) = match how {
                    Exited::Code(code) => (b'e', *code),
                    Exited::Signal(signal) => (b'k', *signal),
                };
                let mut bytes = tagged(tag, value);
                bytes.push(*full);
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
            b'n' => {
                let stage = match rest.get(4)? {
                    0 => ExecStage::Directory,
                    1 => ExecStage::Stdio,
                    _ => ExecStage::Program,
                };
                Self::NotStarted { stage, errno: number(rest)? }
            }
            b'e' => Self::Exited { how: Exited::Code(number(rest)?), full: *rest.get(4)? },
            b'k' => Self::Exited { how: Exited::Signal(number(rest)?), full: *rest.get(4)? },
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_survives_the_wire() {
        for message in
            [ToGuard::Signal(15), ToGuard::StopAll, ToGuard::ContinueAll, ToGuard::Sockets { v4: 3, v6: 0 }]
        {
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
    }
}
