use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::state::StateDir;

pub(super) struct Fixture {
    pub(super) _root: tempfile::TempDir,
    pub(super) places: Places,
}

pub(super) fn fixture() -> Fixture {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().canonicalize().unwrap();
    for dir in ["home/.claude", "project"] {
        fs::create_dir_all(path.join(dir)).unwrap();
    }
    let places = Places {
        tenant: None,
        current: path.join("project"),
        home: path.join("home"),
        system_config: path.join("etc/config.toml"),
        user_config: path.join("home/config.toml"),
        state: StateDir::new(path.join("state")),
        profile: None,
        policy: None,
        library: None,
    };
    Fixture { _root: root, places }
}

pub(super) fn spec(client: Client, mode: SetupMode) -> SetupSpec {
    SetupSpec { client, scope: SetupScope::User, mode, program: "/opt/bin/ringfence".into() }
}

pub(super) fn set_up(places: &Places, spec: &SetupSpec) {
    apply_setup(places, &plan_setup(places, spec).unwrap()).unwrap();
}

pub(super) fn take_back(places: &Places, spec: &SetupSpec) {
    apply_setup(places, &plan_removal(places, spec).unwrap()).unwrap();
}

/// Every file below, with its mode.
fn tree(places: &Places) -> Vec<(PathBuf, u32, String)> {
    fn walk(at: &std::path::Path, found: &mut Vec<(PathBuf, u32, String)>) {
        for entry in fs::read_dir(at).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                walk(&path, found);
            } else {
                let mode = fs::metadata(&path).unwrap().permissions().mode();
                found.push((path.clone(), mode, fs::read_to_string(&path).unwrap()));
            }
        }
    }
    let mut found = Vec::new();
    walk(&places.home, &mut found);
    walk(&places.current, &mut found);
    found.sort();
    found
}

#[test]
fn there_and_back_to_the_byte() {
    for client in Client::ALL {
        for mode in [SetupMode::Mcp, SetupMode::Wrap, SetupMode::Both] {
            for scope in [SetupScope::User, SetupScope::Project] {
                let Fixture { places, _root } = fixture();
                fs::write(places.home.join(".claude/settings.json"), "{\n\t\"env\": {},\n\t\"x\": 1\n}")
                    .unwrap();
                fs::set_permissions(
                    places.home.join(".claude/settings.json"),
                    fs::Permissions::from_mode(0o640),
                )
                .unwrap();
                let before = tree(&places);
                let spec = SetupSpec { scope, ..spec(client, mode) };
                set_up(&places, &spec);
                assert_ne!(tree(&places), before, "{client:?} {mode:?}");
                assert!(plan_setup(&places, &spec).unwrap().is_empty(), "{client:?} {mode:?}: twice is once");
                take_back(&places, &spec);
                assert_eq!(tree(&places), before, "{client:?} {mode:?} {scope:?}");
                assert!(plan_removal(&places, &spec).unwrap().is_empty());
            }
        }
    }
}

#[test]
fn what_the_user_wrote_since_stays() {
    let Fixture { places, _root } = fixture();
    let path = places.home.join(".claude/settings.json");
    fs::write(&path, "{\n  \"model\": \"x\"\n}\n").unwrap();
    let spec = spec(Client::ClaudeCode, SetupMode::Wrap);
    set_up(&places, &spec);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains("/opt/bin/ringfence --wrap=claude-code"), "{text}");
    fs::write(&path, text.replace("\"model\": \"x\"", "\"model\": \"y\"")).unwrap();
    take_back(&places, &spec);
    assert_eq!(fs::read_to_string(&path).unwrap(), "{\n  \"model\": \"y\"\n}\n");
}

#[test]
fn a_second_mode_keeps_the_first_original() {
    let Fixture { places, _root } = fixture();
    let path = places.home.join(".gemini/settings.json");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, "{\"tools\": {\"exclude\": [\"x\"]}}").unwrap();
    set_up(&places, &spec(Client::Gemini, SetupMode::Mcp));
    set_up(&places, &spec(Client::Gemini, SetupMode::Both));
    take_back(&places, &spec(Client::Gemini, SetupMode::Both));
    assert_eq!(fs::read_to_string(&path).unwrap(), "{\"tools\": {\"exclude\": [\"x\"]}}");
}

