//! A small static program that tries one thing a sandbox must stop, and says whether it worked.
//!
//! `ringfence-probe ATTEMPT [ARGS…]` prints `escaped: …` and ends with 0 if the attempt worked, prints `held: …`
//! and ends with 1 if it was stopped, and ends with 2 if the attempt itself is wrong. `ringfence-probe facts`
//! prints what it sees of its own confinement as JSON. One file a topic; an attempt is one function.

mod bombs;
mod facts;
mod files;
mod kernel;
mod neighbours;
mod network;
mod sockets;
mod stdio;
mod terminals;
mod verdict;

use std::process::ExitCode;

use verdict::Stop;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some((name, args)) = args.split_first() else {
        eprintln!("usage: ringfence-probe ATTEMPT [ARGS…]");
        return ExitCode::from(2);
    };
    if name == "facts" {
        println!("{}", facts::collect());
        return ExitCode::SUCCESS;
    }
    let topics = [
        files::attempt,
        kernel::attempt,
        neighbours::attempt,
        network::attempt,
        sockets::attempt,
        terminals::attempt,
        stdio::attempt,
        bombs::attempt,
    ];
    match topics.iter().find_map(|topic| topic(name, args)) {
        Some(Ok(what)) => {
            println!("escaped: {what}");
            ExitCode::SUCCESS
        }
        Some(Err(Stop::Held(why))) => {
            println!("held: {why}");
            // As any program would: a sandbox may learn from what a failed command says.
            eprintln!("ringfence-probe: {why}");
            ExitCode::from(1)
        }
        Some(Err(Stop::Broken(why))) => {
            eprintln!("broken probe: {why}");
            ExitCode::from(2)
        }
        None => {
            eprintln!("broken probe: no attempt is named {name}");
            ExitCode::from(2)
        }
    }
}
