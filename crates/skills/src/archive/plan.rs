//! What an archive comes to, decided from its list of entries before anything is written: which directory is the skill,
//! where each entry goes, and whether all of them can be told apart.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::error::{ArchiveError, Reason};
use super::limits::UnpackLimits;
use super::name::folded;
use crate::manifest::MANIFEST_NAMES;
use crate::tree::{left_out, stays_inside};

/// One entry of an archive, with a path that `safe_path` made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) path: String,
    pub(super) kind: MemberKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MemberKind {
    Directory,
    File { size: u64, executable: bool },
    Link { to: String },
}

/// Where everything goes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// The directory that all was in, if there was one.
    pub(super) wrapper: Option<String>,
    /// Parents before children.
    pub(super) directories: Vec<String>,
    /// For each member its path beneath the skill; nothing for directories and what is left out.
    pub(super) places: Vec<Option<String>>,
    /// As named in the archive.
    pub(super) left_out: Vec<String>,
}

pub(super) fn plan(members: &[Member], limits: &UnpackLimits) -> Result<Plan, ArchiveError> {
    let wrapper = find_wrapper(members)?;
    let mut nodes = Nodes { limits, nodes: BTreeMap::new(), foldings: HashMap::new() };
    let mut places = Vec::with_capacity(members.len());
    let mut skipped = Vec::new();
    for member in members {
        let path = match &wrapper {
            Some(wrapper) if member.path == *wrapper => "",
            Some(wrapper) => member
                .path
                .strip_prefix(wrapper.as_str())
                .and_then(|rest| rest.strip_prefix('/'))
                .unwrap_or(""),
            None => member.path.as_str(),
        };
        let is_directory = member.kind == MemberKind::Directory;
        if is_clutter(&member.path, is_directory) || is_left_out(path, is_directory) {
            skipped.push(member.path.clone());
            places.push(None);
            continue;
        }
        if path.is_empty() {
            // The top, or the wrapper: only as a directory, and that is there already.
            if !is_directory {
                return Err(Reason::FileAndDirectory.of(&member.path));
            }
            places.push(None);
            continue;
        }
        if let MemberKind::Link { to } = &member.kind
            && (to.len() > limits.path_bytes || !stays_inside(path, to))
        {
            return Err(Reason::LinkOut.of(&format!("{path} -> {to}")));
        }
        nodes.add(path, &member.kind)?;
        places.push((!is_directory).then(|| path.to_owned()));
    }
    let directories = nodes
        .nodes
        .into_iter()
        .filter(|(_, node)| matches!(node, Node::Directory { .. }))
        .map(|(path, _)| path)
        .collect();
    Ok(Plan { wrapper, directories, places, left_out: skipped })
}

/// The one top directory that holds the skill, or nothing where the skill is the top itself.
fn find_wrapper(members: &[Member]) -> Result<Option<String>, ArchiveError> {
    let mut roots = BTreeSet::new();
    let mut top_manifests = 0;
    let mut inner_manifests = 0;
    for Member { path, kind } in members {
        if path.is_empty() || is_clutter(path, *kind == MemberKind::Directory) {
            continue;
        }
        let (root, rest) = path.split_once('/').unwrap_or((path, ""));
        roots.insert(root);
        if matches!(kind, MemberKind::File { .. }) {
            top_manifests += usize::from(MANIFEST_NAMES.contains(&path.as_str()));
            inner_manifests += usize::from(MANIFEST_NAMES.contains(&rest));
        }
    }
    match (top_manifests, inner_manifests) {
        _ if roots.is_empty() => Err(Reason::Empty.whole()),
        (0, 0) => Err(Reason::NoManifest.whole()),
        (1, 0) => Ok(None),
        (0, _) if roots.len() > 1 => Err(Reason::TwoRoots.whole()),
        (0, 1) => Ok(roots.first().map(|root| (*root).to_owned())),
        _ => Err(Reason::SeveralManifests.whole()),
    }
}