#[test]
fn a_link_is_there_as_long_as_some_setting_names_it() {
    let Fixture { places, _root } = fixture();
    let link = places.state.path().join("setup/ringfence-wrap-claude-code");
    let user = spec(Client::ClaudeCode, SetupMode::Both);
    let project = SetupSpec { scope: SetupScope::Project, ..user.clone() };
    set_up(&places, &user);
    assert_eq!(fs::read_link(&link).unwrap(), std::path::Path::new("/opt/bin/ringfence"));
    let text = fs::read_to_string(places.home.join(".claude/settings.json")).unwrap();
    assert!(text.contains(link.to_str().unwrap()) && !text.contains("--wrap"), "{text}");
    set_up(&places, &project);
    // Somebody cleaned up: it is made again.
    fs::remove_file(&link).unwrap();
    assert!(!plan_setup(&places, &user).unwrap().is_empty());
    set_up(&places, &user);
    assert!(plan_setup(&places, &user).unwrap().is_empty());
    take_back(&places, &user);
    assert!(fs::symlink_metadata(&link).is_ok(), "the project still names it");
    take_back(&places, &project);
    assert!(fs::symlink_metadata(&link).is_err());
    // From one mode to the other and out.
    set_up(&places, &spec(Client::ClaudeCode, SetupMode::Wrap));
    set_up(&places, &user);
    take_back(&places, &user);
    assert!(!places.home.join(".claude/settings.json").exists() && fs::symlink_metadata(&link).is_err());
}

#[test]
fn another_prefix_of_the_users_is_not_replaced() {
    let Fixture { places, _root } = fixture();
    let path = places.home.join(".claude/settings.json");
    fs::write(&path, "{\"env\": {\"CLAUDE_CODE_SHELL_PREFIX\": \"/usr/bin/logger\"}}").unwrap();
    let error = plan_setup(&places, &spec(Client::ClaudeCode, SetupMode::Wrap)).unwrap_err();
    assert!(error.message.contains("CLAUDE_CODE_SHELL_PREFIX"), "{error}");
    // One of an older place of ours is.
    fs::write(&path, "{\"env\": {\"CLAUDE_CODE_SHELL_PREFIX\": \"/old/ringfence --wrap=claude-code\"}}")
        .unwrap();
    assert!(!plan_setup(&places, &spec(Client::ClaudeCode, SetupMode::Wrap)).unwrap().is_empty());
}

