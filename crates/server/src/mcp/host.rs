//! Whose sandboxes a call works with: those of the user who started `ringfence mcp`, or those of whoever has a key.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ringfence_sandbox::Sandbox;
use ringfence_service::Places;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::mpsc;

use super::own::Own;
use super::served::Served;
use crate::blocking;
use crate::error::{Answer, ApiError};
pub(super) use crate::library::SkillName;
use crate::library::find_skill;
use crate::told::Tail;

#[derive(Clone, Debug)]
pub(super) enum Host {
    Own(Arc<Own>),
    Served(Served),
}

/// What is to run, as a model says it.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum Words {
    Shell(String),
    Program(Vec<String>),
}

impl Words {
    /// What to start.
    pub(super) fn argv(self) -> Answer<Vec<String>> {
        let argv = match self {
            Self::Shell(text) if text.trim().is_empty() => Vec::new(),
            Self::Shell(text) => {
                let shell = if Path::new("/bin/bash").exists() { "/bin/bash" } else { "/bin/sh" };
                vec![shell.to_owned(), "-c".to_owned(), text]
            }
            Self::Program(argv) => argv,
        };
        if argv.first().is_none_or(String::is_empty) {
            return Err(ApiError::bad("there is no command to run", "give `command` at least one word"));
        }
        if argv.iter().any(|word| word.contains('\0')) {
            return Err(ApiError::bad("the command has a NUL byte in it", "leave it out"));
        }
        Ok(argv)
    }
}

/// What a call runs.
#[derive(Clone, Debug, Default)]
pub(super) struct Command {
    pub(super) argv: Vec<String>,
    pub(super) directory: Option<String>,
    pub(super) variables: BTreeMap<String, String>,
    pub(super) stdin: String,
    pub(super) timeout: Option<Duration>,
    /// The action that was approved for exactly this.
    pub(super) action: Option<String>,
}

/// A file to be written, with the directories above it.
#[derive(Clone, Debug, Default)]
pub(super) struct FileDraft {
    /// Absolute inside, or below the workspace.
    pub(super) path: String,
    pub(super) bytes: Vec<u8>,
    pub(super) mode: u32,
    pub(super) action: Option<String>,
}

/// A snapshot that was taken.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub(super) struct Taken {
    #[serde(alias = "id")]
    pub(super) snapshot: String,
    pub(super) name: String,
    pub(super) entries: u64,
    pub(super) bytes: u64,
}

/// What bringing a snapshot back changed.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub(super) struct Restored {
    pub(super) written: u64,
    pub(super) removed: u64,
    pub(super) unchanged: u64,
}

/// What a call asks of the policy; never more than the host's user may have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Wish {
    /// Whose defaults to begin from.
    pub(super) compat: Option<String>,
    pub(super) profile: Option<String>,
    pub(super) image: Option<String>,
    pub(super) network: Option<NetworkWish>,
    /// On stdio: the user allows this network beyond their policy.
    pub(super) granted: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NetworkWish {
    /// False: loopback only.
    pub(super) enabled: bool,
    /// Hosts such as api.example.com or *.example.org:443; none: every public host.
    #[serde(default)]
    pub(super) allowed_domains: Vec<String>,
}

/// What a session is to be.
#[derive(Clone, Debug, Default)]
pub(super) struct SessionWish {
    pub(super) name: Option<String>,
    pub(super) wish: Wish,
    pub(super) overlay: bool,
    pub(super) variables: BTreeMap<String, String>,
    pub(super) ttl: Option<Duration>,
    pub(super) action: Option<String>,
}

/// A session as it is shown.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct SessionShown {
    pub(super) session: String,
    pub(super) profile: String,
    /// Milliseconds since 1970.
    pub(super) created: u64,
}

/// A skill's script to run.
#[derive(Clone, Debug, Default)]
pub(super) struct SkillCommand {
    pub(super) skill: SkillName,
    pub(super) script: Option<String>,
    /// Its `argv` are the script's arguments.
    pub(super) command: Command,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    Stdout,
    Stderr,
}

/// Where what a command writes goes. Who does not take it makes the command wait.
pub(super) type Sink = mpsc::Sender<(Stream, Vec<u8>)>;

macro_rules! both {
    ($self:ident, $host:ident => $call:expr) => {
        match $self {
            Self::Own($host) => $call,
            Self::Served($host) => $call,
        }
    };
}

impl Host {
    /// Where the library of skills is.
    pub(super) fn places(&self) -> &Places {
        both!(self, host => host.places())
    }

    /// Where a session's snapshots are, and its name there.
    pub(super) async fn places_of(&self, session: &str) -> Answer<(Places, String)> {
        both!(self, host => host.places_of(session).await)
    }

