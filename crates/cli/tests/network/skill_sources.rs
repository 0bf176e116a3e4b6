//! A skill from a repository on the test internet: git reaches that host from its sandbox, and no other.

use ringfence_testing::{Identity, Internet, Outcome, Scene, Test};

const URL: &str = "https://git.test/git/project.git";
const PUSH: &str = "git clone -q https://git.test/git/project.git got && cd got && printf -- '---\\nname: far\\ndescription: From far away.\\n---\\n' > SKILL.md && git add -A && git -c user.name=a -c user.email=a@b commit -qm skill && git push -q origin HEAD:refs/heads/{branch}";

fn skill(internet: &Internet, scene: &Scene, words: &[&str]) -> Outcome {
    let test = Test::in_scene(scene).verb(["skill"]).args(words.iter().copied());
    internet.machine.within(|| test.call())
}

fn fetched_as(identity: Identity) {
    let Some(internet) = Internet::get() else { return };
    if !identity.is_available() {
        return;
    }
    internet.services.git();
    let scene = Scene::new(identity);
    let branch = scene.token.clone();
    let push = PUSH.replace("{branch}", &branch);
    let pushing = Test::in_scene(&scene).args(["--allow-host", "git.test:443"]);
    internet.machine.within(|| pushing.run(["bash", "-c", &push])).code(0);

    skill(internet, &scene, &["add", URL, "--rev", &branch]).code(0).stdout_contains("general/far");
    skill(internet, &scene, &["show", "far"]).code(0).stdout_contains("From far away.").stdout_contains(URL);
    skill(internet, &scene, &["outdated"]).code(0).stdout_contains("no skill has a newer version");
    skill(internet, &scene, &["add", URL, "--rev", "none"]).refused("could not be fetched");
    skill(internet, &scene, &["add", "https://git.test:1/x"]).refused("could not be fetched");
    skill(internet, &scene, &["add", "https://nowhere.test/x"]).refused("could not be fetched");
}

#[test]
fn a_repository_by_https_as_root() {
    fetched_as(Identity::Root);
}

#[test]
fn a_repository_by_https_as_user() {
    fetched_as(Identity::User);
}