#[test]
fn links_and_broken_files_are_left_alone() {
    let Fixture { places, _root } = fixture();
    let (real, path) = (places.home.join("elsewhere.json"), places.home.join(".claude/settings.json"));
    fs::write(&real, "{}").unwrap();
    std::os::unix::fs::symlink(&real, &path).unwrap();
    let wanted = spec(Client::ClaudeCode, SetupMode::Wrap);
    assert!(plan_setup(&places, &wanted).unwrap_err().message.contains("symlink"));
    fs::remove_file(&path).unwrap();
    fs::write(&path, "{ not json").unwrap();
    assert!(plan_setup(&places, &wanted).is_err());
    fs::remove_file(&path).unwrap();
    fs::remove_dir(path.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(&places.current, places.home.join(".claude")).unwrap();
    assert!(plan_setup(&places, &wanted).is_err(), "its directory is a link");
}

#[test]
fn a_file_that_claude_code_leaves_out_is_refused() {
    for text in [
        "{ // mine\n \"model\": \"x\"}",
        "{\"model\": \"x\",}",
        "{\"model\": \"x\" /* y */}",
        "\u{feff}{}",
        "{\"permissions\": \"x\"}",
        "{\"env\": \"x\"}",
        "{\"hooks\": {\"PreToolUse\": {}}}",
    ] {
        let Fixture { places, _root } = fixture();
        let path = places.home.join(".claude/settings.json");
        fs::write(&path, text).unwrap();
        for mode in [SetupMode::Wrap, SetupMode::Both] {
            let error = plan_setup(&places, &spec(Client::ClaudeCode, mode)).unwrap_err();
            assert!(error.message.contains("whole file"), "{text}: {error}");
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
        // Its way out stays open: what is ours is taken out of a file that is broken since.
        fs::write(&path, "{}").unwrap();
        set_up(&places, &spec(Client::ClaudeCode, SetupMode::Wrap));
        let broken = fs::read_to_string(&path).unwrap().replacen('{', "{ // mine\n", 1);
        fs::write(&path, broken).unwrap();
        take_back(&places, &spec(Client::ClaudeCode, SetupMode::Wrap));
        let left = fs::read_to_string(&path).unwrap();
        assert!(!left.contains("ringfence") && left.contains("// mine"), "{left}");
    }
}

#[test]
fn others_take_their_comments() {
    let Fixture { places, _root } = fixture();
    for (client, path, text, fine) in [
        (Client::Gemini, ".gemini/settings.json", "{ // mine\n \"a\": 1 }", true),
        (Client::Gemini, ".gemini/settings.json", "{ \"a\": 1, }", false),
        (Client::Opencode, ".config/opencode/opencode.json", "{ // mine\n \"a\": [1,], }", true),
    ] {
        let path = places.home.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        assert_eq!(plan_setup(&places, &spec(client, SetupMode::Wrap)).is_ok(), fine, "{client:?} {text}");
    }
}

#[test]
fn a_second_place_and_a_hook_hold_what_the_first_loses() {
    let Fixture { places, _root } = fixture();
    let wanted = spec(Client::ClaudeCode, SetupMode::Wrap);
    let (settings, global) = (places.home.join(".claude/settings.json"), places.home.join(".claude.json"));
    let mine = "{\n  \"hooks\": {\n    \"PreToolUse\": [\n      {\n        \"matcher\": \"Edit\",\n        \"hooks\": []\n      }\n    ]\n  }\n}\n";
    fs::write(&settings, mine).unwrap();
    fs::write(&global, "{\"userID\": \"me\"}").unwrap();
    set_up(&places, &wanted);
    let read = |path: &PathBuf| -> serde_json::Value {
        serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
    };
    let prefix = "/opt/bin/ringfence --wrap=claude-code";
    assert_eq!(read(&settings)["env"]["CLAUDE_CODE_SHELL_PREFIX"], prefix);
    assert_eq!(read(&global)["env"]["CLAUDE_CODE_SHELL_PREFIX"], prefix);
    let hooks = read(&settings)["hooks"]["PreToolUse"].as_array().unwrap().clone();
    assert_eq!(hooks.len(), 2);
    let line = hooks[1]["hooks"][0]["command"].as_str().unwrap().to_owned();
    // Any shell says no.
    let said = std::process::Command::new("sh").args(["-c", &line]).output().unwrap();
    assert_eq!(said.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&said.stderr).contains("outside of the fence"));
    assert!(is_gate(Client::ClaudeCode, line.as_ref()) && !is_gate(Client::Codex, line.as_ref()));
    for other in
        [format!("{line}; id"), format!("id; {line}"), line.replace("exit 2", "exit 0"), String::new()]
    {
        assert!(!is_gate(Client::ClaudeCode, other.as_ref()), "{other}");
    }
    // The client writes its own file all the time.
    let more = fs::read_to_string(&global).unwrap().replace("\"me\"", "\"me\", \"n\": 1");
    fs::write(&global, more).unwrap();
    take_back(&places, &wanted);
    assert_eq!(fs::read_to_string(&settings).unwrap(), mine);
    assert_eq!(read(&global), serde_json::json!({ "userID": "me", "n": 1 }));
}

#[test]
fn what_was_made_for_a_file_goes_with_it() {
    let Fixture { places, _root } = fixture();
    for client in Client::ALL {
        for scope in [SetupScope::User, SetupScope::Project] {
            let wanted = SetupSpec { scope, ..spec(client, SetupMode::Both) };
            let names = |place: &Path| -> Vec<_> {
                fs::read_dir(place).unwrap().flatten().map(|entry| entry.file_name()).collect()
            };
            let before = (names(&places.home), names(&places.current));
            set_up(&places, &wanted);
            verify_setup(&places, &wanted).unwrap();
            take_back(&places, &wanted);
            assert_eq!((names(&places.home), names(&places.current)), before, "{client:?} {scope:?}");
        }
    }
    // What somebody put there stays.
    let wanted = spec(Client::Codex, SetupMode::Both);
    set_up(&places, &wanted);
    fs::write(places.home.join(".codex/mine"), "x").unwrap();
    take_back(&places, &wanted);
    assert!(places.home.join(".codex/mine").exists());
}

#[test]
fn a_plugin_of_the_users_is_not_replaced() {
    let Fixture { places, _root } = fixture();
    let path = places.home.join(".config/opencode/plugin/ringfence.js");
    let wanted = spec(Client::Opencode, SetupMode::Wrap);
    set_up(&places, &wanted);
    assert!(fs::read_to_string(&path).unwrap().contains("tool.execute.before"));
    take_back(&places, &wanted);
    assert!(!path.exists());
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, "export const Mine = 1\n").unwrap();
    assert!(plan_setup(&places, &wanted).unwrap_err().message.contains("of your own"));
    assert!(plan_removal(&places, &wanted).unwrap().is_empty());
}

