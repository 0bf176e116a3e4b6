//! The library on a real directory: adding, editing, going back, locks, strangers in it.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ringfence_skills::{
    Action, Add, Create, Depth, Digest, Domain, Edits, Library, LibraryError, LockFile, Reference, Replace,
    SkillName, SkillOrigin, Stamp, Status, TreeLimits, Trouble, digest_of,
};

struct Scene {
    directory: tempfile::TempDir,
    library: Library,
}

impl Scene {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let library = Library::open(&directory.path().join("library"), Create::Yes).unwrap();
        Self { directory, library }
    }

    /// A skill to add, outside of the library.
    fn source(&self, name: &str, text: &str) -> PathBuf {
        let source = self.directory.path().join("sources").join(name);
        fs::create_dir_all(source.join("scripts")).unwrap();
        fs::write(source.join("SKILL.md"), format!("---\nname: {name}\ndescription: {text}\n---\n{text}\n"))
            .unwrap();
        fs::write(source.join("scripts/run.sh"), format!("echo {text}\n")).unwrap();
        fs::set_permissions(source.join("scripts/run.sh"), fs::Permissions::from_mode(0o700)).unwrap();
        source
    }

    fn add(&self, reference: &str, text: &str, replace: Replace) -> Result<Digest, LibraryError> {
        let reference = at(reference);
        let source = self.source(reference.name.as_str(), text);
        let origin = SkillOrigin::Directory { path: source.display().to_string() };
        let add = Add { reference, replace, expected: None, origin };
        self.library.add(&source, &add).map(|added| added.digest)
    }

    fn path(&self, inner: &str) -> PathBuf {
        self.directory.path().join("library").join(inner)
    }

    fn is_clean(&self) {
        let verified = self.library.verify().unwrap();
        assert_eq!(verified.troubles, []);
        assert_eq!(fs::read_dir(self.path(".ringfence/staging")).unwrap().count(), 0);
    }
}

fn at(text: &str) -> Reference {
    let (domain, name) = text.split_once('/').unwrap();
    Reference { domain: Domain::parse(domain).unwrap(), name: SkillName::parse(name).unwrap() }
}

const REPLACE: Replace = Replace::Yes(Edits::Refuse);

#[test]
fn a_skill_is_added_as_a_folder_with_plain_modes() {
    let scene = Scene::new();
    let source = scene.source("pdf", "one");
    fs::create_dir(source.join("node_modules")).unwrap();
    fs::write(source.join("node_modules/x.js"), "x").unwrap();
    symlink("scripts/run.sh", source.join("link")).unwrap();
    let digest = scene.add("docs/pdf", "one", Replace::No).unwrap();
    assert_eq!(digest, digest_of(&source, TreeLimits::default()).unwrap());
    assert_eq!(scene.library.status(&at("docs/pdf")).unwrap(), Status::Published { digest: digest.clone() });
    let mode = |inner: &str| fs::metadata(scene.path(inner)).unwrap().mode() & 0o7777;
    assert_eq!(mode("docs/pdf"), 0o755);
    assert_eq!(mode("docs/pdf/scripts"), 0o755);
    assert_eq!(mode("docs/pdf/SKILL.md"), 0o644);
    assert_eq!(mode("docs/pdf/scripts/run.sh"), 0o755);
    assert!(!scene.path("docs/pdf/node_modules").exists());
    assert_eq!(fs::read_link(scene.path("docs/pdf/link")).unwrap(), Path::new("scripts/run.sh"));
    assert_eq!(scene.library.read(&at("docs/pdf"), "link", 100).unwrap(), b"echo one\n");
    assert_eq!(scene.library.version(&digest).unwrap().digest().unwrap(), digest);
    // A run's leavings, such as a cache, are no edit.
    fs::create_dir(scene.path("docs/pdf/__pycache__")).unwrap();
    fs::write(scene.path("docs/pdf/__pycache__/x.pyc"), "x").unwrap();
    assert!(scene.library.status(&at("docs/pdf")).unwrap().is_published());
    scene.is_clean();
}

