//! What a client that is asked may use: programs, files and variables that no sandbox could have written.
//!
//! The workspace is hostile, and so is whatever else the policy lets a sandbox write: a virtual environment in it, its
//! `.npmrc` and `.cargo/config.toml`, a `json.py` that Python would import from the current directory. Which directories
//! were a workspace of some earlier run nobody knows. So a client is taken only from where programs are installed: the
//! system's directories and the toolchains of the home, which every sandbox has read-only or as a throwaway copy. It is
//! started in `/`, and never sees a variable that leads to what is hostile.

use std::collections::BTreeMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use ringfence_policy::{Filesystem, HostFiles, Policy, Workspace, secrets, toolchains_for_path};

use crate::installed::Installed;
use crate::places::Places;

/// Shown in every sandbox.
const SYSTEM: [&str; 3] = ["/etc", "/usr", "/opt"];
/// What makes an interpreter load code before its first line.
const LOADS_CODE: [&str; 5] = ["NODE_OPTIONS", "NODE_PATH", "LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT"];

pub(super) struct Surroundings {
    pub(super) home: PathBuf,
    /// For files that are gone when the asking is done.
    pub(super) scratch: PathBuf,
    /// Where the run starts.
    pub(super) current: PathBuf,
    variables: BTreeMap<OsString, OsString>,
    installed: Installed,
    shown: Vec<PathBuf>,
    shows_home: bool,
    /// Stays out of sight, whatever shows what is around it.
    hidden: Vec<PathBuf>,
}

impl Surroundings {
    pub(super) fn of_process(places: &Places, policy: &Policy) -> Self {
        Self::new(places, policy, env::vars_os().collect())
    }

    pub(super) fn new(places: &Places, policy: &Policy, variables: BTreeMap<OsString, OsString>) -> Self {
        let filesystem = &policy.filesystem;
        let mut hostile = filesystem.write.clone();
        match &filesystem.workspace {
            Workspace::Path(path) => hostile.push(path.clone()),
            Workspace::Current => hostile.push(places.current.clone()),
            Workspace::Private => {}
        }
        let text = |name: &str| variables.get(OsStr::new(name)).and_then(|value| value.to_str());
        let mut shown: Vec<PathBuf> = SYSTEM.iter().map(PathBuf::from).collect();
        shown.extend(filesystem.read.iter().cloned());
        let mut hidden = hidden_by_policy(places, filesystem);
        if filesystem.toolchains {
            let locators = variables
                .iter()
                .filter_map(|(name, value)| Some((name.to_str()?.to_owned(), value.to_str()?.to_owned())));
            let dirs =
                toolchains_for_path(text("PATH").unwrap_or_default(), &places.home, &locators.collect());
            for dir in dirs {
                shown.push(dir.path);
                hidden.extend(dir.hide);
            }
        }
        // Also under the names that links lead to.
        let real: Vec<PathBuf> = hidden.iter().filter_map(|path| path.canonicalize().ok()).collect();
        hidden.extend(real);
        Self {
            home: places.home.clone(),
            scratch: places.state.path().to_path_buf(),
            current: places.current.clone(),
            installed: Installed::new(places, hostile),
            shown,
            shows_home: filesystem.host == HostFiles::All,
            hidden,
            variables,
        }
    }

    /// Could a sandbox have written what is there?
    pub(super) fn is_hostile(&self, path: &Path) -> bool {
        self.installed.is_hostile(path)
    }

    /// Is it there to read inside, without this flag?
    pub(super) fn is_shown(&self, path: &Path) -> bool {
        let shown = self.shown.iter().any(|directory| path.starts_with(directory))
            || (self.shows_home && path.starts_with(&self.home));
        shown && !self.is_hidden(path)
    }

    /// Does the policy keep it out of sight, wherever it lies?
    pub(super) fn is_hidden(&self, path: &Path) -> bool {
        let real = path.canonicalize().ok();
        let names = [Some(path), real.as_deref()];
        let is_below = |over: &PathBuf| names.iter().flatten().any(|name| name.starts_with(over));
        self.hidden.iter().any(is_below)
    }

    /// A variable that a client is given.
    pub(super) fn variable(&self, name: &str) -> Option<&str> {
        let (name, value) = self.variables.get_key_value(OsStr::new(name))?;
        if self.is_handed_on(name, value) { value.to_str() } else { None }
    }

