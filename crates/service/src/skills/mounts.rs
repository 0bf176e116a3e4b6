//! The whole library at `/skills`, for a command that finds its way there by itself. It sees the skills that `list` shows,
//! each as `skill run` shows it: without caches, installed packages and repositories.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use ringfence_sandbox::{Alias, AttachAs, Attached, Attachment, FileId};
use ringfence_skills::SkillName;
use rustix::fs::{Mode, OFlags, open};

use super::settings::library_root;
use super::source::{domains, with_left_out};
use crate::error::{ErrorCode, ServiceError};
use crate::places::Places;

const SKILLS: &str = "/skills";
/// A link each costs a little at every start.
const MOST_ALIASES: usize = 2_000;
/// So does each hidden place: a skill with more is hidden as a whole.
const MOST_HIDDEN: usize = 2_000;
/// How many notes of one kind are told.
const TOLD: usize = 10;

/// A library as a sandbox sees it.
#[derive(Clone, Debug, Default)]
pub struct LibraryView {
    pub attached: Attached,
    /// What of it is not there, and why.
    pub notes: Vec<String>,
}

/// Every domain at `/skills/<domain>`, and `/skills/<skill>` where one skill alone has that name.
pub fn library_attached(places: &Places, library: Option<&Path>) -> Result<LibraryView, ServiceError> {
    domains_attached(places, library, None)
}

/// The same with these domains only.
pub(crate) fn domains_attached(
    places: &Places,
    library: Option<&Path>,
    only: Option<&[String]>,
) -> Result<LibraryView, ServiceError> {
    let root = library_root(places, library)?;
    let root = match root.canonicalize() {
        Ok(root) => root,
        // Nobody has put anything into their own library yet.
        Err(_) if library.is_none() => return Ok(LibraryView::default()),
        Err(error) => {
            return Err(ServiceError::new(
                ErrorCode::BadRequest,
                format!("cannot use the library {}: {error}", root.display()),
                "name a directory with one directory for each domain",
            ));
        }
    };
    let mut domains = domains(&root);
    domains.retain(|domain| only.is_none_or(|only| only.contains(domain)));
    let mut seen = Seen::default();
    let directories = domains.iter().filter_map(|domain| seen.domain(&root, domain)).collect();
    let aliases = seen.aliases(&domains);
    let attached = Attached { directories, aliases, hidden: seen.hidden, ..Attached::default() };
    Ok(LibraryView { attached, notes: seen.notes.told() })
}

#[derive(Default)]
struct Seen {
    /// The domains that have a skill of a name.
    skills: BTreeMap<String, Vec<String>>,
    hidden: Vec<PathBuf>,
    notes: Notes,
}

impl Seen {
    fn domain(&mut self, root: &Path, domain: &str) -> Option<Attachment> {
        let source = root.join(domain);
        // Where others write, a name may lead elsewhere a moment later.
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = open(&source, flags, Mode::empty()).ok()?;
        let entries = match fs::read_dir(&source) {
            Ok(entries) => entries,
            Err(error) => {
                self.notes.add(format!("the domain {domain} is not shown: {error}"));
                return None;
            }
        };
        let target = Path::new(SKILLS).join(domain);
        for entry in entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
            let name = entry.file_name();
            match name.to_str().filter(|name| is_skill_name(name)) {
                Some(name) => self.skill(&entry.path(), &target.join(name), domain, name),
                None => self.hidden.push(target.join(&name)),
            }
        }
        Some(Attachment {
            source,
            target,
            attach_as: AttachAs::Read,
            expected: Some(FileId::of(opened).ok()?),
        })
    }

    fn skill(&mut self, folder: &Path, target: &Path, domain: &str, name: &str) {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let left_out = open(folder, flags, Mode::empty())
            .map_err(|error| std::io::Error::from(error).to_string())
            .and_then(with_left_out)
            .and_then(|(_, left_out)| match self.hidden.len() + left_out.len() {
                0..=MOST_HIDDEN => Ok(left_out),
                _ => Err("the library has too many caches and the like".to_owned()),
            });
        match left_out {
            Ok(left_out) => {
                self.hidden.extend(left_out.iter().map(|path| target.join(path)));
                self.skills.entry(name.to_owned()).or_default().push(domain.to_owned());
            }
            Err(why) => {
                self.hidden.push(target.to_owned());
                self.notes.add(format!("{domain}/{name} is not shown: {why}"));
            }
        }
    }

    fn aliases(&mut self, domains: &[String]) -> Vec<Alias> {
        let clear = |(name, found): &(&String, &Vec<String>)| found.len() == 1 && !domains.contains(name);
        let mut clear: Vec<_> = self.skills.iter().filter(clear).collect();
        if clear.len() > MOST_ALIASES {
            let left = clear.len() - MOST_ALIASES;
            self.notes.add(format!(
                "{left} skills have no short name below {SKILLS}, which has room for {MOST_ALIASES}: they are at {SKILLS}/DOMAIN/SKILL"
            ));
            clear.truncate(MOST_ALIASES);
        }
        let alias = |(name, found): (&String, &Vec<String>)| Alias {
            target: Path::new(SKILLS).join(name),
            to: Path::new(&found[0]).join(name),
        };
        clear.into_iter().map(alias).collect()
    }
}

