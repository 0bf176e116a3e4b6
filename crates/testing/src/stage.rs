//! World-readable copies of the programs under test, so that an ordinary user can run them wherever the build
//! directory is. The copies of one build directory stay in one directory of the temp directory and are renewed when the
//! build changes; two checkouts that are tested at once have two.

use std::fs::{self, Metadata};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::SystemTime;

/// Where the programs under test are.
#[derive(Debug)]
pub struct Stage {
    pub ringfence: PathBuf,
    pub probe: PathBuf,
}

impl Stage {
    /// The stage of this test process, made on first use.
    ///
    /// # Panics
    /// If a program is missing and can't be built or copied.
    pub fn get() -> &'static Self {
        static STAGE: OnceLock<Stage> = OnceLock::new();
        STAGE.get_or_init(Self::set_up)
    }

    /// The directory that holds the probe and nothing else: what a sandbox is given with `--read`.
    ///
    /// # Panics
    /// Never: the probe always has a parent.
    #[must_use]
    pub fn probe_dir(&self) -> &Path {
        self.probe.parent().expect("the probe is in a directory")
    }

    fn set_up() -> Self {
        let built = build_dir();
        let probe_source = built.join("ringfence-probe");
        if is_stale(&probe_source) {
            build_probe(&built);
        }
        let uid = rustix::process::geteuid().as_raw();
        let root = std::env::temp_dir().join(format!("rftest-stage-{uid}-{:016x}", hash_of(&built)));
        let ringfence = root.join("bin/ringfence");
        let probe = root.join("probe/ringfence-probe");
        for dir in [&root, &root.join("bin"), &root.join("probe")] {
            make_own_dir(dir, uid);
        }
        renew(&built.join("ringfence"), &ringfence);
        renew(&probe_source, &probe);
        Self { ringfence, probe }
    }
}

/// `target/<triple>/<profile>`, found from the test executable in its `deps`.
fn build_dir() -> PathBuf {
    let exe = std::env::current_exe().expect("the path of this test");
    let dir = exe.parent().expect("a test is in a directory");
    if dir.ends_with("deps") { dir.parent().expect("deps has a parent").to_owned() } else { dir.to_owned() }
}

fn hash_of(path: &Path) -> u64 {
    let mut hasher = DefaultHasher::new();
    path.hash(&mut hasher);
    hasher.finish()
}

/// Cargo builds no binary of a dev-dependency, so the probe may be missing or older than its source.
fn is_stale(probe: &Path) -> bool {
    let Ok(built) = fs::metadata(probe).and_then(|meta| meta.modified()) else { return true };
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    [here.join("src/bin"), here.join("../linux/src")].iter().any(|dir| newest_below(dir) > Some(built))
}

fn newest_below(dir: &Path) -> Option<SystemTime> {
    fs::read_dir(dir)
        .ok()?
        .flatten()
        .filter_map(|entry| {
            let meta = entry.metadata().ok()?;
            if meta.is_dir() { newest_below(&entry.path()) } else { meta.modified().ok() }
        })
        .max()
}

fn build_probe(built: &Path) {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")).args([
        "build",
        "--quiet",
        "--package",
        "ringfence-testing",
        "--bin",
        "ringfence-probe",
    ]);
    match built.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => {}
        Some(profile) => {
            command.args(["--profile", profile]);
        }
    }
    let status = command.status().expect("cargo starts");
    assert!(status.success(), "cargo could not build ringfence-probe");
}

/// A directory in the shared temp directory is trusted only if it is ours and nobody else can write it.
fn make_own_dir(dir: &Path, uid: u32) {
    match fs::DirBuilder::new().mode(0o755).create(dir) {
        Ok(()) => fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).expect("chmod the stage"),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
        Err(error) => panic!("mkdir {}: {error}", dir.display()),
    }
    let meta = fs::symlink_metadata(dir).expect("stat the stage");
    assert!(
        meta.is_dir() && meta.uid() == uid && meta.mode() & 0o022 == 0,
        "{} is not a private directory of this user: remove it",
        dir.display()
    );
}

/// Copy by another process: a write fd of our own, inherited by a test that forks at that moment, would make
/// the copy "text file busy".
fn renew(from: &Path, to: &Path) {
    let Ok(source) = fs::metadata(from) else { return };
    if fs::metadata(to).is_ok_and(|copy| stamp(&copy) == stamp(&source)) {
        return;
    }
    let fresh = to.with_extension(format!("new-{}", std::process::id()));
    let status = Command::new("install")
        .args(["-p", "-m", "0755"])
        .args([from, &fresh])
        .status()
        .expect("install (coreutils) starts");
    assert!(status.success(), "could not copy {} to {}", from.display(), fresh.display());
    fs::rename(&fresh, to).expect("rename the copy into place");
}

fn stamp(meta: &Metadata) -> (u64, i64, i64) {
    // `install -p` keeps whole nanoseconds on every filesystem that tests run on.
    (meta.size(), meta.mtime(), meta.mtime_nsec())
}
