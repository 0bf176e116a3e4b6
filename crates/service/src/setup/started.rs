//! What a client was started with, before the settings of a project came to it: some clients hand the variables of such a file
//! on to all that they start, to us too.
//!
//! Invariant: a variable by which somebody could say what a sandbox is, and where it is, has the value that the user gave it: in the
//! environment that the client was started in, or in the client's settings of their own. Any other value refuses. One that the
//! client keeps for itself, as Codex does with most, is taken from where the client has it.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::{Client, json_text};
use crate::error::{ErrorCode, ServiceError};
use crate::files::read_if_there;

type Variables = BTreeMap<OsString, OsString>;

/// Beside those that begin with `RINGFENCE_` or `XDG_`.
const DECIDE: &[&str] = &[
    // Where the user's policy, state and secrets are.
    "HOME",
    // Where the client's own settings are, with what they deny.
    "CLAUDE_CONFIG_DIR",
    "CODEX_HOME",
    "GEMINI_CLI_HOME",
    "GEMINI_CLI_SYSTEM_DEFAULTS_PATH",
    "GEMINI_CLI_SYSTEM_SETTINGS_PATH",
    "OPENCODE_CONFIG",
    "OPENCODE_CONFIG_DIR",
    // Who makes the sandbox.
    "DOCKER_HOST",
    // What is shown as a toolchain.
    "CARGO_HOME",
    "RUSTUP_HOME",
    "PYENV_ROOT",
    "RBENV_ROOT",
    "NVM_DIR",
    "GOPATH",
    "GOROOT",
    "VOLTA_HOME",
    "DENO_DIR",
    // Through whom the sandbox's connections go.
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
];
/// Of `ringfence mcp`: where the client was started without them they may tighten, which the policy sees to.
const MAY_TIGHTEN: &[&str] = &["RINGFENCE_PROFILE", "RINGFENCE_POLICY"];
/// Above us are a shell or two, no more.
const ABOVE: usize = 8;

/// The process of a client.
#[derive(Debug)]
pub(super) struct Started {
    pid: i32,
    variables: Variables,
}

/// Is the environment of this `ringfence mcp` the one that `client` was started in? What a project's settings may add is left
/// out: `RINGFENCE_PROFILE` and `RINGFENCE_POLICY`, which only tighten there. Where something is missing this process starts
/// again with it, and so must have done nothing yet.
pub fn check_environment(client: Client) -> Result<(), ServiceError> {
    let started = Started::above().ok_or_else(unknown)?;
    started.check(client, |name| !MAY_TIGHTEN.contains(&name) || started.has(name))?;
    started.adopt()
}

fn unknown() -> ServiceError {
    ServiceError::new(
        ErrorCode::BadRequest,
        "what the client was started with can't be read, so that it is not known who set the variables of this process",
        "let the client start it, as the same user, as `ringfence setup` writes it",
    )
}

impl Started {
    /// The client that started this process: the first one above that is not a shell. One that starts itself again, which some
    /// do after they have read a project's settings, is known by its program.
    pub(super) fn above() -> Option<Self> {
        let mut pid = rustix::process::getppid()?.as_raw_nonzero().get();
        let shell = |pid: i32| {
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
            Some(matches!(name.trim_end(), "sh" | "bash" | "dash" | "zsh" | "timeout" | "env" | "nice"))
        };
        let mut above = 0;
        while shell(pid)? {
            above += 1;
            if above == ABOVE {
                return None;
            }
            pid = parent(pid)?;
        }
        let program = |pid: i32| fs::read_link(format!("/proc/{pid}/exe")).ok();
        let own = program(pid)?;
        let mut first = pid;
        for _ in 0..ABOVE {
            match parent(first) {
                Some(before) if program(before).as_ref() == Some(&own) => first = before,
                _ => break,
            }
        }
        let variables = variables(&fs::read(format!("/proc/{first}/environ")).ok()?);
        (!variables.is_empty()).then_some(Self { pid, variables })
    }

    /// Where it works.
    pub(super) fn directory(&self) -> Option<PathBuf> {
        let path = fs::read_link(format!("/proc/{}/cwd", self.pid)).ok()?;
        fs::canonicalize(path).ok()
    }

    /// Has each variable that decides something, of those `asked`, the value that its user gave it?
    pub(super) fn check(&self, client: Client, asked: impl Fn(&str) -> bool) -> Result<(), ServiceError> {
        let ours: Variables = std::env::vars_os().collect();
        let changed: Vec<&OsStr> = changed(&ours, &self.variables, || self.of_settings(client))
            .into_iter()
            .filter(|name| name.to_str().is_none_or(&asked))
            .collect();
        let Some(first) = changed.first() else { return Ok(()) };
        let names: Vec<_> =
            changed.iter().map(|name| name.to_string_lossy().escape_debug().to_string()).collect();
        let told = |value: Option<&OsString>| match value {
            Some(value) => format!("`{}`", value.to_string_lossy().escape_debug()),
            None => "not set".to_owned(),
        };
        Err(ServiceError::new(
            ErrorCode::Untrusted,
            format!(
                "{} of this process is not what the client was started with ({} there, {} here), and says what a sandbox is: the \
                 settings of a project set it, and nothing runs",
                names.join(", "),
                told(self.variables.get(*first)),
                told(ours.get(*first)),
            ),
            format!(
                "look at the settings of the project (`env` in its .claude/settings.json, its .env); where the value is yours, export it \
                 before you start {}, or put it into your own settings",
                client.as_str()
            ),
        ))
    }

