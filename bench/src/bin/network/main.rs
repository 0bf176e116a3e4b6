//! Measures what the way out costs: a local HTTP/1.1 server reached directly, through egress in each of its forms, and
//! through srt's proxies where srt is installed, in one run, taken in turns.
//!
//! `network [--quick] [--out DIR]` writes NETWORK.md. All of it happens in a network and a mount namespace of its own.
//! It starts itself again as `network client JOB` where the client is to be, inside a sandbox or not. A missed bar is a
//! result, not an error: only what keeps it from measuring fails.

mod certificates;
mod client;
mod connection;
mod figures;
mod job;
mod look_up;
mod measure;
mod others;
mod place;
mod report;
mod route;
mod server;
mod stage;
mod start;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use ringfence_bench::Machine;

use certificates::Certificates;
use job::Job;
use others::Ticks;
use report::Report;
use route::Route;
use stage::Stage;

fn main() -> Result<()> {
    let mut quick = false;
    let mut out = PathBuf::from("bench");
    let mut words = std::env::args_os().skip(1);
    while let Some(word) = words.next() {
        match word.to_str() {
            Some("client") => {
                let job = words.next().context("client needs a job")?;
                return client::run(&Job::parse(&job.to_string_lossy())?);
            }
            Some("--quick") => quick = true,
            Some("--out") => out = words.next().context("--out needs a directory")?.into(),
            _ => bail!("unknown argument `{}`; usage: network [--quick] [--out DIR]", word.display()),
        }
    }
    if !rustix::process::getuid().is_root() {
        bail!(
            "the network is measured in namespaces with addresses of their own, which need root: run it as root"
        );
    }
    place::within(|| measure_all(quick, &out))
}

fn measure_all(quick: bool, out: &Path) -> Result<()> {
    let machine = Machine::look();
    let before = Ticks::now()?;
    let certificates = Certificates::make()?;
    let stage = Stage::make(&certificates)?;
    place::name_hosts(&stage.path("hosts"))?;
    let amount = if quick { measure::QUICK } else { measure::FULL };
    // Before the server: a process with its thousand threads takes longer to start another.
    let start = start::measure(&stage, amount.starts)?;
    server::start(certificates)?;
    let srt = stage.find_srt();
    let routes: Vec<Route> =
        Route::ALL.into_iter().filter(|route| srt.is_some() || !route.needs_srt()).collect();
    let figures = measure::measure(&stage, &routes, amount, start)?;
    let others = Ticks::now()?.others_since(before);
    let report = Report { machine, quick, others, srt: srt.map(|srt| srt.version), figures };
    std::fs::create_dir_all(out).with_context(|| format!("cannot make {}", out.display()))?;
    let path = out.join("NETWORK.md");
    std::fs::write(&path, report.markdown()).with_context(|| format!("cannot write {}", path.display()))?;
    eprintln!("wrote {}", path.display());
    for bar in report.bars() {
        println!("{bar}");
    }
    Ok(())
}
