//! The public reference validator, run beside ours.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

const VERSION: &str = "0.1.1";
const DRIVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/manifest/run_reference.py");

#[derive(Serialize)]
struct Case<'a> {
    directory: &'a str,
    manifest: String,
}

/// What the reference says of one manifest.
#[derive(Debug, Deserialize)]
pub(crate) struct Verdict {
    pub(crate) errors: Vec<String>,
    pub(crate) crash: Option<String>,
    pub(crate) properties: Option<serde_json::Value>,
    pub(crate) prompt: Option<String>,
}

impl Verdict {
    pub(crate) fn is_valid(&self) -> bool {
        self.errors.is_empty() && self.crash.is_none()
    }
}

/// A Python with the reference, or nothing (and a line that says so) where it can't be had. In CI that is a failure.
pub(crate) fn python() -> Option<PathBuf> {
    if let Some(python) = std::env::var_os("RINGFENCE_SKILLS_REF_PYTHON") {
        return Some(python.into());
    }
    match install() {
        Ok(python) => Some(python),
        Err(why) if std::env::var("CI").is_ok_and(|ci| ci == "true") => panic!("no skills-ref in CI: {why}"),
        Err(why) => {
            eprintln!("skipped: skills-ref can't be installed ({why}); set RINGFENCE_SKILLS_REF_PYTHON");
            None
        }
    }
}

/// Judge manifests, each with the name of its directory.
pub(crate) fn judge(python: &Path, manifests: &[(String, Vec<u8>)]) -> Vec<Verdict> {
    let mut input = String::new();
    for (directory, bytes) in manifests {
        let manifest = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        input += &serde_json::to_string(&Case { directory, manifest }).unwrap();
        input.push('\n');
    }
    let output = run(python, &[], input);
    let verdicts: Vec<_> = output.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(verdicts.len(), manifests.len());
    verdicts
}

/// What is wrong with each character that its Unicode knows, as a name.
pub(crate) fn characters(python: &Path) -> BTreeMap<u32, Vec<String>> {
    serde_json::from_str(&run(python, &["characters"], String::new())).unwrap()
}

fn run(python: &Path, arguments: &[&str], input: String) -> String {
    let mut child = Command::new(python)
        .arg(DRIVER)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{}: {error}", python.display()));
    let mut stdin = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "the reference ended with {}", output.status);
    writer.join().unwrap().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// A virtual environment in the target directory, kept between runs.
fn install() -> Result<PathBuf, String> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().ok_or("no target directory")?;
    let place = target.join(format!("skills-ref-{VERSION}"));
    let python = place.join("bin/python");
    if python.exists() {
        return Ok(python);
    }
    // Made beside it and renamed, so that a broken or concurrent install is never taken for a whole one.
    let fresh = tempfile::Builder::new()
        .prefix("skills-ref-")
        .tempdir_in(target)
        .map_err(|error| error.to_string())?;
    let succeed = |command: &mut Command| match command.stdout(Stdio::null()).output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        Err(error) => Err(error.to_string()),
    };
    succeed(Command::new("python3").args(["-m", "venv", "--copies"]).arg(fresh.path()))?;
    let package = format!("skills-ref=={VERSION}");
    let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", &package];
    succeed(Command::new(fresh.path().join("bin/python")).args(install))?;
    match std::fs::rename(fresh.path(), &place) {
        Ok(()) => {
            // What it was renamed to is not removed.
            let _ = fresh.keep();
        }
        Err(_) if python.exists() => {}
        Err(error) => return Err(error.to_string()),
    }
    Ok(python)
}