#[test]
fn a_file_that_changed_since_the_plan_is_not_written() {
    let Fixture { places, _root } = fixture();
    let plan = plan_setup(&places, &spec(Client::ClaudeCode, SetupMode::Wrap)).unwrap();
    fs::write(places.home.join(".claude/settings.json"), "{\"theirs\": 1}").unwrap();
    assert!(apply_setup(&places, &plan).is_err());
    assert_eq!(fs::read_to_string(places.home.join(".claude/settings.json")).unwrap(), "{\"theirs\": 1}");
}

#[test]
fn codex_keeps_its_comments() {
    let Fixture { places, _root } = fixture();
    let path = places.home.join(".codex/config.toml");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, "# mine\nmodel = \"x\" # why\n\n[features]\nplugins = false\n").unwrap();
    let wanted = spec(Client::Codex, SetupMode::Both);
    set_up(&places, &wanted);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.starts_with("# mine\nmodel = \"x\" # why\n"), "{text}");
    let parsed: toml::Table = toml::from_str(&text).unwrap();
    assert_eq!(parsed["features"]["shell_tool"].as_bool(), Some(false));
    assert_eq!(parsed["mcp_servers"]["ringfence"]["args"][0].as_str(), Some("mcp"));
    assert_eq!(parsed["mcp_servers"]["ringfence"]["args"][2].as_str(), Some("codex"));
    fs::write(&path, text.replace("model = \"x\"", "model = \"y\"")).unwrap();
    take_back(&places, &wanted);
    let after = fs::read_to_string(&path).unwrap();
    assert_eq!(after.trim_end(), "# mine\nmodel = \"y\" # why\n\n[features]\nplugins = false");
}

#[test]
fn a_fence_that_stays_is_told() {
    for client in Client::ALL {
        let Fixture { places, _root } = fixture();
        let told = |places: &Places| {
            let plan = plan_setup(places, &spec(client, SetupMode::Mcp)).unwrap();
            plan.notes.iter().any(|note| note.contains("--remove") && note.contains("stays"))
        };
        assert!(!told(&places), "{client:?}");
        set_up(&places, &spec(client, SetupMode::Mcp));
        assert!(!told(&places), "{client:?}");
        for mode in [SetupMode::Wrap, SetupMode::Both] {
            set_up(&places, &spec(client, mode));
            assert!(told(&places), "{client:?} {mode:?}");
            take_back(&places, &spec(client, mode));
            assert!(!told(&places), "{client:?} {mode:?}");
        }
    }
}
