//! Which program runs a script, and what of the home is shown for it: never what a skill's first line chooses.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use ringfence_testing::{Identity, Outcome, Scene, Test};

fn each(test: impl Fn(&Scene)) {
    for identity in Identity::all() {
        test(&Scene::new(identity));
    }
}

fn program(scene: &Scene, path: &str, text: &str) {
    scene.write(path, text);
    fs::set_permissions(scene.path(path), fs::Permissions::from_mode(0o755)).unwrap();
}

fn skill(scene: &Scene, script: &str, text: &str) {
    scene.write("skill/SKILL.md", "---\nname: skill\ndescription: A test.\n---\n");
    scene.write(&format!("skill/scripts/{script}"), text);
}

/// With one more directory in PATH, before the others.
fn run(scene: &Scene, profile: &str, directory: &str) -> Outcome {
    let path = format!("{}:/usr/bin:/bin", scene.path(directory).display());
    let test = Test::in_scene(scene).env("PATH", path).verb(["skill", "run", "--profile", profile]);
    test.args([scene.path("skill")]).call()
}

const LISTS: &str = "#!/bin/sh\necho it runs; ls -A \"$(dirname \"$0\")\"\n";

#[test]
fn a_name_that_a_skill_chose_shows_one_file() {
    each(|scene| {
        program(scene, "home/.local/bin/mytool", LISTS);
        scene.write("home/.local/bin/private-notes", "");
        skill(scene, "main", "#!/usr/bin/env mytool\n");
        let outcome = run(scene, "restrictive", "home/.local/bin");
        outcome.code(0).stdout("it runs\nmytool\n").stderr_contains("and nothing that lies beside it");
        // Where the policy shows toolchains anyway, it works too.
        run(scene, "moderate", "home/.local/bin").code(0).stdout_contains("it runs");
    });
}

#[test]
fn a_program_that_is_not_installed_does_not_run_a_skill_unless_its_user_says_so() {
    each(|scene| {
        program(scene, "home/private/tools/mytool", LISTS);
        skill(scene, "main.my", "#!/usr/bin/env mytool\n");
        let refused = run(scene, "restrictive", "home/private/tools");
        refused.refused("is not where programs are installed").stderr_contains("[skills.interpreters]");
        assert!(!refused.output.contains("it runs"));
        let path = scene.path("home/private/tools/mytool");
        let config = format!("[skills.interpreters]\n\".my\" = [\"{}\"]\n", path.display());
        scene.write("home/.config/ringfence/config.toml", &config);
        let outcome = run(scene, "restrictive", "home/private/tools");
        outcome.code(0).stdout_contains("it runs").stderr_contains("is shown read-only");
    });
}

#[test]
fn the_interpreter_of_an_activated_environment_may_be_a_sandboxs_own() {
    each(|scene| {
        program(scene, "home/project/.venv/bin/python3", "#!/bin/sh\necho planted\n");
        scene.write("home/project/.venv/pyvenv.cfg", "home = /usr/bin\n");
        skill(scene, "main.py", "import sys\nprint(sys.prefix)\n");
        run(scene, "restrictive", "home/project/.venv/bin").code(0).stdout("/usr\n");
        skill(scene, "main.py", "#!/usr/bin/env perl\nprint \"perl\\n\";\n");
        program(scene, "home/project/.venv/bin/perl", "#!/bin/sh\necho planted\n");
        run(scene, "restrictive", "home/project/.venv/bin").code(0).stdout("perl\n");
    });
}
