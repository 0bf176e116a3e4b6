//! `/bin/true`, by everybody in turns.

use std::ffi::{CString, OsStr};
use std::fs;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use ringfence_bench::{Order, Spread};
use ringfence_linux::{exec, exit_now, fork_copy, wait_for};
use ringfence_sandbox::{Exec, Sandbox};

use crate::Amount;
use crate::stage::Stage;

const PROGRAM: &str = "/bin/true";

/// Milliseconds of each way to start a program.
#[derive(Debug)]
pub(crate) struct Execs {
    pub(crate) rows: Vec<(Way, Spread)>,
    pub(crate) absent: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Fork,
    Spawn,
    Library,
    CommandLine,
    Nsenter,
    Crun,
    Runc,
    Runsc,
    Docker,
}

impl Way {
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Fork => "plain fork, exec, wait",
            Self::Spawn => "plain posix_spawn, wait",
            Self::Library => "in a session, through the library",
            Self::CommandLine => "`ringfence session exec`",
            Self::Nsenter => "`nsenter` into the session's namespaces",
            Self::Crun => "`crun exec`",
            Self::Runc => "`runc exec`",
            Self::Runsc => "`runsc exec`",
            Self::Docker => "`docker exec`",
        }
    }
}

impl Execs {
    pub(crate) fn of(&self, way: Way) -> Option<&Spread> {
        self.rows.iter().find(|(had, _)| *had == way).map(|(_, spread)| spread)
    }
}

/// A way that is there on this machine, ready to be taken.
struct Contender<'a> {
    way: Way,
    run: Box<dyn FnMut() -> Result<()> + 'a>,
}

pub(crate) fn measure(stage: &Stage, amount: Amount) -> Result<Execs> {
    let sandbox = stage.create("warm")?;
    let containers = crate::others::start(stage);
    let mut absent = Vec::new();
    let mut contenders = vec![
        Contender { way: Way::Fork, run: Box::new(forked) },
        Contender { way: Way::Spawn, run: Box::new(|| quietly(&mut Command::new(PROGRAM))) },
        Contender { way: Way::Library, run: Box::new(|| through_library(&sandbox)) },
        Contender {
            way: Way::CommandLine,
            run: Box::new(|| quietly(&mut stage.command(["session", "exec", "warm", "--", PROGRAM]))),
        },
    ];
    match guard_of(&sandbox) {
        Some(guard) if quietly(&mut nsenter(guard)).is_ok() => {
            contenders
                .push(Contender { way: Way::Nsenter, run: Box::new(move || quietly(&mut nsenter(guard))) });
        }
        _ => absent.push("nsenter".to_owned()),
    }
    absent.extend(containers.absent.iter().cloned());
    for container in &containers.running {
        let way = container.way;
        contenders.push(Contender { way, run: Box::new(move || quietly(&mut container.exec(PROGRAM))) });
    }
    let mut samples: Vec<Vec<f64>> = contenders.iter().map(|_| Vec::new()).collect();
    let mut order = Order::default();
    let mut turns: Vec<usize> = (0..contenders.len()).collect();
    for round in 0..amount.rounds + 2 {
        order.shuffle(&mut turns);
        for &turn in &turns {
            let started = Instant::now();
            (contenders[turn].run)()?;
            // The first two only warm up.
            if round >= 2 {
                samples[turn].push(started.elapsed().as_secs_f64() * 1_000.0);
            }
        }
    }
    let spreads = samples.into_iter().map(|samples| Spread::of(samples).context("nothing was measured"));
    let rows = contenders.iter().map(|contender| contender.way).zip(spreads.collect::<Result<Vec<_>>>()?);
    let rows = rows.collect();
    drop(contenders);
    sandbox.destroy()?;
    Ok(Execs { rows, absent })
}

fn forked() -> Result<()> {
    let argv = [CString::new(PROGRAM)?];
    match fork_copy()? {
        None => {
            let _ = exec(&argv, &[], OsStr::new(""));
            exit_now(127)
        }
        Some(pid) => {
            ensure!(wait_for(pid)?.is_some_and(|(how, ..)| how.shell_code() == 0), "{PROGRAM} failed");
            Ok(())
        }
    }
}

fn through_library(sandbox: &Sandbox) -> Result<()> {
    let exec = Exec { argv: vec![PROGRAM.into()], ..Exec::default() };
    let result = sandbox.exec(exec)?.wait()?;
    ensure!(result.end.exit_code() == 0, "{PROGRAM} failed in the session: {:?}", result.end);
    Ok(())
}

fn quietly(command: &mut Command) -> Result<()> {
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status()?;
    ensure!(status.success(), "{command:?} failed: {status}");
    Ok(())
}

fn nsenter(guard: u32) -> Command {
    let mut command = Command::new("nsenter");
    command.args(["--target", &guard.to_string(), "--mount", "--pid", "--net", "--ipc", "--uts", PROGRAM]);
    command
}

/// The keeper's child.
fn guard_of(sandbox: &Sandbox) -> Option<u32> {
    let keeper = sandbox.status().ok()?.keeper;
    let children = fs::read_to_string(format!("/proc/{keeper}/task/{keeper}/children")).ok()?;
    children.split_whitespace().next()?.parse().ok()
}
