//! The processes of a session: `ps`, `logs`, `signal`, `attach`, `stdin`, `wait`

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::time::Duration;

use ringfence_sandbox::{LogReader, LogStream, ProcessInfo, ProcessResult, Sandbox, SessionError, Text};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;

use super::typing::{Typing, pour};
use super::{done, open, refused};
use crate::args::{
    SessionAttachArgs, SessionLogsArgs, SessionNameArgs, SessionProcessArgs, SessionSignalArgs,
    SessionStdinArgs,
};
use crate::failure::Failure;
use crate::json::text;
use crate::output;

/// How often a log that is followed is looked at.
const LOOK: Duration = Duration::from_millis(50);

pub(super) fn ps(args: &SessionNameArgs) -> Result<i32, Failure> {
    let processes = open(&args.name)?.processes().map_err(refused)?;
    if args.json {
        output::json(&processes);
        return Ok(0);
    }
    let rows = processes.iter().map(|process| {
        let state = match &process.result {
            None => "running".to_owned(),
            Some(result) if process.gone => format!("exit {}", result.end.exit_code()),
            Some(result) => format!("exit {}, left others running", result.end.exit_code()),
        };
        let kind = match (process.detached, process.terminal) {
            (true, _) => "detached",
            (false, true) => "terminal",
            (false, false) => "foreground",
        };
        let output = process.output.map_or(String::new(), |bytes| bytes.to_string());
        [process.process.to_string(), state, kind.into(), output, command(process)]
    });
    output::table(["process", "state", "kind", "output", "command"], rows);
    Ok(0)
}

fn command(process: &ProcessInfo) -> String {
    let words = process.argv.iter().map(|Text(word)| word.to_string_lossy());
    words.collect::<Vec<_>>().join(" ")
}

pub(super) fn signal(args: &SessionSignalArgs) -> Result<i32, Failure> {
    let signal = signal_number(&args.signal).ok_or_else(|| {
        Failure::new(
            format!("`{}` is no signal", args.signal),
            "name one, such as TERM or KILL, or give 1 to 64",
        )
    })?;
    open(&args.name)?.signal(args.process, signal, args.tree).map_err(refused)?;
    Ok(done(args.json, serde_json::json!({ "process": args.process, "signal": signal })))
}

fn signal_number(name: &str) -> Option<i32> {
    const NAMES: [(&str, i32); 13] = [
        ("HUP", 1),
        ("INT", 2),
        ("QUIT", 3),
        ("ABRT", 6),
        ("KILL", 9),
        ("USR1", 10),
        ("SEGV", 11),
        ("USR2", 12),
        ("PIPE", 13),
        ("ALRM", 14),
        ("TERM", 15),
        ("CONT", 18),
        ("STOP", 19),
    ];
    let upper = name.to_uppercase();
    let short = upper.strip_prefix("SIG").unwrap_or(&upper);
    let named = NAMES.iter().find(|(known, _)| *known == short).map(|(_, number)| *number);
    named.or_else(|| short.parse().ok().filter(|number| (1..=64).contains(number)))
}

pub(super) fn wait(args: &SessionProcessArgs) -> Result<i32, Failure> {
    let result =
        open(&args.name)?.watch(args.process).and_then(|mut process| process.wait()).map_err(refused)?;
    if args.json {
        output::json(&result);
    }
    Ok(result.end.exit_code())
}

pub(super) fn stdin(args: &SessionStdinArgs) -> Result<i32, Failure> {
    let sandbox = open(&args.name)?;
    if args.close {
        refuse_end_of_terminal(&sandbox, args)?;
    }
    let to = sandbox.stdin(args.process).map_err(refused)?;
    let watched = sandbox.watch(args.process).map_err(refused)?;
    let copied = pour(&mut io::stdin().lock(), &to, watched.ending());
    drop((to, watched));
    let written = match copied {
        Ok(written) => written,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
            return Err(Failure::new(
                format!("process {} has ended, or has closed its stdin", args.process),
                "see `ringfence session ps`",
            ));
        }
        Err(error) => {
            return Err(Failure::new(format!("cannot write to the process: {error}"), "try again"));
        }
    };
    if args.close {
        sandbox.close_stdin(args.process).map_err(refused)?;
    }
    let told = serde_json::json!({ "process": args.process, "written": written, "closed": args.close });
    Ok(done(args.json, told))
}

/// Closing one ends nothing: before anything is written that would have to be told.
fn refuse_end_of_terminal(sandbox: &Sandbox, args: &SessionStdinArgs) -> Result<(), Failure> {
    let processes = sandbox.processes().map_err(refused)?;
    match processes.iter().any(|process| process.process == args.process && process.terminal) {
        true => Err(Failure::new(
            format!("the stdin of process {} is a terminal, which has no end", args.process),
            "leave --close out, and write its end-of-file character last, usually ^D: printf '\\004'",
        )),
        false => Ok(()),
    }
}

