//! Skills that want to harm: refused with a reason, the library as it was, nothing hostile on the terminal.

use std::process::Command;

use crate::place::{Place, said};

const ESCAPES: &str = "x\u{1b}[2J\u{9b}31m\u{202e}evil\u{200b}\u{e0041}\u{7}";

#[test]
fn archives_are_refused_and_the_library_stays() {
    let place = Place::new();
    place.skill("good", "A good one.");
    place.call(&["add", "good"]).code(0);
    let before = place.library();
    let corpus = place.path("corpus");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../skills/tests/hostile_archives.py");
    let made = Command::new("python3").arg(script).arg("make").arg(&corpus).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let index: serde_json::Value =
        serde_json::from_slice(&std::fs::read(corpus.join("index.json")).unwrap()).unwrap();
    let mut refused = 0;
    // Every kind has a test of its own in the library; here every eighth goes the whole way.
    for case in index.as_array().unwrap().iter().filter(|case| case["code"] != "ok").step_by(8) {
        let path = corpus.join("archives").join(case["kind"].as_str().unwrap());
        let call = place.call(&["add", path.to_str().unwrap()]).code(125).has("nothing of this one was kept");
        assert_eq!(call.errors.lines().count(), 2, "{}: {}", case["kind"], call.errors);
        assert!(
            !call.errors.contains(|c: char| c.is_control() && c != '\n'),
            "{}: {:?}",
            case["kind"],
            call.errors
        );
        refused += 1;
    }
    assert!(refused >= 8, "only {refused}");
    assert_eq!(place.library(), before);
    assert_eq!(std::fs::read_dir(place.path("state/scratch")).unwrap().count(), 0);
    place.call(&["verify"]).code(0);
}

#[test]
fn nothing_hidden_reaches_the_terminal() {
    let place = Place::new();
    place.write(
        "plain/SKILL.md",
        format!("---\nname: plain\ndescription: \"{}\"\n---\nBody {ESCAPES}\n", ESCAPES.escape_default()),
    );
    let added = place.call(&["add", "plain", "--accept-findings"]).code(0);
    for call in [
        added,
        place.call(&["list"]),
        place.call(&["list", "--json"]),
        place.call(&["show", "plain"]),
        place.call(&["show", "plain", "--json"]),
        place.call(&["search", "evil"]),
        place.call(&["lint", "plain", "--fail-on", "never"]),
        place.call(&["validate", "plain"]),
    ] {
        let call = call.code(0);
        let hidden =
            |c: char| (c.is_control() && !"\n\t".contains(c)) || "\u{202e}\u{200b}\u{e0041}".contains(c);
        assert!(
            !call.out.contains(hidden) && !call.errors.contains(hidden),
            "{:?} {:?}",
            call.out,
            call.errors
        );
    }
    // In a pipe the file is as it is; on a terminal it is not.
    assert!(place.call(&["cat", "plain"]).code(0).out.contains(ESCAPES));
    let ringfence = env!("CARGO_BIN_EXE_ringfence");
    let mut on_a_terminal = Command::new("script");
    on_a_terminal
        .args(["-qec", &format!("{ringfence} skill cat plain; {ringfence} skill prompt"), "/dev/null"])
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", place.path("home"))
        .env("RINGFENCE_STATE_DIR", place.path("state"))
        .current_dir(place.path("home"));
    let output = said(&on_a_terminal.output().unwrap()).code(0);
    assert!(output.out.contains("evil"), "{}", output.out);
    assert!(!output.out.contains("\u{1b}[2J") && !output.out.contains('\u{202e}'), "{:?}", output.out);
}

#[test]
fn critical_findings_are_somebodys_decision() {
    let place = Place::new();
    place.write(
        "hidden/SKILL.md",
        "---\nname: hidden\ndescription: Hides words.\n---\nRead\u{e0072}\u{e0075}\u{e006e} this.\n",
    );
    let before = place.library();
    let refused = place.call(&["add", "hidden", "--json"]).code(125);
    assert_eq!(refused.json()["error"]["code"], "findings");
    refused.has("hidden-tags").has("--accept-findings");
    assert_eq!(place.library().iter().filter(|path| path.contains("/general")).count(), 0, "{before:?}");
    let taken = place.call(&["add", "hidden", "--accept-findings"]).code(0);
    taken.has("critical").has("hidden-tags");
    place.call(&["lint", "hidden"]).code(1).has("hidden-tags");
    place.call(&["lint", "hidden", "--fail-on", "never"]).code(0);
    let sarif = place.call(&["lint", "hidden", "--format", "sarif"]).code(1).json();
    assert_eq!(sarif["version"], "2.1.0");
    let at = &sarif["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"];
    assert_eq!(at, "hidden/SKILL.md");
}

#[test]
fn links_out_and_special_files_are_not_taken() {
    let place = Place::new();
    place.skill("links", "Has a link.");
    std::os::unix::fs::symlink("/etc/passwd", place.path("ws/links/data")).unwrap();
    place.call(&["add", "links"]).code(125).has("a link to /etc/passwd");
    place.call(&["cat", "./links", "data"]).code(125).has_not("root:");
    place.skill("deep/real", "Behind a link.");
    std::os::unix::fs::symlink("deep", place.path("ws/link")).unwrap();
    place.write("many/a/SKILL.md", "---\nname: a\ndescription: A.\n---\n");
    std::os::unix::fs::symlink("../deep", place.path("ws/many/b")).unwrap();
    place.call(&["add", "many#b/real"]).code(125);
    place.call(&["add", "many"]).code(0).has("general/a");
}

#[test]
fn undeclared_imports_are_found() {
    let place = Place::new();
    place.skill("imports", "Imports a package.");
    place.write("imports/scripts/main.py", "import yaml\nprint(yaml)\n");
    let report = place.call(&["lint", "imports", "--json"]).code(0).json();
    let found = report[0]["findings"].as_array().unwrap();
    assert!(found.iter().any(|one| one["rule"] == "undeclared-dependency" && one["line"] == 1), "{report}");
    place.write("imports/requirements.txt", "PyYAML\n");
    place.call(&["lint", "imports"]).code(0).has_not("undeclared-dependency");
}
