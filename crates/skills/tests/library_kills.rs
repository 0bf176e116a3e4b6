//! A library that others write to, and whose writers die: at every step of every change, and at any moment.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ringfence_skills::{
    Add, Create, Digest, Domain, Edits, Library, LibraryError, Reference, Replace, SearchIndex, SkillName,
    SkillOrigin, Status, TreeLimits, digest_of,
};

/// What a worker process is told to do; without it the test below is a worker of its own.
const TASK: &str = "RINGFENCE_TEST_LIBRARY_TASK";
const PLACE: &str = "RINGFENCE_TEST_LIBRARY_PLACE";
const FAULT: &str = "RINGFENCE_LIBRARY_FAULT";
const VERSIONS: usize = 6;
const SKILLS: [&str; 5] = ["docs/pdf", "docs/csv", "work/pdf", "work/notes", "work/Über"];
const WORKERS: usize = 8;

fn at(text: &str) -> Reference {
    let (domain, name) = text.split_once('/').unwrap();
    Reference { domain: Domain::parse(domain).unwrap(), name: SkillName::parse(name).unwrap() }
}

fn source(place: &Path, version: usize) -> PathBuf {
    place.join(format!("source-{version}"))
}

/// Versions that differ in every file, so that a mixture is neither.
fn write_sources(place: &Path) -> Vec<Digest> {
    for version in 0..VERSIONS {
        let source = source(place, version);
        fs::create_dir_all(source.join("scripts")).unwrap();
        let manifest = format!("---\nname: pdf\ndescription: the version number{version}\n---\nwalrus\n");
        fs::write(source.join("SKILL.md"), manifest).unwrap();
        for file in 0..version + 2 {
            fs::write(source.join(format!("scripts/{file}.sh")), format!("echo {version}\n")).unwrap();
        }
    }
    (0..VERSIONS).map(|version| digest_of(&source(place, version), TreeLimits::default()).unwrap()).collect()
}

fn open(place: &Path) -> Library {
    Library::open(&place.join("library"), Create::Yes).unwrap()
}

fn add(library: &Library, place: &Path, skill: &str, version: usize) -> Result<Digest, LibraryError> {
    let origin = SkillOrigin::Directory { path: format!("source-{version}") };
    let add = Add { reference: at(skill), replace: Replace::Yes(Edits::Refuse), expected: None, origin };
    library.add(&source(place, version), &add).map(|added| added.digest)
}

fn worker(place: &Path, task: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "a_worker", "--nocapture", "--test-threads=1"]);
    command.env(TASK, task).env(PLACE, place).env_remove(FAULT).stdout(Stdio::null());
    command
}

/// The body of a worker process. As a test: thirty random operations keep a library clean.
#[test]
fn a_worker() {
    let Ok(task) = std::env::var(TASK) else {
        let place = tempfile::tempdir().unwrap();
        let digests = write_sources(place.path());
        work(place.path(), &digests, 7, 30);
        return assert_clean(&open(place.path()), &digests);
    };
    let place = PathBuf::from(std::env::var(PLACE).unwrap());
    let library = || open(&place);
    let done = match task.as_str() {
        "add" => add(&library(), &place, "docs/pdf", 1).map(drop),
        "rollback" => library()
            .rollback(&at("docs/pdf"), &fs::read_to_string(place.join("to")).unwrap(), Edits::Refuse)
            .map(drop),
        "remove" => library().remove(&at("docs/pdf"), Edits::Refuse),
        "read-only" => check_read_only(&place),
        "publish" => library().publish(&at("docs/pdf")).map(drop),
        seed => {
            let digests = write_sources_known(&place);
            work(&place, &digests, seed.parse().unwrap(), usize::MAX);
            Ok(())
        }
    };
    if let Err(error) = done {
        eprintln!("worker: {error}");
        std::process::exit(3);
    }
}

fn write_sources_known(place: &Path) -> Vec<Digest> {
    (0..VERSIONS).map(|version| digest_of(&source(place, version), TreeLimits::default()).unwrap()).collect()
}

