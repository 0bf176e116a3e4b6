//! The runtimes that are known, and all that is particular to one of them, in one table: which versions will do, what each has to
//! be told, and what it can't do.

use std::path::{Path, PathBuf};

use super::super::Cause;
use super::super::outer::CgroupView;
use super::super::program::{Distrust, Lack, ask_version, find_program};

/// Where a runtime may be: places that only root writes.
const PLACES: [&str; 8] = [
    "/usr/bin",
    "/usr/sbin",
    "/usr/local/bin",
    "/usr/local/sbin",
    "/bin",
    "/sbin",
    "/opt/kata/bin",
    "/usr/libexec/crun",
];

/// One runtime, and what is particular to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Runtime {
    pub(super) name: &'static str,
    /// The first version that will do.
    oldest: (u32, u32),
    /// What it is told before the word `run`.
    pub(super) before: &'static [&'static str],
    /// And after it. A keyring for each container outlives it for a while, and an ordinary user may have few.
    pub(super) after: &'static [&'static str],
    pub(super) cgroups: CgroupView,
    /// Why guard can't be started by it, if it can't.
    lacks: Option<&'static str>,
    /// How it is installed.
    install: &'static str,
}

/// In the order in which the first that is here is taken.
pub(super) const RUNTIMES: [Runtime; 4] = [
    Runtime {
        name: "crun",
        oldest: (1, 0),
        before: &["--cgroup-manager=disabled"],
        after: &["--no-new-keyring"],
        // Also with no manager it looks at what is mounted there, and refuses v1 beside v2 ("hybrid mode not supported").
        cgroups: CgroupView::Nothing,
        lacks: None,
        install: "apt install crun (Debian, Ubuntu), dnf install crun (Fedora)",
    },
    Runtime {
        name: "runc",
        oldest: (1, 1),
        before: &[],
        after: &["--no-new-keyring"],
        // It can't be told to leave cgroups alone, but goes on without where it may not make one and no limit is asked for; with none
        // mounted it fails.
        cgroups: CgroupView::ReadOnly,
        lacks: None,
        install: "apt install runc (Debian, Ubuntu), dnf install runc (Fedora)",
    },
    Runtime {
        name: "youki",
        oldest: (0, 3),
        before: &[],
        after: &[],
        cgroups: CgroupView::ReadOnly,
        lacks: None,
        install: "https://youki-dev.github.io/youki/user/basic_setup.html",
    },
    Runtime {
        name: "kata-runtime",
        oldest: (1, 0),
        before: &[],
        after: &[],
        cgroups: CgroupView::ReadOnly,
        lacks: Some(
            "it starts a machine of its own, into which no descriptor can be passed, so that guard has no control channel there",
        ),
        install: "https://katacontainers.io",
    },
];

/// A runtime of this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) runtime: Runtime,
    pub(super) program: PathBuf,
    /// `1.8.1`
    pub(super) version: String,
}

/// The one with this name, or without a name the first that can be used.
pub(super) fn choose(name: Option<&str>) -> Result<Found, Lack> {
    choose_in(name, &PLACES.map(Path::new))
}

fn choose_in(name: Option<&str>, places: &[&Path]) -> Result<Found, Lack> {
    if let Some(name) = name {
        let known = RUNTIMES.iter().find(|runtime| runtime.name == name);
        return known.ok_or_else(|| unknown(name)).and_then(|runtime| runtime.find(places));
    }
    let mut troubles = Vec::new();
    for runtime in &RUNTIMES {
        match runtime.find(places) {
            Ok(found) => return Ok(found),
            Err(trouble) if runtime.is_absent(places) => drop(trouble),
            Err(trouble) => troubles.push(trouble),
        }
    }
    let [crun, runc, ..] = RUNTIMES;
    let (cause, why) = match &troubles[..] {
        [] => (Cause::Absent, "no runtime for OCI bundles is installed".to_owned()),
        [first, others @ ..] => {
            let whys = others.iter().fold(first.why.clone(), |whys, other| format!("{whys}; {}", other.why));
            (first.cause, whys)
        }
    };
    Err(Lack { cause, why, fix: format!("install one: {}; or runc: {}", crun.install, runc.install) })
}

/// What is here, in order, or why it can't be used.
pub(super) fn survey() -> Vec<Result<Found, Lack>> {
    let places = PLACES.map(Path::new);
    let here = RUNTIMES.iter().filter(|runtime| !runtime.is_absent(&places));
    here.map(|runtime| runtime.find(&places)).collect()
}

fn unknown(name: &str) -> Lack {
    let names = RUNTIMES.map(|runtime| runtime.name).join(", ");
    Lack {
        cause: Cause::Absent,
        why: format!("oci has no runtime `{name}`"),
        fix: format!("--runtime with one of {names}, or leave it out"),
    }
}

impl Runtime {
    /// By the name of its program.
    pub(super) fn of(program: &Path) -> Option<Self> {
        let name = program.file_name()?.to_str()?;
        RUNTIMES.into_iter().find(|runtime| runtime.name == name)
    }

    fn is_absent(&self, places: &[&Path]) -> bool {
        find_program(self.name, places) == Err(Distrust::Absent)
    }

    fn find(&self, places: &[&Path]) -> Result<Found, Lack> {
        let name = self.name;
        let lack = |cause, why, fix| Err(Lack { cause, why, fix });
        let again = format!("install {name} again: {}", self.install);
        let program = match find_program(name, places) {
            Ok(program) => program,
            Err(distrust) => {
                let cause = distrust.cause();
                return match distrust {
                    Distrust::Absent => lack(
                        cause,
                        format!("{name} is not installed"),
                        format!("install it: {}", self.install),
                    ),
                    Distrust::Setuid(path) => lack(
                        cause,
                        format!("{} is setuid", path.display()),
                        format!("chmod u-s {}", path.display()),
                    ),
                    Distrust::Writable(path) => {
                        lack(cause, format!("{} can be written by others than root", path.display()), again)
                    }
                };
            }
        };
        if let Some(lacks) = self.lacks {
            let why = format!("{name} can't make a sandbox of Ringfence's: {lacks}");
            let fix = "--runtime crun or runc, or run the bundle that `ringfence oci bundle` writes with it";
            return lack(Cause::Unusable, why, fix.into());
        }
        let text = match ask_version(&program) {
            Ok(text) => text,
            Err(why) => return lack(Cause::Unusable, why, again),
        };
        let Some((version, numbers)) = parse_version(name, &text) else {
            let why = format!("{} --version does not say which {name} it is", program.display());
            return lack(Cause::Unusable, why, again);
        };
        if numbers < self.oldest {
            let (major, minor) = self.oldest;
            let why = format!("{} is {name} {version}, which is too old", program.display());
            return lack(
                Cause::TooOld,
                why,
                format!("install {name} {major}.{minor} or later: {}", self.install),
            );
        }
        Ok(Found { runtime: *self, program, version })
    }
}

/// `crun version 1.8.1`, `runc version 1.1.5+ds1`, `youki version: 0.5.3`: in words, and to be compared.
fn parse_version(name: &str, text: &str) -> Option<(String, (u32, u32))> {
    let line = text.lines().find_map(|line| line.trim().strip_prefix(name))?;
    let word = line.split_whitespace().find(|word| word.starts_with(|first: char| first.is_ascii_digit()))?;
    let mut parts = word.split('.');
    let major = parts.next()?.parse().ok()?;
    let minor: String = parts.next()?.chars().take_while(char::is_ascii_digit).collect();
    Some((word.to_owned(), (major, minor.parse().ok()?)))
}

#[cfg(test)]
#[path = "runtimes_tests.rs"]
mod tests;
