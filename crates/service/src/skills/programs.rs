//! Programs of this machine: where PATH has one, and which directories a sandbox must show for it to run there.

use std::collections::BTreeMap;
use std::env;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use ringfence_sandbox::{AttachAs, Attachment};

use crate::installed::Installed;
use crate::places::Places;

/// Shown in every sandbox.
const SYSTEM: &[&str] =
    &["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix", "/gnu"];

/// The programs that a skill may be run with: the user's own choice first, then what of the caller's PATH is where programs
/// are installed.
#[derive(Clone, Debug)]
pub(crate) struct Programs {
    /// Absolute paths that the user's config names.
    pub(crate) chosen: Vec<PathBuf>,
    pub(crate) directories: Vec<PathBuf>,
    /// Directories of PATH that are left out.
    others: Vec<PathBuf>,
    installed: Installed,
    home: PathBuf,
}

impl Programs {
    /// `hostile`: directories that sandboxes write; `own`: the user's words for extensions.
    pub(crate) fn on_path(
        places: &Places,
        hostile: Vec<PathBuf>,
        own: &BTreeMap<String, Vec<String>>,
    ) -> Self {
        let path = env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
        Self::new(env::split_paths(&path), places, hostile, own)
    }

    pub(crate) fn new(
        path: impl Iterator<Item = PathBuf>,
        places: &Places,
        hostile: Vec<PathBuf>,
        own: &BTreeMap<String, Vec<String>>,
    ) -> Self {
        let installed = Installed::new(places, hostile);
        let absolute = path.filter(|directory| directory.is_absolute());
        let (directories, others) = absolute.partition(|directory| installed.has(directory));
        let chosen = own.values().filter_map(|words| words.first()).map(PathBuf::from);
        let chosen = chosen.filter(|path| path.is_absolute() && !installed.is_hostile(path)).collect();
        Self { chosen, directories, others, installed, home: places.home.clone() }
    }

    /// The first program of this name. One behind a version manager's shim only where there is no other: a shim
    /// needs its manager, which a sandbox may not show.
    pub(crate) fn find(&self, name: &str) -> Option<PathBuf> {
        if name.is_empty() || name.contains('/') {
            return None;
        }
        let is_it = |path: &&PathBuf| path.file_name().is_some_and(|found| found == name) && is_program(path);
        if let Some(chosen) = self.chosen.iter().find(is_it) {
            return Some(chosen.clone());
        }
        let all = self
            .directories
            .iter()
            .map(|directory| directory.join(name))
            .filter(|path| is_program(path) && self.installed.has(path));
        let (shims, real): (Vec<_>, Vec<_>) = all.partition(|path| is_shim(path));
        real.into_iter().chain(shims).next()
    }

    /// One of this name that PATH has and that is not taken: it is not where programs are installed.
    pub(crate) fn passed_over(&self, name: &str) -> Option<PathBuf> {
        let everywhere = self.directories.iter().chain(&self.others);
        everywhere.map(|directory| directory.join(name)).find(|path| !name.contains('/') && is_program(path))
    }

    /// Is it where programs are installed, or the user's own choice?
    pub(crate) fn may_be_used(&self, program: &Path) -> bool {
        self.chosen.iter().any(|chosen| chosen == program) || self.installed.has(program)
    }

    /// What has to be attached so that a program is there at its own path.
    pub(crate) fn attachments(&self, program: &Path) -> Vec<Attachment> {
        let real = program.canonicalize().ok();
        let mut roots: Vec<PathBuf> = [Some(program.to_path_buf()), real]
            .into_iter()
            .flatten()
            .filter(|path| !is_system(path) && !is_shim(path))
            .filter_map(|path| self.prefix(&path))
            .collect();
        roots.sort();
        roots.dedup();
        let attach = |root: PathBuf| Attachment {
            source: root.clone(),
            target: root,
            attach_as: AttachAs::Read,
            expected: None,
        };
        roots.into_iter().map(attach).collect()
    }

    /// The installation that a program belongs to: `x` of `x/bin/program` where that is a place of its own, else the
    /// directory that the program is in. Never a home, and nothing above it.
    fn prefix(&self, program: &Path) -> Option<PathBuf> {
        let directory = program.parent()?;
        let shared = |path: &Path| {
            self.home.starts_with(path) || path == self.home.join(".local") || path.parent().is_none()
        };
        let whole = directory
            .parent()
            .filter(|_| directory.file_name().is_some_and(|name| name == "bin"))
            .filter(|prefix| prefix.join("lib").is_dir() && !shared(prefix));
        match whole {
            Some(prefix) => Some(prefix.to_path_buf()),
            None if shared(directory) => None,
            None => Some(directory.to_path_buf()),
        }
    }
}

pub(crate) fn is_system(path: &Path) -> bool {
    SYSTEM.iter().any(|root| path.starts_with(root))
}

pub(crate) fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|facts| facts.is_file() && facts.permissions().mode() & 0o111 != 0)
}

fn is_shim(path: &Path) -> bool {
    path.parent().and_then(Path::file_name).is_some_and(|name| name == "shims")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn program(path: &Path) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn real_ones_before_shims_and_none_of_a_sandboxs() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        let pyenv = |name: &str| at("home/.pyenv").join(name);
        for path in
            [at("ws/bin/tool"), pyenv("shims/tool"), pyenv("versions/1/bin/tool"), pyenv("shims/only")]
        {
            program(&path);
        }
        // A virtual environment of some other project, activated, and a link out of an installed place.
        program(&at("home/project/.venv/bin/tool"));
        program(&at("home/project/.venv/bin/planted"));
        std::os::unix::fs::symlink(at("home/project/.venv/bin/planted"), pyenv("versions/1/bin/linked"))
            .unwrap();
        fs::create_dir(pyenv("versions/1/lib")).unwrap();
        let mut places = Places::from_env().unwrap();
        places.home = at("home");
        let path = [
            at("home/project/.venv/bin"),
            at("ws/bin"),
            pyenv("shims"),
            pyenv("versions/1/bin"),
            "bin".into(),
        ];
        let own = BTreeMap::from([(".jl".to_owned(), vec![at("julia").display().to_string()])]);
        program(&at("julia"));
        let found = Programs::new(path.into_iter(), &places, vec![at("ws")], &own);
        assert_eq!(found.find("tool"), Some(pyenv("versions/1/bin/tool")));
        assert_eq!(found.find("only"), Some(pyenv("shims/only")));
        assert_eq!(found.find("../x"), None);
        assert_eq!((found.find("planted"), found.find("linked")), (None, None));
        assert_eq!(found.passed_over("planted"), Some(at("home/project/.venv/bin/planted")));
        assert_eq!(found.find("julia"), Some(at("julia")), "the user's own choice");
        let shown: Vec<PathBuf> = found
            .attachments(&pyenv("versions/1/bin/tool"))
            .into_iter()
            .map(|attachment| attachment.target)
            .collect();
        assert!(shown.contains(&pyenv("versions/1")), "{shown:?}");
        program(&at("home/mine"));
        assert!(found.attachments(&at("home/mine")).is_empty(), "a home is not shown for one program in it");
        assert!(found.attachments(Path::new("/usr/bin/env")).is_empty());
    }
}