/// Random operations. Nobody edits by hand here, so whatever is read is a published version, whole.
fn work(place: &Path, digests: &[Digest], seed: u64, rounds: usize) {
    let library = open(place);
    let mut index = SearchIndex::open(&place.join("cache"), "library").unwrap();
    let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut pick = |below: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random >> 16) as usize % below
    };
    for _ in 0..rounds {
        let skill = SKILLS[pick(SKILLS.len())];
        let version = pick(VERSIONS);
        let result = match pick(8) {
            0..=2 => add(&library, place, skill, version).map(drop),
            3 => library.remove(&at(skill), Edits::Refuse),
            4 => library.rollback(&at(skill), digests[version].as_str(), Edits::Refuse).map(drop),
            5 => {
                assert_eq!(index.search_library(&library, "walrsu", 10).unwrap().unreadable, []);
                Ok(())
            }
            _ => read(&library, skill, digests),
        };
        match result {
            Ok(()) | Err(LibraryError::NotFound(_) | LibraryError::NoVersion { .. }) => {}
            Err(error) => panic!("{skill}: {error}"),
        }
    }
}

fn read(library: &Library, skill: &str, digests: &[Digest]) -> Result<(), LibraryError> {
    match library.status(&at(skill))? {
        Status::Published { digest } => assert!(digests.contains(&digest), "{skill}: {digest}"),
        torn => panic!("{skill}: {torn:?}"),
    }
    let script = library.read(&at(skill), "scripts/0.sh", 100)?;
    assert!(script.starts_with(b"echo "));
    Ok(())
}

fn assert_clean(library: &Library, digests: &[Digest]) {
    let verified = library.verify().unwrap();
    assert_eq!(verified.troubles, []);
    assert_eq!(verified.edited, []);
    assert_eq!(fs::read_dir(library.path().join(".ringfence/staging")).unwrap().count(), 0);
    for skill in library.list().unwrap().skills {
        assert!(digests.contains(library.status(&skill).unwrap().digest()));
    }
    assert_eq!(library.verify().unwrap().cleared, Default::default());
}

/// What the folder of the skill is, to a reader.
fn state(library: &Library) -> Option<Digest> {
    match library.status(&at("docs/pdf")) {
        Ok(Status::Published { digest }) => Some(digest),
        Err(LibraryError::NotFound(_)) => None,
        other => panic!("torn: {other:?}"),
    }
}

/// Do a change with a fault at each step in turn, until there is no such step. How many there were.
fn at_each_step(task: &str, fault: &str) -> usize {
    for step in 0.. {
        let scratch = tempfile::tempdir().unwrap();
        let place = scratch.path();
        let mut digests = write_sources(place);
        let library = open(place);
        let name = format!("{task}, {fault}:{step}");
        if task != "add-new" {
            add(&library, place, "docs/pdf", 1).unwrap();
            add(&library, place, "docs/pdf", 0).unwrap();
        }
        let old = state(&library);
        let new = match task {
            "remove" => None,
            "publish" => {
                fs::write(library.folder_path(&at("docs/pdf")).join("SKILL.md"), "edited").unwrap();
                Some(library.status(&at("docs/pdf")).unwrap().digest().clone())
            }
            _ => Some(digests[1].clone()),
        };
        fs::write(place.join("to"), digests[1].as_str()).unwrap();
        let mut command = worker(place, if task == "add-new" { "add" } else { task });
        command.env(FAULT, format!("{fault}:{step}")).stderr(Stdio::null());
        let finished = command.status().unwrap().success();
        // A publish leaves the folder as it is: edited, or published.
        if task != "publish" {
            let seen = state(&library);
            let between = fault == "no-exchange" && seen.is_none();
            assert!(seen == old || seen == new || between, "{name}: {seen:?}");
            assert!(!finished || seen == new, "{name}");
            let verified = library.verify().unwrap();
            assert_eq!(verified.troubles, [], "{name}");
            assert_eq!(verified.edited, [], "{name}");
            let after = state(&library);
            assert!(after == seen || between && after == new, "{name}: {seen:?} became {after:?}");
        } else {
            digests.extend(new.clone());
            assert_eq!(Some(library.status(&at("docs/pdf")).unwrap().digest()), new.as_ref(), "{name}");
            assert_eq!(library.verify().unwrap().troubles, [], "{name}");
            library.publish(&at("docs/pdf")).unwrap();
        }
        // And it goes on.
        add(&library, place, "docs/pdf", 2).unwrap();
        assert_clean(&library, &digests);
        if finished {
            return step;
        }
    }
    unreachable!()
}

