//! A skill from its making to its removal.

use std::fs;

use crate::place::Place;

#[test]
fn the_life_of_a_skill() {
    let place = Place::new();
    for (name, language) in [("count-py", "python"), ("count-sh", "bash"), ("count-js", "node")] {
        place.call(&["new", name, "--template", language]).code(0);
        place.call(&["validate", "--strict", name]).code(0).has("valid");
        place.call(&["lint", "--fail-on", "low", name]).code(0).has("nothing suspicious");
    }
    place.call(&["new", "count-sh", "--template", "bash"]).code(125).has("count-sh");

    let packed = place.call(&["pack", "count-sh", "--json"]).code(0).json();
    let digest = packed["digest"].as_str().unwrap().to_owned();
    let first = fs::read(place.path("ws/count-sh.skill")).unwrap();
    place.call(&["pack", "count-sh", "-o", "again.skill"]).code(0);
    assert_eq!(fs::read(place.path("ws/again.skill")).unwrap(), first);

    let added = place.call(&["add", "count-sh.skill", "--json"]).code(0).json();
    assert_eq!(added["added"][0]["skill"], "general/count-sh");
    assert_eq!(added["added"][0]["digest"], digest.as_str());
    place.call(&["list"]).code(0).has("general/count-sh\tpublished\t").has_not("edited");
    place.call(&["add", "count-sh"]).code(0).has("unchanged");

    let manifest = place.path("state/library/general/count-sh/SKILL.md");
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, format!("{text}\nMore.\n")).unwrap();
    let shown = place.call(&["show", "count-sh", "--json"]).code(0).json();
    assert_eq!(shown["state"], "edited");
    assert_eq!(shown["published"], digest.as_str());
    place.call(&["list"]).code(0).has("edited");
    place.call(&["lock"]).code(125).has("edited by hand").has("ringfence skill publish");
    place.call(&["remove", "count-sh"]).code(125).has("--discard-edits");
    place.call(&["publish", "count-sh"]).code(0).has("published");
    place.call(&["publish", "count-sh"]).code(0).has("already");
    place.call(&["cat", "count-sh"]).code(0).has("More.\n");
    place.call(&["cat", "count-sh", "scripts/main.sh"]).code(0);
    let history = place.call(&["history", "count-sh", "--json"]).code(0).json();
    let actions: Vec<_> =
        history["records"].as_array().unwrap().iter().map(|one| one["action"].clone()).collect();
    assert_eq!(actions, ["add", "add", "publish"]);

    place.call(&["rollback", "count-sh"]).code(0).has(&digest[..12]);
    assert_eq!(fs::read_to_string(&manifest).unwrap(), text);
    place.call(&["lock"]).code(0).has("1 skills");
    let lock = fs::read_to_string(place.path("ws/skills.lock")).unwrap();
    assert!(lock.contains(&digest), "{lock}");

    place.call(&["add", "count-sh", "--frozen"]).code(0);
    place.call(&["add", "--frozen"]).code(0).has("as the lock file says");
    let script = place.path("ws/count-sh/scripts/main.sh");
    let content = fs::read_to_string(&script).unwrap();
    fs::write(&script, format!("{content} ")).unwrap();
    place.call(&["add", "count-sh", "--frozen"]).code(125).has("not the").has(&digest);
    place.call(&["add", "count-py", "--frozen"]).code(125).has("not in the lock file");
    assert_eq!(fs::read_to_string(&manifest).unwrap(), text);

    place.call(&["remove", "count-sh"]).code(0);
    assert!(!manifest.exists());
    place.call(&["show", "general/count-sh"]).code(125).has("no skill `general/count-sh`");
    // The lock file and the kept versions bring it back.
    place.call(&["add", "--frozen"]).code(0);
    assert_eq!(fs::read_to_string(&manifest).unwrap(), text);
    place.call(&["remove", "count-sh"]).code(0);
    place.call(&["rollback", "count-sh"]).code(0);
    place.call(&["verify"]).code(0).has("all in order");
    fs::write(place.path("state/library/.ringfence/versions").join(&digest).join("more"), "x").unwrap();
    place.call(&["verify"]).code(1).has("damaged");
}

