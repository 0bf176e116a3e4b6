use tar::{Builder, EntryType, Header};

use super::export::{MANIFEST_NAME, object_name};
use super::manifest_file::encode;
use super::scene::Scene;
use super::*;

struct Part {
    name: String,
    kind: EntryType,
    content: Vec<u8>,
}

fn part(name: impl Into<String>, content: impl Into<Vec<u8>>) -> Part {
    Part { name: name.into(), kind: EntryType::Regular, content: content.into() }
}

fn archive(parts: &[Part]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    for Part { name, kind, content } in parts {
        let mut header = Header::new_gnu();
        header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_entry_type(*kind);
        header.set_size(content.len() as u64);
        header.set_mode(0o400);
        header.set_cksum();
        builder.append(&header, content.as_slice()).unwrap();
    }
    builder.into_inner().unwrap()
}

/// The parts of a good archive, of `directory/file` with "text" and `link`, and the manifest as text.
fn good() -> (Vec<Part>, String) {
    let scene = Scene::new();
    scene.write("directory/file", "text");
    scene.write("second", "more");
    std::os::unix::fs::symlink("second", scene.path("tree/link")).unwrap();
    let manifest = scene.store.load(scene.save().id).unwrap();
    let text = String::from_utf8(encode(&manifest)).unwrap();
    let mut objects = vec![(ObjectHash::of(b"text"), "text"), (ObjectHash::of(b"more"), "more")];
    objects.sort();
    let objects = objects.into_iter().map(|(hash, content)| part(object_name(&hash), content));
    ([part(MANIFEST_NAME, text.clone())].into_iter().chain(objects).collect(), text)
}

fn refused(bytes: &[u8]) -> String {
    let scene = Scene::new();
    let error = scene.store.import(&mut &*bytes).unwrap_err();
    assert_eq!(error.code(), "snapshot-bad-import", "{error}");
    scene.assert_empty();
    error.to_string()
}

#[test]
fn what_these_tests_start_from_is_accepted() {
    let scene = Scene::new();
    let imported = scene.store.import(&mut &*archive(&good().0)).unwrap();
    assert_eq!(imported.new_objects, 2);
    assert_eq!(scene.assert_whole().manifests, 1);
    assert_eq!(scene.store.import(&mut &*archive(&good().0)).unwrap().new_objects, 0);
}

#[test]
fn an_archive_with_anything_but_its_objects_is_refused() {
    let changed = |change: &dyn Fn(&mut Vec<Part>)| {
        let mut parts = good().0;
        change(&mut parts);
        refused(&archive(&parts))
    };
    assert!(changed(&|parts| parts.clear()).contains("ends before manifest"));
    assert!(changed(&|parts| drop(parts.pop())).contains("ends before objects/"));
    assert!(changed(&|parts| parts.swap(1, 2)).contains("is where"));
    assert!(changed(&|parts| drop(parts.remove(0))).contains("is where manifest"));
    assert!(changed(&|parts| parts.push(part("objects/x", "x"))).contains("goes on after"));
    assert!(changed(&|parts| parts.insert(1, part("../../etc/passwd", "x"))).contains("is where"));
    assert!(changed(&|parts| parts[1].kind = EntryType::Symlink).contains("is where"));
    assert!(changed(&|parts| parts[1].content = b"tezt".to_vec()).contains("not what its name says"));
    assert!(changed(&|parts| parts[1].content = b"text and more".to_vec()).contains("13 bytes"));
    let long = Part { kind: EntryType::GNULongName, ..part("././@LongLink", vec![b'x'; 5000]) };
    let mut parts = good().0;
    parts.insert(0, long);
    assert!(refused(&archive(&parts)).contains("is where manifest"));
}

#[test]
fn a_stream_that_is_cut_or_is_no_archive_is_refused() {
    let bytes = archive(&good().0);
    let end = bytes.len() - 1024;
    for cut in (0..end).step_by(97) {
        refused(&bytes[..cut]);
    }
    refused(b"PK\x03\x04 not a tar");
    let mut compressed = zstd::encode_all(&*bytes, 1).unwrap();
    compressed.truncate(compressed.len() / 2);
    refused(&compressed);
}