pub(super) fn logs(args: &SessionLogsArgs) -> Result<i32, Failure> {
    let sandbox = open(&args.name)?;
    let reader = reader(&sandbox, args.process, args.from)?;
    let mut shown = Shown { reader, json: args.json };
    if args.follow && sandbox.is_alive() {
        follow(&sandbox, args.process, &mut shown)?;
    } else {
        shown.show()?;
    }
    let dropped = shown.reader.dropped();
    if dropped > 0 {
        output::note(&format!("{dropped} bytes of its output were dropped: a log keeps the newest"));
    }
    Ok(0)
}

fn reader(sandbox: &Sandbox, process: u32, from: u64) -> Result<LogReader, Failure> {
    LogReader::open(&sandbox.place().logs(process), from).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Failure::new(
            format!("there is no kept output of a process {process}"),
            "only what was started with -d has a log: see `ringfence session ps`",
        ),
        _ => Failure::new(format!("cannot read the log: {error}"), "see whether the disk is all right"),
    })
}

struct Shown {
    reader: LogReader,
    json: bool,
}

impl Shown {
    /// All that is there by now.
    fn show(&mut self) -> Result<(), Failure> {
        let failed = |error: io::Error| {
            Failure::new(format!("cannot read the log: {error}"), "go on with --from, from where it stopped")
        };
        while let Some((stream, bytes)) = self.reader.read_piece().map_err(failed)? {
            if self.json {
                let (text, base64) = text(bytes);
                let stream = if stream == LogStream::Stdout { "stdout" } else { "stderr" };
                let next = self.reader.offset();
                output::json(&serde_json::json!({
                    "stream": stream, "text": text, "base64": base64, "next": next,
                }));
            } else if stream == LogStream::Stdout {
                output::raw(&bytes);
            } else {
                let _ = io::stderr().write_all(&bytes);
            }
        }
        Ok(())
    }
}

/// Show a log until its process has ended.
fn follow(sandbox: &Sandbox, process: u32, shown: &mut Shown) -> Result<(), Failure> {
    let watched = sandbox.watch(process).map_err(refused)?;
    loop {
        let mut polled = [PollFd::from_borrowed_fd(watched.ending(), PollFlags::IN)];
        let look = Timespec { tv_sec: 0, tv_nsec: LOOK.as_nanos() as i64 };
        let ended = poll(&mut polled, Some(&look)).is_ok_and(|ready| ready > 0);
        // After the look at its end: what it wrote before that is in the log by then.
        shown.show()?;
        if ended {
            return Ok(());
        }
    }
}

/// The last object of `attach --json`.
#[derive(Serialize)]
struct Ended {
    exit_code: i32,
    #[serde(flatten)]
    result: ProcessResult,
}

pub(super) fn attach(args: &SessionAttachArgs) -> Result<i32, Failure> {
    let sandbox = open(&args.name)?;
    let now = |sandbox: &Sandbox| -> Result<u64, SessionError> {
        let processes = sandbox.processes()?;
        let found = processes.iter().find(|process| process.process == args.process);
        Ok(found.and_then(|process| process.output).unwrap_or(0))
    };
    let from = match args.from {
        Some(from) => from,
        None => now(&sandbox).map_err(refused)?,
    };
    let mut shown = Shown { reader: reader(&sandbox, args.process, from)?, json: args.json };
    let mut watched = sandbox.watch(args.process).map_err(refused)?;
    // One that takes no input is followed only.
    let mut typing = sandbox.stdin(args.process).ok().map(Typing::new);
    loop {
        let stdin = io::stdin();
        let mut polled = vec![PollFd::from_borrowed_fd(watched.ending(), PollFlags::IN)];
        match &typing {
            Some(typing) if typing.wants() => {
                polled.push(PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::IN));
            }
            typing => polled.extend(typing.as_ref().and_then(Typing::polled)),
        }
        let look = Timespec { tv_sec: 0, tv_nsec: LOOK.as_nanos() as i64 };
        let _ = poll(&mut polled, Some(&look));
        let is_ready = |at: usize| polled.get(at).is_some_and(|fd| !fd.revents().is_empty());
        let (ended, ready) = (is_ready(0), is_ready(1));
        shown.show()?;
        if ended {
            let result = watched.wait().map_err(refused)?;
            let exit_code = result.end.exit_code();
            if args.json {
                output::json(&Ended { exit_code, result });
            }
            return Ok(exit_code);
        }
        if ready && let Some(one) = &mut typing {
            match one.wants() {
                true => one.take(stdin.as_fd()),
                false if one.give() => {}
                false => typing = None,
            }
        }
        if typing.as_ref().is_some_and(Typing::is_over) {
            typing = None;
        }
    }
}
