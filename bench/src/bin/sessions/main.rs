//! Measures sessions: a command in one against a plain fork and exec and against the exec of others, bytes in and out,
//! two hundred of them at once, snapshots and forks.
//!
//! `sessions [--quick] [--out DIR]` writes SESSIONS.md; `--only execs` and `--only crowd` print a part and write nothing. A missed bar is a result, not an error: only what keeps it from
//! measuring fails.

mod contenders;
mod crowd;
mod others;
mod report;
mod snapshots;
mod stage;
mod streams;

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use ringfence_bench::Machine;

use report::Report;
use stage::Stage;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Amount {
    pub(crate) rounds: usize,
    pub(crate) sessions: usize,
    pub(crate) transfers: usize,
    pub(crate) stream_bytes: u64,
    /// In a large workspace.
    pub(crate) files: usize,
    pub(crate) file_bytes: usize,
}

impl Amount {
    const FULL: Self = Self {
        rounds: 300,
        sessions: 200,
        transfers: 100,
        stream_bytes: 512 << 20,
        files: 10_000,
        file_bytes: 100 << 10,
    };
    const QUICK: Self = Self {
        rounds: 5,
        sessions: 6,
        transfers: 3,
        stream_bytes: 8 << 20,
        files: 200,
        file_bytes: 10 << 10,
    };
}

fn main() -> Result<()> {
    let mut quick = false;
    let mut only = None;
    let mut out = PathBuf::from("bench");
    let mut words = std::env::args_os().skip(1);
    while let Some(word) = words.next() {
        match word.to_str() {
            Some("--quick") => quick = true,
            Some("--only") => only = words.next(),
            Some("--out") => out = words.next().context("--out needs a directory")?.into(),
            _ => bail!(
                "unknown argument `{}`; usage: sessions [--quick] [--only execs|crowd] [--out DIR]",
                word.display()
            ),
        }
    }
    let machine = Machine::look();
    let amount = if quick { Amount::QUICK } else { Amount::FULL };
    let stage = Stage::new()?;
    match only.as_deref().map(|only| only.to_str()) {
        None => {}
        Some(Some("execs")) => {
            print!("{}", report::execs(&contenders::measure(&stage, amount)?));
            return Ok(());
        }
        Some(Some("crowd")) => {
            print!("{}", report::crowd(&crowd::measure(&stage, amount)?));
            return Ok(());
        }
        Some(_) => bail!("--only is `execs` or `crowd`"),
    }
    let execs = contenders::measure(&stage, amount)?;
    let streams = streams::measure(&stage, amount)?;
    let snapshots = snapshots::measure(&stage, amount)?;
    let crowd = crowd::measure(&stage, amount)?;
    drop(stage);
    let report = Report { machine, quick, execs, streams, snapshots, crowd };
    std::fs::create_dir_all(&out).with_context(|| format!("cannot make {}", out.display()))?;
    let path = out.join("SESSIONS.md");
    std::fs::write(&path, report.markdown()).with_context(|| format!("cannot write {}", path.display()))?;
    eprintln!("wrote {}", path.display());
    for bar in report.bars() {
        println!("{bar}");
    }
    Ok(())
}
