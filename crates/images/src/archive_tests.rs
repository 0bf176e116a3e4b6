//! Archives that lie: each is refused by its code, and nothing is kept of it. And layouts whose digests do not fit.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use ring::digest::{SHA256, digest};
use serde_json::json;
use tar::{Builder, EntryType, Header};

use crate::build::{ImageSource, build};
use crate::error::ImageError;
use crate::layout::hex;
use crate::store::{ImageStore, find_image};

/// Entries as they are written, with nothing checked.
struct Tar(Builder<Vec<u8>>);

impl Tar {
    fn new() -> Self {
        Self(Builder::new(Vec::new()))
    }

    fn raw(mut self, name: &str, kind: EntryType, link: &str, mode: u32, content: &[u8]) -> Self {
        let mut header = Header::new_gnu();
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.as_old_mut().linkname[..link.len()].copy_from_slice(link.as_bytes());
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_size(content.len() as u64);
        header.set_cksum();
        self.0.append(&header, content).unwrap();
        self
    }

    fn file(self, name: &str, content: &str) -> Self {
        self.raw(name, EntryType::Regular, "", 0o644, content.as_bytes())
    }

    fn bytes(self) -> Vec<u8> {
        self.0.into_inner().unwrap()
    }
}

struct Scene {
    state: tempfile::TempDir,
    store: ImageStore,
}

impl Scene {
    fn new() -> Self {
        let state = tempfile::tempdir().unwrap();
        let store = ImageStore::open(state.path()).unwrap();
        Self { state, store }
    }

    fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.state.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        File::create(&path).unwrap().write_all(bytes).unwrap();
        path
    }

    fn build(&self, from: &Path) -> Result<crate::Built, ImageError> {
        let source = ImageSource::Path(from.to_path_buf());
        build(&self.store, "one", &source, &mut |_, _| std::ops::ControlFlow::Continue(()))
    }

    fn build_tar(&self, bytes: &[u8]) -> Result<crate::Built, ImageError> {
        self.build(&self.write("archive.tar", bytes))
    }

    fn root(&self) -> PathBuf {
        find_image(self.state.path(), "one").unwrap().root
    }

    fn is_empty(&self) -> bool {
        let count = |name: &str| fs::read_dir(self.state.path().join("images").join(name)).unwrap().count();
        self.store.list().unwrap().is_empty() && count("trees") == 0 && count("building") == 0
    }
}

#[test]
fn hostile_archives_are_refused_by_name() {
    let long = "x".repeat(99);
    let cases: Vec<(&str, Tar, &str)> = vec![
        ("up", Tar::new().file("../evil", "x"), "image-bad-name"),
        ("up within", Tar::new().file("a/../../evil", "x"), "image-bad-name"),
        ("absolute", Tar::new().file("/etc/cron.d/evil", "x"), "image-bad-name"),
        ("dot inside", Tar::new().file("a/./b", "x"), "image-bad-name"),
        ("doubled slash", Tar::new().file("a//b", "x"), "image-bad-name"),
        ("file as top", Tar::new().file("./", "x"), "image-bad-name"),
        (
            "through a link",
            Tar::new().raw("etc", EntryType::Symlink, "/etc", 0o777, b"").file("etc/cron.d/evil", "x"),
            "image-through-link",
        ),
        ("through a file", Tar::new().file("a", "x").file("a/b", "x"), "image-through-file"),
        ("twice", Tar::new().file("a", "x").file("a", "y"), "image-duplicate"),
        (
            "twice, as a link",
            Tar::new().file("a", "x").raw("a", EntryType::Symlink, "/etc", 0o777, b""),
            "image-duplicate",
        ),
        (
            "hard link out",
            Tar::new().raw("a", EntryType::Link, "../../etc/shadow", 0o644, b""),
            "image-bad-name",
        ),
        (
            "absolute hard link",
            Tar::new().raw("a", EntryType::Link, "/etc/shadow", 0o644, b""),
            "image-bad-name",
        ),
        (
            "hard link to nothing",
            Tar::new().raw("a", EntryType::Link, "etc/shadow", 0o644, b""),
            "image-bad-link",
        ),
        (
            "hard link to a link",
            Tar::new().raw("l", EntryType::Symlink, "/etc/shadow", 0o777, b"").raw(
                "a",
                EntryType::Link,
                "l",
                0o644,
                b"",
            ),
            "image-bad-link",
        ),
        ("empty link", Tar::new().raw("a", EntryType::Symlink, "", 0o777, b""), "image-bad-link"),
        (
            "directory with data",
            Tar::new().raw("a", EntryType::Directory, "", 0o755, b"data"),
            "image-entry-with-data",
        ),
        ("sparse", Tar::new().raw("a", EntryType::GNUSparse, "", 0o644, b""), "image-bad-entry"),
        ("unknown kind", Tar::new().raw("a", EntryType::new(b'Z'), "", 0o644, b""), "image-bad-entry"),
        ("whiteout of nothing", Tar::new().file("a/.wh.", ""), "image-bad-whiteout"),
        ("whiteout of the parent", Tar::new().file("a/.wh...", ""), "image-bad-whiteout"),
        ("etc is a link", Tar::new().raw("etc", EntryType::Symlink, "/etc", 0o777, b""), "image-bad-root"),
        ("var is a link", Tar::new().raw("var", EntryType::Symlink, "/root", 0o777, b""), "image-bad-root"),
        (
            "a long name that is not said twice",
            Tar::new().file(&long, "x").file(&long, "x"),
            "image-duplicate",
        ),
    ];
    for (what, tar, code) in cases {
        let scene = Scene::new();
        let error = scene.build_tar(&tar.bytes()).unwrap_err();
        assert_eq!(error.code, code, "{what}: {error}");
        assert!(scene.is_empty(), "{what}: something was kept");
    }
}

