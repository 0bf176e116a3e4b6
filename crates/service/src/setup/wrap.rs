//! One shell command of a client, as a run: what the client's settings start in place of a shell.
//!
//! The workspace is where the *client* is, never where the command says it is: a command can change what a client takes
//! for its working directory, and could otherwise walk the workspace to any place. The policy is the one of the client's user: what
//! settings of a project set is not believed. Whatever is not understood is an error, and an error runs nothing.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use ringfence_policy::{Layer, Origin, Workspace};
use ringfence_sandbox::{Attached, Stream};

use super::Client;
use super::started::Started;
use crate::config::PolicySpec;
use crate::error::{ErrorCode, ServiceError};
use crate::places::Places;
use crate::runs::RunSpec;

/// A run, and what is to be done when it has ended.
#[derive(Debug)]
pub struct WrappedRun {
    pub spec: RunSpec,
    told: Option<ToldDirectory>,
}

/// The file by which a command tells the client where it ended.
#[derive(Debug)]
struct ToldDirectory {
    file: File,
    root: PathBuf,
    before: PathBuf,
}

/// `command`, as `client` would have given it to a shell.
pub fn wrapped_run(places: &Places, client: Client, command: &OsStr) -> Result<WrappedRun, ServiceError> {
    let unknown = || {
        refused(
            "the client's own directory can't be found",
            "start `ringfence wrap` from the client, not by hand",
        )
    };
    let started = Started::above().ok_or_else(unknown)?;
    let root = started.directory().ok_or_else(unknown)?;
    let current = fs::canonicalize(&places.current).unwrap_or_else(|_| places.current.clone());
    if !current.starts_with(&root) {
        return Err(refused(
            format!("{} is outside of {}, where the client was started", current.display(), root.display()),
            "start the client in the directory that its commands work in",
        ));
    }
    started.check(client, |_| true)?;
    started.adopt()?;
    let mut layer = Layer::default();
    layer.filesystem.workspace = Some(Workspace::Path(root.clone()));
    let mut told = None;
    if client == Client::ClaudeCode {
        let text = command.as_bytes();
        if let Some(snapshot) = snapshot(text, &places.home) {
            layer.filesystem.read.push(snapshot);
        }
        if let Some(path) = told_path(text, &started.temporary())
            && let Ok(file) = make(&path)
        {
            layer.filesystem.write.push(path);
            told = Some(ToldDirectory { file, root, before: current.clone() });
        }
    }
    let spec = RunSpec {
        policy: PolicySpec { flags: vec![(Origin::flag("ringfence wrap"), layer)], ..PolicySpec::default() },
        argv: vec![shell(), "-c".into(), command.to_owned()],
        directory: Some(current),
        attached: Attached::default(),
        workspace_layers: None,
        stream: Stream::Inherit,
        trace: false,
        strict: false,
    };
    Ok(WrappedRun { spec, told })
}

impl WrappedRun {
    /// The run itself, and what to do after it.
    pub fn into_parts(self) -> (RunSpec, impl FnOnce()) {
        (self.spec, move || {
            if let Some(told) = self.told {
                told.settle();
            }
        })
    }
}

impl ToldDirectory {
    /// What the command wrote there is believed only if it is a directory in the workspace.
    fn settle(mut self) {
        let mut text = Vec::new();
        let _ = self.file.rewind();
        let _ = Read::by_ref(&mut self.file).take(8192).read_to_end(&mut text);
        let line = text.strip_suffix(b"\n").unwrap_or(&text);
        if text.is_empty() {
            return;
        }
        let path = Path::new(OsStr::from_bytes(line));
        let fine = path.is_absolute()
            && !line.contains(&b'\n')
            && fs::canonicalize(path).is_ok_and(|real| real.starts_with(&self.root) && real.is_dir());
        if !fine {
            let _ = self.file.set_len(0);
            let _ = self.file.rewind();
            let _ = self.file.write_all(self.before.as_os_str().as_bytes());
            let _ = self.file.write_all(b"\n");
        }
    }
}

fn refused(message: impl Into<String>, hint: &str) -> ServiceError {
    ServiceError::new(ErrorCode::BadRequest, message, hint)
}

