//! What clients and a session's keeper say to each other: one JSON object a datagram, with descriptors beside it.
//! docs/protocol.md describes it; a change of what is here is a new `VERSION`. A call that is new and that its client can do
//! without is none: an older keeper refuses it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::denial::Denial;
use crate::network_record::NetworkRecord;

/// A keeper may be older or newer than its client: each message names its version, and another one is refused.
pub(crate) const VERSION: u32 = 1;

/// Bytes that are text nearly always.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Text(pub OsString);

/// Before bytes that are no text, which follow in hexadecimal.
const NO_TEXT: char = '\u{1}';

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.to_str() {
            Some(text) if !text.starts_with(NO_TEXT) => serializer.serialize_str(text),
            _ => {
                let hex = self.0.as_bytes().iter().map(|byte| format!("{byte:02x}"));
                serializer.serialize_str(&std::iter::once(NO_TEXT.to_string()).chain(hex).collect::<String>())
            }
        }
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let Some(hex) = text.strip_prefix(NO_TEXT) else { return Ok(Self(text.into())) };
        let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
        let pair = |pair: &[u8]| Some(digit(*pair.first()?)? << 4 | digit(*pair.get(1)?)?);
        let bytes: Option<Vec<u8>> = hex.as_bytes().chunks(2).map(pair).collect();
        let bytes = bytes.ok_or_else(|| serde::de::Error::custom("not hexadecimal"))?;
        Ok(Self(OsString::from_vec(bytes)))
    }
}

impl<T: AsRef<OsStr>> From<T> for Text {
    fn from(text: T) -> Self {
        Self(text.as_ref().to_owned())
    }
}

/// From a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Envelope<T> {
    pub version: u32,
    #[serde(flatten)]
    pub body: T,
}

impl Envelope<Call> {
    pub(crate) fn parse(bytes: &[u8]) -> serde_json::Result<Self> {
        let Names { .. } = serde_json::from_slice(bytes)?;
        serde_json::from_slice(bytes)
    }
}

/// A call as it would be sent, if these bytes are one: for those who try what a keeper takes for a call.
#[doc(hidden)]
pub fn call_again(bytes: &[u8]) -> Option<Vec<u8>> {
    serde_json::to_vec(&Envelope::parse(bytes).ok()?).ok()
}

/// What is asked for must be named: a variant's number, which serde takes too, is another call in the next version.
#[derive(Deserialize)]
#[allow(dead_code)]
struct Names<'a> {
    #[serde(borrow)]
    call: Cow<'a, str>,
    #[serde(borrow)]
    stdio: Option<StdioName<'a>>,
}

#[derive(Deserialize)]
#[allow(dead_code)]
struct StdioName<'a> {
    #[serde(borrow)]
    kind: Cow<'a, str>,
}

/// Where the stdio of a command of a session goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub(crate) enum StdioKind {
    /// Three pipes of the client's, sent with the call. The command ends with the client.
    Pipes,
    /// A terminal, whose master end comes back. The command ends with the client.
    Terminal { rows: u16, columns: u16 },
    /// Kept in a log on disk; the command goes on without any client. `stdin`: others can be written to it later.
    Log { stdin: bool, terminal: Option<(u16, u16)> },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ExecCall {
    pub argv: Vec<Text>,
    /// On top of the session's own.
    pub environment: BTreeMap<String, Text>,
    /// Relative to where the session's commands start.
    pub directory: Option<PathBuf>,
    pub timeout_ms: Option<u64>,
    pub stdio: StdioKind,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "call")]
pub(crate) enum Call {
    Exec(ExecCall),
    /// Answered when the process ends.
    Wait {
        process: u32,
    },
    Signal {
        process: u32,
        signal: i32,
        /// All that it started too, wherever it went.
        tree: bool,
    },
    /// A descriptor that writes to a kept process.
    Stdin {
        process: u32,
    },
    CloseStdin {
        process: u32,
    },
    Processes,
    Status,
    Stats,
    Pause,
    Resume,
    /// Paused as long as this client is connected.
    Hold,
    /// A time to live from now, and how long it may be idle; `None`: as it is.
    Extend {
        ttl_ms: Option<u64>,
        idle_ms: Option<u64>,
    },
    /// A channel to a worker that serves the sandbox's files.
    Files,
    /// Two sockets of the inside, IPv4 and IPv6, to connect to a port of its loopback with.
    Connect,
    /// This client forwards a port inside, as long as it is connected.
    Expose {
        port: u16,
    },
    Unexpose {
        port: u16,
    },
    /// What the policy has to do with lines of a command's output that was started in `directory`.
    Explain {
        lines: String,
        directory: Option<PathBuf>,
    },
    /// End the sandbox. Answered when nothing of it is left.
    End,
}

