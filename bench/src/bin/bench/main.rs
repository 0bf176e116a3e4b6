//! Measures what a sandbox costs: plain exec, the floor, `bwrap` and `ringfence run`, in one run, taken in turns.
//!
//! `bench [--quick] [--out DIR]` writes RESULTS.md and results.svg. It starts itself again as `bench measure` for
//! each user that it measures as. A missed bar is a result, not an error: only what keeps it from measuring fails.

mod contender;
mod figures;
mod memory;
mod plot;
mod report;
mod rhythm;
mod stage;
mod throughput;

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use ringfence_bench::Machine;

use contender::Setup;
use figures::{Figures, Timed};
use report::Report;
use stage::{ORDINARY, Stage, as_user};

fn main() -> Result<()> {
    let mut quick = false;
    let mut out = PathBuf::from("bench");
    let mut words = std::env::args_os().skip(1);
    while let Some(word) = words.next() {
        match word.to_str() {
            Some("measure") => return measure(),
            Some("--quick") => quick = true,
            Some("--out") => out = words.next().context("--out needs a directory")?.into(),
            _ => bail!("unknown argument `{}`; usage: bench [--quick] [--out DIR]", word.display()),
        }
    }
    let report = Report { machine: Machine::look(), quick, figures: all_users(quick)? };
    std::fs::create_dir_all(&out).with_context(|| format!("cannot make {}", out.display()))?;
    for (name, text) in [("RESULTS.md", report.markdown()), ("results.svg", plot::svg(&report.figures))] {
        let path = out.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        eprintln!("wrote {}", path.display());
    }
    for bar in report.bars() {
        println!("{bar}");
    }
    Ok(())
}

/// As the caller and, where the caller is root and can become somebody else, as an ordinary user.
fn all_users(quick: bool) -> Result<Vec<Figures>> {
    let mut users = vec![None];
    let root = rustix::process::getuid().is_root();
    if root && Command::new("setpriv").arg("--version").stdout(Stdio::null()).status().is_ok() {
        users.push(Some(ORDINARY));
    }
    let mut all = Vec::new();
    for user in users {
        let stage = Stage::make(user)?;
        let setup = Setup::new(&stage, quick)?;
        let who = if root && user.is_none() { "root" } else { "an ordinary user" };
        eprintln!("measuring as {who}");
        let (timings, throughput) = measure_as(user, &setup)?;
        let memory = memory::measure(&setup, user)?;
        all.push(Figures { who: who.into(), timings, throughput, memory });
    }
    Ok(all)
}

/// In a process of that user, so that starting a contender costs no change of user.
fn measure_as(user: Option<u32>, setup: &Setup) -> Result<Timed> {
    let program = setup.programs.join("bench");
    let mut child = as_user(user, &[program.as_os_str().to_owned(), "measure".into()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start the measuring process")?;
    let mut stdin = child.stdin.take().context("no stdin")?;
    stdin.write_all(&serde_json::to_vec(setup)?)?;
    drop(stdin);
    let output = child.wait_with_output()?;
    if !output.status.success() {
        bail!("the measuring process ended with {}", output.status);
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn measure() -> Result<()> {
    let mut text = Vec::new();
    std::io::stdin().read_to_end(&mut text)?;
    let setup: Setup = serde_json::from_slice(&text)?;
    setup.check()?;
    let timed: Timed = (rhythm::measure(&setup)?, throughput::measure(&setup)?);
    println!("{}", serde_json::to_string(&timed)?);
    Ok(())
}