#[test]
fn what_is_newer_where_it_came_from() {
    let place = Place::new();
    place.skill("one", "The first.");
    place.skill("two", "The second.");
    place.call(&["add", "one"]).code(0);
    place.call(&["add", "two", "--domain", "office"]).code(0);
    place.call(&["outdated"]).code(0).has("no skill has a newer version");
    place.write(
        "one/SKILL.md",
        "---\nname: one\ndescription: Newer.\nmetadata:\n  ringfence:\n    hosts: api.example.com\n---\n",
    );
    fs::remove_dir_all(place.path("ws/two")).unwrap();
    let outdated = place.call(&["outdated", "--json"]).code(0).json();
    assert_eq!(outdated["outdated"][0]["skill"], "general/one");
    assert_eq!(outdated["unreachable"][0]["skill"], "office/two");
    let said = place.call(&["update"]).code(0);
    said.has("updated from")
        .has("asks for more than the version before: host api.example.com")
        .has("office/two");
    place.call(&["update"]).code(0).has("nothing is newer");
    place.call(&["update", "none"]).code(125).has("no skill `none`");
}

#[test]
fn the_library_by_flag_by_variable_and_by_config() {
    let place = Place::new();
    place.skill("one", "The first.");
    let team = place.path("team").display().to_string();
    place.call(&["add", "one", "--library", &team]).code(0);
    place.call(&["list"]).code(0).has("there are no skills");
    place.call(&["list", "--library", &team]).code(0).has("general/one");
    let by_variable = place.command(&["list"]).env("RINGFENCE_LIBRARY", &team).output().unwrap();
    assert!(String::from_utf8_lossy(&by_variable.stdout).contains("general/one"));
    // A project's file came with a clone: it says nothing about the library.
    place.write("ringfence.toml", format!("[skills]\nlibrary = \"{team}\"\n"));
    place.call(&["list"]).code(0).has_not("general/one");
    fs::create_dir_all(place.path("home/.config/ringfence")).unwrap();
    fs::write(place.path("home/.config/ringfence/config.toml"), "[skills]\nlibrary = \"~/none\"\n").unwrap();
    place.call(&["list"]).code(125).has("no library there");
    let won = place.command(&["list"]).env("RINGFENCE_LIBRARY", &team).output().unwrap();
    assert!(won.status.success());
}

#[test]
fn names_in_two_domains_and_skills_of_other_clients() {
    let place = Place::new();
    place.skill("one", "The first.");
    place.skill(".claude/skills/theirs", "Kept by another client.");
    place.call(&["add", "one"]).code(0);
    place.call(&["add", "one", "--domain", "office"]).code(0);
    place.call(&["show", "one"]).code(125).has("general/one, office/one").has("DOMAIN/SKILL");
    place.call(&["show", "office/one"]).code(0).has("The first.");
    place.call(&["list"]).code(0).has_not("theirs");
    place.call(&["list", "--domain", "office"]).code(0).has_not("general/one");
    let all = place.call(&["list", "--all", "--json"]).code(0).json();
    assert_eq!(all["elsewhere"][0]["name"], "theirs");
    place.call(&["show", "./.claude/skills/theirs"]).code(0).has("another client");
    let prompt = place.call(&["prompt", "office/one"]).code(0);
    assert_eq!(
        prompt.out,
        "<available_skills>\n<skill>\n<name>\none\n</name>\n<description>\nThe first.\n</description>\n<location>\n/skills/office/one/SKILL.md\n</location>\n</skill>\n</available_skills>\n"
    );
    assert_eq!(place.call(&["properties", "office/one"]).code(0).json()["description"], "The first.");
}

#[test]
fn search_forgives_a_typo_and_puts_names_first() {
    let place = Place::new();
    place.skill("invoice", "Makes bills for customers.");
    place.skill("spreadsheet-tools", "Works on tables, also of an invoice.");
    place.call(&["add", "invoice"]).code(0);
    place.call(&["add", "spreadsheet-tools", "--domain", "office"]).code(0);
    let keys = |query: &str| -> Vec<String> {
        let hits = place.call(&["search", query, "--json"]).code(0).json();
        hits.as_array().unwrap().iter().map(|hit| hit["key"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(keys("spreadshet"), ["office/spreadsheet-tools"]);
    assert_eq!(keys("invoice"), ["general/invoice", "office/spreadsheet-tools"]);
    assert!(keys("zebra").is_empty());
    place.call(&["remove", "invoice"]).code(0);
    assert_eq!(keys("invoice"), ["office/spreadsheet-tools"]);
    place.call(&["search", "  "]).code(125).has("nothing to search for");
}