    /// Every variable that a client is given, but PATH and HOME.
    pub(super) fn variables(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.variables
            .iter()
            .filter(|(name, value)| *name != "PATH" && *name != "HOME" && self.is_handed_on(name, value))
            .map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }

    /// The names of those that are not.
    pub(super) fn withheld(&self) -> impl Iterator<Item = &OsStr> {
        let held = self.variables.iter().filter(|(name, value)| !self.is_handed_on(name, value));
        held.map(|(name, _)| name.as_os_str())
    }

    fn is_handed_on(&self, name: &OsStr, value: &OsStr) -> bool {
        let loads = LOADS_CODE.iter().any(|bad| name == *bad) || name.as_bytes().starts_with(b"PYTHON");
        !loads && !self.installed.hostile().iter().any(|directory| contains(value, directory))
    }

    /// The caller's PATH: what of it is where programs are installed.
    pub(super) fn path(&self) -> OsString {
        let path = self.variables.get(OsStr::new("PATH")).cloned().unwrap_or_else(|| "/usr/bin:/bin".into());
        let fine = env::split_paths(&path).filter(|entry| entry.is_absolute() && self.installed.has(entry));
        env::join_paths(fine).unwrap_or_default()
    }

    /// The caller's home, or none where its files are the sandbox's to write.
    pub(super) fn safe_home(&self) -> &Path {
        if self.is_hostile(&self.home) { Path::new("/nonexistent") } else { &self.home }
    }

    /// The first program of this name that no sandbox could have put there.
    pub(super) fn program(&self, name: &str) -> Option<PathBuf> {
        let path = self.path();
        env::split_paths(&path).map(|directory| directory.join(name)).find(|program| {
            let facts = program.metadata();
            facts.is_ok_and(|facts| facts.is_file() && facts.permissions().mode() & 0o111 != 0)
                && self.installed.has(program)
        })
    }
}

/// As `Host::look` hides them: what the policy names, our own state, and known secrets where all of the host is shown.
fn hidden_by_policy(places: &Places, filesystem: &Filesystem) -> Vec<PathBuf> {
    let mut hidden: Vec<PathBuf> =
        filesystem.hide.iter().map(|path| places.absolute(path, &places.current)).collect();
    hidden.push(places.state.path().to_path_buf());
    if filesystem.host == HostFiles::All {
        let all = secrets().iter().map(|secret| places.home.join(secret.path));
        let named = |path: &PathBuf| filesystem.read.contains(path) || filesystem.write.contains(path);
        hidden.extend(all.filter(|path| !places.home.starts_with(path) && !named(path)));
    }
    hidden
}

