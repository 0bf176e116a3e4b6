//! The few plain forms of `ringfence run` that nearly every call has, read without building the whole parser, which costs
//! more than the sandbox's own planning. Anything else, mistakes included, is left to the parser.

use std::ffi::OsString;

use crate::args::RunArgs;

/// `run [--profile NAME] [--json] [-t] -- CMD…`, from what follows `run`.
pub(crate) fn quick_run(words: &[OsString]) -> Option<RunArgs> {
    let end = words.iter().position(|word| word == "--")?;
    let (flags, command) = (&words[..end], &words[end + 1..]);
    if command.is_empty() {
        return None;
    }
    let mut args = RunArgs { provider: "native".into(), command: command.to_vec(), ..RunArgs::default() };
    let mut flags = flags.iter();
    while let Some(flag) = flags.next() {
        match flag.to_str()? {
            "--json" if !args.json => args.json = true,
            "-t" if !args.terminal => args.terminal = true,
            "--profile" if args.policy.profile.is_none() => {
                args.policy.profile = Some(flags.next()?.to_str()?.parse().ok()?);
            }
            _ => return None,
        }
    }
    Some(args)
}

#[cfg(test)]
mod tests {
    use clap::{Args, Command, FromArgMatches};

    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split_whitespace().map(OsString::from).collect()
    }

    fn slow(text: &str) -> Option<RunArgs> {
        let command = RunArgs::augment_args(Command::new("run"));
        let matches = command.try_get_matches_from([vec!["run".into()], words(text)].concat()).ok()?;
        RunArgs::from_arg_matches(&matches).ok()
    }

    #[test]
    fn what_it_reads_the_parser_reads_alike() {
        for text in [
            "-- true",
            "--profile restrictive -- true",
            "--json -- sh -c x",
            "-t --profile moderate -- bash",
            "--profile permissive --json -- a -- b --json",
        ] {
            let quick = quick_run(&words(text)).expect(text);
            assert_eq!(format!("{quick:?}"), format!("{:?}", slow(text).expect(text)), "{text}");
        }
    }

    #[test]
    fn anything_else_is_left_to_the_parser() {
        for text in [
            "true",
            "--",
            "--profile -- true",
            "--profile nosuch -- true",
            "--json --json -- x",
            "-x -- y",
            "--json true",
        ] {
            assert!(quick_run(&words(text)).is_none(), "{text}");
        }
    }
}
