//! Measures a `sandbox_run` over the Model Context Protocol, on stdio and over HTTP, beside the same call to a tool that only
//! gives back what it gets, in the same SDK, which is what the protocol itself costs, and beside a plain fork and exec of the
//! same program.
//!
//! `mcp [--quick] [--out DIR]` writes MCP.md. A missed bar is a result, not an error: only what keeps it from measuring
//! fails.

mod over;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use ringfence_bench::{Machine, Order, Spread};
use serde_json::{Value, json};

use over::{Connection, Http, Stdio as OverStdio};

const PROGRAM: &str = "/bin/true";
/// What our part of a call may cost, against a plain fork and exec.
const BAR: f64 = 2.0;

fn main() -> Result<()> {
    let (mut rounds, mut out) = (2000, PathBuf::from("bench"));
    let mut words = std::env::args_os().skip(1);
    while let Some(word) = words.next() {
        match word.to_str() {
            Some("--quick") => rounds = 5,
            Some("--out") => out = words.next().context("--out needs a directory")?.into(),
            _ => bail!("unknown argument `{}`; usage: mcp [--quick] [--out DIR]", word.display()),
        }
    }
    let machine = Machine::look();
    let place = tempfile::Builder::new().prefix("ringfence-bench-").tempdir()?;
    let ringfence = std::env::current_exe()?.with_file_name("ringfence");
    ensure!(ringfence.exists(), "the ringfence program is not built: cargo build --release");
    let mut stdio = OverStdio::start(&ringfence, place.path())?;
    let mut http = Http::start(&ringfence, place.path())?;
    let mut echo = (OverStdio::echo()?, Http::echo()?);
    let rows = measure(rounds, &mut stdio, &mut http, &mut echo)?;
    let text = report(&machine, &rows);
    print!("{text}");
    std::fs::create_dir_all(&out)?;
    std::fs::write(out.join("MCP.md"), text)?;
    Ok(())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Spawn,
    Echo(bool),
    Run(bool),
    WriteAndRun(bool),
}

impl What {
    fn label(self) -> String {
        let over = |http: bool| if http { "HTTP" } else { "stdio" };
        match self {
            Self::Spawn => "plain fork, exec, wait".into(),
            Self::Echo(http) => format!("a bare echo tool over {}", over(http)),
            Self::Run(http) => format!("`sandbox_run` over {}", over(http)),
            Self::WriteAndRun(http) => format!("`sandbox_file_write` and `sandbox_run` over {}", over(http)),
        }
    }
}

fn measure(
    rounds: usize,
    stdio: &mut OverStdio,
    http: &mut Http,
    echo: &mut (OverStdio, Http),
) -> Result<Vec<(What, Spread)>> {
    let mut all = vec![What::Spawn];
    all.extend(
        [false, true].iter().flat_map(|http| [What::Echo(*http), What::Run(*http), What::WriteAndRun(*http)]),
    );
    let mut samples: Vec<Vec<f64>> = vec![Vec::new(); all.len()];
    let mut order = Order::default();
    for round in 0..=rounds {
        let mut turns: Vec<usize> = (0..all.len()).collect();
        order.shuffle(&mut turns);
        for turn in turns {
            let begun = Instant::now();
            match all[turn] {
                What::Spawn => spawn()?,
                What::Echo(false) => echoed(&mut echo.0)?,
                What::Echo(true) => echoed(&mut echo.1)?,
                What::Run(false) => run(stdio)?,
                What::Run(true) => run(http)?,
                What::WriteAndRun(false) => write_and_run(stdio)?,
                What::WriteAndRun(true) => write_and_run(http)?,
            }
            // The first round warms.
            if round > 0 {
                samples[turn].push(begun.elapsed().as_secs_f64() * 1000.0);
            }
        }
    }
    let rows = all.into_iter().zip(samples);
    rows.map(|(what, samples)| Ok((what, Spread::of(samples).context("no samples")?))).collect()
}

fn spawn() -> Result<()> {
    let status = Command::new(PROGRAM).stdin(Stdio::null()).status()?;
    ensure!(status.success(), "{PROGRAM} failed");
    Ok(())
}

/// The same arguments, so that as much is read and written.
fn echoed(connection: &mut impl Connection) -> Result<()> {
    let told = call(connection, "echo", json!({ "command": [PROGRAM] }))?;
    ensure!(told["command"][0] == PROGRAM, "{told}");
    Ok(())
}

fn call(connection: &mut impl Connection, tool: &str, arguments: Value) -> Result<Value> {
    let result = connection.ask("tools/call", &json!({ "name": tool, "arguments": arguments }))?;
    ensure!(result["isError"] != true, "{tool}: {result}");
    Ok(result["structuredContent"].clone())
}

fn run(connection: &mut impl Connection) -> Result<()> {
    let told = call(connection, "sandbox_run", json!({ "command": [PROGRAM] }))?;
    ensure!(told["exit_code"] == 0, "{told}");
    Ok(())
}

fn write_and_run(connection: &mut impl Connection) -> Result<()> {
    call(connection, "sandbox_file_write", json!({ "path": "note.txt", "content": "one line\n" }))?;
    run(connection)
}

fn report(machine: &Machine, rows: &[(What, Spread)]) -> String {
    let of = |what: What| rows.iter().find(|(had, _)| *had == what).map_or(f64::NAN, |(_, one)| one.median);
    let spawn = of(What::Spawn);
    let mut text = String::from("# A call over MCP\n\n");
    let _ = writeln!(
        text,
        "{}, {} cores, Linux {}, {}, load {} before. Milliseconds, in turns, one call at a time. Written by `./bench/run mcp`.\n",
        machine.cpu, machine.cores, machine.kernel, machine.date, machine.load
    );
    text.push_str("| what | median | p10 | p90 | against fork and exec |\n|---|---|---|---|---|\n");
    for (what, one) in rows {
        let ratio = one.median / spawn;
        let _ = writeln!(
            text,
            "| {} | {:.2} | {:.2} | {:.2} | {ratio:.2}x |",
            what.label(),
            one.median,
            one.p10,
            one.p90
        );
    }
    text.push('\n');
    for http in [false, true] {
        let ours = (of(What::Run(http)) - of(What::Echo(http))) / spawn;
        let kept = if ours <= BAR { "kept" } else { "missed" };
        let over = if http { "HTTP" } else { "stdio" };
        let _ = writeln!(
            text,
            "Our part over {over} (`sandbox_run` less the echo tool) is {ours:.2}x a plain fork and exec; the bar of {BAR}x is {kept}.\n"
        );
    }
    text
}
