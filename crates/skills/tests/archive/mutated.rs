//! Damage: cut at every byte, flipped at every byte, spliced at random. Never a panic, never a byte outside; an error
//! leaves nothing.

use std::io::Cursor;
use std::os::unix::fs::{PermissionsExt, symlink};

use proptest::prelude::*;
use ringfence_skills::{Format, Tree, TreeLimits, left_out, pack};

use crate::scene::Scene;

fn archive(format: Format) -> Vec<u8> {
    let directory = tempfile::tempdir().unwrap();
    let at = |path: &str| directory.path().join(path);
    std::fs::write(at("SKILL.md"), "---\nname: demo\ndescription: A demo.\n---\n").unwrap();
    std::fs::create_dir(at("scripts")).unwrap();
    std::fs::write(at("scripts/run.sh"), "echo hello\n".repeat(20)).unwrap();
    std::fs::set_permissions(at("scripts/run.sh"), std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::write(at(&"n".repeat(120)), "long").unwrap();
    symlink("scripts/run.sh", at("run")).unwrap();
    let tree = Tree::read(directory.path(), TreeLimits::default(), left_out).unwrap();
    let mut out = Cursor::new(Vec::new());
    pack(&tree, "demo", format, &mut out).unwrap();
    out.into_inner()
}

#[test]
fn cut_anywhere_it_is_refused() {
    for format in Format::ALL {
        let whole = archive(format);
        let scene = Scene::new();
        for end in 0..whole.len() {
            let error = scene.unpack_bytes(&whole[..end]).err();
            assert!(error.is_some(), "{format:?} cut at {end} of {} is taken", whole.len());
            assert!(scene.is_empty(), "{format:?} cut at {end}: {error:?}");
        }
        assert!(scene.surroundings_are_untouched());
    }
}

#[test]
fn with_any_byte_changed_it_is_whole_or_refused() {
    for format in Format::ALL {
        let whole = archive(format);
        let scene = Scene::new();
        for at in 0..whole.len() {
            // One byte in eight is enough of the zeros that fill the blocks of a tar.
            if at % 8 != 0 && whole[at..].iter().take(8).all(|byte| *byte == 0) {
                continue;
            }
            for change in [0x01, 0xff] {
                let mut bytes = whole.clone();
                bytes[at] ^= change;
                unpack_and_clear(&scene, &bytes);
            }
        }
        assert!(scene.surroundings_are_untouched());
    }
}

/// A link that stands must stay inside: nothing but `stays_inside` was asked, so ask the file system.
fn unpack_and_clear(scene: &Scene, bytes: &[u8]) {
    match scene.unpack_bytes(bytes) {
        Ok(_) => {
            let link = scene.inside().join("run");
            if let Ok(led) = link.canonicalize() {
                assert!(led.starts_with(scene.inside().canonicalize().unwrap()));
            }
            scene.clear();
        }
        Err(error) => assert!(scene.is_empty(), "{error}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn spliced_at_random_it_does_no_harm(
        format in prop::sample::select(Format::ALL.to_vec()),
        edits in proptest::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0..64_usize), 1..6),
        noise in proptest::collection::vec(any::<u8>(), 0..32),
    ) {
        let mut bytes = archive(format);
        for (from, to, count) in edits {
            let from = from.index(bytes.len());
            let piece = bytes[from..bytes.len().min(from + count)].to_vec();
            let to = to.index(bytes.len());
            bytes.splice(to..to, piece);
        }
        let at = bytes.len() / 2;
        bytes.splice(at..at, noise);
        let scene = Scene::new();
        unpack_and_clear(&scene, &bytes);
        prop_assert!(scene.surroundings_are_untouched());
    }
}