#[test]
fn cut_bombs_and_strange_files_are_refused() {
    let whole = Tar::new().file("a", "content").bytes();
    let zeros = zstd::encode_all(
        &*Tar::new().raw("a", EntryType::Regular, "", 0o644, &vec![0; 300 << 20]).bytes(),
        1,
    )
    .unwrap();
    for (what, bytes) in [
        ("cut", whole[..600].to_vec()),
        ("with something after it", [whole.clone(), b"more".repeat(256)].concat()),
        ("a bomb", zeros),
        ("a zip", b"PK\x03\x04not really".to_vec()),
        ("text", b"hello".to_vec()),
        ("nothing", Vec::new()),
    ] {
        let scene = Scene::new();
        let error = scene.build_tar(&bytes).unwrap_err();
        assert_eq!(error.code, "image-bad-archive", "{what}: {error}");
        assert!(scene.is_empty(), "{what}: something was kept");
    }
}

#[test]
fn devices_go_setuid_goes_and_links_stay_as_they_are() {
    let scene = Scene::new();
    let tar = Tar::new()
        .raw("dev/sda", EntryType::Block, "", 0o666, b"")
        .raw("usr/pipe", EntryType::Fifo, "", 0o666, b"")
        .raw("usr/bin/su", EntryType::Regular, "", 0o4755, b"su")
        .raw("usr/bin/sudo", EntryType::Link, "usr/bin/su", 0o4755, b"")
        .raw("usr/bin/out", EntryType::Symlink, "../../../../etc/shadow", 0o777, b"")
        .raw("etc/passwd", EntryType::Symlink, "/etc/shadow", 0o777, b"")
        .file("home/ann/key", "secret")
        .file("etc/conf", "x");
    let built = scene.build_tar(&tar.bytes()).unwrap();
    assert_eq!(built.record.notes.len(), 2, "{:?}", built.record.notes);
    let root = scene.root();
    use std::os::unix::fs::MetadataExt;
    assert_eq!(fs::metadata(root.join("usr/bin/su")).unwrap().mode() & 0o7777, 0o755);
    assert_eq!(fs::read(root.join("usr/bin/sudo")).unwrap(), b"su");
    assert_eq!(fs::read_link(root.join("usr/bin/out")).unwrap(), Path::new("../../../../etc/shadow"));
    assert!(fs::symlink_metadata(root.join("etc/passwd")).unwrap().is_file(), "each sandbox has its own");
    for gone in ["dev/sda", "usr/pipe", "home/ann"] {
        assert!(fs::symlink_metadata(root.join(gone)).is_err(), "{gone}");
    }
    assert_eq!(scene.store.verify("one").unwrap(), Vec::<String>::new());
}