    /// May whoever this is know of this domain of the library?
    pub(super) fn sees(&self, domain: &str) -> bool {
        match self {
            Self::Own(_) => true,
            Self::Served(host) => host.sees(domain),
        }
    }

    /// A skill of the library that whoever this is may know of, by `domain/name` or, where one alone has it, by name. A path
    /// is none, whatever lies there.
    pub(super) async fn skill(&self, given: &str) -> Answer<SkillName> {
        let (host, given) = (self.clone(), given.to_owned());
        blocking(move || find_skill(host.places(), |domain| host.sees(domain), &given)).await
    }

    /// An error as whoever this is may hear it.
    pub(super) fn told(&self, error: ApiError) -> ApiError {
        match self {
            Self::Own(_) => error,
            Self::Served(host) => host.told(error),
        }
    }

    pub(super) async fn write(&self, session: &str, draft: FileDraft) -> Answer<()> {
        both!(self, host => host.write(session, draft).await)
    }

    /// Put a whole output, which was too long to be told, into the session's own /tmp.
    pub(super) async fn keep_output(&self, session: &str, path: &str, bytes: Vec<u8>) -> Answer<()> {
        both!(self, host => host.keep_output(session, path, bytes).await)
    }

    /// Start a command that goes on by itself, and whose output is kept.
    pub(super) async fn start(&self, session: &str, command: Command) -> Answer<u32> {
        both!(self, host => host.start(session, command).await)
    }

    /// Signal a command and all that it started.
    pub(super) async fn signal(&self, session: &str, process: u32, signal: i32) -> Answer<()> {
        both!(self, host => host.signal(session, process, signal).await)
    }

    /// Nobody need decide on it any more.
    pub(super) async fn cancel_action(&self, action: &str) -> Answer<()> {
        match self {
            Self::Own(_) => Ok(()),
            Self::Served(host) => host.cancel_action(action).await,
        }
    }

    pub(super) async fn snapshot(&self, session: &str, name: Option<String>) -> Answer<Taken> {
        both!(self, host => host.snapshot(session, name).await)
    }

    /// By the snapshot's id.
    pub(super) async fn restore(
        &self,
        session: &str,
        snapshot: String,
        action: Option<String>,
    ) -> Answer<Restored> {
        both!(self, host => host.restore(session, snapshot, action).await)
    }

    /// May whoever this is change anything?
    pub(super) fn may_change(&self) -> Answer<()> {
        match self {
            Self::Own(_) => Ok(()),
            Self::Served(host) => host.may_change(),
        }
    }

    /// Is a command that a model asks for, with what it reads, one that its user denies?
    pub(super) async fn may_run(&self, words: &Words, stdin: Option<&str>) -> Answer<()> {
        match self {
            Self::Own(host) => host.may_run(words, stdin.unwrap_or_default()).await,
            Self::Served(_) => Ok(()),
        }
    }

    /// Make a session; its name for later calls, and what to know of it.
    pub(super) async fn create(&self, wish: SessionWish) -> Answer<(String, Vec<String>)> {
        both!(self, host => host.create(wish).await)
    }

    /// One that this host's user may use.
    pub(super) async fn sandbox(&self, session: &str) -> Answer<Sandbox> {
        both!(self, host => host.sandbox(session).await)
    }

    pub(super) async fn list(&self) -> Answer<Vec<SessionShown>> {
        both!(self, host => host.list().await)
    }

    /// End a session, and all that runs in it. What its end check found.
    pub(super) async fn close(&self, session: &str) -> Answer<Vec<String>> {
        both!(self, host => host.close(session).await)
    }

    /// Run a command in a session to its end. Dropping this ends the command and all that it started.
    pub(super) async fn exec(&self, session: &str, command: Command, sink: Sink) -> Answer<Value> {
        both!(self, host => host.exec(session, command, sink).await)
    }

    /// The same in a sandbox of its own.
    pub(super) async fn run(&self, wish: Wish, command: Command, sink: Sink) -> Answer<Value> {
        both!(self, host => host.run(wish, command, sink).await)
    }

    pub(super) async fn run_skill(&self, command: SkillCommand, sink: Sink) -> Answer<Value> {
        both!(self, host => host.run_skill(command, sink).await)
    }
}

/// Carry what comes to the sink, to the end, and give back how it ends. Where nobody listens any more it is read and dropped.
pub(super) async fn carry(mut from: impl AsyncRead + Unpin, stream: Stream, sink: &Sink) -> Tail {
    let mut tail = Tail::default();
    let mut chunk = vec![0; 32 << 10];
    while let Ok(read @ 1..) = from.read(&mut chunk).await {
        tail.push(&chunk[..read]);
        let _ = sink.send((stream, chunk[..read].to_vec())).await;
    }
    tail
}