/// Is the directory, or something in it, named in a value? As a path: `/app` is not in `https://host/app`, nor `/ap`.
fn contains(value: &OsStr, directory: &Path) -> bool {
    let (value, part) = (value.as_bytes(), directory.as_os_str().as_bytes());
    let ends =
        |byte: Option<&u8>| byte.is_none_or(|byte| !byte.is_ascii_alphanumeric() && !b"-_.".contains(byte));
    let starts = value.windows(part.len()).enumerate().filter(|(_, window)| *window == part);
    let mut whole = starts.filter(|(at, _)| {
        ends(at.checked_sub(1).map(|before| &value[before])) && ends(value.get(at + part.len()))
    });
    whole.next().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::StateDir;
    use ringfence_policy::{Layer, Origin, ProfileName, merge};
    use std::fs;

    fn program(path: &Path) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "#!/bin/sh\n").unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn surroundings(root: &Path, toml: &str, variables: &[(&str, String)]) -> Surroundings {
        let places = Places {
            current: root.join("ws"),
            home: root.join("home"),
            system_config: root.join("none"),
            user_config: root.join("none"),
            state: StateDir::new(root.join("state")),
            profile: None,
            policy: None,
            library: None,
            tenant: None,
        };
        for directory in ["ws", "home", "other"] {
            fs::create_dir_all(root.join(directory)).unwrap();
        }
        let layer = Layer::from_toml(toml).unwrap();
        let policy = merge(ProfileName::Moderate, &[(Origin::flag("x"), layer)]).unwrap().policy;
        let variables = variables.iter().map(|(name, value)| (name.into(), value.into())).collect();
        Surroundings::new(&places, &policy, variables)
    }

    #[test]
    fn a_program_that_a_sandbox_may_have_written_is_never_taken() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let at = |name: &str| root.join(name);
        // Also of projects whose roots are not where the command is run.
        for place in [
            "ws/.venv/bin/tool",
            "other/bin/tool",
            "project/.venv/bin/tool",
            "home/project/.venv/bin/tool",
            "home/.pyenv/versions/3/bin/tool",
        ] {
            program(&at(place));
        }
        fs::create_dir_all(at("home/.local/bin")).unwrap();
        std::os::unix::fs::symlink(at("ws/.venv/bin/tool"), at("home/.local/bin/tool")).unwrap();
        std::os::unix::fs::symlink(at("ws/.venv/bin"), at("venv")).unwrap();
        let path = format!(
            "./bin::{}:{}:{}:{}:{}:{}:{}",
            at("ws/.venv/bin").display(),
            at("venv").display(),
            at("home/.local/bin").display(),
            at("other/bin").display(),
            at("project/.venv/bin").display(),
            at("home/project/.venv/bin").display(),
            at("home/.pyenv/versions/3/bin").display()
        );
        let toml = format!("[filesystem]\nwrite = ['{}']", at("other").display());
        let found = surroundings(&root, &toml, &[("PATH", path)]);
        let good = at("home/.pyenv/versions/3/bin");
        assert_eq!(found.program("tool"), Some(good.join("tool")));
        let local = at("home/.local/bin");
        assert_eq!(found.path(), OsString::from(format!("{}:{}", local.display(), good.display())));
    }

    #[test]
    fn variables_that_lead_there_or_load_code_are_not_handed_on() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let inside = root.join("ws/pip.conf").display().to_string();
        let variables = [
            ("PIP_CONFIG_FILE", inside),
            ("PIP_INDEX_URL", "https://index.example/simple".into()),
            ("PYTHONSTARTUP", "/x".into()),
            ("NODE_OPTIONS", "--require x".into()),
        ];
        let found = surroundings(&root, "", &variables);
        let names: Vec<_> = found.variables().map(|(name, _)| name.to_owned()).collect();
        assert_eq!(names, ["PIP_INDEX_URL"]);
        assert_eq!(found.variable("PIP_CONFIG_FILE"), None);
    }

    #[test]
    fn a_directory_in_a_value_is_a_path_and_not_a_part_of_a_word() {
        let named = |value: &str| contains(OsStr::new(value), Path::new("/app"));
        for value in ["/app", "/app/x", "/usr:/app:/x", "--require=/app/x.js", "file:///app/x", "a /app"] {
            assert!(named(value), "{value}");
        }
        for value in ["https://host.example/app", "/apple", "/x/app", "/app-2", "app"] {
            assert!(!named(value), "{value}");
        }
    }

    #[test]
    fn a_home_that_is_the_workspace_is_no_home() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let toml = format!("[filesystem]\nwrite = ['{}']", root.join("home").display());
        assert_eq!(surroundings(&root, &toml, &[]).safe_home(), Path::new("/nonexistent"));
        assert_eq!(surroundings(&root, "", &[]).safe_home(), root.join("home"));
    }

    #[test]
    fn what_the_policy_hides_is_not_shown() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let shown = |toml: &str, path: &str| surroundings(&root, toml, &[]).is_shown(Path::new(path));
        assert!(shown("", "/etc/pip.conf") && shown("", "/etc/npmrc"));
        let all = "[filesystem]\nhost = 'all'";
        assert!(!shown(all, "/etc/pip.conf") && !shown(all, "/etc/npmrc"), "known secrets are hidden");
        let home = |name: &str| root.join("home").join(name).display().to_string();
        assert!(shown(all, &home("project/pip.conf")));
        assert!(!shown(all, &home(".npmrc")) && !shown(all, &home(".config/pip/pip.conf")));
        let named = format!("{all}\nread = ['{}']", home(".npmrc"));
        assert!(shown(&named, &home(".npmrc")), "a caller who names one gets it");
        for hide in ["/etc/pip.conf", "/etc"] {
            assert!(!shown(&format!("[filesystem]\nhide = ['{hide}']"), "/etc/pip.conf"), "{hide}");
        }
        let hidden = root.join("home/hidden");
        fs::create_dir(&hidden).unwrap();
        fs::write(hidden.join("pip.conf"), "").unwrap();
        std::os::unix::fs::symlink(hidden.join("pip.conf"), root.join("home/pip.conf")).unwrap();
        let both = format!("{all}\nhide = ['{}']", hidden.display());
        assert!(!shown(&both, &home("pip.conf")), "a link shows nothing that is hidden");
    }
}