#[test]
fn verify_finds_every_change() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let tar = || {
        Tar::new()
            .file("usr/a", "content")
            .raw("usr/l", EntryType::Symlink, "a", 0o777, b"")
            .file("etc/b", "x")
            .bytes()
    };
    type Change = fn(&Path);
    let changes: [(&str, Change); 6] = [
        ("/usr/a has other content", |root| {
            fs::remove_file(root.join("usr/a")).unwrap();
            fs::write(root.join("usr/a"), "CONTENT").unwrap();
        }),
        ("/usr/l has other content", |root| {
            fs::remove_file(root.join("usr/l")).unwrap();
            symlink("b", root.join("usr/l")).unwrap();
        }),
        ("/usr/a has another mode", |root| {
            fs::set_permissions(root.join("usr/a"), fs::Permissions::from_mode(0o755)).unwrap()
        }),
        ("/etc/b is missing", |root| fs::remove_file(root.join("etc/b")).unwrap()),
        ("/usr/new is not a part of the image", |root| fs::write(root.join("usr/new"), "").unwrap()),
        ("/usr/a is of another kind", |root| {
            fs::remove_file(root.join("usr/a")).unwrap();
            fs::create_dir(root.join("usr/a")).unwrap();
        }),
    ];
    for (expected, change) in changes {
        let scene = Scene::new();
        scene.build_tar(&tar()).unwrap();
        assert_eq!(scene.store.verify("one").unwrap(), Vec::<String>::new());
        change(&scene.root());
        assert_eq!(scene.store.verify("one").unwrap(), [expected]);
        // Built again, it is whole again.
        scene.build_tar(&tar()).unwrap();
        assert_eq!(scene.store.verify("one").unwrap(), Vec::<String>::new());
    }
    // Content that is changed in place is that of the object too.
    let scene = Scene::new();
    scene.build_tar(&tar()).unwrap();
    fs::write(scene.root().join("usr/a"), "changed").unwrap();
    assert_eq!(scene.store.verify("one").unwrap().len(), 1);
}

#[test]
fn one_content_has_one_digest_and_names_share_it() {
    let scene = Scene::new();
    let one = scene.build_tar(&Tar::new().file("usr/a", "x").file("usr/b", "y").bytes()).unwrap();
    let other = Scene::new().build_tar(&Tar::new().file("usr/b", "y").file("usr/a", "x").bytes()).unwrap();
    assert_eq!(one.record.digest, other.record.digest);
    let different = Scene::new()
        .build_tar(&Tar::new().file("usr/b", "y").raw("usr/a", EntryType::Regular, "", 0o755, b"x").bytes())
        .unwrap();
    assert_ne!(one.record.digest, different.record.digest, "the mode counts");
    let source =
        ImageSource::Path(scene.write("two.tar", &Tar::new().file("usr/a", "x").file("usr/b", "y").bytes()));
    build(&scene.store, "two", &source, &mut |_, _| std::ops::ControlFlow::Continue(())).unwrap();
    scene.store.remove("one").unwrap();
    assert_eq!(scene.store.verify("two").unwrap(), Vec::<String>::new());
    let held = find_image(scene.state.path(), "two").unwrap();
    assert_eq!(scene.store.remove("two").unwrap_err().code, "image-in-use");
    assert_eq!(scene.store.verify("two").unwrap(), Vec::<String>::new());
    drop(held);
    scene.store.remove("two").unwrap();
    assert!(scene.is_empty());
    assert_eq!(find_image(scene.state.path(), "two").unwrap_err().code, "image-unknown");
    let objects = fs::read_dir(scene.state.path().join("images/store/objects")).unwrap();
    assert_eq!(objects.flatten().flat_map(|shard| fs::read_dir(shard.path()).unwrap()).count(), 0);
}

#[test]
fn a_name_that_is_a_path_is_refused() {
    let scene = Scene::new();
    for name in ["", "..", ".x", "-x", "a/b", "A", &"x".repeat(65), "a\n"] {
        let source = ImageSource::Path("/nowhere".into());
        let build = build(&scene.store, name, &source, &mut |_, _| std::ops::ControlFlow::Continue(()));
        assert!(build.is_err(), "{name:?}");
        assert_eq!(find_image(scene.state.path(), name).unwrap_err().code, "image-bad-name", "{name:?}");
    }
}

struct Layout<'a> {
    scene: &'a Scene,
    at: PathBuf,
}

impl Layout<'_> {
    fn blob(&self, bytes: &[u8]) -> String {
        let hash = hex(digest(&SHA256, bytes).as_ref());
        self.scene.write(&format!("layout/blobs/sha256/{hash}"), bytes);
        format!("sha256:{hash}")
    }

    fn index(&self, layers: &[Vec<u8>], platform: Option<serde_json::Value>) {
        let layers: Vec<_> =
            layers.iter().map(|layer| json!({"digest": self.blob(layer), "size": layer.len()})).collect();
        let config =
            self.blob(&serde_json::to_vec(&json!({"config": {"Env": ["PATH=/opt/bin:/usr/bin"]}})).unwrap());
        let manifest = json!({"schemaVersion": 2, "config": {"digest": config}, "layers": layers});
        let manifest = self.blob(&serde_json::to_vec(&manifest).unwrap());
        let mut one = json!({"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": manifest});
        if let Some(platform) = platform {
            one["platform"] = platform;
        }
        self.scene.write("layout/index.json", &serde_json::to_vec(&json!({"manifests": [one]})).unwrap());
        self.scene.write("layout/oci-layout", b"{\"imageLayoutVersion\":\"1.0.0\"}");
    }
}

