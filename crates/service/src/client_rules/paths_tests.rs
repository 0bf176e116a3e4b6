use std::fs;

use super::*;
use crate::state::StateDir;

struct Fixture {
    _root: tempfile::TempDir,
    places: Places,
}

fn fixture() -> Fixture {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().canonicalize().unwrap();
    for name in ["home/.ssh", "work/src/deep", "work/locked", "work/keys"] {
        fs::create_dir_all(path.join(name)).unwrap();
    }
    for name in ["work/.env", "work/src/.env", "work/src/deep/a.pem", "work/keys/b.pem", "work/keys/c.txt"] {
        fs::write(path.join(name), "x").unwrap();
    }
    let places = Places {
        tenant: None,
        current: path.join("work"),
        home: path.join("home"),
        system_config: path.join("none"),
        user_config: path.join("none"),
        state: StateDir::new(path.join("state")),
        profile: None,
        policy: None,
        library: None,
    };
    Fixture { _root: root, places }
}

fn take(denies: Denies, text: &str) -> Result<(Vec<String>, bool), String> {
    let Fixture { places, _root } = fixture();
    let mut found = Found::new(&places, Some(places.current.clone()));
    for pattern in Pattern::all(&places.current, text, &places.home)? {
        found.take(denies, &pattern)?;
    }
    let hidden = found.hidden.iter().map(|path| match path.strip_prefix(&places.current) {
        Ok(path) => path.display().to_string(),
        Err(_) => format!("~/{}", path.strip_prefix(&places.home).unwrap().display()),
    });
    let mut all: Vec<String> = hidden.chain(found.kept).collect();
    all.sort();
    Ok((all, found.unread || found.unwritten))
}

#[test]
fn a_rule_is_for_each_file_that_it_means() {
    for (text, files) in [
        ("./.env", &[".env"] as &[&str]),
        ("/.env", &[".env"]),
        ("src/.env", &["src/.env"]),
        // Without a slash: at any depth, as in .gitignore.
        (".env", &[".env", "src/.env"]),
        ("*.pem", &["keys/b.pem", "src/deep/a.pem"]),
        ("**/*.pem", &["keys/b.pem", "src/deep/a.pem"]),
        ("keys/*.pem", &["keys/b.pem"]),
        ("keys/[ab].pem", &["keys/b.pem"]),
        ("keys/{b.pem,c.txt}", &["keys/b.pem", "keys/c.txt"]),
        ("./keys/**", &["keys"]),
        ("src/*", &["src"]),
        ("src/**/*", &["src"]),
        ("nothing/here", &["nothing/here"]),
        ("nothing/*.here", &[]),
        ("~/.ssh/**", &["~/.ssh"]),
        ("~/.ssh/id_*", &["~/.ssh"]),
        ("src/../keys/c.txt", &["keys/c.txt"]),
    ] {
        assert_eq!(
            take(Denies::Read, text),
            Ok((files.iter().map(|&name| name.into()).collect(), false)),
            "{text}"
        );
    }
    for (text, names) in [
        ("./locked/**", &["locked/"] as &[&str]),
        ("later/**", &["later/"]),
        ("keys/b.pem", &["keys/b.pem"]),
        ("Cargo.lock", &["Cargo.lock"]),
        ("*.pem", &["keys/b.pem", "src/deep/a.pem"]),
        ("~/.ssh/**", &[]),
    ] {
        assert_eq!(
            take(Denies::Write, text),
            Ok((names.iter().map(|&name| name.into()).collect(), false)),
            "{text}"
        );
    }
    for text in [".", "./", "/", "*", "**", "./**", "/*", "../**", "../work/**"] {
        assert_eq!(take(Denies::Write, text).map(|found| found.1), Ok(true), "{text}");
    }
    assert!(take(Denies::Read, ".").unwrap().1);
}

#[test]
fn what_is_not_understood_is_no_rule_that_is_left_out() {
    for text in ["!keys", "keys/{a,b", "keys/{a,{b,c}}", "~other/x", "*/../x"] {
        assert!(take(Denies::Read, text).is_err(), "{text}");
    }
    assert!(take(Denies::Read, "/../../../../../../../../etc").unwrap_err().contains("no program runs"));
    let Fixture { places, _root } = fixture();
    for number in 0..=MOST_HELD {
        fs::write(places.current.join(format!("n{number}.pem")), "x").unwrap();
    }
    let mut found = Found::new(&places, Some(places.current.clone()));
    let pattern = Pattern::all(&places.current, "*.pem", &places.home).unwrap().remove(0);
    assert!(found.take(Denies::Read, &pattern).unwrap_err().contains("one by one"));
}

#[test]
fn the_last_that_matches_decides() {
    let of = |denies, rules: &[(&str, bool)]| {
        let Fixture { places, _root } = fixture();
        let mut found = Found::new(&places, Some(places.current.clone()));
        let rules: Vec<_> = rules.iter().map(|(pattern, denies)| ((*pattern).to_owned(), *denies)).collect();
        found.take_ordered(denies, &rules).unwrap();
        let hidden =
            found.hidden.iter().map(|path| path.strip_prefix(&places.current).unwrap().display().to_string());
        let mut all: Vec<String> = hidden.chain(found.kept).collect();
        all.sort();
        (all, found.unread || found.unwritten)
    };
    let files = |names: &[&str]| (names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>(), false);
    assert_eq!(of(Denies::Read, &[("*.env", true)]), files(&[".env", "src/.env"]));
    assert_eq!(of(Denies::Read, &[("*.env", true), ("src/*", false)]), files(&[".env"]));
    assert_eq!(of(Denies::Write, &[("locked/**", true)]), files(&["locked/"]));
    assert_eq!(of(Denies::Write, &[("later/*", true), ("later/x", false)]), files(&["later/"]));
    assert_eq!(of(Denies::Write, &[("new.txt", true)]), files(&["new.txt"]));
    assert_eq!(of(Denies::Write, &[("*", true), ("src/*", false)]), (Vec::new(), true));
    assert_eq!(of(Denies::Write, &[("src/*", true), ("*", false)]), files(&[]));
}
