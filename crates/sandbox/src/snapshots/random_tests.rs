//! Trees that change at random, and bytes that do.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use proptest::prelude::*;

use super::scene::{self, Scene, picture, set_mode};
use super::*;

#[derive(Clone, Debug)]
enum Step {
    Write(&'static str, Vec<u8>),
    Directory(&'static str),
    Link(&'static str, &'static str),
    Remove(&'static str),
    Mode(&'static str, u32),
    Time(&'static str, i64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let path = || prop::sample::select(vec!["a", "b", "a/b", "a/c", "a/b/c", "b/é", "b/\n", "c.d", "c/d"]);
    let content = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..40),
        any::<u8>().prop_map(|byte| vec![byte; 300_000]),
        Just(b"common".to_vec()),
    ];
    let mode = prop::sample::select(vec![0o644, 0o755, 0o700, 0o444, 0o555, 0o1777]);
    let step = prop_oneof![
        4 => (path(), content).prop_map(|(path, content)| Step::Write(path, content)),
        3 => path().prop_map(Step::Directory),
        1 => (path(), path()).prop_map(|(path, to)| Step::Link(path, to)),
        2 => path().prop_map(Step::Remove),
        2 => (path(), mode).prop_map(|(path, mode)| Step::Mode(path, mode)),
        1 => (path(), 0..2_000_000_000i64).prop_map(|(path, time)| Step::Time(path, time)),
    ];
    prop::collection::vec(step, 0..25)
}

/// A step that is not possible is left out.
fn apply(top: &Path, steps: &[Step]) {
    for step in steps {
        match step {
            Step::Write(path, content) => drop(fs::write(top.join(path), content)),
            Step::Directory(path) => drop(fs::create_dir(top.join(path))),
            Step::Link(path, to) => drop(symlink(to, top.join(path))),
            Step::Remove(path) => {
                drop(fs::remove_file(top.join(path)).or_else(|_| fs::remove_dir_all(top.join(path))));
            }
            Step::Mode(path, mode) if top.join(path).exists() => set_mode(&top.join(path), *mode),
            Step::Time(path, seconds) => {
                if let Ok(file) = fs::File::open(top.join(path)) {
                    let time = EntryTime { seconds: *seconds, nanoseconds: 5 };
                    rustix::fs::futimens(file, &time.alone()).unwrap();
                }
            }
            Step::Mode(..) => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, max_shrink_iters: 64, ..ProptestConfig::default() })]

    #[test]
    fn any_tree_comes_back_exactly(first in steps(), second in steps()) {
        let scene = Scene::new();
        let top = scene.path("tree");
        apply(&top, &first);
        let before = scene.picture();
        let one = scene.save().id;
        apply(&top, &second);
        let after = scene.picture();
        let two = scene.save().id;
        scene.restore(one).unwrap();
        prop_assert_eq!(scene.picture(), before.clone());
        scene.restore(two).unwrap();
        prop_assert_eq!(scene.picture(), after);
        scene.store.materialise(one, &scene.path("fork")).unwrap();
        let contents = |picture: scene::Picture| {
            picture.into_iter().map(|(path, (mode, _, content))| (path, mode, content)).collect::<Vec<_>>()
        };
        prop_assert_eq!(contents(picture(&scene.path("fork/workspace"))), contents(before));
        scene.assert_whole();
    }

    #[test]
    fn any_tree_survives_export_and_import(tree in steps(), compressed: bool) {
        let scene = Scene::new();
        apply(&scene.path("tree"), &tree);
        let before = scene.picture();
        let id = scene.save().id;
        let format = if compressed { ExportFormat::TarZst } else { ExportFormat::Tar };
        let export = |scene: &Scene| {
            let mut bytes = Vec::new();
            scene.store.export(id, format, &mut bytes).unwrap();
            bytes
        };
        let bytes = export(&scene);
        let other = Scene::new();
        prop_assert_eq!(other.store.import(&mut &*bytes).unwrap().id, id);
        other.assert_whole();
        prop_assert_eq!(export(&other), bytes);
        other.restore(id).unwrap();
        prop_assert_eq!(other.picture(), before);
    }

    #[test]
    fn no_bytes_do_harm_to_an_import(flips in prop::collection::vec((any::<prop::sample::Index>(), 1u8..), 1..4)) {
        let scene = Scene::new();
        scene.write("directory/file", "text");
        let id = scene.save().id;
        let mut bytes = Vec::new();
        scene.store.export(id, ExportFormat::Tar, &mut bytes).unwrap();
        for (at, flip) in flips {
            let at = at.index(bytes.len());
            bytes[at] ^= flip;
        }
        let other = Scene::new();
        match other.store.import(&mut &*bytes) {
            // With another name or time it is another snapshot, under an id of its own, and as whole as any.
            Ok(imported) => {
                let same = other.store.load(imported.id).unwrap() == scene.store.load(id).unwrap();
                prop_assert_eq!(same, imported.id == id);
                other.assert_whole();
            }
            Err(_) => other.assert_empty(),
        }
    }
}

#[test]
fn any_flipped_bit_of_the_store_is_found() {
    let scene = Scene::new();
    scene.write("file", "some text");
    symlink("file", scene.path("tree/link")).unwrap();
    let id = scene.save().id;
    for path in [scene.object_files()[0].clone(), scene.store.manifest_path(&id)] {
        let whole = fs::read(&path).unwrap();
        for at in 0..whole.len() * 8 {
            let mut wrong = whole.clone();
            wrong[at / 8] ^= 1 << (at % 8);
            fs::write(&path, wrong).unwrap();
            assert_eq!(scene.store.verify_all().unwrap().damage.len(), 1, "bit {at} of {}", path.display());
        }
        fs::write(&path, whole).unwrap();
    }
    scene.assert_whole();
}
