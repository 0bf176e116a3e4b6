use super::*;
use crate::skills::source::{SkillReference, find_skill};
use crate::state::StateDir;
use std::os::unix::fs::PermissionsExt;

struct Fixture {
    root: tempfile::TempDir,
    places: Places,
}

impl Fixture {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let mut places = Places::from_env().unwrap();
        places.state = StateDir::new(root.path().join("state"));
        places.user_config = root.path().join("none");
        places.system_config = root.path().join("none");
        Self { root, places }
    }

    fn skill(&self, name: &str, wants: &str) -> FoundSkill {
        let directory = self.root.path().join(name);
        fs::create_dir_all(&directory).unwrap();
        let metadata =
            if wants.is_empty() { String::new() } else { format!("metadata:\n  ringfence:\n{wants}") };
        let text = format!("---\nname: {name}\ndescription: A test.\n{metadata}---\n");
        fs::write(directory.join("SKILL.md"), text).unwrap();
        let reference = SkillReference { skill: directory.into_os_string(), library: None };
        find_skill(&self.places, &reference).unwrap()
    }

    /// The layer that a run would have, as TOML, and what is said.
    fn permitted(&self, skill: &FoundSkill) -> (String, Vec<String>) {
        let Permitted { layer, notes } = permitted(&self.places, skill, &[]).unwrap();
        (layer.map_or(String::new(), |(_, layer)| layer.to_toml().unwrap()), notes)
    }
}

const ONE_HOST: &str = "    hosts:\n      - api.example.com\n";

#[test]
fn asking_grants_nothing_and_a_new_version_gets_nothing_until_it_is_granted_again() {
    let fixture = Fixture::new();
    let skill = fixture.skill("weather", ONE_HOST);
    let (layer, notes) = fixture.permitted(&skill);
    assert!(layer.is_empty() && notes[0].contains("host api.example.com"), "{layer} {notes:?}");
    grant(&fixture.places, &skill, GrantWhat::Everything).unwrap();
    let (layer, notes) = fixture.permitted(&skill);
    assert!(layer.contains("api.example.com") && notes.is_empty(), "{layer} {notes:?}");

    let newer = fixture.skill(
        "weather",
        &format!("{ONE_HOST}      - evil.example\n    env:\n      - TOKEN\n    time: 9h\n"),
    );
    let (layer, notes) = fixture.permitted(&newer);
    assert!(layer.is_empty(), "{layer}");
    assert!(notes[0].contains("has changed since it was granted something"), "{notes:?}");
    let more = "more than when it was granted something: host api.example.com, host evil.example, variable TOKEN, time 9h";
    assert!(notes[1].contains(more), "{notes:?}");
    let these = Permissions { hosts: vec!["api.example.com".into()], ..Permissions::default() };
    grant(&fixture.places, &newer, GrantWhat::These(these)).unwrap();
    let (layer, notes) = fixture.permitted(&newer);
    assert!(
        layer.contains("api.example.com") && !layer.contains("evil") && !layer.contains("TOKEN"),
        "{layer}"
    );
    assert!(notes[0].contains("asks for: host evil.example, variable TOKEN, time 9h"), "{notes:?}");

    let other = fixture.skill("other", ONE_HOST);
    assert!(fixture.permitted(&other).0.is_empty(), "a grant is one skill's");
    assert_eq!(grants(&fixture.places).unwrap().len(), 1);
    revoke_grant(&fixture.places, &newer).unwrap();
    assert!(fixture.permitted(&newer).0.is_empty());
    assert!(revoke_grant(&fixture.places, &newer).is_err());
}

#[test]
fn a_part_of_it_by_name() {
    let fixture = Fixture::new();
    let skill = fixture.skill("s", &format!("{ONE_HOST}    env:\n      - TOKEN\n"));
    let these =
        Permissions { env: vec!["TOKEN".into()], memory: Some("2G".into()), ..Permissions::default() };
    grant(&fixture.places, &skill, GrantWhat::These(these)).unwrap();
    let (layer, notes) = fixture.permitted(&skill);
    assert!(layer.contains("TOKEN") && layer.contains("memory") && !layer.contains("example"), "{layer}");
    assert!(notes[0].contains("asks for: host api.example.com;"), "{notes:?}");
    let flag = Layer {
        network: ringfence_policy::NetworkLayer {
            allow: vec![HostRule::parse("api.example.com").unwrap()],
            ..Default::default()
        },
        ..Layer::default()
    };
    let Permitted { notes, .. } =
        permitted(&fixture.places, &skill, &[(Origin::flag("--allow-host"), flag)]).unwrap();
    assert!(notes.is_empty(), "{notes:?}");
}

#[test]
fn what_no_policy_understands_is_not_granted() {
    let fixture = Fixture::new();
    let skill = fixture.skill("s", "");
    assert!(grant(&fixture.places, &skill, GrantWhat::Everything).is_err(), "it asks for nothing");
    for bad in [
        Permissions { hosts: vec!["https://x.example/y".into()], ..Permissions::default() },
        Permissions { env: vec!["A*".into()], ..Permissions::default() },
        Permissions { env: vec!["1A".into()], ..Permissions::default() },
        Permissions { time: Some("soon".into()), ..Permissions::default() },
        Permissions { memory: Some("lots".into()), ..Permissions::default() },
    ] {
        assert!(grant(&fixture.places, &skill, GrantWhat::These(bad.clone())).is_err(), "{bad:?}");
    }
    assert!(grants(&fixture.places).unwrap().is_empty());
}

#[test]
fn a_book_that_others_can_write_says_nothing() {
    let fixture = Fixture::new();
    let skill = fixture.skill("s", ONE_HOST);
    grant(&fixture.places, &skill, GrantWhat::Everything).unwrap();
    let file = fixture.places.state.path().join(FILE);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
    assert!(granted(&fixture.places, &skill).is_err());
}

#[test]
fn every_limit_that_can_be_asked_for_can_be_granted() {
    let fixture = Fixture::new();
    let wants = "    time: 90s\n    memory: 2G\n    cpus: 1.5\n    processes: 64\n    disk: 1G\n";
    let skill = fixture.skill("heavy", wants);
    let (layer, notes) = fixture.permitted(&skill);
    let all = "time 90s, memory 2G, cpus 1.5, processes 64, disk 1G";
    assert!(layer.is_empty() && notes[0].contains(all), "{layer} {notes:?}");
    let some =
        Permissions { cpus: Some("1.5".into()), processes: Some("64".into()), ..Permissions::default() };
    grant(&fixture.places, &skill, GrantWhat::These(some)).unwrap();
    let (layer, notes) = fixture.permitted(&skill);
    assert!(layer.contains("cpus = 1.5") && layer.contains("processes = 64"), "{layer}");
    assert!(notes[0].contains("asks for: time 90s, memory 2G, disk 1G"), "{notes:?}");
    grant(&fixture.places, &skill, GrantWhat::Everything).unwrap();
    let (layer, notes) = fixture.permitted(&skill);
    assert!(layer.contains("disk = \"1G\"") && notes.is_empty(), "{layer} {notes:?}");
    for wrong in ["    cpus: 0\n", "    processes: 1.5\n", "    disk: 9x\n"] {
        assert!(asked(&fixture.skill("wrong", wrong)).is_err(), "{wrong}");
    }
}