/// What file managers put beside a skill, wherever the skill is in the archive.
fn is_clutter(path: &str, is_directory: bool) -> bool {
    // The prefix keeps a wrapper that is called like something left out at a skill's top.
    is_left_out_beneath("./", path, is_directory)
}

/// Is it, or something that it is in, left out of a skill?
pub(super) fn is_left_out(path: &str, is_directory: bool) -> bool {
    is_left_out_beneath("", path, is_directory)
}

fn is_left_out_beneath(prefix: &str, path: &str, is_directory: bool) -> bool {
    let path = format!("{prefix}{path}");
    let parents = path.match_indices('/').map(|(at, _)| &path[..at]).filter(|parent| *parent != ".");
    left_out(&path, is_directory) || parents.into_iter().any(|parent| left_out(parent, true))
}

#[derive(Debug, PartialEq, Eq)]
enum Node {
    Directory { named: bool },
    File,
    Link,
}

/// Everything that will exist, by path.
struct Nodes<'a> {
    limits: &'a UnpackLimits,
    nodes: BTreeMap<String, Node>,
    foldings: HashMap<String, String>,
}

impl Nodes<'_> {
    fn add(&mut self, path: &str, kind: &MemberKind) -> Result<(), ArchiveError> {
        for (at, _) in path.match_indices('/') {
            let parent = &path[..at];
            match self.nodes.get(parent) {
                Some(Node::Directory { .. }) => {}
                Some(Node::File) => return Err(Reason::FileAndDirectory.of(parent)),
                Some(Node::Link) => return Err(Reason::ThroughLink.of(path)),
                None => self.insert(parent, Node::Directory { named: false })?,
            }
        }
        let node = match kind {
            MemberKind::Directory => Node::Directory { named: true },
            MemberKind::File { .. } => Node::File,
            MemberKind::Link { .. } => Node::Link,
        };
        match (self.nodes.get_mut(path), node) {
            (None, node) => self.insert(path, node),
            (Some(Node::Directory { named }), Node::Directory { .. }) if !*named => {
                *named = true;
                Ok(())
            }
            (Some(Node::Directory { .. }), Node::Link) => Err(Reason::ThroughLink.of(path)),
            (Some(Node::Directory { .. }), Node::File)
            | (Some(Node::File | Node::Link), Node::Directory { .. }) => {
                Err(Reason::FileAndDirectory.of(path))
            }
            (Some(_), _) => Err(Reason::DuplicateName.of(path)),
        }
    }

    fn insert(&mut self, path: &str, node: Node) -> Result<(), ArchiveError> {
        if self.nodes.len() >= self.limits.entries {
            return Err(Reason::TooManyEntries.whole());
        }
        let parts = path.split('/').count();
        let depth = if matches!(node, Node::Directory { .. }) { parts } else { parts - 1 };
        if depth > self.limits.depth {
            return Err(Reason::TooDeep.of(path));
        }
        // A link that takes the place of a name in another form would be followed there.
        if let Some(other) = self.foldings.insert(folded(path), path.to_owned()) {
            return Err(Reason::NameCollision.of(&format!("{other} and {path}")));
        }
        self.nodes.insert(path.to_owned(), node);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str) -> Member {
        Member { path: path.to_owned(), kind: MemberKind::File { size: 0, executable: false } }
    }

    fn link(path: &str, to: &str) -> Member {
        Member { path: path.to_owned(), kind: MemberKind::Link { to: to.to_owned() } }
    }

    fn directory(path: &str) -> Member {
        Member { path: path.to_owned(), kind: MemberKind::Directory }
    }

    fn code(members: &[Member]) -> &'static str {
        match plan(members, &UnpackLimits::default()) {
            Ok(_) => "ok",
            Err(error) => error.code(),
        }
    }

    #[test]
    fn a_wrapper_is_taken_off_and_clutter_left_out() {
        let members = [
            directory(""),
            directory("pdf"),
            file("pdf/SKILL.md"),
            file("pdf/scripts/run.py"),
            file("pdf/scripts/__pycache__/run.pyc"),
            file("pdf/evals/one.json"),
            file("pdf/docs/evals/kept.md"),
            file("__MACOSX/pdf/._SKILL.md"),
            file(".DS_Store"),
            link("pdf/latest", "scripts/run.py"),
        ];
        let plan = plan(&members, &UnpackLimits::default()).unwrap();
        assert_eq!(plan.wrapper.as_deref(), Some("pdf"));
        assert_eq!(plan.directories, ["docs", "docs/evals", "scripts"]);
        let placed: Vec<_> = plan.places.iter().flatten().map(String::as_str).collect();
        assert_eq!(placed, ["SKILL.md", "scripts/run.py", "docs/evals/kept.md", "latest"]);
        assert_eq!(plan.left_out.len(), 4);
    }

    #[test]
    fn a_flat_archive_has_no_wrapper_and_a_wrapper_may_have_any_name() {
        assert_eq!(plan(&[file("skill.md"), file("a/b")], &UnpackLimits::default()).unwrap().wrapper, None);
        let wrapped = plan(&[file("evals/SKILL.md")], &UnpackLimits::default()).unwrap();
        assert_eq!(wrapped.wrapper.as_deref(), Some("evals"));
    }

    #[test]
    fn which_directory_is_the_skill_must_be_plain() {
        assert_eq!(code(&[]), "empty");
        assert_eq!(code(&[directory("")]), "empty");
        assert_eq!(code(&[file("__MACOSX/SKILL.md")]), "empty");
        assert_eq!(code(&[file("a/b/SKILL.md")]), "no-manifest");
        assert_eq!(code(&[directory("SKILL.md")]), "no-manifest");
        assert_eq!(code(&[link("SKILL.md", "b"), file("b")]), "no-manifest");
        assert_eq!(code(&[file("a/SKILL.md"), file("b/x")]), "two-roots");
        assert_eq!(code(&[file("SKILL.md"), file("a/SKILL.md")]), "several-manifests");
        assert_eq!(code(&[file("SKILL.md"), file("skill.md")]), "several-manifests");
        assert_eq!(code(&[file("a"), file("a/SKILL.md")]), "file-and-directory");
    }

    #[test]
    fn names_must_be_told_apart() {
        let with = |more: &[Member]| {
            let mut members = vec![file("SKILL.md")];
            members.extend_from_slice(more);
            code(&members)
        };
        assert_eq!(with(&[directory("a"), file("a/b")]), "ok");
        assert_eq!(with(&[file("a/b"), directory("a")]), "ok");
        assert_eq!(with(&[directory("a"), directory("a")]), "duplicate-name");
        assert_eq!(with(&[file("a"), file("a")]), "duplicate-name");
        assert_eq!(with(&[link("a", "b"), file("a")]), "duplicate-name");
        assert_eq!(with(&[file("A"), file("a")]), "name-collision");
        assert_eq!(with(&[file("A/x"), file("a/y")]), "name-collision");
        assert_eq!(with(&[file("a"), file("a/b")]), "file-and-directory");
        assert_eq!(with(&[file("a/b"), file("a")]), "file-and-directory");
        assert_eq!(with(&[link("a", "b"), file("a/c")]), "through-link");
        assert_eq!(with(&[file("a/c"), link("a", "b")]), "through-link");
        assert_eq!(with(&[link("a", "../b")]), "link-out");
        assert_eq!(with(&[link("a/l", ".."), link("b", "a/l/../../x")]), "link-out");
    }

    #[test]
    fn implied_directories_count() {
        let limits = UnpackLimits { entries: 3, depth: 2, ..UnpackLimits::default() };
        let code = |path: &str| plan(&[file("SKILL.md"), file(path)], &limits).map_err(|error| error.code());
        assert!(code("a/b").is_ok());
        assert_eq!(code("a/b/c").unwrap_err(), "too-many-entries");
        let limits = UnpackLimits { depth: 2, ..UnpackLimits::default() };
        let code = |path: &str| plan(&[file("SKILL.md"), file(path)], &limits).map_err(|error| error.code());
        assert!(code("a/b/c").is_ok());
        assert_eq!(code("a/b/c/d").unwrap_err(), "too-deep");
    }
}
