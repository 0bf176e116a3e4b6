//! A root filesystem that takes the place of the host's system directories: what a sandbox shows of its tree, and where.
//!
//! Invariant: what is mounted later is never mounted through a link of the image. A link, or a file, on the way to such a place
//! is left out, and a directory that lacks the place is shown child by child.

use std::fs;
use std::path::{Path, PathBuf};

use crate::host::{NEVER, RootEntry};
use crate::network::NetworkFacts;
use crate::refusal::Refusal;

/// More mounts than this are not made for one place that an image lacks.
const MOST_ENTRIES: usize = 512;
/// Not shown from an image: each sandbox has a home of its own there.
const HOME: &str = "home";

/// An image, found by whoever looks after images. Its tree is ours alone to change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageTree {
    pub name: String,
    pub digest: String,
    /// The directory that is its `/`.
    pub root: PathBuf,
    /// Where it says that its programs are.
    pub path: Option<String>,
}

/// What a plan says of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageFacts {
    pub name: String,
    pub digest: String,
    pub path: Option<String>,
}

impl ImageTree {
    pub(crate) fn facts(&self) -> ImageFacts {
        ImageFacts { name: self.name.clone(), digest: self.digest.clone(), path: self.path.clone() }
    }

    /// Programs inside look for their name server where the image has a file for it; each image has.
    pub(crate) fn network(&self, facts: NetworkFacts) -> NetworkFacts {
        NetworkFacts { resolver_file: Some("/etc/resolv.conf".into()), ..facts }
    }

    /// What to show, where other things will be mounted at `places`.
    pub(crate) fn roots(&self, places: &[PathBuf]) -> Result<Vec<RootEntry>, Refusal> {
        let mut shown = Vec::new();
        let places: Vec<&Path> = places.iter().map(PathBuf::as_path).collect();
        self.show(Path::new("/"), &places, &mut shown)?;
        Ok(shown)
    }

    fn show(&self, at: &Path, places: &[&Path], shown: &mut Vec<RootEntry>) -> Result<(), Refusal> {
        let is_top = at == Path::new("/");
        for name in self.names(at)? {
            if is_top && (name == HOME || NEVER.iter().any(|never| name == *never)) {
                continue;
            }
            let path = at.join(&name);
            let source = self.source(&path);
            let facts = fs::symlink_metadata(&source).map_err(|error| self.broken(&path, &error))?;
            let below: Vec<&Path> = places.iter().copied().filter(|place| place.starts_with(&path)).collect();
            let entry = |link| RootEntry { path: path.clone(), link, source: Some(source.clone()) };
            match (facts.is_dir(), facts.is_symlink()) {
                (true, _) if below.iter().all(|place| self.has_directory(place)) => shown.push(entry(None)),
                (true, _) => self.show(&path, &below, shown)?,
                _ if !below.is_empty() => {}
                (_, true) => {
                    let to = fs::read_link(&source).map_err(|error| self.broken(&path, &error))?;
                    shown.push(entry(Some(to)));
                }
                _ if is_top => {}
                _ => shown.push(entry(None)),
            }
            if shown.len() > MOST_ENTRIES {
                return Err(Refusal::bad(
                    format!(
                        "image `{}` has too much beside {}, which is to be shown in it",
                        self.name,
                        places.first().unwrap_or(&at).display()
                    ),
                    "show that directory at another path, or make it a part of the image",
                ));
            }
        }
        Ok(())
    }

    /// A directory, with no link on the way to it.
    fn has_directory(&self, place: &Path) -> bool {
        place
            .ancestors()
            .filter(|above| *above != Path::new("/"))
            .all(|above| fs::symlink_metadata(self.source(above)).is_ok_and(|facts| facts.is_dir()))
    }

    fn names(&self, directory: &Path) -> Result<Vec<std::ffi::OsString>, Refusal> {
        let listed = fs::read_dir(self.source(directory)).and_then(|entries| {
            entries.map(|entry| entry.map(|entry| entry.file_name())).collect::<Result<Vec<_>, _>>()
        });
        let mut names = listed.map_err(|error| self.broken(directory, &error))?;
        names.sort();
        Ok(names)
    }

    fn source(&self, path: &Path) -> PathBuf {
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    fn broken(&self, path: &Path, error: &std::io::Error) -> Refusal {
        Refusal::bad(
            format!("{} of image `{}` cannot be shown: {error}", path.display(), self.name),
            format!("look with `ringfence image verify {}`, and build it again", self.name),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn image(root: &Path) -> ImageTree {
        ImageTree { name: "one".into(), digest: "0".into(), root: root.to_path_buf(), path: None }
    }

    fn shown(root: &Path, places: &[&str]) -> Vec<String> {
        let places: Vec<PathBuf> = places.iter().map(PathBuf::from).collect();
        let line = |entry: RootEntry| match entry.link {
            Some(to) => format!("{} -> {}", entry.path.display(), to.display()),
            None => entry.path.display().to_string(),
        };
        image(root).roots(&places).unwrap().into_iter().map(line).collect()
    }

    #[test]
    fn whole_directories_where_nothing_is_to_be_mounted_in_them() {
        let root = tempfile::tempdir().unwrap();
        for directory in
            ["usr/bin", "etc", "var/tmp", "home/a", "proc", "tmp", "run", "workspace", "skills", "app"]
        {
            fs::create_dir_all(root.path().join(directory)).unwrap();
        }
        fs::write(root.path().join("file"), "").unwrap();
        symlink("usr/bin", root.path().join("bin")).unwrap();
        assert_eq!(shown(root.path(), &["/var/tmp"]), ["/app", "/bin -> usr/bin", "/etc", "/usr", "/var"]);
    }

    #[test]
    fn a_place_that_is_not_in_the_image_has_its_neighbours_beside_it() {
        let root = tempfile::tempdir().unwrap();
        for directory in ["opt/a/x", "opt/b", "usr"] {
            fs::create_dir_all(root.path().join(directory)).unwrap();
        }
        fs::write(root.path().join("opt/file"), "").unwrap();
        symlink("b", root.path().join("opt/link")).unwrap();
        assert_eq!(
            shown(root.path(), &["/opt/a/mine/deep"]),
            ["/opt/a/x", "/opt/b", "/opt/file", "/opt/link -> b", "/usr"]
        );
        assert_eq!(shown(root.path(), &["/opt/a/x"]), ["/opt", "/usr"]);
    }

    /// A mount through a link of the image would be one over a path of the host.
    #[test]
    fn nothing_is_mounted_through_a_link_of_the_image() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("opt")).unwrap();
        fs::create_dir_all(root.path().join("srv/tmp")).unwrap();
        symlink("/root/.ssh", root.path().join("var")).unwrap();
        symlink("/etc", root.path().join("opt/project")).unwrap();
        symlink("srv", root.path().join("mnt")).unwrap();
        fs::write(root.path().join("opt/file"), "").unwrap();
        let found = shown(root.path(), &["/var/tmp", "/opt/project", "/opt/file/x", "/mnt/tmp"]);
        assert_eq!(found, ["/srv"]);
    }

    #[test]
    fn a_place_among_thousands_is_refused() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("usr")).unwrap();
        for number in 0..=MOST_ENTRIES {
            fs::write(root.path().join(format!("usr/{number}")), "").unwrap();
        }
        let refused = image(root.path()).roots(&["/usr/mine".into()]).unwrap_err().to_string();
        assert!(refused.contains("/usr/mine"), "{refused}");
    }
}
