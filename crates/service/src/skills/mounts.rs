//! The whole library at `/skills`, for a command that finds its way there by itself.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use ringfence_sandbox::{Alias, AttachAs, Attached, Attachment, FileId};
use rustix::fs::{Mode, OFlags, open};

use super::settings::library_root;
use super::source::{domains, is_component};
use crate::error::{ErrorCode, ServiceError};
use crate::places::Places;

const SKILLS: &str = "/skills";
/// A link each costs a little at every start.
const MOST_ALIASES: usize = 2_000;

/// Every domain at `/skills/<domain>`, and `/skills/<skill>` where one skill alone has that name.
pub fn library_attached(places: &Places, library: Option<&Path>) -> Result<Attached, ServiceError> {
    let root = library_root(places, library)?;
    let root = match root.canonicalize() {
        Ok(root) => root,
        // Nobody has put anything into their own library yet.
        Err(_) if library.is_none() => return Ok(Attached::default()),
        Err(error) => {
            return Err(ServiceError::new(
                ErrorCode::BadRequest,
                format!("cannot use the library {}: {error}", root.display()),
                "name a directory with one directory for each domain",
            ));
        }
    };
    let domains = domains(&root);
    let directories = domains.iter().filter_map(|domain| {
        // Where others write, a name may lead elsewhere a moment later.
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = open(root.join(domain), flags, Mode::empty()).ok()?;
        Some(Attachment {
            source: root.join(domain),
            target: Path::new(SKILLS).join(domain),
            attach_as: AttachAs::Read,
            expected: Some(FileId::of(opened).ok()?),
        })
    });
    Ok(Attached {
        directories: directories.collect(),
        aliases: aliases(&root, &domains),
        ..Attached::default()
    })
}

fn aliases(root: &Path, domains: &[String]) -> Vec<Alias> {
    let mut places: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for domain in domains {
        for entry in fs::read_dir(root.join(domain)).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir())
                && let Ok(name) = entry.file_name().into_string()
                && is_component(&name)
            {
                places.entry(name).or_default().push(domain);
            }
        }
    }
    places
        .into_iter()
        .filter(|(name, found)| found.len() == 1 && !domains.contains(name))
        .take(MOST_ALIASES)
        .map(|(name, found)| Alias {
            target: Path::new(SKILLS).join(&name),
            to: Path::new(found[0]).join(&name),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domains_and_only_names_that_are_clear() {
        let root = tempfile::tempdir().unwrap();
        for path in ["a/one", "a/both", "b/both", "b/a", ".ringfence/x", "Bad/y", "a/.hidden"] {
            fs::create_dir_all(root.path().join(path)).unwrap();
        }
        std::os::unix::fs::symlink("/etc", root.path().join("etc")).unwrap();
        let places = Places::from_env().unwrap();
        let attached = library_attached(&places, Some(root.path())).unwrap();
        let targets: Vec<_> = attached.directories.iter().map(|one| one.target.to_str().unwrap()).collect();
        assert_eq!(targets, ["/skills/a", "/skills/b"]);
        let aliases: Vec<_> = attached
            .aliases
            .iter()
            .map(|one| (one.target.to_str().unwrap(), one.to.to_str().unwrap()))
            .collect();
        assert_eq!(aliases, [("/skills/one", "a/one")]);
        assert!(library_attached(&places, Some(&root.path().join("none"))).is_err());
    }
}