#[test]
fn what_is_there_is_replaced_only_if_asked() {
    let scene = Scene::new();
    let one = scene.add("docs/pdf", "one", Replace::No).unwrap();
    assert_eq!(scene.add("docs/pdf", "one", Replace::No).unwrap(), one);
    assert!(matches!(scene.add("docs/pdf", "two", Replace::No), Err(LibraryError::Exists(_))));
    let two = scene.add("docs/pdf", "two", REPLACE).unwrap();
    assert_eq!(fs::read_to_string(scene.path("docs/pdf/scripts/run.sh")).unwrap(), "echo two\n");
    let history = scene.library.history(&at("docs/pdf")).unwrap();
    let digests: Vec<_> = history.iter().filter_map(|record| record.digest.clone()).collect();
    assert_eq!(digests, [one, two]);
    scene.is_clean();
}

#[test]
fn an_edit_by_hand_is_shown_and_never_lost_unasked() {
    let scene = Scene::new();
    let skill = at("docs/pdf");
    let one = scene.add("docs/pdf", "one", Replace::No).unwrap();
    fs::write(scene.path("docs/pdf/SKILL.md"), "edited").unwrap();
    let Status::Edited { published, now } = scene.library.status(&skill).unwrap() else {
        panic!("not edited")
    };
    assert_eq!(published, one);
    assert!(matches!(scene.library.lock_file(), Err(LibraryError::Edited(_))));
    assert!(matches!(scene.add("docs/pdf", "two", REPLACE), Err(LibraryError::Edited(_))));
    assert!(matches!(scene.library.remove(&skill, Edits::Refuse), Err(LibraryError::Edited(_))));
    assert!(matches!(
        scene.library.rollback(&skill, one.as_str(), Edits::Refuse),
        Err(LibraryError::Edited(_))
    ));
    assert_eq!(fs::read_to_string(scene.path("docs/pdf/SKILL.md")).unwrap(), "edited");

    scene.library.rollback(&skill, one.short(), Edits::Keep).unwrap();
    assert!(scene.library.status(&skill).unwrap().is_published());
    scene.library.rollback(&skill, now.short(), Edits::Refuse).unwrap();
    assert_eq!(fs::read_to_string(scene.path("docs/pdf/SKILL.md")).unwrap(), "edited");

    fs::write(scene.path("docs/pdf/SKILL.md"), "again").unwrap();
    let again = scene.library.publish(&skill).unwrap();
    assert_eq!(scene.library.status(&skill).unwrap(), Status::Published { digest: again.clone() });
    assert_eq!(scene.library.publish(&skill).unwrap(), again);
    fs::write(scene.path("docs/pdf/SKILL.md"), "thrown away").unwrap();
    scene.add("docs/pdf", "two", Replace::Yes(Edits::Discard)).unwrap();
    let actions: Vec<_> = scene.library.history(&skill).unwrap().iter().map(|record| record.action).collect();
    use Action::{Add, Publish, Rollback};
    assert_eq!(actions, [Add, Publish, Rollback, Rollback, Publish, Add]);
    scene.is_clean();
}

#[test]
fn a_folder_made_by_hand_is_unpublished_until_it_is_published() {
    let scene = Scene::new();
    fs::create_dir_all(scene.path("mine/tool")).unwrap();
    fs::write(scene.path("mine/tool/SKILL.md"), "x").unwrap();
    assert!(matches!(scene.library.status(&at("mine/tool")).unwrap(), Status::Unpublished { .. }));
    assert!(matches!(scene.library.lock_file(), Err(LibraryError::Unpublished(_))));
    scene.library.publish(&at("mine/tool")).unwrap();
    assert_eq!(scene.library.lock_file().unwrap().0.skills().len(), 1);
    scene.is_clean();
}

#[test]
fn a_removed_skill_can_be_brought_back() {
    let scene = Scene::new();
    let one = scene.add("docs/pdf", "one", Replace::No).unwrap();
    scene.library.remove(&at("docs/pdf"), Edits::Refuse).unwrap();
    assert!(!scene.path("docs").exists());
    assert!(matches!(scene.library.status(&at("docs/pdf")), Err(LibraryError::NotFound(_))));
    assert!(matches!(scene.library.remove(&at("docs/pdf"), Edits::Refuse), Err(LibraryError::NotFound(_))));
    assert_eq!(scene.library.rollback(&at("docs/pdf"), one.short(), Edits::Refuse).unwrap(), one);
    assert!(scene.library.status(&at("docs/pdf")).unwrap().is_published());
    assert!(matches!(
        scene.library.rollback(&at("docs/pdf"), &"0".repeat(64), Edits::Refuse),
        Err(LibraryError::NoVersion { .. })
    ));
    assert!(scene.library.rollback(&at("docs/pdf"), "", Edits::Refuse).is_err());
    scene.is_clean();
}

