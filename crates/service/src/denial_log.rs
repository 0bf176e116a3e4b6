//! What was blocked lately: one line of JSON a run that had denials, in the state directory.
//!
//! A run without denials never touches it. The file is cut back to the last runs when it has grown.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use ringfence_policy::masked_words;
use ringfence_sandbox::Denial;
use serde::{Deserialize, Serialize};

use crate::error::ServiceError;
use crate::places::Places;

const FILE: &str = "denials.jsonl";
const LOCK: &str = "denials.lock";
/// How many runs are kept and shown.
const RUNS: usize = 200;
/// Cut back beyond this many bytes, to at most half of them.
const ROTATE: u64 = 1 << 20;
/// How much of a command is kept.
const COMMAND: usize = 200;

/// The denials of one run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeniedRun {
    /// RFC 3339.
    pub time: String,
    /// The directory that `ringfence` was started in.
    pub directory: PathBuf,
    pub command: String,
    pub exit_code: i32,
    pub denials: Vec<Denial>,
}

/// The last runs with denials, the newest first.
pub fn denied_runs(places: &Places) -> Result<Vec<DeniedRun>, ServiceError> {
    let path = places.state.path().join(FILE);
    let text = match tail(&path, 4 * ROTATE) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(ServiceError::state("read", &path, &error)),
    };
    // A line that can't be read was cut by a full disk or the bound above: the others still count.
    Ok(text.lines().rev().filter_map(|line| serde_json::from_str(line).ok()).take(RUNS).collect())
}

pub(crate) fn record_denials(
    places: &Places,
    argv: &[OsString],
    exit_code: i32,
    denials: &[Denial],
) -> Result<(), ServiceError> {
    let entry = DeniedRun {
        time: jiff::Timestamp::now().round(jiff::Unit::Second).unwrap_or_default().to_string(),
        directory: places.current.to_string_lossy().into_owned().into(),
        command: shortened(argv),
        exit_code,
        denials: denials.to_vec(),
    };
    append(places, &entry)
}

fn append(places: &Places, entry: &DeniedRun) -> Result<(), ServiceError> {
    let path = places.state.path().join(FILE);
    let problem = |error: std::io::Error| ServiceError::state("write", &path, &error);
    let mut line = serde_json::to_vec(entry).map_err(|error| problem(error.into()))?;
    line.push(b'\n');
    let _lock = places.state.lock(LOCK)?;
    let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(&path).map_err(problem)?;
    file.write_all(&line).map_err(problem)?;
    if file.metadata().map_err(problem)?.len() > ROTATE {
        let text = tail(&path, ROTATE / 2).map_err(problem)?;
        let lines: Vec<&str> = text.lines().collect();
        let kept = &lines[lines.len().saturating_sub(RUNS)..];
        places.state.replace(FILE, (kept.join("\n") + "\n").as_bytes())?;
    }
    Ok(())
}

/// The whole lines of the last `most` bytes.
fn tail(path: &std::path::Path, most: u64) -> std::io::Result<String> {
    let mut file = std::fs::File::open(path)?;
    let length = file.metadata()?.len();
    let skipped = length.saturating_sub(most);
    file.seek(SeekFrom::Start(skipped))?;
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    if skipped == 0 {
        return Ok(text);
    }
    Ok(text.split_once('\n').map(|(_, rest)| rest.to_owned()).unwrap_or_default())
}

fn shortened(argv: &[OsString]) -> String {
    let words: Vec<_> = argv.iter().take(64).map(|word| word.to_string_lossy()).collect();
    let line = masked_words(&words, &[]).join(" ");
    let mut short: String = line.chars().take(COMMAND).collect();
    if short.len() < line.len() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::StateDir;
    use ringfence_sandbox::DenialKind;

    fn entry(number: usize, size: usize) -> DeniedRun {
        let denial = Denial {
            process: None,
            kind: DenialKind::Syscall,
            what: "x".repeat(size),
            rule: "syscalls".into(),
            remedy: String::new(),
            flag: None,
            setting: None,
            count: 1,
            inferred: false,
        };
        DeniedRun {
            time: String::new(),
            directory: "/".into(),
            command: number.to_string(),
            exit_code: 1,
            denials: vec![denial],
        }
    }

    #[test]
    fn newest_first_and_cut_back_when_large() {
        let root = tempfile::tempdir().unwrap();
        let mut places = Places::from_env().unwrap();
        places.state = StateDir::new(root.path().join("state"));
        assert_eq!(denied_runs(&places).unwrap(), []);
        for number in 0..1500 {
            append(&places, &entry(number, 1000)).unwrap();
        }
        let size = std::fs::metadata(places.state.path().join(FILE)).unwrap().len();
        assert!(size <= ROTATE, "{size}");
        let runs = denied_runs(&places).unwrap();
        assert_eq!(runs.len(), RUNS);
        let numbers: Vec<String> = runs.into_iter().map(|run| run.command).collect();
        let expected: Vec<String> = (1500 - RUNS..1500).rev().map(|number| number.to_string()).collect();
        assert_eq!(numbers, expected);
    }

    #[test]
    fn one_huge_run_does_not_grow_the_file_for_ever() {
        let root = tempfile::tempdir().unwrap();
        let mut places = Places::from_env().unwrap();
        places.state = StateDir::new(root.path().join("state"));
        for number in 0..3 {
            append(&places, &entry(number, 2 << 20)).unwrap();
        }
        assert!(std::fs::metadata(places.state.path().join(FILE)).unwrap().len() <= ROTATE);
    }

    #[test]
    fn long_commands_are_cut() {
        assert_eq!(shortened(&["echo".into(), "hi".into()]), "echo hi");
        assert_eq!(shortened(&["é".repeat(300).into()]).chars().count(), COMMAND + 1);
    }
}