fn two_layers() -> Vec<Vec<u8>> {
    let lower = Tar::new().file("usr/a", "1").file("usr/gone", "2").file("opt/old", "3").bytes();
    let upper = Tar::new().file("usr/.wh.gone", "").file("opt/.wh..wh..opq", "").file("opt/new", "4").bytes();
    vec![lower, zstd::encode_all(&*upper, 1).unwrap()]
}

#[test]
fn an_oci_layout_is_read_as_a_directory_and_as_a_tar() {
    let scene = Scene::new();
    let layout = Layout { scene: &scene, at: scene.state.path().join("layout") };
    layout.index(&two_layers(), None);
    let built = scene.build(&layout.at).unwrap();
    assert_eq!(built.record.path.as_deref(), Some("/opt/bin:/usr/bin"));
    let root = scene.root();
    assert!(root.join("opt/new").is_file() && root.join("usr/a").is_file());
    assert!(
        !root.join("usr/gone").exists()
            && !root.join("opt/old").exists()
            && !root.join("usr/.wh.gone").exists()
    );
    let mut tar = Builder::new(Vec::new());
    tar.append_dir_all(".", &layout.at).unwrap();
    let again = scene.build_tar(&tar.into_inner().unwrap()).unwrap();
    assert_eq!(again.record.digest, built.record.digest);
}

#[test]
fn blobs_that_are_not_what_they_are_called_are_refused() {
    let scene = Scene::new();
    let layout = Layout { scene: &scene, at: scene.state.path().join("layout") };
    layout.index(&two_layers(), None);
    let blobs: Vec<PathBuf> =
        fs::read_dir(layout.at.join("blobs/sha256")).unwrap().flatten().map(|entry| entry.path()).collect();
    for blob in blobs {
        let had = fs::read(&blob).unwrap();
        fs::write(&blob, [had.clone(), b" ".to_vec()].concat()).unwrap();
        assert_eq!(scene.build(&layout.at).unwrap_err().code, "image-bad-digest");
        fs::remove_file(&blob).unwrap();
        assert!(scene.build(&layout.at).is_err(), "a missing blob");
        std::os::unix::fs::symlink("/etc/passwd", &blob).unwrap();
        assert!(scene.build(&layout.at).is_err(), "a blob that is a link");
        fs::remove_file(&blob).unwrap();
        fs::write(&blob, had).unwrap();
    }
    scene.build(&layout.at).unwrap();
    layout.index(&two_layers(), Some(json!({"architecture": "vax", "os": "linux"})));
    assert_eq!(scene.build(&layout.at).unwrap_err().code, "image-bad-layout");
    for digest in ["sha256:../../../../etc/passwd", "md5:00", "sha256:ABC"] {
        scene.write(
            "layout/index.json",
            &serde_json::to_vec(&json!({"manifests": [{"digest": digest}]})).unwrap(),
        );
        assert_eq!(scene.build(&layout.at).unwrap_err().code, "image-bad-layout", "{digest}");
    }
}

#[test]
fn what_docker_saves_is_read_and_checked() {
    let scene = Scene::new();
    let layers = two_layers();
    let lower = &layers[0];
    let config = serde_json::to_vec(
        &json!({"rootfs": {"diff_ids": [format!("sha256:{}", hex(digest(&SHA256, lower).as_ref()))]}}),
    )
    .unwrap();
    let name = format!("{}.json", hex(digest(&SHA256, &config).as_ref()));
    let saved = |config: &[u8], layer: &[u8]| {
        let manifest = json!([{"Config": name, "Layers": ["abc/layer.tar"]}]).to_string();
        let text = String::from_utf8(config.to_vec()).unwrap();
        Tar::new()
            .file("manifest.json", &manifest)
            .file(&name, &text)
            .raw("abc/layer.tar", EntryType::Regular, "", 0o644, layer)
            .bytes()
    };
    scene.build_tar(&saved(&config, lower)).unwrap();
    assert!(scene.root().join("usr/gone").is_file());
    let other = Tar::new().file("usr/evil", "x").bytes();
    assert_eq!(scene.build_tar(&saved(&config, &other)).unwrap_err().code, "image-bad-digest");
    assert_eq!(scene.build_tar(&saved(b"{}", lower)).unwrap_err().code, "image-bad-digest");
}

#[test]
fn a_directory_is_taken_without_following_its_links() {
    let scene = Scene::new();
    scene.write("tree/usr/bin/tool", b"x");
    std::os::unix::fs::symlink("/etc", scene.state.path().join("tree/usr/etc")).unwrap();
    scene.build(&scene.state.path().join("tree")).unwrap();
    assert_eq!(fs::read_link(scene.root().join("usr/etc")).unwrap(), Path::new("/etc"));
    assert_eq!(scene.store.verify("one").unwrap(), Vec::<String>::new());
}