#[test]
fn a_bare_name_means_one_skill_or_is_an_error_with_candidates() {
    let scene = Scene::new();
    scene.add("docs/pdf", "one", Replace::No).unwrap();
    assert_eq!(scene.library.find("pdf").unwrap(), at("docs/pdf"));
    scene.add("work/pdf", "two", Replace::No).unwrap();
    let Err(LibraryError::Ambiguous { candidates, .. }) = scene.library.find("pdf") else {
        panic!("not ambiguous")
    };
    assert_eq!(candidates, [at("docs/pdf"), at("work/pdf")]);
    assert_eq!(scene.library.find("work/pdf").unwrap(), at("work/pdf"));
    assert!(matches!(scene.library.find("nothing"), Err(LibraryError::NotFound(_))));
    assert!(scene.library.find("../pdf").is_err());
    assert!(scene.library.find(".ringfence/versions").is_err());
}

#[test]
fn names_that_differ_in_case_only_are_refused() {
    let scene = Scene::new();
    scene.add("docs/pdf", "one", Replace::No).unwrap();
    assert!(matches!(scene.add("docs/PDF", "two", REPLACE), Err(LibraryError::Collides { .. })));
    assert!(matches!(scene.add("docs/ｐｄｆ", "two", REPLACE), Err(LibraryError::Collides { .. })));
    scene.add("work/PDF", "two", Replace::No).unwrap();
    scene.is_clean();
}

#[test]
fn what_no_skill_can_have_is_refused_and_leaves_nothing() {
    let scene = Scene::new();
    let source = scene.source("bad", "x");
    let refused = |name: &str| {
        let add = Add {
            reference: at("docs/bad"),
            replace: Replace::No,
            expected: None,
            origin: SkillOrigin::Here,
        };
        let error = scene.library.add(&source, &add).expect_err(name).to_string();
        assert!(!scene.path("docs/bad").exists());
        scene.is_clean();
        error
    };
    symlink("/etc/passwd", source.join("link")).unwrap();
    assert!(refused("a link out").contains("/etc/passwd"));
    fs::remove_file(source.join("link")).unwrap();
    let pipe = source.join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    assert!(refused("a pipe").contains("a pipe"));
    fs::remove_file(pipe).unwrap();
    fs::set_permissions(source.join("SKILL.md"), fs::Permissions::from_mode(0o4755)).unwrap();
    // A setuid manifest is not a manifest either.
    refused("setuid");
    fs::remove_file(source.join("SKILL.md")).unwrap();
    assert!(refused("no manifest").contains("SKILL.md"));
}

#[test]
fn a_skill_beyond_the_bounds_is_refused() {
    let Scene { directory, library } = Scene::new();
    let scene =
        Scene { directory, library: library.with_limits(TreeLimits { entries: 10, depth: 2, bytes: 1000 }) };
    let source = scene.source("big", "x");
    fs::write(source.join("data"), vec![0; 2000]).unwrap();
    assert!(matches!(scene.add("docs/big", "x", Replace::No), Err(LibraryError::Tree { .. })));
    fs::remove_file(source.join("data")).unwrap();
    fs::create_dir_all(source.join("a/b/c")).unwrap();
    assert!(matches!(scene.add("docs/big", "x", Replace::No), Err(LibraryError::Tree { .. })));
    scene.is_clean();
}