    fn has(&self, name: &str) -> bool {
        self.variables.contains_key(OsStr::new(name))
    }

    /// Start again with what decides and the client did not hand on, where there is such a variable.
    pub(super) fn adopt(&self) -> Result<(), ServiceError> {
        let ours: Variables = std::env::vars_os().collect();
        let kept = kept(&ours, &self.variables);
        if kept.is_empty() {
            return Ok(());
        }
        let mut words = std::env::args_os();
        let name = words.next().unwrap_or_else(|| "ringfence".into());
        let program = std::env::current_exe().unwrap_or_else(|_| "/proc/self/exe".into());
        let names: Vec<_> = kept.iter().map(|(name, _)| name.to_string_lossy().into_owned()).collect();
        let error = Command::new(program).arg0(name).args(words).envs(kept).exec();
        Err(ServiceError::new(
            ErrorCode::SandboxFailed,
            format!(
                "the client has {} and does not hand it on, and ringfence can't be started again with it: {error}",
                names.join(", ")
            ),
            "hand it on in the client's own settings (`env_vars` of the server, in Codex)",
        ))
    }

    /// What the user's own settings of the client set, for all that it starts or for our server.
    fn of_settings(&self, client: Client) -> Vec<Variables> {
        let path = |name: &str| {
            self.variables.get(OsStr::new(name)).map(PathBuf::from).filter(|path| path.is_absolute())
        };
        let Some(home) = path("HOME") else { return Vec::new() };
        let json = |file: PathBuf, places: &[&[&str]]| {
            let settings = read_if_there(&file).ok().flatten().and_then(|text| {
                match file.extension().is_some_and(|kind| kind == "toml") {
                    true => toml::from_str(&text).ok(),
                    false => serde_json::from_str(&json_text::without_comments_and_commas(&text)).ok(),
                }
            });
            let settings: Value = settings.unwrap_or_default();
            let found =
                places.iter().filter_map(|place| place.iter().try_fold(&settings, |at, key| at.get(key)));
            found.map(of_object).collect::<Vec<_>>()
        };
        const SERVER: &[&str] = &["mcpServers", "ringfence", "env"];
        match client {
            Client::ClaudeCode => {
                let own = path("CLAUDE_CONFIG_DIR");
                let global = own.clone().unwrap_or_else(|| home.clone()).join(".claude.json");
                let settings = own.unwrap_or_else(|| home.join(".claude")).join("settings.json");
                let managed = Path::new("/etc/claude-code/managed-settings.json").to_path_buf();
                [managed, settings, global]
                    .into_iter()
                    .flat_map(|file| json(file, &[&["env"], SERVER]))
                    .collect()
            }
            Client::Codex => {
                let own = path("CODEX_HOME").unwrap_or_else(|| home.join(".codex"));
                json(own.join("config.toml"), &[&["mcp_servers", "ringfence", "env"]])
            }
            Client::Gemini => {
                let own = path("GEMINI_CLI_HOME").unwrap_or(home);
                let files = [own.join(".gemini/.env"), own.join(".env")];
                let texts = files.iter().filter_map(|file| read_if_there(file).ok().flatten());
                let mut found: Vec<Variables> = texts.map(|text| of_lines(&text)).collect();
                found.extend(json(own.join(".gemini/settings.json"), &[SERVER]));
                found
            }
            Client::Opencode => {
                let own = path("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config")).join("opencode");
                let files = ["opencode.json", "opencode.jsonc"].map(|name| own.join(name));
                files
                    .into_iter()
                    .flat_map(|file| json(file, &[&["mcp", "ringfence", "environment"]]))
                    .collect()
            }
        }
    }

    /// The directory for temporary files that it was started with.
    pub(super) fn temporary(&self) -> PathBuf {
        let named = self.variables.get(OsStr::new("TMPDIR")).filter(|path| !path.is_empty());
        named.map_or_else(|| "/tmp".into(), PathBuf::from)
    }
}