#[test]
fn a_writer_killed_at_any_step_leaves_old_or_new() {
    for (task, least) in [("add-new", 15), ("add", 15), ("rollback", 8), ("remove", 4), ("publish", 6)] {
        let steps = at_each_step(task, "abort");
        assert!(steps >= least, "{task}: {steps} steps only");
    }
}

#[test]
fn a_step_that_fails_leaves_old_or_new() {
    for task in ["add-new", "add", "rollback", "remove", "publish"] {
        assert!(at_each_step(task, "fail") >= 4);
    }
}

#[test]
fn a_filesystem_without_exchange_gets_there_too() {
    for task in ["add", "rollback"] {
        assert!(at_each_step(task, "no-exchange") >= 8);
    }
}

/// Reading and checking, and a clear refusal of the rest.
fn check_read_only(place: &Path) -> Result<(), LibraryError> {
    let library = Library::open(&place.join("library"), Create::No)?;
    assert!(library.status(&at("docs/pdf"))?.is_published());
    assert_eq!(library.verify()?.troubles, []);
    let refused = library.remove(&at("docs/pdf"), Edits::Refuse);
    let Err(LibraryError::Io { step: "lock", source, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!(source.kind(), std::io::ErrorKind::PermissionDenied);
    Ok(())
}

#[test]
fn who_may_only_read_can_read_and_verify() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    let place = tempfile::tempdir().unwrap();
    write_sources(place.path());
    add(&open(place.path()), place.path(), "docs/pdf", 1).unwrap();
    mode(place.path(), 0o755);
    let lock = place.path().join("library/.ringfence/lock");
    if !rustix::process::geteuid().is_root() {
        mode(&lock, 0o444);
        return check_read_only(place.path()).unwrap();
    }
    // Root may write anything: be somebody else, who can reach the program.
    let program = place.path().join("program");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    mode(&program, 0o755);
    let mut command = Command::new(program);
    command.args(["--exact", "a_worker", "--nocapture"]).uid(65534).gid(65534);
    command.env(TASK, "read-only").env(PLACE, place.path()).current_dir("/");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Ends with the test, also with one that fails.
struct Worker(Child);

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Eight processes, one killed again and again. Five seconds, or `RINGFENCE_SOAK_SECONDS`.
#[test]
fn many_writers_one_killed_every_so_often() {
    let seconds =
        std::env::var("RINGFENCE_SOAK_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(5);
    let place = tempfile::tempdir().unwrap();
    let digests = write_sources(place.path());
    let library = open(place.path());
    let mut seed = 0;
    let mut start = || {
        seed += 1;
        Worker(worker(place.path(), &seed.to_string()).spawn().unwrap())
    };
    let mut workers: Vec<Worker> = (0..WORKERS).map(|_| start()).collect();
    let started = Instant::now();
    let mut kills = 0;
    let mut reads = 0_u64;
    while started.elapsed() < Duration::from_secs(seconds) {
        let until = Instant::now() + Duration::from_millis(500);
        while Instant::now() < until {
            match read(&library, SKILLS[reads as usize % SKILLS.len()], &digests) {
                Ok(()) | Err(LibraryError::NotFound(_)) => reads += 1,
                Err(error) => panic!("{error}"),
            }
        }
        for worker in &mut workers {
            assert_eq!(worker.0.try_wait().unwrap(), None, "a worker found something wrong");
        }
        // The old one is killed, by a signal that it can't see coming, when the new one takes its place.
        workers[kills % WORKERS] = start();
        kills += 1;
    }
    drop(workers);
    assert_clean(&library, &digests);
    let history: usize =
        SKILLS.iter().filter_map(|skill| library.history(&at(skill)).ok()).map(|records| records.len()).sum();
    eprintln!("{kills} kills, {reads} reads beside them, {history} changes in the histories");
    let mut index = SearchIndex::open(&place.path().join("cache"), "library").unwrap();
    let found = index.search_library(&library, "walrus", 100).unwrap().hits.len();
    assert_eq!(found, library.list().unwrap().skills.len());
    assert!(history > WORKERS && kills as u64 >= seconds);
}