#[test]
fn links_that_others_planted_are_not_followed() {
    let scene = Scene::new();
    scene.add("docs/pdf", "one", Replace::No).unwrap();
    let outside = scene.directory.path().join("outside");
    fs::create_dir_all(outside.join("tool")).unwrap();
    fs::write(outside.join("tool/SKILL.md"), "outside").unwrap();
    symlink(&outside, scene.path("linked")).unwrap();
    symlink(outside.join("tool"), scene.path("docs/tool")).unwrap();
    symlink("/etc/passwd", scene.path("docs/pdf/secret")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        scene.path("docs/pipe"),
        rustix::fs::FileType::Fifo,
        0o600.into(),
        0,
    )
    .unwrap();

    let listing = scene.library.list().unwrap();
    assert_eq!(listing.skills, [at("docs/pdf")]);
    assert_eq!(listing.strays.len(), 3);
    assert!(matches!(scene.library.find("tool"), Err(LibraryError::NotFound(_))));
    assert!(scene.library.find("linked/tool").is_err());
    assert!(scene.library.read(&at("docs/pdf"), "secret", 1 << 20).is_err());
    assert!(scene.library.read(&at("docs/pdf"), "../../linked/tool/SKILL.md", 1 << 20).is_err());
    assert!(scene.add("linked/new", "x", Replace::No).is_err());
    assert!(!outside.join("new").exists());
    // Replacing the planted link replaces the link, not what it leads to.
    scene.add("docs/tool", "mine", Replace::Yes(Edits::Discard)).unwrap();
    assert_eq!(fs::read_to_string(outside.join("tool/SKILL.md")).unwrap(), "outside");
    assert!(fs::symlink_metadata(scene.path("docs/tool")).unwrap().is_dir());

    let troubles = scene.library.verify().unwrap().troubles;
    assert_eq!(troubles.iter().filter(|trouble| matches!(trouble, Trouble::Stray { .. })).count(), 2);
    assert_eq!(troubles.iter().filter(|trouble| matches!(trouble, Trouble::FolderUnfit { .. })).count(), 1);
}

#[test]
fn our_own_directory_is_not_followed_either() {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir_all(directory.path().join("elsewhere")).unwrap();
    fs::create_dir(directory.path().join("library")).unwrap();
    symlink("../elsewhere", directory.path().join("library/.ringfence")).unwrap();
    assert!(Library::open(&directory.path().join("library"), Create::Yes).is_err());
    assert_eq!(fs::read_dir(directory.path().join("elsewhere")).unwrap().count(), 0);
    assert!(matches!(
        Library::open(&directory.path().join("nothing"), Create::No),
        Err(LibraryError::NoLibrary(_))
    ));
}

#[test]
fn a_changed_byte_of_a_stored_version_is_found_and_never_installed() {
    let scene = Scene::new();
    let one = scene.add("docs/pdf", "one", Replace::No).unwrap();
    scene.add("docs/pdf", "two", REPLACE).unwrap();
    let stored = scene.library.version_path(&one).join("SKILL.md");
    fs::set_permissions(&stored, fs::Permissions::from_mode(0o644)).unwrap();
    let mut bytes = fs::read(&stored).unwrap();
    bytes[10] ^= 1;
    fs::write(&stored, bytes).unwrap();
    let troubles = scene.library.verify().unwrap().troubles;
    assert!(matches!(&troubles[..], [Trouble::Damaged { digest, .. }] if *digest == one), "{troubles:?}");
    assert!(matches!(
        scene.library.rollback(&at("docs/pdf"), one.as_str(), Edits::Refuse),
        Err(LibraryError::Damaged { .. })
    ));
    assert_eq!(fs::read_to_string(scene.path("docs/pdf/scripts/run.sh")).unwrap(), "echo two\n");
    // The same version, added again, is the cure.
    scene.add("docs/pdf", "one", REPLACE).unwrap();
    scene.is_clean();
    fs::remove_dir_all(scene.library.version_path(&one)).unwrap();
    let troubles = scene.library.verify().unwrap().troubles;
    assert!(matches!(&troubles[..], [Trouble::Lost { digest, .. }] if *digest == one), "{troubles:?}");
}

