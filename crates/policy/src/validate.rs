//! What a layer's values must be, whoever wrote them: a file or a flag.
//!
//! Each check names the key; `Layer::validate` stops at the first that fails.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::bound::Bound;
use crate::layer::Layer;
use crate::model::Workspace;
use crate::nearest::nearest;
use crate::network::{HostPattern, is_group_name};
use crate::protected::protected;
use crate::units::{ByteSize, shown};

/// Why a layer was refused: the key, the reason and, for a file, the line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{reason}", .line.map(|n| format!("line {n}: ")).unwrap_or_default())]
pub struct LayerError {
    /// The key, `filesystem.read`; empty where the text can't be read at all.
    pub key: String,
    /// From 1.
    pub line: Option<usize>,
    /// A sentence that names the key.
    pub reason: String,
}

impl LayerError {
    pub(crate) fn new(key: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { key: key.into(), line: None, reason: reason.into() }
    }

    pub(crate) fn value(key: &str, problem: impl std::fmt::Display) -> Self {
        Self::new(key, format!("`{key}`: {problem}"))
    }
}

impl Layer {
    /// Checks what the types can't say.
    pub fn validate(&self) -> Result<(), LayerError> {
        for clause in &self.waive {
            if !clause.waivable() {
                let error = crate::ClauseError::NotWaivable { name: clause.as_str() };
                return Err(LayerError::value("waive", error));
            }
        }
        self.image.as_deref().map_or(Ok(()), image)?;
        self.validate_filesystem()?;
        self.validate_limits()?;
        self.validate_network()?;
        for (key, names) in [("syscalls.allow", &self.syscalls.allow), ("syscalls.deny", &self.syscalls.deny)]
        {
            names.iter().try_for_each(|name| syscall(key, name))?;
        }
        for (name, value) in &self.environment.set {
            variable("environment.set", name)?;
            if value.contains('\0') {
                let problem = format!("the value of `{}` has a NUL byte", shown(name));
                return Err(LayerError::value("environment.set", problem));
            }
        }
        self.environment.pass.iter().try_for_each(|name| passed(name))?;
        self.identity.user.as_deref().map_or(Ok(()), user)?;
        self.identity.hostname.as_deref().map_or(Ok(()), hostname)
    }

    fn validate_filesystem(&self) -> Result<(), LayerError> {
        let fs = &self.filesystem;
        for (key, paths) in
            [("filesystem.read", &fs.read), ("filesystem.write", &fs.write), ("filesystem.hide", &fs.hide)]
        {
            paths.iter().try_for_each(|p| path(key, p))?;
        }
        if let Some(Workspace::Path(p)) = &fs.workspace {
            let key = "filesystem.workspace";
            path(key, p)?;
            if !p.is_absolute() && !p.starts_with("~") {
                let text = shown(&p.to_string_lossy());
                let problem = format!("`{text}` is not \"private\", \"current\" or an absolute path");
                return Err(LayerError::value(key, problem));
            }
        }
        if fs.tmp == Some(ByteSize(0)) {
            // tmpfs takes a size of 0 as no limit at all.
            return Err(LayerError::value("filesystem.tmp", "a size of 0 leaves no room, use at least 4K"));
        }
        for name in &fs.unprotect {
            if !protected().iter().any(|p| p.name == name) {
                let near = nearest(name, protected().iter().map(|p| p.name));
                let hint = near.map(|n| format!(", did you mean `{n}`?")).unwrap_or_default();
                let problem = format!("`{}` is not a protected name{hint}", shown(name));
                return Err(LayerError::value("filesystem.unprotect", problem));
            }
        }
        fs.protect.iter().try_for_each(|name| workspace_name(name))
    }

    fn validate_network(&self) -> Result<(), LayerError> {
        let network = &self.network;
        for rule in &network.allow {
            rule.grantable().map_err(|problem| LayerError::value("network.allow", problem))?;
        }
        for (name, rules) in &network.groups {
            let key = "network.groups";
            if !is_group_name(name) {
                let problem =
                    format!("`{}` is not a group's name, use up to 64 of a-z, 0-9, - and _", shown(name));
                return Err(LayerError::value(key, problem));
            }
            for rule in rules {
                rule.grantable().map_err(|problem| LayerError::value(key, problem))?;
                if matches!(rule.pattern, HostPattern::Group(_)) {
                    let problem = format!("`{rule}` in `@{name}`: a group holds hosts, not other groups");
                    return Err(LayerError::value(key, problem));
                }
            }
        }
        if network.local.contains(&0) {
            return Err(LayerError::value("network.local", "0 is not a port, use a number from 1 to 65535"));
        }
        for rule in &network.http {
            if let Some(problem) = rule.problem() {
                return Err(LayerError::value("network.http", format!("{}: {problem}", rule.host)));
            }
        }
        for (i, secret) in network.secrets.iter().enumerate() {
            let key = "network.secrets";
            secret.check().map_err(|problem| LayerError::value(key, problem))?;
            if network.secrets[..i].iter().any(|known| known.name == secret.name) {
                let problem = format!("`{}` is there twice, write one entry with all its hosts", secret.name);
                return Err(LayerError::value(key, problem));
            }
        }
        Ok(())
    }

