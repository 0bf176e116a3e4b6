//! Measures skills by the thousand: reading and checking manifests, indexing, search through the library and through the
//! command, what `skill run` costs over `run` of the same script, and what a whole library beside it costs.
//!
//! `skills [--quick] [--out DIR]` writes SKILLS.md. A missed bar is a result, not an error: only what keeps it from
//! measuring fails.

mod generated;
mod measure;
mod report;

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use ringfence_bench::Machine;

use measure::Amount;
use report::Report;

fn main() -> Result<()> {
    let mut quick = false;
    let mut out = PathBuf::from("bench");
    let mut words = std::env::args_os().skip(1);
    while let Some(word) = words.next() {
        match word.to_str() {
            Some("--quick") => quick = true,
            Some("--out") => out = words.next().context("--out needs a directory")?.into(),
            _ => bail!("unknown argument `{}`; usage: skills [--quick] [--out DIR]", word.display()),
        }
    }
    let machine = Machine::look();
    let amount = if quick { Amount::QUICK } else { Amount::FULL };
    let figures = measure::measure(amount)?;
    let report = Report { machine, quick, amount, figures };
    std::fs::create_dir_all(&out).with_context(|| format!("cannot make {}", out.display()))?;
    let path = out.join("SKILLS.md");
    std::fs::write(&path, report.markdown()).with_context(|| format!("cannot write {}", path.display()))?;
    eprintln!("wrote {}", path.display());
    for bar in report.bars() {
        println!("{bar}");
    }
    Ok(())
}