#[test]
fn verify_sees_folders_that_are_gone_and_histories_that_are_broken() {
    let scene = Scene::new();
    scene.add("docs/pdf", "one", Replace::No).unwrap();
    scene.add("docs/csv", "one", Replace::No).unwrap();
    fs::remove_dir_all(scene.path("docs/pdf")).unwrap();
    fs::write(scene.path(".ringfence/history/docs/csv.json"), "{").unwrap();
    let report = scene.library.verify();
    // The folder of a skill whose history is broken can't be judged: said so, with the path.
    let troubles = report.unwrap().troubles;
    assert!(troubles.iter().any(|trouble| matches!(trouble, Trouble::FolderGone { .. })), "{troubles:?}");
    assert!(troubles.iter().any(|trouble| matches!(trouble, Trouble::History { .. })), "{troubles:?}");
    assert_eq!(scene.library.gc().unwrap().versions, 0);
}

#[test]
fn versions_of_no_history_are_cleared() {
    let scene = Scene::new();
    scene.add("docs/pdf", "one", Replace::No).unwrap();
    let stray = scene.path(".ringfence/versions").join("0".repeat(64));
    fs::create_dir(&stray).unwrap();
    fs::write(stray.join("SKILL.md"), "x").unwrap();
    fs::create_dir(scene.path(".ringfence/staging/left")).unwrap();
    let cleared = scene.library.gc().unwrap();
    assert_eq!((cleared.versions, cleared.staging), (1, 1));
    scene.is_clean();
}

#[test]
fn a_lock_file_pins_and_a_changed_byte_is_refused() {
    let scene = Scene::new();
    scene.add("work/b", "one", Replace::No).unwrap();
    let pinned = scene.add("docs/a", "one", Replace::No).unwrap();
    let lock = scene.library.lock_file().unwrap().0;
    let text = lock.to_toml().unwrap();
    assert_eq!(LockFile::parse(&text).unwrap(), lock);
    assert_eq!(LockFile::parse(&text).unwrap().to_toml().unwrap(), text);
    scene.library.check_frozen(&lock).unwrap();
    assert_eq!(lock.pin(&at("docs/a")).unwrap().digest, pinned);
    assert!(matches!(lock.pin(&at("docs/z")), Err(LibraryError::NotLocked(_))));

    let source = scene.source("a", "one");
    fs::write(source.join("scripts/run.sh"), "echo onf\n").unwrap();
    let frozen = Add {
        reference: at("docs/a"),
        replace: REPLACE,
        expected: Some(lock.pin(&at("docs/a")).unwrap().digest.clone()),
        origin: SkillOrigin::Here,
    };
    assert!(matches!(scene.library.add(&source, &frozen), Err(LibraryError::Unexpected { .. })));
    scene.library.check_frozen(&lock).unwrap();
    fs::write(scene.path("docs/a/scripts/run.sh"), "echo onf\n").unwrap();
    let Err(LibraryError::Frozen(mismatches)) = scene.library.check_frozen(&lock) else {
        panic!("not refused")
    };
    assert_eq!(mismatches.len(), 1);

    for (wrong, right) in [
        ("format = 9", "format = 1"),
        ("digest = \"../x", "digest = \""),
        ("\nextra = 1\n[[skill]]", "\n[[skill]]"),
    ] {
        let forged = text.replacen(right, wrong, 1);
        assert_ne!(forged, text);
        assert!(LockFile::parse(&forged).is_err(), "{wrong}");
    }
    let twice = format!(
        "{text}\n{}",
        text.split_once("[[skill]]").map(|(_, rest)| format!("[[skill]]{rest}")).unwrap()
    );
    assert!(LockFile::parse(&twice).is_err());
}

#[test]
fn outdated_compares_with_where_a_skill_came_from() {
    let scene = Scene::new();
    scene.add("docs/a", "one", Replace::No).unwrap();
    scene.add("docs/b", "one", Replace::No).unwrap();
    let source = scene.source("a", "two");
    let latest = |_: &Reference, origin: &SkillOrigin| match origin {
        SkillOrigin::Directory { path } => digest_of(Path::new(path), TreeLimits::default()).ok(),
        _ => None,
    };
    let outdated = scene.library.outdated(latest).unwrap();
    assert_eq!(outdated.iter().map(|one| one.reference.clone()).collect::<Vec<_>>(), [at("docs/a")]);
    assert!(!outdated[0].edited);
    let origin = outdated[0].origin.clone();
    let updated = scene.library.update(&at("docs/a"), &source, origin, Edits::Refuse).unwrap();
    assert_eq!(updated.digest, outdated[0].latest);
    assert_eq!(scene.library.outdated(latest).unwrap(), []);
    // An edit that was published does not hide where the skill came from, and is not taken for something newer.
    fs::write(scene.path("docs/a/SKILL.md"), "edited").unwrap();
    scene.library.publish(&at("docs/a")).unwrap();
    assert_eq!(scene.library.outdated(latest).unwrap(), []);
    scene.source("a", "three");
    let outdated = scene.library.outdated(latest).unwrap();
    assert_eq!((outdated.len(), outdated[0].edited), (1, true));
    assert!(scene.library.update(&at("docs/none"), &source, SkillOrigin::Here, Edits::Refuse).is_err());
}

