//! Programs of this machine: where PATH has one, and which directories a sandbox must show for it to run there.

use std::env;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use ringfence_sandbox::{AttachAs, Attachment};

use crate::places::Places;

/// Shown in every sandbox.
const SYSTEM: &[&str] =
    &["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix", "/gnu"];

/// The caller's PATH, without what is relative and without what a sandbox may have written.
#[derive(Clone, Debug)]
pub(crate) struct Programs {
    pub(crate) directories: Vec<PathBuf>,
    home: PathBuf,
}

impl Programs {
    /// `hostile`: directories that sandboxes write.
    pub(crate) fn on_path(places: &Places, hostile: &[PathBuf]) -> Self {
        let path = env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
        Self::new(env::split_paths(&path), places, hostile)
    }

    pub(crate) fn new(path: impl Iterator<Item = PathBuf>, places: &Places, hostile: &[PathBuf]) -> Self {
        let is_hostile = |directory: &Path| {
            hostile.iter().any(|root| root.parent().is_some() && directory.starts_with(root))
        };
        let fine = |directory: &PathBuf| {
            directory.is_absolute()
                && !is_hostile(directory)
                && !directory.canonicalize().is_ok_and(|real| is_hostile(&real))
        };
        Self { directories: path.filter(fine).collect(), home: places.home.clone() }
    }

    /// The first program of this name. One behind a version manager's shim only where there is no other: a shim
    /// needs its manager, which a sandbox may not show.
    pub(crate) fn find(&self, name: &str) -> Option<PathBuf> {
        if name.is_empty() || name.contains('/') {
            return None;
        }
        let all =
            self.directories.iter().map(|directory| directory.join(name)).filter(|path| is_program(path));
        let (shims, real): (Vec<_>, Vec<_>) = all.partition(|path| is_shim(path));
        real.into_iter().chain(shims).next()
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
        for name in ["ws/bin/tool", "m/shims/tool", "m/v/1/bin/tool", "m/shims/only"] {
            program(&at(name));
        }
        fs::create_dir(at("m/v/1/lib")).unwrap();
        let mut places = Places::from_env().unwrap();
        places.home = at("m");
        let path = ["ws/bin", "m/shims", "m/v/1/bin"].map(at);
        let found = Programs::new(path.into_iter().chain(["bin".into()]), &places, &[at("ws")]);
        assert_eq!(found.find("tool"), Some(at("m/v/1/bin/tool")));
        assert_eq!(found.find("only"), Some(at("m/shims/only")));
        assert_eq!(found.find("../x"), None);
        let shown: Vec<PathBuf> = found
            .attachments(&at("m/v/1/bin/tool"))
            .into_iter()
            .map(|attachment| attachment.target)
            .collect();
        assert!(shown.contains(&at("m/v/1")), "{shown:?}");
        program(&at("m/mine"));
        assert!(found.attachments(&at("m/mine")).is_empty(), "a home is not shown for one program in it");
        assert!(found.attachments(Path::new("/usr/bin/env")).is_empty());
    }
}
