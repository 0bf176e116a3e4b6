//! Where programs are installed: the system's directories and the known toolchains of a home, which every sandbox has
//! read-only or as a throwaway copy. Which other directories were a workspace of some earlier run nobody knows: a virtual
//! environment that somebody activated may be a sandbox's own work.

use std::path::{Path, PathBuf};

use ringfence_policy::usual_toolchains;
use rustix::fs::{Access, access};

use crate::places::Places;

const SYSTEM: [&str; 8] = ["/etc", "/usr", "/opt", "/bin", "/sbin", "/lib", "/nix", "/gnu"];

/// Both lists are canonical too.
#[derive(Clone, Debug)]
pub(crate) struct Installed {
    places: Vec<PathBuf>,
    hostile: Vec<PathBuf>,
}

impl Installed {
    /// `hostile`: directories that sandboxes write. The current one is among them: another run may have had it as its
    /// workspace.
    pub(crate) fn new(places: &Places, mut hostile: Vec<PathBuf>) -> Self {
        hostile.push(places.current.clone());
        hostile.retain(|directory| directory.parent().is_some());
        let mut installed: Vec<PathBuf> = SYSTEM.iter().map(PathBuf::from).collect();
        // By their usual places alone: a variable that says another may come from the project.
        for home in [Some(places.home.clone()), account_home()].into_iter().flatten() {
            installed.extend(usual_toolchains(&home));
        }
        Self { places: with_real(installed), hostile: with_real(hostile) }
    }

    /// Could a sandbox have written what is there?
    pub(crate) fn is_hostile(&self, path: &Path) -> bool {
        let under = |path: &Path| self.hostile.iter().any(|directory| path.starts_with(directory));
        under(path) || path.canonicalize().is_ok_and(|real| under(&real))
    }

    /// Is a path named in a value one of those directories, or in one?
    pub(crate) fn hostile(&self) -> &[PathBuf] {
        &self.hostile
    }

    /// Is it where programs are installed, behind links too?
    pub(crate) fn has(&self, path: &Path) -> bool {
        let under = |path: &Path| self.places.iter().any(|directory| path.starts_with(directory));
        let is_fine = |path: &Path| under(path) || is_others(path);
        !self.is_hostile(path) && is_fine(path) && path.canonicalize().is_ok_and(|real| is_fine(&real))
    }
}

fn with_real(mut directories: Vec<PathBuf>) -> Vec<PathBuf> {
    let real: Vec<PathBuf> = directories.iter().filter_map(|path| path.canonicalize().ok()).collect();
    directories.extend(real);
    directories
}

/// Can neither this user nor a sandbox, which has no more rights, change what is there or put something in its place?
fn is_others(path: &Path) -> bool {
    let may_write = |path: &Path| access(path, Access::WRITE_OK).is_ok();
    !rustix::process::geteuid().is_root() && !path.ancestors().any(may_write)
}

/// The home that the system knows, which HOME need not be.
fn account_home() -> Option<PathBuf> {
    let uid = rustix::process::getuid().as_raw().to_string();
    let passwd = crate::files::read_if_there(Path::new("/etc/passwd")).ok()??;
    let entry = passwd
        .lines()
        .map(|line| line.split(':').collect::<Vec<_>>())
        .find(|entry| entry.get(2).is_some_and(|found| *found == uid))?;
    entry.get(5).map(PathBuf::from).filter(|home| home.is_absolute() && home.parent().is_some())
}
