//! Which skill is meant: a name in the library, a directory, or an archive. Its manifest and its tree, read once.

use std::cell::RefCell;
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use ringfence_skills::{
    Digest, Domain, MANIFEST_NAMES, Manifest, PLACES, Problem, Tree, TreeError, TreeLimits, UnpackLimits,
    left_out, load, unpack,
};
use rustix::fs::{Mode, OFlags, ResolveFlags, open, openat2};
use rustix::io::Errno;

use super::scratch::Scratch;
use super::settings::library_root;
use crate::error::{ErrorCode, ServiceError};
use crate::files::open_regular;
use crate::places::Places;

/// The domain of what is in no library.
pub(crate) const LOCAL: &str = "local";
/// How often a skill is looked for while somebody replaces it.
const TRIES: usize = 64;
/// Each is a mount of its own.
const MOST_LEFT_OUT: usize = 500;
/// A manifest is text for people.
const MANIFEST_BYTES: u64 = 1 << 20;

/// A skill as a person names it.
#[derive(Clone, Debug)]
pub struct SkillReference {
    /// `name`, `domain/name`, a directory or an archive.
    pub skill: OsString,
    /// A library other than the configured one.
    pub library: Option<PathBuf>,
}

/// A skill that was found and read.
#[derive(Debug)]
pub struct FoundSkill {
    pub domain: String,
    /// The name of its directory.
    pub name: String,
    pub directory: PathBuf,
    pub manifest: Manifest,
    /// What had to be overlooked in the manifest.
    pub warnings: Vec<Problem>,
    pub tree: Tree,
    /// What is in its folder and no part of its version: a run does not see it.
    pub(super) left_out: Vec<String>,
    place: Place,
}

#[derive(Debug)]
enum Place {
    Library(PathBuf),
    Directory,
    Archive { _unpacked: Scratch },
}

impl Place {
    /// Open the directory of a skill, through no link where others may write.
    fn open(&self, directory: &Path, domain: &str, name: &str) -> std::io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(match self {
            Self::Library(root) => {
                let root = open(root, flags, Mode::empty())?;
                let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
                let path = Path::new(domain).join(name);
                let find = || openat2(&root, &path, flags, Mode::empty(), resolve);
                // What the kernel says where the skill is replaced at this moment.
                let settled = |found: &Result<_, Errno>| !matches!(found, Err(Errno::AGAIN | Errno::XDEV));
                (0..TRIES).map(|_| find()).find(settled).unwrap_or(Err(Errno::AGAIN))?
            }
            Self::Directory | Self::Archive { .. } => open(directory, flags, Mode::empty())?,
        })
    }
}

impl FoundSkill {
    /// Where it is in a sandbox.
    pub fn inside(&self) -> PathBuf {
        Path::new("/skills").join(&self.domain).join(&self.name)
    }

    /// The version: the digest of its tree. An error where it has what no skill can have.
    pub fn digest(&self) -> Result<Digest, TreeError> {
        self.tree.digest()
    }

    /// What grants are bound to, beside its content: the place it was found at. An archive has none, as it is gone after
    /// the run.
    pub(crate) fn identity(&self) -> Option<String> {
        match &self.place {
            Place::Library(root) => Some(format!("{}#{}/{}", root.to_str()?, self.domain, self.name)),
            // Nothing that a library's looks like.
            Place::Directory => self.directory.to_str().filter(|path| !path.contains('#')).map(str::to_owned),
            Place::Archive { .. } => None,
        }
    }
}

/// Find and read a skill. A name in the library goes before a directory of the same name here.
pub fn find_skill(places: &Places, reference: &SkillReference) -> Result<FoundSkill, ServiceError> {
    let text = reference.skill.to_string_lossy();
    let is_path = text.starts_with(['/', '.', '~']) || text.is_empty();
    let root = library_root(places, reference.library.as_deref())?;
    if !is_path && let Some(found) = in_library(&root, &text)? {
        return found.read();
    }
    let path = places.absolute(Path::new(&reference.skill), &places.current);
    match fs::metadata(&path) {
        Ok(facts) if facts.is_dir() => directory(&path, Place::Directory)?.read(),
        Ok(facts) if facts.is_file() => archive(places, &path),
        Ok(_) => Err(bad(format!("{} is neither a directory nor an archive", path.display()))),
        Err(_) if !is_path => {
            let found = discovered(places, &text);
            found.ok_or_else(|| unknown(&text, &root))?.read()
        }
        Err(error) => Err(bad(format!("cannot read {}: {error}", path.display()))),
    }
}

/// A directory that should be a skill.
struct Located {
    domain: String,
    name: String,
    directory: PathBuf,
    place: Place,
}

impl Located {
    fn read(self) -> Result<FoundSkill, ServiceError> {
        let Self { domain, name, directory, place } = self;
        let unreadable = |error: TreeError| bad(format!("{}: {error}", directory.display()));
        let opened = place.open(&directory, &domain, &name);
        let opened = opened.map_err(|error| bad(format!("{}: {error}", directory.display())))?;
        let (tree, left_out) =
            with_left_out(opened).map_err(|why| bad(format!("{}: {why}", directory.display())))?;
        let manifest =
            MANIFEST_NAMES.into_iter().find(|name| tree.entries().iter().any(|entry| entry.path == *name));
        let manifest = manifest.ok_or_else(|| bad(format!("{} has no SKILL.md", directory.display())))?;
        let bytes = tree.read_file(manifest, MANIFEST_BYTES + 1).map_err(unreadable)?;
        if bytes.len() as u64 > MANIFEST_BYTES {
            return Err(bad(format!("{}: larger than 1 MiB", directory.join(manifest).display())));
        }
        let loaded = load(&bytes, &name)
            .map_err(|error| bad(format!("{}: {error}", directory.join(manifest).display())))?;
        Ok(FoundSkill {
            domain,
            name,
            directory,
            manifest: loaded.manifest,
            warnings: loaded.warnings,
            tree,
            left_out,
            place,
        })
    }
}