/// The names, in order, of those of ours that neither the client's start nor its user's settings have with this value.
fn changed<'a>(
    ours: &'a Variables,
    theirs: &Variables,
    settings: impl FnOnce() -> Vec<Variables>,
) -> Vec<&'a OsStr> {
    let mut found: Vec<_> = ours
        .iter()
        .filter(|(name, value)| decides(name) && theirs.get(*name) != Some(*value))
        .map(|(name, value)| (name.as_os_str(), value))
        .collect();
    if !found.is_empty() {
        let settings = settings();
        found.retain(|(name, value)| !settings.iter().any(|set| set.get(*name) == Some(*value)));
    }
    found.into_iter().map(|(name, _)| name).collect()
}

/// What decides of theirs and is not among ours.
fn kept<'a>(ours: &Variables, theirs: &'a Variables) -> Vec<(&'a OsString, &'a OsString)> {
    theirs.iter().filter(|(name, _)| decides(name) && !ours.contains_key(*name)).collect()
}

fn decides(name: &OsStr) -> bool {
    let begins = |start: &str| name.as_bytes().starts_with(start.as_bytes());
    begins("RINGFENCE_") || begins("XDG_") || DECIDE.iter().any(|decides| name == *decides)
}

fn variables(environ: &[u8]) -> Variables {
    let pairs = environ.split(|byte| *byte == 0).filter_map(|pair| {
        let at = pair.iter().position(|byte| *byte == b'=')?;
        Some((OsString::from_vec(pair[..at].to_vec()), OsString::from_vec(pair[at + 1..].to_vec())))
    });
    pairs.collect()
}

fn of_object(object: &Value) -> Variables {
    let texts = object.as_object().into_iter().flatten().map(|(name, value)| {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        (name.into(), text.into())
    });
    texts.collect()
}

/// `NAME=VALUE`, with quotes or without.
fn of_lines(text: &str) -> Variables {
    let pairs = text.lines().filter_map(|line| {
        let (name, value) = line.trim().trim_start_matches("export ").split_once('=')?;
        let value = value.trim();
        let bare = ['"', '\''].iter().find_map(|quote| value.strip_prefix(*quote)?.strip_suffix(*quote));
        Some((name.trim().into(), bare.unwrap_or(value).into()))
    });
    pairs.collect()
}

fn parent(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
    (parent > 0).then_some(parent)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&str, &str)]) -> Variables {
        pairs.iter().map(|(name, value)| (name.into(), value.into())).collect()
    }

    #[test]
    fn what_decides_is_what_the_user_gave() {
        let theirs = of(&[("HOME", "/home/ann"), ("RINGFENCE_PROFILE", "restrictive"), ("PATH", "/usr/bin")]);
        let found = |more: &[(&str, &str)], settings: &[(&str, &str)]| {
            let mut ours = theirs.clone();
            ours.extend(of(more));
            let names = changed(&ours, &theirs, || vec![of(settings)]);
            names.iter().map(|name| name.to_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert!(found(&[], &[]).is_empty());
        assert!(found(&[("PATH", "/x"), ("EDITOR", "vi"), ("CLAUDECODE", "1")], &[]).is_empty());
        for name in [
            "HOME",
            "RINGFENCE_POLICY",
            "RINGFENCE_PROFILE",
            "RINGFENCE_STATE_DIR",
            "XDG_CONFIG_HOME",
            "CLAUDE_CONFIG_DIR",
            "CARGO_HOME",
            "DOCKER_HOST",
            "https_proxy",
        ] {
            assert_eq!(found(&[(name, "evil")], &[]), [name]);
            assert_eq!(found(&[(name, "")], &[]), [name], "an empty one hides the user's");
            assert_eq!(found(&[(name, "evil")], &[(name, "mine")]), [name]);
            assert!(
                found(&[(name, "mine")], &[(name, "mine")]).is_empty(),
                "of the user's own settings: {name}"
            );
        }
        // The settings are not read where nothing has changed.
        changed(&theirs, &theirs, || unreachable!("nothing has changed"));
    }

    #[test]
    fn what_decides_and_is_kept_is_found() {
        let theirs = of(&[("CODEX_HOME", "/x"), ("RINGFENCE_POLICY", ""), ("EDITOR", "vi"), ("HOME", "/h")]);
        let names = |ours: &[(&str, &str)]| {
            let ours = of(ours);
            kept(&ours, &theirs).iter().map(|(name, _)| name.to_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(names(&[("HOME", "/other")]), ["CODEX_HOME", "RINGFENCE_POLICY"]);
        assert!(names(&[("HOME", "/h"), ("CODEX_HOME", "/y"), ("RINGFENCE_POLICY", "/p")]).is_empty());
    }

    #[test]
    fn a_process_is_read_as_it_was_started() {
        assert_eq!(variables(b"A=b\0C=d=e\0\0rubbish\0"), of(&[("A", "b"), ("C", "d=e")]));
        assert_eq!(
            of_lines("# x\nexport A='b c'\nD = \"e\"\nF=g\n"),
            of(&[("A", "b c"), ("D", "e"), ("F", "g")])
        );
    }
}
