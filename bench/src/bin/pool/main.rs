//! Measures what a sandbox made ahead saves: `POST /v1/run` of `/bin/true` at one connection, with a stocked pool and
//! without one, against a plain fork and exec.
//!
//! `pool [--quick] [--out DIR]` writes POOL.md. A missed bar is a result, not an error: only what keeps it from measuring fails.

mod server;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use ringfence_bench::{Machine, Order, Spread, load};

use server::{Server, Stage};

/// `POST /v1/run` with a stocked pool against a plain fork and exec.
const BAR: f64 = 3.0;
/// In this time another sandbox is made.
const PAUSE: Duration = Duration::from_millis(40);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Fork,
    Status,
    Private,
    Workspace,
    ColdPrivate,
    ColdWorkspace,
}

const WAYS: [(Way, &str); 6] = [
    (Way::Fork, "plain fork and exec"),
    (Way::Status, "`GET /v1/status`: HTTP, key and nothing run"),
    (Way::Private, "`POST /v1/run`, private workspace, stocked pool"),
    (Way::Workspace, "`POST /v1/run`, the caller's workspace, stocked pool"),
    (Way::ColdPrivate, "`POST /v1/run`, private workspace, no pool"),
    (Way::ColdWorkspace, "`POST /v1/run`, the caller's workspace, no pool"),
];

fn main() -> Result<()> {
    let mut quick = false;
    let mut out = PathBuf::from("bench");
    let mut words = std::env::args_os().skip(1);
    while let Some(word) = words.next() {
        match word.to_str() {
            Some("--quick") => quick = true,
            Some("--out") => out = words.next().context("--out needs a directory")?.into(),
            _ => bail!("unknown argument `{}`; usage: pool [--quick] [--out DIR]", word.display()),
        }
    }
    let machine = Machine::look();
    let stage = Stage::new()?;
    let (mut stocked, mut cold) = (Server::start(&stage, 8)?, Server::start(&stage, 0)?);
    let mut samples: Vec<Vec<f64>> = vec![Vec::new(); WAYS.len()];
    let mut order = Order::default();
    for round in 0..(if quick { 3 } else { 300 }) {
        let mut turns: Vec<usize> = (0..WAYS.len()).collect();
        order.shuffle(&mut turns);
        for turn in turns {
            std::thread::sleep(PAUSE);
            let took = once(WAYS[turn].0, &mut stocked, &mut cold)?;
            // The first ones have nothing ready yet.
            if quick || round >= 10 {
                samples[turn].push(took.as_secs_f64() * 1e3);
            }
        }
    }
    let (hits, misses) = stocked.hits()?;
    drop((stocked, cold));
    let spreads: Vec<Spread> = samples.into_iter().filter_map(Spread::of).collect();
    ensure!(spreads.len() == WAYS.len(), "nothing was measured");
    let times = |way: Way| {
        let at = WAYS.iter().position(|(other, _)| *other == way).unwrap_or(0);
        spreads[at].median / spreads[0].median
    };
    let verdict = if times(Way::Private) <= BAR { "**pass**" } else { "**miss**" };
    let bar = format!(
        "{verdict}: `POST /v1/run` of `/bin/true` with a stocked pool takes {:.2}x a plain fork and exec (private \
         workspace; {:.2}x in the caller's own); the bar is at most {BAR}x. Without a pool: {:.2}x and {:.2}x",
        times(Way::Private),
        times(Way::Workspace),
        times(Way::ColdPrivate),
        times(Way::ColdWorkspace)
    );
    let mut rows = String::new();
    for ((_, what), spread) in WAYS.iter().zip(&spreads) {
        let Spread { median, p10, p90, count } = spread;
        let ratio = median / spreads[0].median;
        writeln!(rows, "| {what} | {median:.3} | {p10:.3} | {p90:.3} | {ratio:.2} | {count} |")?;
    }
    let Machine { cpu, cores, kernel, date, load: before } = &machine;
    let note = if quick { "\nA quick run: it only shows that everything runs.\n" } else { "" };
    let text = format!(
        "# What a sandbox made ahead saves\n\nWritten by `./bench/run pool`. {date}, {cpu}, {cores} cores, Linux {kernel}, load \
         {before} before and {} after. One connection, everybody in turns, {} ms between two.\n{note}\n- {bar}\n\n\
         | what | median, ms | p10 | p90 | times fork and exec | samples |\n|---|---|---|---|---|---|\n{rows}\n\
         Of the runs of the server with a pool {hits} found a sandbox ready and {misses} did not.\n",
        load(),
        PAUSE.as_millis()
    );
    std::fs::create_dir_all(&out).with_context(|| format!("cannot make {}", out.display()))?;
    let path = out.join("POOL.md");
    std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    eprintln!("wrote {}", path.display());
    println!("{bar}");
    Ok(())
}

fn once(way: Way, stocked: &mut Server, cold: &mut Server) -> Result<Duration> {
    let began = Instant::now();
    match way {
        Way::Fork => ensure!(Command::new("/bin/true").status()?.success(), "/bin/true failed"),
        Way::Status => stocked.get("/v1/status")?,
        Way::Private => stocked.run("private")?,
        Way::Workspace => stocked.run("default")?,
        Way::ColdPrivate => cold.run("private")?,
        Way::ColdWorkspace => cold.run("default")?,
    }
    Ok(began.elapsed())
}