    fn validate_limits(&self) -> Result<(), LayerError> {
        let limits = &self.limits;
        if let Some(Bound::At(cpus)) = limits.cpus
            && !(cpus.0.is_finite() && cpus.0 > 0.0)
        {
            let problem = format!("{} is not a number of processors, use a number above 0", cpus.0);
            return Err(LayerError::value("limits.cpus", problem));
        }
        let zero = [
            ("limits.memory", limits.memory == Some(Bound::At(ByteSize(0)))),
            ("limits.processes", limits.processes == Some(Bound::At(0))),
            ("limits.disk", limits.disk == Some(Bound::At(ByteSize(0)))),
            ("limits.open_files", limits.open_files == Some(Bound::At(0))),
            ("limits.connections", limits.connections == Some(Bound::At(0))),
            ("limits.bandwidth", limits.bandwidth == Some(Bound::At(ByteSize(0)))),
            ("limits.wall_time", matches!(limits.wall_time, Some(Bound::At(t)) if t.0.is_zero())),
        ];
        match zero.iter().find(|(_, is_zero)| *is_zero) {
            None => Ok(()),
            Some((key, _)) => {
                Err(LayerError::value(key, "0 would let nothing run, use a larger value or \"none\""))
            }
        }
    }
}

fn path(key: &str, path: &Path) -> Result<(), LayerError> {
    let bytes = path.as_os_str().as_bytes();
    if bytes.is_empty() {
        return Err(LayerError::value(key, "a path is empty"));
    }
    if bytes.contains(&0) {
        return Err(LayerError::value(key, format!("`{}` has a NUL byte", shown(&path.to_string_lossy()))));
    }
    if bytes[0] == b'~' && bytes.len() > 1 && bytes[1] != b'/' {
        let problem = format!(
            "`{}`: another user's home is not looked up, write the path out",
            shown(&path.to_string_lossy())
        );
        return Err(LayerError::value(key, problem));
    }
    Ok(())
}

/// Plain parts only: what leads elsewhere would be protected there, or not at all.
fn workspace_name(name: &str) -> Result<(), LayerError> {
    let plain = |part: &str| !matches!(part, "" | "." | "..") && !part.contains('\0');
    let trimmed = name.strip_suffix('/').unwrap_or(name);
    if trimmed.len() > 1024 || !trimmed.split('/').all(plain) {
        let problem = format!("`{}` is not a name in the workspace, write it like `docs/api`", shown(name));
        return Err(LayerError::value("filesystem.protect", problem));
    }
    Ok(())
}

/// It becomes the name of a file.
fn image(name: &str) -> Result<(), LayerError> {
    let fine = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._-".contains(&b);
    if name.is_empty() || name.len() > 64 || name.starts_with(['.', '-']) || !name.bytes().all(fine) {
        let problem = format!(
            "`{}` is not the name of an image, use 1 to 64 of a-z, 0-9, `.`, `_` and `-`, the first a letter or digit",
            shown(name)
        );
        return Err(LayerError::value("image", problem));
    }
    Ok(())
}

fn variable(key: &str, name: &str) -> Result<(), LayerError> {
    if name.is_empty() {
        return Err(LayerError::value(key, "a variable's name is empty"));
    }
    if name.contains(['=', '\0']) {
        let problem = format!("`{}` is not a variable's name, it has `=` or a NUL byte", shown(name));
        return Err(LayerError::value(key, problem));
    }
    Ok(())
}

fn passed(name: &str) -> Result<(), LayerError> {
    let key = "environment.pass";
    let stem = name.strip_suffix('*').unwrap_or(name);
    if stem.is_empty() && !name.is_empty() {
        return Err(LayerError::value(key, "`*` would pass every secret there is, name the variables"));
    }
    if stem.contains('*') {
        return Err(LayerError::value(key, format!("`{}`: `*` may only be the last character", shown(name))));
    }
    variable(key, stem)
}

fn syscall(key: &str, name: &str) -> Result<(), LayerError> {
    let fine = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    if name.is_empty() || name.len() > 64 || !name.bytes().all(fine) {
        let problem = format!("`{}` is not a system call's name, write it like `ptrace`", shown(name));
        return Err(LayerError::value(key, problem));
    }
    Ok(())
}

fn user(name: &str) -> Result<(), LayerError> {
    let first = |b: u8| b.is_ascii_lowercase() || b == b'_';
    let rest = |b: u8| first(b) || b.is_ascii_digit() || b == b'-';
    let bytes = name.as_bytes();
    if bytes.len() > 32 || !bytes.first().is_some_and(|b| first(*b)) || !bytes.iter().all(|b| rest(*b)) {
        let problem = format!(
            "`{}` is not a user name, use up to 32 of a-z, 0-9, _ and -, the first a letter or _",
            shown(name)
        );
        return Err(LayerError::value("identity.user", problem));
    }
    Ok(())
}

fn hostname(name: &str) -> Result<(), LayerError> {
    let fine = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    if name.is_empty() || name.len() > 63 || !name.bytes().all(fine) {
        let problem = format!("`{}` is not a host name, use 1 to 63 of a-z, 0-9 and -", shown(name));
        return Err(LayerError::value("identity.hostname", problem));
    }
    Ok(())
}
