//! Ringfence under a name of its own: Claude Code starts stdio MCP servers through the setting that wraps its commands, and
//! takes all of that setting for the name of a program. A link has no flag in its name.
//!
//! Invariant: what is started under that name runs in a sandbox, but for `ringfence mcp` itself, word for word. A model's
//! command can't be that: Claude Code puts its own words around it before it starts a shell.

use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::clients::server_arguments;
use super::{Client, SetupMode, SetupSpec, record};
use crate::error::{ErrorCode, ServiceError};
use crate::places::Places;

/// What the name of a link begins with; the rest is the client's.
pub const LINK_BEGINS: &str = "ringfence-wrap-";

/// The one command that is not for a sandbox: the server that makes sandboxes, as `setup` has the client start it, now or before
/// it had arguments. `program` is the path of this one.
pub fn is_own_server(program: &Path, client: Client, command: &OsStr) -> bool {
    let (Some(program), Some(command)) = (program.to_str(), command.to_str()) else { return false };
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+".contains(&byte);
    let written = match program.bytes().all(is_plain) {
        true => program.to_owned(),
        // As a shell quotes a path; one with a quote in it has no form that is surely the same.
        false if !program.contains('\'') => format!("'{program}'"),
        false => return false,
    };
    let Some(arguments) = command.strip_prefix(&written).and_then(|rest| rest.strip_prefix(' ')) else {
        return false;
    };
    arguments == "mcp" || arguments == server_arguments(client).join(" ")
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LinkChange {
    Make { path: PathBuf, to: PathBuf },
    Remove { path: PathBuf },
}

/// In the state directory, which no sandbox sees.
pub(super) fn place(places: &Places, client: Client) -> PathBuf {
    record::directory(&places.state).join(format!("{LINK_BEGINS}{}", client.as_str()))
}

/// Only where a client needs it, and it is not there yet.
pub(super) fn to_make(places: &Places, spec: &SetupSpec) -> Result<Option<LinkChange>, ServiceError> {
    if (spec.client, spec.mode) != (Client::ClaudeCode, SetupMode::Both) {
        return Ok(None);
    }
    let path = place(places, spec.client);
    if path.to_str().is_none_or(|path| path.contains(" -")) {
        return Err(ServiceError::new(
            ErrorCode::BadRequest,
            format!("{} is not a path that a client can be given", path.display()),
            "choose a state directory without ` -` in its name, or --mode wrap",
        ));
    }
    let there = fs::read_link(&path).is_ok_and(|to| to == spec.program);
    Ok((!there).then(|| LinkChange::Make { path, to: spec.program.clone() }))
}

/// Unless the settings of another place name it still.
pub(super) fn to_remove(
    places: &Places,
    spec: &SetupSpec,
    forget: &[PathBuf],
) -> Result<Option<LinkChange>, ServiceError> {
    let path = place(places, spec.client);
    if fs::symlink_metadata(&path).is_err() {
        return Ok(None);
    }
    let name = path.to_string_lossy();
    let others = record::all(&places.state)?.into_iter().filter(|known| !forget.contains(&known.path));
    let named = others.filter(|known| known.after.contains(&*name)).count() > 0;
    Ok((!named).then_some(LinkChange::Remove { path }))
}

impl LinkChange {
    pub(super) fn apply(&self) -> Result<(), ServiceError> {
        match self {
            Self::Make { path, to } => {
                remove(path)?;
                std::os::unix::fs::symlink(to, path)
                    .map_err(|error| ServiceError::state("write", path, &error))
            }
            Self::Remove { path } => remove(path),
        }
    }
}

fn remove(path: &Path) -> Result<(), ServiceError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(ServiceError::state("remove", path, &error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_server_itself_word_for_word() {
        let program = Path::new("/opt/bin/ringfence");
        let is = |command: &str| is_own_server(program, Client::ClaudeCode, OsStr::new(command));
        assert!(is("/opt/bin/ringfence mcp") && is("/opt/bin/ringfence mcp --rules-of claude-code"));
        for other in [
            "",
            "/opt/bin/ringfence",
            "/opt/bin/ringfence mcp ",
            " /opt/bin/ringfence mcp",
            "/opt/bin/ringfence  mcp",
            "/opt/bin/ringfence mcp\n",
            "/opt/bin/ringfence mcp; id",
            "/opt/bin/ringfence mcp --profile permissive",
            "/opt/bin/ringfence mcp --rules-of codex",
            "/opt/bin/ringfence mcp --rules-of claude-code --profile permissive",
            "/opt/bin/ringfence mcp && pwd -P >| /tmp/x",
            "eval '/opt/bin/ringfence mcp'",
            "'/opt/bin/ringfence' mcp",
            "A=b /opt/bin/ringfence mcp",
            "/opt/bin/../bin/ringfence mcp",
            "/opt/bin/ringfence run -- id",
            "ringfence mcp",
        ] {
            assert!(!is(other), "{other:?}");
        }
        let spaced = Path::new("/my apps/ringfence");
        assert!(is_own_server(spaced, Client::ClaudeCode, OsStr::new("'/my apps/ringfence' mcp")));
        assert!(!is_own_server(spaced, Client::ClaudeCode, OsStr::new("/my apps/ringfence mcp")));
        let hostile = Path::new("/it's; id #/ringfence");
        assert!(!is_own_server(hostile, Client::ClaudeCode, OsStr::new("'/it's; id #/ringfence' mcp")));
    }
}
