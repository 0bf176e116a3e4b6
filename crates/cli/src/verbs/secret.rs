//! `ringfence secret set`, `ls` and `rm`. A value comes from a terminal, a pipe or a file, and is never printed.

use std::fs::File;
use std::io::{IsTerminal, stdin};
use std::os::fd::AsFd;

use ringfence_service::{Places, SecretValue, remove_secret, set_secret, stored_secrets};

use crate::args::{SecretArgs, SecretSetArgs, SecretVerb};
use crate::failure::Failure;
use crate::output;
use crate::prompt;

pub(crate) fn secret(args: SecretArgs) -> Result<i32, Failure> {
    match args.verb {
        SecretVerb::Set(args) => set(&args).map_err(|failure| failure.with_json(args.json)),
        SecretVerb::Ls { json } => list(json).map_err(|failure| failure.with_json(json)),
        SecretVerb::Rm { name, json } => remove(&name, json).map_err(|failure| failure.with_json(json)),
    }
}

fn set(args: &SecretSetArgs) -> Result<i32, Failure> {
    keep_out_of_core_dumps();
    if !args.value.is_empty() {
        return Err(Failure::new(
            "a value on the command line is seen by other programs and kept by the shell: nothing is stored",
            "`ringfence secret set NAME` asks for it; if that was a real value, replace it where it came from",
        ));
    }
    let places = Places::from_env()?;
    let value = value(args)?;
    let key = set_secret(&places, &args.name, &value)?;
    if args.json {
        output::json(&serde_json::json!({ "name": args.name, "stored": true, "key": key }));
    } else {
        output::line(format!("{} is stored; the key to it is in {key}", args.name));
    }
    Ok(0)
}

fn remove(name: &str, json: bool) -> Result<i32, Failure> {
    remove_secret(&Places::from_env()?, name)?;
    if json {
        output::json(&serde_json::json!({ "name": name, "stored": false }));
    } else {
        output::line(format!("{name} is not stored any more"));
    }
    Ok(0)
}

fn value(args: &SecretSetArgs) -> Result<SecretValue, Failure> {
    if let Some(path) = &args.from_file {
        let file = File::open(path).map_err(|error| {
            Failure::new(format!("cannot read {}: {error}", path.display()), "name a file that you can read")
        })?;
        return Ok(SecretValue::read(file)?);
    }
    // Not the standard library's own stdin: its buffer would keep a copy.
    let input = stdin().as_fd().try_clone_to_owned();
    let mut input =
        File::from(input.map_err(|error| Failure::new(format!("cannot read stdin: {error}"), "open it"))?);
    if args.from_stdin {
        return Ok(SecretValue::read(input)?);
    }
    if !stdin().is_terminal() {
        return Err(Failure::new(
            "there is no terminal to ask for the value on",
            "pass --from-stdin to read it from the pipe, or --from-file FILE",
        ));
    }
    let question = format!("value of {} (not shown): ", output::printable(&args.name));
    let typed = SecretValue::fill(|into| prompt::ask(&mut input, &question, into))?;
    typed
        .ok_or_else(|| Failure::new("no value was given; nothing is stored", "`ringfence secret set --help`"))
}

fn list(json: bool) -> Result<i32, Failure> {
    let stored = stored_secrets(&Places::from_env()?)?;
    if json {
        output::json(&stored);
    } else if stored.names.is_empty() {
        output::line("nothing is stored");
    } else {
        output::table(["secret"], stored.names.into_iter().map(|name| [name]));
    }
    Ok(0)
}

/// While a value is in this process, the kernel writes none of its memory to disk, and no other process reads it.
fn keep_out_of_core_dumps() {
    use rustix::process::{DumpableBehavior, set_dumpable_behavior};
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
}
