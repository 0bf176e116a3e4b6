//! What clients ask for.

use std::ffi::{CString, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

use ringfence_guard::{Program, ToGuard};
use ringfence_linux::control_pair;
use rustix::fs::{FileType, OFlags, fcntl_getfl, fstat, fstatfs};

use super::birth::now;
use super::clients::ClientId;
use super::process::{Kept, Order, Process, pipe};
use super::{Asked, Keeper, UNANSWERED};
use crate::infer::infer;
use crate::session::log::{LogStream, LogWriter};
use crate::session::wire::{Answer, Call, ExecCall, SessionStatus, StdioKind};

/// What `fstatfs` says of pipes that were made with `pipe`.
pub(in crate::session) const PIPEFS_MAGIC: rustix::fs::FsWord = 0x5049_5045;

type Refused = (String, String);

fn refused(why: impl Into<String>, fix: impl Into<String>) -> Refused {
    (why.into(), fix.into())
}

fn because(doing: &str, error: &io::Error) -> Refused {
    refused(format!("cannot {doing}: {error}"), "try again, or remove the session and make another")
}

impl Keeper<'_> {
    pub(super) fn take_call(&mut self, client: ClientId, call: Call, fds: Vec<OwnedFd>) {
        let done = match call {
            Call::Exec(exec) => self.exec(client, exec, fds),
            Call::Wait { process } => self.wait_for(client, process),
            Call::Signal { process, signal, tree } => self.signal(client, process, signal, tree),
            Call::Stdin { process } => self.stdin(client, process),
            Call::CloseStdin { process } => self.close_stdin(client, process),
            Call::Processes => {
                let processes = self.processes.all().into_iter().map(Process::info).collect();
                self.answer(client, &Answer::Processes { processes })
            }
            Call::Status => {
                let _ = self.warden.settle(&mut self.denials);
                let status = self.status();
                self.answer(client, &Answer::Status(Box::new(status)))
            }
            Call::Stats => self.ask(Asked::Space(client)),
            Call::Pause => self.pause(client),
            Call::Resume => self.resume(client),
            Call::Hold => self.hold(client),
            Call::Extend { ttl_ms, idle_ms } => {
                if let Some(ttl) = ttl_ms {
                    self.dies_at = Instant::now().checked_add(Duration::from_millis(ttl));
                }
                if let Some(idle) = idle_ms {
                    self.idle = Some(Duration::from_millis(idle));
                }
                self.answer(client, &Answer::Done)
            }
            Call::Files => self.files(client),
            Call::Connect => self.ask(Asked::Plug(client)),
            Call::Expose { port } => self.expose(client, port),
            Call::Unexpose { port } => match self.clients.forwarder(port) {
                Some(forwarder) => {
                    self.clients.remove(forwarder);
                    self.answer(client, &Answer::Done)
                }
                None => Err(refused(
                    format!("port {port} is not exposed"),
                    "see `ringfence session inspect` for those that are",
                )),
            },
            Call::Explain { lines, directory } => {
                let start = &self.plan.directory;
                let base = directory.map_or_else(|| start.clone(), |directory| start.join(directory));
                let denials =
                    infer(self.plan, &base, lines.as_bytes(), |path| path.symlink_metadata().is_ok());
                self.answer(client, &Answer::Denials { denials })
            }
            Call::End => {
                self.enders.push(client);
                self.end = Some(crate::session::place::EndReason::Asked);
                Ok(())
            }
        };
        if let Err((why, fix)) = done {
            self.refuse(client, why, fix);
        }
    }

    fn answer(&mut self, client: ClientId, answer: &Answer) -> Result<(), Refused> {
        self.clients.answer(client, answer, &[]);
        Ok(())
    }

    /// Ask guard for something that it answers in its time.
    fn ask(&mut self, what: Asked) -> Result<(), Refused> {
        if self.asked.len() >= UNANSWERED {
            return Err(refused("guard has not answered what it was asked before", "try again"));
        }
        self.next_asked = self.next_asked.wrapping_add(1);
        let id = self.next_asked;
        let order = match what {
            Asked::Plug(_) => ToGuard::Plug { id },
            Asked::Space(_) => ToGuard::Space { id },
        };
        self.tell_guard(&order, &[]).map_err(|error| because("ask guard", &error))?;
        self.asked.insert(id, what);
        Ok(())
    }

    fn exec(&mut self, client: ClientId, call: ExecCall, fds: Vec<OwnedFd>) -> Result<(), Refused> {
        if self.is_paused() {
            return Err(refused("the session is paused", "resume it first: ringfence session resume"));
        }
        let terminal = match call.stdio {
            StdioKind::Pipes => None,
            StdioKind::Terminal { rows, columns } => Some((rows, columns)),
            StdioKind::Log { terminal, .. } => terminal,
        };
        let program = self.program(&call, terminal)?;
        let id = self.next_process;
        let (kept, fds) = match call.stdio {
            StdioKind::Pipes => (None, three_pipes(fds)?),
            StdioKind::Terminal { .. } => (None, Vec::new()),
            StdioKind::Log { stdin, .. } => {
                let (kept, fds) = self
                    .kept(id, stdin, terminal.is_some())
                    .map_err(|error| because("keep the process's output", &error))?;
                (Some(kept), fds)
            }
        };
        let wall_time = self.plan.limits.wall_time;
        let timeout = call.timeout_ms.map(Duration::from_millis).into_iter().chain(wall_time).min();
        let started = Instant::now();
        self.next_process += 1;
        let process = Process {
            id,
            argv: call.argv,
            at: now(),
            started,
            timeout,
            deadline: timeout.and_then(|timeout| started.checked_add(timeout)),
            client: kept.is_none().then_some(client),
            starter: Some(client),
            waiting: Vec::new(),
            terminal: terminal.is_some(),
            kept,
            order: Some(Order { program: program.encode(), fds }),
            hired: Default::default(),
            pid: None,
            shim: None,
            timed_out: false,
            gone: false,
            denials: Default::default(),
            network: self.warden.network().map(|_| Default::default()),
            result: None,
        };
        self.processes.insert(process);
        self.send_order(id).map_err(|error| {
            self.processes.remove(id);
            because("start the command", &error)
        })
    }

    fn program(&self, call: &ExecCall, terminal: Option<(u16, u16)>) -> Result<Program, Refused> {
        let c_string = |bytes: &[u8], what: &str| {
            CString::new(bytes).map_err(|_| refused(format!("{what} has a NUL byte"), "leave it out"))
        };
        if call.argv.first().is_none_or(|command| command.0.is_empty()) {
            return Err(refused("there is no command to run", "name it after `--`"));
        }
        let argv = call.argv.iter().map(|argument| c_string(argument.0.as_bytes(), "an argument"));
        let directory = match &call.directory {
            Some(directory) => self.plan.directory.join(directory),
            None => self.plan.directory.clone(),
        };
        let mut variables: std::collections::BTreeMap<&str, OsString> =
            self.plan.environment.iter().map(|(name, value)| (name.as_str(), value.into())).collect();
        variables.insert("PWD", directory.clone().into());
        if terminal.is_some() {
            variables.entry("TERM").or_insert_with(|| "xterm-256color".into());
        }
        for (name, value) in &call.environment {
            if name.is_empty() || name.contains(['=', '\0']) {
                return Err(refused(
                    format!("`{}` can't be the name of a variable", name.escape_debug()),
                    "give --env NAME=VALUE",
                ));
            }
            variables.insert(name, value.0.clone());
        }
        let path = variables.get("PATH").cloned().unwrap_or_default();
        let environment = variables
            .iter()
            .map(|(name, value)| c_string(&[name.as_bytes(), b"=", value.as_bytes()].concat(), "a variable"));
        let environment = environment.collect::<Result<_, _>>()?;
        Ok(Program { argv: argv.collect::<Result<_, _>>()?, environment, path, directory, terminal })
    }

    /// A log, and the ends of its pipes that the process gets.
    fn kept(&self, id: u32, stdin: bool, terminal: bool) -> io::Result<(Kept, Vec<OwnedFd>)> {
        let log = LogWriter::create(self.logs.logs(id), self.plan.limits.output)?;
        let mut kept = Kept { log, outputs: Vec::new(), stdin: None, broken: None };
        if terminal {
            return Ok((kept, Vec::new()));
        }
        let (write, read) = pipe(false)?;
        kept.stdin = stdin.then_some(write);
        let mut fds = vec![read];
        for stream in [LogStream::Stdout, LogStream::Stderr] {
            let (ours, theirs) = pipe(true)?;
            kept.outputs.push((stream, ours));
            fds.push(theirs);
        }
        Ok((kept, fds))
    }

    fn process(&mut self, id: u32) -> Result<&mut Process, Refused> {
        self.processes.get_mut(id).ok_or_else(|| {
            refused(
                format!("there is no process {id} in this session"),
                "see `ringfence session ps` for those that there are",
            )
        })
    }

    fn wait_for(&mut self, client: ClientId, id: u32) -> Result<(), Refused> {
        let process = self.process(id)?;
        match process.result.clone() {
            Some(result) => self.answer(client, &Answer::Ended(result)),
            None => {
                process.waiting.push(client);
                Ok(())
            }
        }
    }

    fn signal(&mut self, client: ClientId, id: u32, signal: i32, tree: bool) -> Result<(), Refused> {
        if !(1..=64).contains(&signal) {
            return Err(refused(format!("{signal} is no signal"), "name one, such as TERM, or 1 to 64"));
        }
        let process = self.process(id)?;
        if process.gone || (process.result.is_some() && !tree) {
            return Err(refused(
                format!("process {id} has ended"),
                "what it left is reached with `--tree`, if anything is",
            ));
        }
        match (tree, process.pid) {
            (true, _) => self.kill_tree(id),
            (false, Some(group)) => {
                self.tell_guard(&ToGuard::SignalGroup { group, signal }, &[])
                    .map_err(|error| because("send the signal", &error))?;
            }
            (false, None) => return Err(refused(format!("process {id} has not started yet"), "try again")),
        }
        self.answer(client, &Answer::Done)
    }

    fn stdin(&mut self, client: ClientId, id: u32) -> Result<(), Refused> {
        let process = self.process(id)?;
        let kept = process.kept.as_ref().filter(|_| process.result.is_none());
        let Some(stdin) = kept.and_then(|kept| kept.stdin.as_ref()) else {
            let why = match (&process.result, &process.kept) {
                (Some(_), _) => format!("process {id} has ended"),
                (None, None) => format!("process {id} has the stdin of the client that started it"),
                (None, Some(_)) => format!("the stdin of process {id} is closed"),
            };
            return Err(refused(why, "start it with `-d -i` to write to it later"));
        };
        let stdin = stdin.try_clone().map_err(|error| because("share stdin", &error))?;
        self.clients.answer(client, &Answer::Done, &[stdin.as_fd()]);
        Ok(())
    }

    fn close_stdin(&mut self, client: ClientId, id: u32) -> Result<(), Refused> {
        let process = self.process(id)?;
        if process.terminal && process.result.is_none() {
            return Err(refused(
                format!("the stdin of process {id} is a terminal, which has no end"),
                "type its end-of-file character, usually ^D: printf '\\004' | ringfence session stdin",
            ));
        }
        if let Some(kept) = &mut process.kept {
            kept.stdin = None;
        }
        self.answer(client, &Answer::Done)
    }

    fn pause(&mut self, client: ClientId) -> Result<(), Refused> {
        self.set_pause(|keeper| keeper.paused = true).map_err(|error| because("pause", &error))?;
        self.answer(client, &Answer::Done)
    }

    /// Timeouts ran on: a program that wakes itself up must not win time by it.
    fn resume(&mut self, client: ClientId) -> Result<(), Refused> {
        self.set_pause(|keeper| keeper.paused = false).map_err(|error| because("resume", &error))?;
        self.answer(client, &Answer::Done)
    }

    fn hold(&mut self, client: ClientId) -> Result<(), Refused> {
        let held = self.set_pause(|keeper| {
            keeper.holders.insert(client);
        });
        held.map_err(|error| because("pause", &error))?;
        self.answer(client, &Answer::Done)
    }

    /// One end to guard, for a worker, the other one to the client.
    fn files(&mut self, client: ClientId) -> Result<(), Refused> {
        let (ours, theirs) = control_pair().map_err(|error| because("make a channel", &error))?;
        self.tell_guard(&ToGuard::Files, &[theirs.as_fd()])
            .map_err(|error| because("start a file worker", &error))?;
        self.clients.answer(client, &Answer::Done, &[ours.as_fd()]);
        Ok(())
    }

    fn expose(&mut self, client: ClientId, port: u16) -> Result<(), Refused> {
        if self.clients.forwarder(port).is_some() {
            return Err(refused(
                format!("port {port} is exposed already"),
                "see `ringfence session inspect`; `ringfence session unexpose` ends it",
            ));
        }
        if let Some(client) = self.clients.get(client) {
            client.forwards = Some(port);
        }
        self.answer(client, &Answer::Done)
    }

    fn status(&self) -> SessionStatus {
        let left = |at: Instant| at.saturating_duration_since(Instant::now()).as_millis() as u64;
        SessionStatus {
            keeper: std::process::id(),
            paused: self.paused,
            running: self.processes.live().filter(|process| process.is_running()).count(),
            ttl_ms: self.dies_at.map(left),
            idle_ms: self.idle.map(|idle| idle.as_millis() as u64),
            denials: self.denials.to_vec(),
            ports: self.clients.ports(),
            network: self.warden.network(),
        }
    }
}

/// stdin, stdout and stderr of a client. Only pipes: whatever else a descriptor leads to stays outside.
fn three_pipes(fds: Vec<OwnedFd>) -> Result<Vec<OwnedFd>, Refused> {
    let is_pipe = |number: usize, fd: &OwnedFd| -> rustix::io::Result<bool> {
        let access = fcntl_getfl(fd)? & OFlags::ACCMODE;
        let wanted = if number == 0 { OFlags::RDONLY } else { OFlags::WRONLY };
        // One that has a name belongs to somebody's directory, and its mode could be changed through it.
        let is_nameless = fstatfs(fd)?.f_type == PIPEFS_MAGIC;
        Ok(FileType::from_raw_mode(fstat(fd)?.st_mode) == FileType::Fifo && is_nameless && access == wanted)
    };
    if fds.len() == 3 && fds.iter().enumerate().all(|(number, fd)| is_pipe(number, fd) == Ok(true)) {
        return Ok(fds);
    }
    Err(refused("a command's stdio must be three pipes, each open for one direction", "see docs/protocol.md"))
}
