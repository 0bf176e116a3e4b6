//! Layers against a plain model of what the specification says, and the cases that it names.

use std::collections::BTreeMap;
use std::path::PathBuf;

use proptest::prelude::*;
use ringfence_sandbox::snapshots::TreePath;

use crate::draft::{Draft, Part};
use crate::layer::Layer;

fn path(text: &str) -> TreePath {
    TreePath::new(text.as_bytes()).unwrap()
}

fn file(text: &str) -> Part {
    Part::File(PathBuf::from(text))
}

fn layer(entries: &[(&str, Part)]) -> Layer {
    let mut layer = Layer::default();
    for (at, part) in entries {
        layer.add(path(at), part.clone()).unwrap();
    }
    layer
}

fn shown(draft: &Draft) -> Vec<String> {
    let line = |(path, part): (&TreePath, &Part)| match part {
        Part::Directory => format!("{path}/"),
        Part::File(content) => format!("{path}={}", content.display()),
        Part::Link(to) => format!("{path}->{}", String::from_utf8_lossy(to)),
    };
    draft.iter().map(line).collect()
}

fn applied(layers: &[Layer]) -> Vec<String> {
    let mut draft = Draft::default();
    for layer in layers {
        layer.clone().apply(&mut draft).unwrap();
    }
    shown(&draft)
}

#[test]
fn whiteouts_and_opaque_directories_are_of_what_lies_beneath() {
    let lower =
        layer(&[("a/one", file("1")), ("a/two", file("2")), ("b/deep/x", file("3")), ("c", file("4"))]);
    let upper = layer(&[
        ("a/new", file("5")),
        ("a/.wh.one", file("")),
        ("b/kept", file("6")),
        ("b/.wh..wh..opq", file("")),
        ("c/now", file("7")),
    ]);
    let expected = ["a/", "a/new=5", "a/two=2", "b/", "b/kept=6", "c/", "c/now=7"];
    let mut draft = Draft::default();
    lower.clone().apply(&mut draft).unwrap();
    // A file that becomes a directory needs a whiteout, or an entry for the directory.
    assert_eq!(upper.apply(&mut draft).unwrap_err().code, "image-through-file");
    let upper = layer(&[
        ("a/new", file("5")),
        ("a/.wh.one", file("")),
        ("b/kept", file("6")),
        ("b/.wh..wh..opq", file("")),
        ("c", Part::Directory),
        ("c/now", file("7")),
    ]);
    assert_eq!(applied(&[lower, upper]), expected);
}

#[test]
fn a_whiteout_takes_a_whole_directory_and_what_comes_with_it_stays() {
    let lower = layer(&[("a/b/c", file("1")), ("a/d", file("2"))]);
    let upper = layer(&[(".wh.a", file("")), ("a/new", file("3"))]);
    assert_eq!(applied(&[lower, upper]), ["a/", "a/new=3"]);
}

#[test]
fn hard_links_are_to_files_of_this_layer_or_of_one_beneath() {
    let lower = layer(&[("a", file("1")), ("dir/x", file("2"))]);
    let mut upper = Layer::default();
    upper.add(path("b"), file("3")).unwrap();
    upper.add_hard_link(path("c"), path("b")).unwrap();
    upper.add_hard_link(path("d"), path("a")).unwrap();
    assert_eq!(applied(&[lower.clone(), upper]), ["a=1", "b=3", "c=3", "d=1", "dir/", "dir/x=2"]);
    for to in ["dir", "nowhere"] {
        let mut upper = Layer::default();
        upper.add_hard_link(path("e"), path(to)).unwrap();
        let mut draft = Draft::default();
        lower.clone().apply(&mut draft).unwrap();
        assert_eq!(upper.apply(&mut draft).unwrap_err().code, "image-bad-link");
    }
}

#[test]
fn nothing_goes_through_a_link_of_a_layer_beneath() {
    let lower = layer(&[("lib", Part::Link(b"/etc".to_vec()))]);
    let upper = layer(&[("lib/passwd", file("evil"))]);
    let mut draft = Draft::default();
    lower.apply(&mut draft).unwrap();
    // The implied directory of the upper layer is no entry of it: the link stays, and nothing is written beneath it.
    assert_eq!(upper.apply(&mut draft).unwrap_err().code, "image-through-link");
    assert_eq!(shown(&draft), ["lib->/etc"]);
}

