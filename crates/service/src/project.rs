//! The project's own `ringfence.toml`: in the directory that a run starts from, or above it in the same project.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::error::{ErrorCode, ServiceError};
use crate::files::read_if_there;

pub(crate) const FILE_NAME: &str = "ringfence.toml";

/// A project's file: where it is and the exact text that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProjectFile {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

/// The nearest file at or above `start`, up to the repository's root or below the home directory.
///
/// A directory that anyone may write is not part of a project that lies in it, so that nobody's file in `/tmp`
/// holds for others. An empty file is what a protected workspace has while a sandbox runs in it: not a policy.
pub(crate) fn find_project(start: &Path, home: &Path) -> Result<Option<ProjectFile>, ServiceError> {
    for directory in directories(start, home) {
        if directory != start && is_for_everyone(directory) {
            break;
        }
        let path = directory.join(FILE_NAME);
        let text = read_if_there(&path).map_err(|error| {
            ServiceError::new(
                ErrorCode::BadPolicy,
                format!("cannot read {}: {error}", path.display()),
                "make it a readable text file, or move it away",
            )
        })?;
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            return Ok(Some(ProjectFile { path, text }));
        }
        if directory.join(".git").symlink_metadata().is_ok() {
            break;
        }
    }
    Ok(None)
}

/// Where a project's file belongs if there is none: beside `.git`, else in `start`.
pub(crate) fn project_root(start: &Path, home: &Path) -> PathBuf {
    directories(start, home)
        .find(|directory| directory.join(".git").symlink_metadata().is_ok())
        .unwrap_or(start)
        .to_path_buf()
}

/// `start` and what is above it, up to the home directory, which may be known by a link.
fn directories<'a>(start: &'a Path, home: &Path) -> impl Iterator<Item = &'a Path> {
    let home = if start.starts_with(home) { Ok(home.to_path_buf()) } else { home.canonicalize() };
    start.ancestors().take_while(move |directory| home.as_deref().ok() != Some(*directory))
}

fn is_for_everyone(directory: &Path) -> bool {
    directory.metadata().is_ok_and(|facts| facts.mode() & 0o002 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    fn found(start: &Path, home: &Path) -> Option<PathBuf> {
        find_project(start, home).unwrap().map(|file| file.path)
    }

    #[test]
    fn stops_at_the_repository_the_home_and_what_all_may_write() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        let deep = root.join("home/repo/a/b");
        fs::create_dir_all(&deep).unwrap();
        fs::create_dir_all(root.join("home/repo/.git")).unwrap();
        let (home, elsewhere) = (root.join("home"), root.join("elsewhere"));
        fs::write(root.join("home").join(FILE_NAME), "# home").unwrap();
        assert_eq!(found(&deep, &elsewhere), None, "above the repository");
        assert_eq!(project_root(&deep, &elsewhere), root.join("home/repo"));
        fs::write(root.join("home/repo").join(FILE_NAME), "# repo").unwrap();
        assert_eq!(found(&deep, &elsewhere), Some(root.join("home/repo").join(FILE_NAME)));
        fs::write(deep.join(FILE_NAME), "").unwrap();
        assert_eq!(found(&deep, &elsewhere), Some(root.join("home/repo").join(FILE_NAME)), "an empty one");
        fs::remove_dir(root.join("home/repo/.git")).unwrap();
        fs::remove_file(root.join("home/repo").join(FILE_NAME)).unwrap();
        assert_eq!(found(&deep, &elsewhere), Some(root.join("home").join(FILE_NAME)));
        assert_eq!(found(&deep, &home), None, "the home directory's");
        std::os::unix::fs::symlink(&home, root.join("link")).unwrap();
        assert_eq!(found(&deep, &root.join("link")), None, "the home directory's by another name");
        fs::set_permissions(root.join("home"), fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(found(&deep, &elsewhere), None, "a directory for everyone");
    }
}