/// How a process of a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "end")]
pub enum ProcessEnd {
    Exited { code: i32 },
    Signaled { signal: i32 },
    TimedOut,
    NotStarted { stage: Stage, errno: i32 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    Directory,
    Stdio,
    Program,
}

impl ProcessEnd {
    /// As a shell would see it; the same as that of `ringfence run`.
    pub fn exit_code(self) -> i32 {
        const ENOENT: i32 = 2;
        match self {
            Self::Exited { code } => code,
            Self::Signaled { signal } => 128 + signal,
            Self::TimedOut => 124,
            Self::NotStarted { stage: Stage::Program, errno: ENOENT } => 127,
            Self::NotStarted { stage: Stage::Program, .. } => 126,
            Self::NotStarted { .. } => 125,
        }
    }
}

/// What came of a process of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessResult {
    pub process: u32,
    #[serde(flatten)]
    pub end: ProcessEnd,
    pub duration_ms: u64,
    pub cpu_ms: u64,
    pub max_memory: u64,
    pub denials: Vec<Denial>,
    /// What its processes did on the network until it ended; null where the session has none.
    #[serde(default)]
    pub network: Option<NetworkRecord>,
}

/// One process of a session, as `session ps` shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessInfo {
    pub process: u32,
    /// Inside.
    pub pid: Option<i32>,
    pub argv: Vec<Text>,
    /// Milliseconds since 1970.
    pub started: u64,
    /// Kept, or ends with its client.
    pub detached: bool,
    pub terminal: bool,
    /// Whether its descendants are all gone too.
    pub gone: bool,
    /// Bytes of output so far, where it is kept.
    pub output: Option<u64>,
    pub result: Option<ProcessResult>,
}

/// How a session is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionStatus {
    pub keeper: u32,
    pub paused: bool,
    pub running: usize,
    /// Milliseconds that are left.
    pub ttl_ms: Option<u64>,
    pub idle_ms: Option<u64>,
    pub denials: Vec<Denial>,
    pub ports: Vec<u16>,
    pub network: Option<NetworkRecord>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionStats {
    pub cpu_ms: u64,
    pub memory: u64,
    pub max_memory: Option<u64>,
    pub processes: u64,
    pub disk_used: u64,
    pub disk_limit: u64,
    pub sent: u64,
    pub received: u64,
    pub connections: u64,
}

/// From the keeper.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "answer")]
pub(crate) enum Answer {
    Done,
    Started {
        process: u32,
        pid: i32,
    },
    Ended(ProcessResult),
    Processes {
        processes: Vec<ProcessInfo>,
    },
    Status(Box<SessionStatus>),
    Stats(SessionStats),
    Denials {
        denials: Vec<Denial>,
    },
    Refused {
        why: String,
        fix: String,
        /// The one that the keeper speaks, where that is why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        version: Option<u32>,
    },
    /// Said unasked, before the connection is closed: there are as many clients as there may be.
    Busy,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(call: &Call) -> Call {
        let envelope = Envelope { version: VERSION, body: call.clone() };
        let text = serde_json::to_string(&envelope).unwrap();
        Envelope::parse(text.as_bytes()).unwrap().body
    }

    #[test]
    fn a_call_by_number_is_none() {
        let with = |call: &str, kind: &str| {
            let stdio = format!(r#""stdio":{{"kind":{kind}}}"#);
            format!(
                r#"{{"version":1,"call":{call},"argv":["a"],"environment":{{}},"directory":null,"timeout_ms":null,{stdio}}}"#
            )
        };
        assert!(Envelope::parse(with(r#""exec""#, r#""pipes""#).as_bytes()).is_ok());
        assert!(Envelope::parse(with(r#""\u0065xec""#, r#""pipes""#).as_bytes()).is_ok());
        for (call, kind) in
            [("0", r#""pipes""#), (r#""exec""#, "0"), ("null", r#""pipes""#), ("[]", r#""pipes""#)]
        {
            assert!(Envelope::parse(with(call, kind).as_bytes()).is_err(), "{call} {kind}");
        }
        for number in 0..20 {
            let text = format!(r#"{{"version":1,"call":{number}}}"#);
            assert!(Envelope::parse(text.as_bytes()).is_err(), "{number}");
        }
    }

    #[test]
    fn calls_survive_the_wire() {
        let exec = ExecCall {
            argv: vec!["sh".into(), Text(OsString::from_vec(vec![0xff, b'x'])), "\u{1}61".into()],
            environment: BTreeMap::from([("A".into(), "b\n".into())]),
            directory: Some("/tmp".into()),
            timeout_ms: Some(5),
            stdio: StdioKind::Log { stdin: true, terminal: Some((24, 80)) },
        };
        for call in [
            Call::Exec(exec),
            Call::Wait { process: 3 },
            Call::Signal { process: 1, signal: 15, tree: true },
            Call::Explain { lines: "x: Permission denied\n".into(), directory: Some("/workspace".into()) },
            Call::End,
        ] {
            assert_eq!(round(&call), call);
        }
    }

    #[test]
    fn bytes_that_are_no_text_come_back_as_they_were() {
        for bytes in [&b""[..], b"abc", b"\xff\x00", b"\x01abc", "ä".as_bytes()] {
            let text = Text(OsString::from_vec(bytes.to_vec()));
            let json = serde_json::to_string(&text).unwrap();
            assert_eq!(serde_json::from_str::<Text>(&json).unwrap(), text);
        }
        assert!(serde_json::from_str::<Text>("\"\\u0001zz\"").is_err());
        assert!(serde_json::from_str::<Text>("\"\\u0001abc\"").is_err());
    }
}
