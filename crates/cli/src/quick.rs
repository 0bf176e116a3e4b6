//! The few plain forms of `ringfence run` that nearly every call has, read without building the whole parser, which costs
//! more than the sandbox's own planning. Anything else, mistakes included, is left to the parser.

use std::ffi::OsString;

use crate::args::{RunArgs, RunFlags, SessionExecArgs, SkillRunArgs};

/// `run [--profile NAME] [--json] [-t] -- CMD…`, from what follows `run`.
pub(crate) fn quick_run(words: &[OsString]) -> Option<RunArgs> {
    let end = words.iter().position(|word| word == "--")?;
    let (flags, command) = (&words[..end], &words[end + 1..]);
    if command.is_empty() {
        return None;
    }
    let flags = quick_flags(flags)?;
    Some(RunArgs { flags, command: command.to_vec(), ..RunArgs::default() })
}

/// `skill run [--profile NAME] [--json] [-t] SKILL [SCRIPT] [-- ARG…]`, from what follows `run`.
pub(crate) fn quick_skill_run(words: &[OsString]) -> Option<SkillRunArgs> {
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let (before, args) = (&words[..end], words.get(end + 1..).unwrap_or_default());
    let mut at = 0;
    while let Some(word) = before.get(at).and_then(|word| word.to_str()).filter(|word| word.starts_with('-'))
    {
        // Its value is no name of a skill.
        at += if word == "--profile" { 2 } else { 1 };
    }
    let flags = quick_flags(before.get(..at)?)?;
    let names = &before[at..];
    if names.iter().any(|name| name.is_empty() || name.as_encoded_bytes().starts_with(b"-")) {
        return None;
    }
    let (skill, script) = match names {
        [skill] => (skill.clone(), None),
        [skill, script] => (skill.clone(), Some(script.clone())),
        _ => return None,
    };
    Some(SkillRunArgs { flags, skill, script, args: args.to_vec(), ..SkillRunArgs::default() })
}

/// `session exec [--json] [-t] [-d] NAME -- CMD…`, from what follows `exec`.
pub(crate) fn quick_session_exec(words: &[OsString]) -> Option<SessionExecArgs> {
    let end = words.iter().position(|word| word == "--")?;
    let (name, flags) = words[..end].split_last()?;
    let name = name.to_str().filter(|name| !name.is_empty() && !name.starts_with('-'))?.to_owned();
    let command = words[end + 1..].to_vec();
    let mut exec = SessionExecArgs { name, command, ..SessionExecArgs::default() };
    for word in flags {
        match word.to_str()? {
            "--json" if !exec.json => exec.json = true,
            "-t" if !exec.terminal => exec.terminal = true,
            "-d" if !exec.detach => exec.detach = true,
            _ => return None,
        }
    }
    (!exec.command.is_empty()).then_some(exec)
}

fn quick_flags(words: &[OsString]) -> Option<RunFlags> {
    let mut flags = RunFlags::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.to_str()? {
            "--json" if !flags.json => flags.json = true,
            "-t" if !flags.terminal => flags.terminal = true,
            "--profile" if flags.policy.profile.is_none() => {
                flags.policy.profile = Some(words.next()?.to_str()?.parse().ok()?);
            }
            _ => return None,
        }
    }
    Some(flags)
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
    fn a_skill_alike() {
        let slow = |text: &str| -> Option<SkillRunArgs> {
            let command = SkillRunArgs::augment_args(Command::new("run"));
            let matches = command.try_get_matches_from([vec!["run".into()], words(text)].concat()).ok()?;
            SkillRunArgs::from_arg_matches(&matches).ok()
        };
        for text in [
            "x",
            "x y",
            "d/x scripts/y.py -- a --json -- b",
            "--json x --",
            "-t --profile moderate ./x y",
            "--profile permissive x",
        ] {
            let quick = quick_skill_run(&words(text)).expect(text);
            assert_eq!(format!("{quick:?}"), format!("{:?}", slow(text).expect(text)), "{text}");
        }
        for text in ["", "--", "x y z", "x --json", "--copy x", "--profile x", "-m a x", "--profile", "-- x"]
        {
            assert!(quick_skill_run(&words(text)).is_none(), "{text}");
        }
    }

    #[test]
    fn a_session_alike() {
        let slow = |text: &str| -> Option<SessionExecArgs> {
            let command = SessionExecArgs::augment_args(Command::new("exec"));
            let matches = command.try_get_matches_from([vec!["exec".into()], words(text)].concat()).ok()?;
            SessionExecArgs::from_arg_matches(&matches).ok()
        };
        for text in ["a -- true", "--json a -- sh -c -- x", "-t -d b -- x", "-d --json b -- x --json"] {
            let quick = quick_session_exec(&words(text)).expect(text);
            assert_eq!(format!("{quick:?}"), format!("{:?}", slow(text).expect(text)), "{text}");
        }
        for text in ["a", "a --", "-- x", "--cwd /x a -- y", "a b -- x", "--timeout 3s -- x", "-d -d a -- x"]
        {
            assert!(quick_session_exec(&words(text)).is_none(), "{text}");
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
