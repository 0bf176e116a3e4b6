use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use super::scene::{self, Scene, set_mode};
use super::*;

/// A snapshot, what was done since, and the difference as text.
fn changed(
    before: impl FnOnce(&Scene),
    after: impl FnOnce(&Scene),
    limits: DiffLimits,
) -> (Scene, Diff, String) {
    let scene = Scene::new();
    before(&scene);
    let manifest = scene.store.load(scene.save().id).unwrap();
    after(&scene);
    let tree = scene.tree();
    let roots = [RootTree { label: "workspace", tree: &tree }];
    let sides = (DiffSide::Snapshot(&manifest), DiffSide::Live { roots: &roots, session: Some("one") });
    let diff = scene.store.diff(sides.0, sides.1).unwrap();
    let mut text = Vec::new();
    scene.store.write_diff(&diff, sides, limits, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let saved = scene.store.load(scene.save().id).unwrap();
    let saved_sides = (DiffSide::Snapshot(&manifest), DiffSide::Snapshot(&saved));
    let of_saved = scene.store.diff(saved_sides.0, saved_sides.1).unwrap();
    let mut same = Vec::new();
    scene.store.write_diff(&of_saved, saved_sides, limits, &mut same).unwrap();
    assert_eq!(String::from_utf8(same).unwrap(), text, "a saved tree and a live one differ in the same way");
    drop(tree);
    (scene, diff, text)
}

fn before(scene: &Scene) {
    scene.write("text", "one\ntwo\nthree\n");
    set_mode(&scene.write("mode", "same\n"), 0o644);
    scene.write("gone", "gone\n");
    scene.write("binary", b"a\0b");
    scene.write("kind", "a file\n");
    scene.write("with space", "old\n");
    symlink("text", scene.path("tree/link")).unwrap();
    for name in ["text", "gone", "binary", "kind", "with space"] {
        set_mode(&scene.path("tree").join(name), 0o644);
    }
}

fn after(scene: &Scene) {
    scene.write("text", "one\n2\nthree\nno end");
    set_mode(&scene.path("tree/mode"), 0o755);
    fs::remove_file(scene.path("tree/gone")).unwrap();
    scene.write("binary", b"a\0c");
    fs::remove_file(scene.path("tree/kind")).unwrap();
    symlink("text", scene.path("tree/kind")).unwrap();
    scene.write("with space", "new\n");
    set_mode(&scene.write("new\nline", "new\n"), 0o644);
    fs::remove_file(scene.path("tree/link")).unwrap();
    symlink("mode", scene.path("tree/link")).unwrap();
    fs::create_dir(scene.path("tree/empty")).unwrap();
    set_mode(&scene.write("full/file", ""), 0o644);
}

#[test]
fn every_change_is_listed_with_its_kind() {
    let (_, diff, _) = changed(before, after, DiffLimits::default());
    let listed = diff.changes.iter().map(|change| (change.path.to_string(), change.what)).collect::<Vec<_>>();
    let expected = [
        ("binary", Changed::Content),
        ("empty", Changed::Added),
        ("full", Changed::Added),
        ("full/file", Changed::Added),
        ("gone", Changed::Removed),
        ("kind", Changed::Kind),
        ("link", Changed::Content),
        ("mode", Changed::Mode),
        ("\"new\\nline\"", Changed::Added),
        ("text", Changed::Content),
        ("with space", Changed::Content),
    ];
    assert_eq!(listed, expected.map(|(path, what)| (path.to_owned(), what)));
}

const AS_GIT: &str = r#"diff --git a/binary b/binary
Binary files a/binary and b/binary differ
Only in b: empty (directory)
diff --git a/full/file b/full/file
new file mode 100644
diff --git a/gone b/gone
deleted file mode 100644
--- a/gone
+++ /dev/null
@@ -1 +0,0 @@
-gone
diff --git a/kind b/kind
deleted file mode 100644
--- a/kind
+++ /dev/null
@@ -1 +0,0 @@
-a file
diff --git a/kind b/kind
new file mode 120000
--- /dev/null
+++ b/kind
@@ -0,0 +1 @@
+text
\ No newline at end of file
diff --git a/link b/link
--- a/link
+++ b/link
@@ -1 +1 @@
-text
\ No newline at end of file
+mode
\ No newline at end of file
diff --git a/mode b/mode
old mode 100644
new mode 100755
diff --git "a/new\nline" "b/new\nline"
new file mode 100644
--- /dev/null
+++ "b/new\nline"
@@ -0,0 +1 @@
+new
diff --git a/text b/text
--- a/text
+++ b/text
@@ -1,3 +1,4 @@
 one
-two
+2
 three
+no end
\ No newline at end of file
diff --git a/with space b/with space
--- a/with space<TAB>
+++ b/with space<TAB>
@@ -1 +1 @@
-old
+new
"#;

#[test]
fn the_text_is_as_git_writes_it() {
    assert_eq!(changed(before, after, DiffLimits::default()).2, AS_GIT.replace("<TAB>", "\t"));
}

#[test]
fn git_applies_it() {
    let text_only = |scene: &Scene| {
        before(scene);
        fs::remove_file(scene.path("tree/binary")).unwrap();
    };
    let text_after = |scene: &Scene| {
        after(scene);
        fs::remove_file(scene.path("tree/binary")).unwrap();
        fs::remove_dir(scene.path("tree/empty")).unwrap();
    };
    let (scene, _, text) = changed(text_only, text_after, DiffLimits::default());
    let expected = scene.picture();
    let first = scene.store.list().unwrap().snapshots.last().unwrap().id;
    scene.restore(first).unwrap();
    fs::write(scene.path("patch"), text).unwrap();
    let git =
        Command::new("git").arg("apply").arg(scene.path("patch")).current_dir(scene.path("tree")).output();
    let git = git.unwrap();
    assert!(git.status.success(), "{}", String::from_utf8_lossy(&git.stderr));
    let contents = |picture: scene::Picture| {
        picture.into_iter().map(|(path, (_, _, content))| (path, content)).collect::<Vec<_>>()
    };
    assert_eq!(contents(scene.picture()), contents(expected));
}

#[test]
fn what_is_large_is_only_named() {
    let limits = DiffLimits { file_bytes: 10, output_bytes: 1000 };
    let write = |content: &'static str| move |scene: &Scene| set_mode(&scene.write("file", content), 0o644);
    let (_, _, text) = changed(write("a\n"), write("0123456789\n"), limits);
    assert!(text.ends_with("Files a/file and b/file differ, and are too large to be shown\n"), "{text}");
    let limits = DiffLimits { file_bytes: 1000, output_bytes: 0 };
    assert!(changed(write("a\n"), write("b\n"), limits).2.contains("too large"));
}

#[test]
fn nothing_differs_from_itself() {
    let (_, diff, text) = changed(before, |_| (), DiffLimits::default());
    assert_eq!((diff.changes, text.as_str()), (Vec::new(), ""));
}