/// Sizes that no memory has are believed of no header.
#[test]
fn an_enormous_size_is_refused_without_being_read() {
    let mut header = Header::new_gnu();
    header.set_path(MANIFEST_NAME).unwrap();
    header.set_entry_type(EntryType::Regular);
    header.set_size(u64::MAX / 4);
    header.set_cksum();
    let mut endless = std::io::Read::chain(&header.as_bytes()[..], std::io::repeat(b'{'));
    let scene = Scene::new();
    assert_eq!(scene.store.import(&mut endless).unwrap_err().code(), "snapshot-bad-import");
    scene.assert_empty();
}

/// The manifest with one thing replaced; its objects follow as they should.
fn with_manifest(from: &str, to: &str) -> String {
    let (mut parts, text) = good();
    assert!(text.contains(from), "{from} is not in {text}");
    parts[0].content = text.replacen(from, to, 1).into_bytes();
    refused(&archive(&parts))
}

#[test]
fn a_manifest_with_a_path_that_leads_elsewhere_is_refused() {
    for bad in [
        "../file",
        "/file",
        "directory/../file",
        "directory//file",
        "directory/./file",
        "%2e%2e/file",
        "file%00",
        "second/file",
        "link/file",
        "elsewhere/file",
        "%zz",
        "",
        "second",
    ] {
        let why = with_manifest(r#""path":"directory/file""#, &format!(r#""path":"{bad}""#));
        assert!(why.contains("its manifest is wrong"), "{bad}: {why}");
    }
}

#[test]
fn a_manifest_that_is_not_as_it_would_be_written_is_refused() {
    for (from, to) in [
        (r#""version":1"#, r#""version":2"#),
        (r#""format":"ringfence-snapshot""#, r#""format":"other""#),
        (r#""session":"one""#, r#""session":"../one""#),
        (r#""name":"before""#, r#""name":"be\nfore""#),
        (r#""root":"workspace""#, r#""root":"..""#),
        (r#""entries":4,"bytes":8"#, r#""entries":4,"bytes":9"#),
        (r#""entries":4,"bytes":8"#, r#""entries":5,"bytes":8"#),
        (r#""size":4"#, r#""size":18446744073709551615"#),
        (r#""kind":"link""#, r#""kind":"hard-link""#),
        (r#""target":"second""#, r#""target":"""#),
        (r#""target":"second""#, r#""target":"%73econd""#),
        (r#""kind":"file","mode":"#, r#""kind":"file","mode":4"#),
        (r#""kind":"file","mode":"#, r#""kind":"file","mode":2048,"mode":"#),
        (r#""kind":"file""#, r#""kind":"file","more":1"#),
        ("\n{\"path\":\"link\"", "\n\n{\"path\":\"link\""),
        ("{\"format\"", " {\"format\""),
    ] {
        let why = with_manifest(from, to);
        assert!(why.contains("its manifest is wrong"), "{to}: {why}");
    }
    let (mut parts, text) = good();
    let time = text.split("\"modified\":[").nth(1).unwrap().split(']').next().unwrap();
    parts[0].content = text.replacen(&format!("[{time}]"), "[0,1073741823]", 1).into_bytes();
    let why = refused(&archive(&parts));
    assert!(why.contains("no time"), "{why}");
}

#[test]
fn a_snapshot_over_the_limits_is_refused() {
    let scene = Scene::with_limits(SnapshotLimits { entries: 3, ..SnapshotLimits::default() });
    assert_eq!(scene.store.import(&mut &*archive(&good().0)).unwrap_err().code(), "snapshot-bad-import");
    scene.assert_empty();
}

/// Whoever knows the hash of another's file must not get its content by it.
#[test]
fn an_object_that_the_store_has_must_come_all_the_same() {
    let scene = Scene::new();
    scene.write("secret", "text");
    scene.write("more", "more");
    scene.save();
    let mut parts = good().0;
    parts.truncate(1);
    assert_eq!(scene.store.import(&mut &*archive(&parts)).unwrap_err().code(), "snapshot-bad-import");
    assert_eq!(scene.assert_whole().manifests, 1);
}