#[derive(Clone, Debug)]
enum Step {
    File(Vec<usize>, u32),
    Directory(Vec<usize>),
    Whiteout(Vec<usize>),
    Opaque(Vec<usize>),
}

const NAMES: [&str; 3] = ["a", "b", "c"];

fn text(parts: &[usize]) -> String {
    parts.iter().map(|part| NAMES[*part]).collect::<Vec<_>>().join("/")
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let at = || proptest::collection::vec(0..3_usize, 1..4);
    let step = prop_oneof![
        4 => (at(), 0..100_u32).prop_map(|(at, number)| Step::File(at, number)),
        2 => at().prop_map(Step::Directory),
        1 => at().prop_map(Step::Whiteout),
        1 => at().prop_map(Step::Opaque),
    ];
    proptest::collection::vec(step, 0..8)
}

/// The model: strings and prefixes. `None`: an entry would lie beneath a file, or come twice.
fn model(layers: &[Vec<Step>]) -> Option<BTreeMap<String, Option<u32>>> {
    let mut image: BTreeMap<String, Option<u32>> = BTreeMap::new();
    let below = |path: &str, above: &str| path.starts_with(&format!("{above}/"));
    fn put(image: &mut BTreeMap<String, Option<u32>>, path: &str, content: Option<u32>) -> Option<()> {
        for (at, _) in path.match_indices('/') {
            match image.get(&path[..at]) {
                Some(Some(_)) => return None,
                Some(None) => {}
                None => {
                    image.insert(path[..at].to_owned(), None);
                }
            }
        }
        if content.is_some() {
            image.retain(|other, _| !other.starts_with(&format!("{path}/")));
        }
        if !(content.is_none() && image.get(path) == Some(&None)) {
            image.insert(path.to_owned(), content);
        }
        Some(())
    }
    for steps in layers {
        let mut own = BTreeMap::new();
        for step in steps {
            match step {
                Step::File(at, number) => {
                    if own.contains_key(&text(at)) {
                        return None;
                    }
                    put(&mut own, &text(at), Some(*number))?;
                }
                Step::Directory(at) => {
                    if matches!(own.get(&text(at)), Some(Some(_))) {
                        return None;
                    }
                    put(&mut own, &text(at), None)?;
                }
                _ => {}
            }
        }
        for step in steps {
            if let Step::Opaque(at) = step {
                image.retain(|path, _| !below(path, &text(at)));
            }
        }
        for step in steps {
            if let Step::Whiteout(at) = step {
                image.retain(|path, _| !below(path, &text(at)) && *path != text(at));
            }
        }
        for step in steps {
            match step {
                Step::File(at, number) => put(&mut image, &text(at), Some(*number))?,
                Step::Directory(at) => put(&mut image, &text(at), None)?,
                _ => {}
            }
        }
    }
    Some(image)
}

fn built(layers: &[Vec<Step>]) -> Option<BTreeMap<String, Option<u32>>> {
    let mut draft = Draft::default();
    for steps in layers {
        let mut layer = Layer::default();
        for step in steps {
            let (at, part) = match step {
                Step::File(at, number) => (text(at), file(&number.to_string())),
                Step::Directory(at) => (text(at), Part::Directory),
                Step::Opaque(at) => (format!("{}/.wh..wh..opq", text(at)), file("")),
                Step::Whiteout(at) => {
                    let at = text(at);
                    let (above, name) = at.rsplit_once('/').map_or(("", &*at), |(above, name)| (above, name));
                    let name = format!(".wh.{name}");
                    (if above.is_empty() { name } else { format!("{above}/{name}") }, file(""))
                }
            };
            layer.add(path(&at), part).ok()?;
        }
        layer.apply(&mut draft).ok()?;
    }
    let content = |part: &Part| match part {
        Part::File(content) => content.to_string_lossy().parse().ok(),
        _ => None,
    };
    Some(draft.iter().map(|(path, part)| (path.to_string(), content(part))).collect())
}

proptest! {
    #[test]
    fn layers_come_to_what_the_model_says(layers in proptest::collection::vec(steps(), 1..4)) {
        prop_assert_eq!(built(&layers), model(&layers));
    }
}