/// A skill's tree, and what is in its folder and no part of its version, to be hidden from a run; or why that can't be.
pub(super) fn with_left_out(folder: OwnedFd) -> Result<(Tree, Vec<String>), String> {
    let skipped = RefCell::new(Vec::new());
    let skip = |path: &str, is_directory| {
        let out = left_out(path, is_directory);
        if out && skipped.borrow().len() <= MOST_LEFT_OUT {
            skipped.borrow_mut().push(path.to_owned());
        }
        out
    };
    let tree = Tree::read_at(folder, TreeLimits::default(), skip).map_err(|error| error.to_string())?;
    let left_out = skipped.into_inner();
    if left_out.len() > MOST_LEFT_OUT {
        return Err(format!("it has too many caches and the like, such as {}", left_out[0]));
    }
    // What hides a link would hide what it leads to, anywhere in the sandbox.
    match left_out.iter().find(|path| tree.read_link(path).is_ok()) {
        Some(link) => Err(format!("{link} is a link that is no part of its version; remove it")),
        None => Ok((tree, left_out)),
    }
}

fn directory(path: &Path, place: Place) -> Result<Located, ServiceError> {
    let real =
        path.canonicalize().map_err(|error| bad(format!("cannot read {}: {error}", path.display())))?;
    let name = real.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| bad(format!("{} has no name that a skill can have", real.display())))?;
    Ok(Located { domain: LOCAL.to_owned(), name: name.to_owned(), directory: real.clone(), place })
}

/// Unpacked into a directory of ours for as long as the skill is held.
fn archive(places: &Places, path: &Path) -> Result<FoundSkill, ServiceError> {
    let refused = |why: String| {
        ServiceError::new(
            ErrorCode::BadSkill,
            format!("{}: {why}", path.display()),
            "ask for another archive of the skill: nothing of this one was kept",
        )
    };
    let file = open_regular(path).map_err(|error| refused(error.to_string()))?;
    let scratch = Scratch::new(&places.state)?;
    let into = File::open(&scratch.path).map_err(|error| refused(error.to_string()))?;
    let unpacked =
        unpack(&file, into.as_fd(), &UnpackLimits::default()).map_err(|error| refused(error.to_string()))?;
    let stem = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.split('.').next());
    let name =
        unpacked.name.as_deref().or(stem).filter(|name| is_component(name)).unwrap_or("skill").to_owned();
    let directory = scratch.path.clone();
    Located { domain: LOCAL.to_owned(), name, directory, place: Place::Archive { _unpacked: scratch } }.read()
}

/// Where other clients keep skills: in the project, then in the home. They are run where they are.
fn discovered(places: &Places, name: &str) -> Option<Located> {
    if !is_component(name) {
        return None;
    }
    let below = |root: &Path| PLACES.iter().map(|place| root.join(place.path).join(name)).collect::<Vec<_>>();
    // A link of a project leads wherever its author wants; one of the home is the user's own.
    let of_project = below(&places.current).into_iter().find(|path| is_real_directory(path));
    let found = of_project.or_else(|| below(&places.home).into_iter().find(|path| path.is_dir()))?;
    directory(&found, Place::Directory).ok()
}

/// `name` or `domain/name`. Links in a library are not followed: others may write it.
fn in_library(root: &Path, reference: &str) -> Result<Option<Located>, ServiceError> {
    let (domain, name) = match reference.split_once('/') {
        Some((domain, name)) => (Some(domain), name),
        None => (None, reference),
    };
    if !is_component(name) || domain.is_some_and(|domain| !is_domain(domain)) {
        return Ok(None);
    }
    let Ok(real) = root.canonicalize() else { return Ok(None) };
    let domains = match domain {
        Some(domain) => vec![domain.to_owned()],
        None => domains(&real),
    };
    let mut found: Vec<Located> = domains
        .into_iter()
        .map(|domain| (real.join(&domain).join(name), domain))
        .filter(|(path, _)| is_real_directory(path) && path.parent().is_some_and(is_real_directory))
        .map(|(directory, domain)| Located {
            domain,
            name: name.to_owned(),
            directory,
            place: Place::Library(real.clone()),
        })
        .collect();
    if found.len() > 1 {
        let names: Vec<String> = found.iter().map(|one| format!("{}/{}", one.domain, one.name)).collect();
        return Err(ServiceError::new(
            ErrorCode::BadSkill,
            format!("more than one skill is called {name}: {}", names.join(", ")),
            "name its domain too",
        ));
    }
    Ok(found.pop())
}

/// The domains of a library, in their order.
pub(crate) fn domains(root: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(root)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| is_domain(name))
        .collect();
    names.sort();
    names
}

/// Never `.ringfence`.
pub(crate) fn is_domain(name: &str) -> bool {
    Domain::parse(name).is_ok()
}

/// One part of a path that leads nowhere else.
pub(crate) fn is_component(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.contains('/') && !name.chars().any(char::is_control)
}

fn is_real_directory(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|facts| facts.is_dir())
}

fn unknown(name: &str, root: &Path) -> ServiceError {
    ServiceError::new(
        ErrorCode::BadSkill,
        format!(
            "there is no skill {name}: not in the library {}, and not a file or directory here",
            root.display()
        ),
        "name a directory as ./NAME; `ringfence skill list` shows what there is",
    )
}

fn bad(message: String) -> ServiceError {
    ServiceError::new(
        ErrorCode::BadSkill,
        message,
        "name a skill of the library, a directory with a SKILL.md, or an archive of one",
    )
}
