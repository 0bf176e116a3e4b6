//! A repository, fetched by git in a sandbox of its own: the restrictive profile, that one host or directory and nothing
//! else, none of the caller's configuration, keys or variables. No hook, filter or submodule is run or fetched. The files
//! come out through a directory that is ours; git's own data stays inside and is bounded by the sandbox's disk.

use std::path::Path;

use ringfence_sandbox::{AttachAs, Attached, Attachment, End, Holes, Outcome, Stream, WriteBound};

use super::source::{GitPlace, GitSource};
use crate::error::{ErrorCode, ServiceError};
use crate::places::Places;
use crate::skills::contained::{Contained, Work, run_contained};
use crate::skills::scratch::Scratch;

const SCRIPT: &str = include_str!("git.sh");
const OUT: &str = "/run/ringfence/out";
const LOCAL: &str = "/run/ringfence/repository";
/// For what comes out. The sandbox's disk does not bound it: git leaves holes where a file has zeros, and a hole takes
/// nothing there.
const BOUND: WriteBound =
    WriteBound { bytes: 2 << 30, entries: 500_000, depth: 128, keep_free: 1 << 30, holes: Holes::Count };
/// In a debug build: another number of bytes, so that a test can reach it.
const BOUND_VARIABLE: &str = "RINGFENCE_FETCH_BOUND";
/// What git says is shown to people.
const MOST_SAID: usize = 300;

/// Every setting that could run a program or leave the one host, whatever the repository says.
const SETTINGS: &[(&str, &str)] = &[
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.attributesFile", "/dev/null"),
    ("credential.helper", ""),
    ("fetch.recurseSubmodules", "false"),
    ("submodule.recurse", "false"),
    ("transfer.fsckObjects", "true"),
    ("http.followRedirects", "initial"),
    ("init.defaultBranch", "main"),
    ("init.templateDir", ""),
    ("gc.auto", "0"),
    ("advice.detachedHead", "false"),
    // The directory of a local repository is somebody else's inside.
    ("safe.directory", "*"),
    ("protocol.allow", "never"),
];

/// The files of a revision, and its commit.
pub(super) fn fetch_git(places: &Places, source: &GitSource) -> Result<(Scratch, String), ServiceError> {
    let scratch = Scratch::new(&places.state)?;
    let bound = bound();
    let attach = |source: &Path, target: &str, attach_as| Attachment {
        source: source.to_path_buf(),
        target: target.into(),
        attach_as,
        expected: None,
    };
    let mut directories = vec![attach(&scratch.path, OUT, AttachAs::Write)];
    let (url, hosts, protocol) = match &source.at {
        GitPlace::Host(rule) => (source.url.clone(), vec![rule.clone()], "https"),
        GitPlace::Local(path) => {
            directories.push(attach(path, LOCAL, AttachAs::Read));
            (format!("file://{LOCAL}"), Vec::new(), "file")
        }
    };
    let revision = source.revision.as_deref().unwrap_or("HEAD");
    let argv = ["/bin/sh", "-c", SCRIPT, "sh", &url, revision, OUT].map(Into::into).to_vec();
    let contained = Contained {
        work: Work::Build,
        argv,
        attached: Attached {
            directories,
            variables: variables(protocol),
            bound: Some(bound),
            ..Attached::default()
        },
        registries: Vec::new(),
        hosts,
        stream: Stream::Capture,
    };
    let outcome = run_contained(places, contained)?;
    // Also what was written since the owner last counted.
    if let Err(beyond) = bound.check(&scratch.path) {
        return Err(too_much(source, &format!("it has {beyond}")));
    }
    if outcome.end == End::OverBound {
        return Err(too_much(source, "it has so much that the disk would soon be full"));
    }
    if outcome.exit_code() != 0 {
        return Err(failed(source, &outcome));
    }
    let commit = String::from_utf8_lossy(&outcome.captured.stdout).trim().to_owned();
    if !is_commit(&commit) {
        return Err(fetch_failed(source, "git named no commit"));
    }
    Ok((scratch, commit))
}

fn bound() -> WriteBound {
    let wanted = if cfg!(debug_assertions) { std::env::var(BOUND_VARIABLE).ok() } else { None };
    let bytes = wanted.and_then(|text| text.parse().ok()).unwrap_or(BOUND.bytes);
    WriteBound { bytes, ..BOUND }
}

fn variables(protocol: &str) -> Vec<(String, String)> {
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let mut variables = vec![
        pair("GIT_CONFIG_NOSYSTEM", "1"),
        pair("GIT_CONFIG_GLOBAL", "/dev/null"),
        pair("GIT_TERMINAL_PROMPT", "0"),
        pair("GIT_ASKPASS", "/bin/false"),
        pair("GIT_LFS_SKIP_SMUDGE", "1"),
        pair("GIT_PROTOCOL_FROM_USER", "0"),
        pair("LC_ALL", "C.UTF-8"),
    ];
    let allowed = format!("protocol.{protocol}.allow");
    let all = SETTINGS.iter().copied().chain([(allowed.as_str(), "always")]);
    let mut count = 0;
    for (key, value) in all {
        variables.push((format!("GIT_CONFIG_KEY_{count}"), key.to_owned()));
        variables.push((format!("GIT_CONFIG_VALUE_{count}"), value.to_owned()));
        count += 1;
    }
    variables.push(("GIT_CONFIG_COUNT".to_owned(), count.to_string()));
    variables
}

fn failed(source: &GitSource, outcome: &Outcome) -> ServiceError {
    let said = String::from_utf8_lossy(&outcome.captured.stderr).into_owned();
    if outcome.exit_code() == 127 && said.contains("git") {
        return ServiceError::new(
            ErrorCode::Missing,
            "there is no git on this machine, which fetches repositories",
            "install git, or get the files another way and add the directory",
        );
    }
    let lines = said.lines().map(str::trim).filter(|line| !line.is_empty());
    // The last line is often only advice.
    let line = lines.clone().find(|line| line.starts_with("fatal:") || line.starts_with("error:"));
    let mut why: String = line
        .or_else(|| lines.clone().next_back())
        .unwrap_or("git said nothing")
        .chars()
        .take(MOST_SAID)
        .collect();
    if let Some(denial) = outcome.denials.first() {
        why = format!("{why}; the sandbox refused {}", denial.what);
    }
    fetch_failed(source, &why)
}

fn too_much(source: &GitSource, why: &str) -> ServiceError {
    let hint = "clone it yourself, then add the directory of the skill".to_owned();
    ServiceError { hint, ..fetch_failed(source, why) }
}

fn fetch_failed(source: &GitSource, why: &str) -> ServiceError {
    let why = why.trim_start_matches("fatal: ").trim_start_matches("error: ");
    let shown = why.replace(&format!("file://{LOCAL}"), &source.url).replace(LOCAL, &source.url);
    let at = source.revision.as_ref().map(|revision| format!(" at {revision}")).unwrap_or_default();
    ServiceError::new(
        ErrorCode::FetchFailed,
        format!("{}{at} could not be fetched: {shown}", source.url),
        "look at the address and --rev; a private repository: clone it yourself, then add the directory",
    )
}

fn is_commit(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}