#[derive(Default)]
struct Notes {
    told: Vec<String>,
    more: usize,
}

impl Notes {
    fn add(&mut self, note: String) {
        if self.told.len() < TOLD {
            self.told.push(note);
        } else {
            self.more += 1;
        }
    }

    fn told(mut self) -> Vec<String> {
        if self.more > 0 {
            self.told.push(format!(
                "{} more of the library is not shown: `ringfence skill list` names it",
                self.more
            ));
        }
        self.told
    }
}

/// As `list` judges: another name is a stray.
fn is_skill_name(name: &str) -> bool {
    SkillName::parse(name).is_ok_and(|parsed| parsed.as_str() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domains_and_only_names_that_are_clear() {
        let root = tempfile::tempdir().unwrap();
        for path in [
            "a/one/__pycache__",
            "a/one/lib/node_modules",
            "a/both",
            "b/both",
            "b/a",
            "b/linked",
            ".ringfence/x",
            "Bad/y",
            "a/.hidden",
            "a/Not A Skill",
        ] {
            fs::create_dir_all(root.path().join(path)).unwrap();
        }
        std::os::unix::fs::symlink("/etc", root.path().join("etc")).unwrap();
        let places = Places::from_env().unwrap();
        std::os::unix::fs::symlink("/usr", root.path().join("b/linked/x.pyc")).unwrap();
        let LibraryView { attached, notes } = library_attached(&places, Some(root.path())).unwrap();
        let targets: Vec<_> = attached.directories.iter().map(|one| one.target.to_str().unwrap()).collect();
        assert_eq!(targets, ["/skills/a", "/skills/b"]);
        let aliases: Vec<_> = attached
            .aliases
            .iter()
            .map(|one| (one.target.to_str().unwrap(), one.to.to_str().unwrap()))
            .collect();
        assert_eq!(aliases, [("/skills/one", "a/one")]);
        let mut hidden: Vec<_> = attached.hidden.iter().map(|path| path.to_str().unwrap()).collect();
        hidden.sort_unstable();
        assert_eq!(
            hidden,
            [
                "/skills/a/.hidden",
                "/skills/a/Not A Skill",
                "/skills/a/one/__pycache__",
                "/skills/a/one/lib/node_modules",
                "/skills/b/linked",
            ]
        );
        assert!(
            notes.len() == 1 && notes[0].starts_with("b/linked is not shown: x.pyc is a link"),
            "{notes:?}"
        );
        assert!(library_attached(&places, Some(&root.path().join("none"))).is_err());
    }

    #[test]
    fn more_names_than_there_is_room_for_are_said() {
        let root = tempfile::tempdir().unwrap();
        for number in 0..MOST_ALIASES + 3 {
            fs::create_dir_all(root.path().join(format!("a/s{number}"))).unwrap();
        }
        let places = Places::from_env().unwrap();
        let LibraryView { attached, notes } = library_attached(&places, Some(root.path())).unwrap();
        assert_eq!(attached.aliases.len(), MOST_ALIASES);
        assert!(notes.len() == 1 && notes[0].starts_with("3 skills have no short name"), "{notes:?}");
    }
}
