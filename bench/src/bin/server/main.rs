//! Measures the server: sixty-four connections that run `/bin/true` for a minute beside direct creation in a loop, one
//! connection beside a plain fork and exec, HTTP itself apart, and what is left when it is over.
//!
//! `server [--quick] [--out DIR]` writes SERVER.md. An error or a leak fails it; a missed bar is a result.

mod client;
mod place;
mod report;

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use ringfence_bench::{Machine, Spread, load};

use client::{Answers, Client};
use place::{Held, Place};
use report::{Report, Row};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Amount {
    pub(crate) connections: usize,
    pub(crate) time: Duration,
    pub(crate) rounds: usize,
}

impl Amount {
    const FULL: Self = Self { connections: 64, time: Duration::from_secs(60), rounds: 300 };
    const QUICK: Self = Self { connections: 64, time: Duration::from_secs(3), rounds: 10 };
}

/// With nothing of the caller's to write to: a sandbox whose walls were closed ahead.
const RUN: &str = r#"{"command":["/bin/true"],"workspace":"private"}"#;
/// As a request is that says no more: in the caller's own workspace.
const PLAIN: &str = r#"{"command":["/bin/true"]}"#;

fn main() -> Result<()> {
    let mut quick = false;
    let mut out = PathBuf::from("bench");
    let mut words = std::env::args_os().skip(1);
    while let Some(word) = words.next() {
        match word.to_str() {
            Some("--quick") => quick = true,
            Some("--out") => out = words.next().context("--out needs a directory")?.into(),
            _ => bail!("unknown argument `{}`; usage: server [--quick] [--out DIR]", word.display()),
        }
    }
    let machine = Machine::look();
    let amount = if quick { Amount::QUICK } else { Amount::FULL };
    let place = Place::start(amount.connections)?;
    let one = one_by_one(&place, amount)?;
    // Once, so that what is made once is no leak.
    let _ = crowd(&place, Amount { time: Duration::from_secs(2), ..amount })?;
    let before = Held::of(&place)?;
    let crowd = crowd(&place, amount)?;
    let after = place.settled(&before, crowd.asked())?;
    let direct = direct(&place, amount)?;
    let docker = docker(amount);
    place.stop()?;
    let leaks = after.more_than(&before, crowd.asked());
    let report =
        Report { machine, load_after: load(), quick, amount, one, crowd, direct, docker, before, after };
    std::fs::create_dir_all(&out).with_context(|| format!("cannot make {}", out.display()))?;
    let path = out.join("SERVER.md");
    std::fs::write(&path, report.markdown()).with_context(|| format!("cannot write {}", path.display()))?;
    eprintln!("wrote {}", path.display());
    for bar in report.bars() {
        println!("{bar}");
    }
    if report.crowd.wrong > 0 {
        bail!("{} requests were not answered with 200: {}", report.crowd.wrong, report.crowd.first_wrong);
    }
    if !leaks.is_empty() {
        bail!("something is left: {}", leaks.join(", "));
    }
    Ok(())
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// One after the other, in turns, on one connection.
fn one_by_one(place: &Place, amount: Amount) -> Result<Vec<Row>> {
    let mut client = Client::connect(place)?;
    let mut samples: [(&str, Vec<f64>); 6] = [
        ("plain fork, exec, wait", Vec::new()),
        ("`ringfence run -- /bin/true`", Vec::new()),
        ("`POST /v1/run` of `/bin/true`, private workspace", Vec::new()),
        ("`POST /v1/run` of `/bin/true`, the caller's workspace (the default)", Vec::new()),
        ("HTTP itself: `GET /healthz`", Vec::new()),
        ("with a key: `GET /v1/me`", Vec::new()),
    ];
    for round in 0..amount.rounds + 5 {
        for (index, (_, times)) in samples.iter_mut().enumerate() {
            let begun = Instant::now();
            match index {
                0 => ran(&mut Command::new("/bin/true"))?,
                1 => ran(&mut place.direct())?,
                2 => client.ask("POST", "/v1/run", RUN)?,
                3 => client.ask("POST", "/v1/run", PLAIN)?,
                4 => client.ask("GET", "/healthz", "")?,
                _ => client.ask("GET", "/v1/me", "")?,
            }
            // The first ones warm up.
            if round >= 5 {
                times.push(milliseconds(begun.elapsed()));
            }
        }
    }
    let rows = samples.into_iter().filter_map(|(what, times)| Some(Row { what, spread: Spread::of(times)? }));
    Ok(rows.collect())
}

fn ran(command: &mut Command) -> Result<()> {
    let status = command.status().context("cannot start a command")?;
    anyhow::ensure!(status.success(), "{command:?} ended with {status}");
    Ok(())
}

/// All connections at once, each with the next request as soon as it has an answer.
fn crowd(place: &Place, amount: Amount) -> Result<Answers> {
    let end = Instant::now() + amount.time;
    let begun = Instant::now();
    let all = std::thread::scope(|scope| {
        let talking: Vec<_> = (0..amount.connections)
            .map(|_| {
                scope.spawn(move || {
                    let mut answers = Answers::default();
                    let mut client = Client::connect(place)?;
                    while Instant::now() < end {
                        let asked = Instant::now();
                        let told = client.ask("POST", "/v1/run", RUN);
                        answers.note(milliseconds(asked.elapsed()), told);
                        if answers.wrong > 0 {
                            client = Client::connect(place)?;
                        }
                    }
                    Ok(answers)
                })
            })
            .collect();
        let mut all = Answers::default();
        for one in talking {
            let one: Result<Answers> = one.join().unwrap_or_else(|_| bail!("a client panicked"));
            all.add(one?);
        }
        anyhow::Ok(all)
    })?;
    Ok(Answers { seconds: begun.elapsed().as_secs_f64(), ..all })
}

/// What a program without a server does: `ringfence run` in a loop, as many loops as there are processors.
fn direct(place: &Place, amount: Amount) -> Result<f64> {
    let loops = std::thread::available_parallelism().map_or(1, Into::into);
    let begun = Instant::now();
    let end = begun + amount.time / 4;
    let made = std::thread::scope(|scope| {
        let running: Vec<_> = (0..loops)
            .map(|_| {
                scope.spawn(move || {
                    let mut count = 0_usize;
                    while Instant::now() < end {
                        ran(&mut place.direct())?;
                        count += 1;
                    }
                    anyhow::Ok(count)
                })
            })
            .collect();
        running
            .into_iter()
            .map(|one| one.join().unwrap_or_else(|_| bail!("a loop panicked")))
            .sum::<Result<usize>>()
    })?;
    Ok(made as f64 / begun.elapsed().as_secs_f64())
}

/// `docker exec` of the same in a container that runs, where there is a daemon with an image.
fn docker(amount: Amount) -> Result<Spread, String> {
    let docker = |args: &[&str]| {
        let done = Command::new("docker").args(args).output().map_err(|error| error.to_string())?;
        let text = |bytes: &[u8]| {
            String::from_utf8_lossy(bytes).trim().lines().next().unwrap_or_default().to_owned()
        };
        if done.status.success() { Ok(text(&done.stdout)) } else { Err(text(&done.stderr)) }
    };
    let image = docker(&["images", "-q"])?;
    if image.is_empty() {
        return Err("there is no image".into());
    }
    let id = docker(&["run", "-d", "--rm", "--network", "none", &image, "sleep", "600"])?;
    let samples: Result<Vec<f64>, String> = (0..amount.rounds.min(50))
        .map(|_| {
            let begun = Instant::now();
            docker(&["exec", &id, "/bin/true"])?;
            Ok(milliseconds(begun.elapsed()))
        })
        .collect();
    let _ = docker(&["kill", &id]);
    Spread::of(samples?).ok_or_else(|| "nothing was measured".into())
}