/// The shell that the client writes its commands for.
fn shell() -> OsString {
    let wanted = std::env::var_os("SHELL").map(PathBuf::from);
    let is_zsh = wanted.as_ref().is_some_and(|shell| shell.file_name().is_some_and(|name| name == "zsh"));
    let places = if is_zsh { ["/usr/bin/zsh", "/bin/zsh"] } else { ["/usr/bin/bash", "/bin/bash"] };
    places.into_iter().find(|path| Path::new(path).exists()).unwrap_or("/bin/sh").into()
}

/// The user's functions and aliases, which Claude Code has each command read first.
fn snapshot(command: &[u8], home: &Path) -> Option<PathBuf> {
    let rest = command.strip_prefix(b"source ")?;
    let path = &rest[..rest.iter().position(|byte| *byte == b' ')?];
    let path = plain(path)?;
    let own = std::env::var_os("CLAUDE_CONFIG_DIR").map_or_else(|| home.join(".claude"), PathBuf::from);
    let real = fs::canonicalize(&path).ok()?;
    let directory = fs::canonicalize(own.join("shell-snapshots")).ok()?;
    (real.parent() == Some(&*directory) && real.is_file()).then_some(path)
}

/// Where Claude Code reads the directory that a command ended in. Its own words are the last ones of the text.
fn told_path(command: &[u8], temporary: &Path) -> Option<PathBuf> {
    const WORDS: &[u8] = b" && pwd -P >| ";
    let at = command.windows(WORDS.len()).rposition(|window| window == WORDS)?;
    let path = plain(&command[at + WORDS.len()..])?;
    let name = path.file_name()?.to_str()?;
    let in_tmp = [Path::new("/tmp"), temporary].contains(&path.parent()?);
    (in_tmp && name.starts_with("claude-") && name.ends_with("-cwd")).then_some(path)
}

fn plain(bytes: &[u8]) -> Option<PathBuf> {
    let fine = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-".contains(byte);
    let path = PathBuf::from(OsStr::from_bytes(bytes));
    (bytes.iter().all(fine) && path.is_absolute() && !bytes.windows(2).any(|two| two == b".."))
        .then_some(path)
}

/// A new file of our own: one that is there already is nobody's to hand in.
fn make(path: &Path) -> std::io::Result<File> {
    let flags = rustix::fs::OFlags::NOFOLLOW.bits() as i32;
    OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).custom_flags(flags).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_clients_own_words_name_the_file() {
        let text =
            "x && eval 'a && pwd -P >| /tmp/claude-evil-cwd' < /dev/null && pwd -P >| /tmp/claude-1a2b-cwd";
        assert_eq!(told_path(text.as_bytes(), Path::new("/tmp")), Some("/tmp/claude-1a2b-cwd".into()));
        for text in [
            "eval 'x' && pwd -P >| /etc/passwd",
            "eval 'x' && pwd -P >| /tmp/../etc/claude-x-cwd",
            "eval 'x' && pwd -P >| /tmp/claude-x-cwd; rm x",
            "eval 'x' && pwd -P >| /tmp/sub/claude-x-cwd",
            "echo hook",
        ] {
            assert_eq!(told_path(text.as_bytes(), Path::new("/tmp")), None, "{text}");
        }
    }

    #[test]
    fn a_directory_outside_is_not_believed() {
        let root = tempfile::tempdir().unwrap();
        let real = fs::canonicalize(root.path()).unwrap();
        let (inside, link) = (real.join("in"), real.join("link"));
        fs::create_dir(&inside).unwrap();
        std::os::unix::fs::symlink("/etc", &link).unwrap();
        let settled = |text: &str| {
            let path = real.join("told");
            let _ = fs::remove_file(&path);
            let mut file = make(&path).unwrap();
            file.write_all(text.as_bytes()).unwrap();
            ToldDirectory { file, root: real.clone(), before: real.clone() }.settle();
            fs::read_to_string(&path).unwrap()
        };
        let before = format!("{}\n", real.display());
        assert_eq!(settled(&format!("{}\n", inside.display())), format!("{}\n", inside.display()));
        assert_eq!(settled(""), "");
        for bad in [
            "/etc\n".to_owned(),
            format!("{}\n", link.display()),
            "in\n".into(),
            "/nosuch\n".into(),
            "a\nb\n".into(),
        ] {
            assert_eq!(settled(&bad), before, "{bad}");
        }
        let path = real.join("told");
        assert!(make(&path).is_err(), "a file that is there is not handed in");
    }
}