#[test]
fn changes_are_seen_by_polling_and_nothing_is_seen_twice() {
    let scene = Scene::new();
    scene.add("docs/a", "one", Replace::No).unwrap();
    scene.add("docs/b", "one", Replace::No).unwrap();
    for depth in [Depth::Manifest, Depth::Everything] {
        let first = scene.library.changes_since(&Stamp::nothing(depth)).unwrap();
        assert_eq!(first.added.len(), 2);
        let second = scene.library.changes_since(&first.stamp).unwrap();
        assert!(second.is_empty(), "{second:?}");
        // The same size, and as soon as can be: times alone would not always show it.
        let manifest = scene.path("docs/a/SKILL.md");
        let text = fs::read_to_string(&manifest).unwrap();
        fs::write(&manifest, text.replace("one", "two")).unwrap();
        let third = scene.library.changes_since(&second.stamp).unwrap();
        assert_eq!(third.changed, [at("docs/a")]);
        assert!(scene.library.changes_since(&third.stamp).unwrap().is_empty());
        fs::write(&manifest, text).unwrap();
        let fourth = scene.library.changes_since(&third.stamp).unwrap();
        assert_eq!(fourth.changed, [at("docs/a")]);
        fs::write(scene.path("docs/b/scripts/run.sh"), format!("echo {depth:?}\n")).unwrap();
        let fifth = scene.library.changes_since(&fourth.stamp).unwrap();
        assert_eq!(fifth.changed.is_empty(), depth == Depth::Manifest);
    }
    let before = scene.library.changes_since(&Stamp::nothing(Depth::Manifest)).unwrap().stamp;
    scene.library.remove(&at("docs/b"), Edits::Discard).unwrap();
    scene.add("docs/c", "one", Replace::No).unwrap();
    let changes = scene.library.changes_since(&before).unwrap();
    assert_eq!((changes.added, changes.removed), (vec![at("docs/c")], vec![at("docs/b")]));
}

#[test]
fn another_writer_is_waited_for_then_named() {
    let scene = Scene::new();
    let held = fs::File::options().write(true).open(scene.path(".ringfence/lock")).unwrap();
    held.lock().unwrap();
    let Scene { directory, library } = scene;
    let library = library.with_patience(Duration::from_millis(50));
    let scene = Scene { directory, library };
    assert!(matches!(scene.add("docs/a", "one", Replace::No), Err(LibraryError::Busy(_))));
    held.unlock().unwrap();
    scene.add("docs/a", "one", Replace::No).unwrap();
    scene.is_clean();
}

#[test]
fn a_team_that_shares_the_top_shares_what_is_in_it() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("library");
    fs::create_dir(&root).unwrap();
    fs::set_permissions(&root, fs::Permissions::from_mode(0o2775)).unwrap();
    let library = Library::open(&root, Create::Yes).unwrap();
    let scene = Scene { directory, library };
    scene.add("docs/a", "one", Replace::No).unwrap();
    for (inner, mode) in [
        ("docs", 0o775),
        ("docs/a", 0o775),
        ("docs/a/SKILL.md", 0o664),
        (".ringfence/lock", 0o664),
        (".ringfence/staging", 0o775),
        // Replaced whole by whoever publishes next; what others could write into would be nobody's word.
        (".ringfence/history/docs/a.json", 0o644),
    ] {
        assert_eq!(fs::metadata(scene.path(inner)).unwrap().mode() & 0o777, mode, "{inner}");
    }
}
