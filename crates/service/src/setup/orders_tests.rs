//! Modes one after the other, with the user's own edits between them: at the end nothing of ours is left, and all that was theirs is.

use std::fs;
use std::path::PathBuf;

use super::tests::{Fixture, fixture, set_up, spec, take_back};
use super::*;

const MODES: [SetupMode; 3] = [SetupMode::Mcp, SetupMode::Wrap, SetupMode::Both];

/// Every file that the client's setup could touch, but for those that are ours from end to end.
fn files(places: &Places, spec: &SetupSpec) -> Vec<(PathBuf, Syntax)> {
    let all = clients::files(places, &SetupSpec { mode: SetupMode::Both, ..spec.clone() });
    all.into_iter()
        .map(|file| (file.path, file.syntax))
        .filter(|(_, syntax)| *syntax != Syntax::Whole)
        .collect()
}

/// The user sets `name` in each of them that is there.
fn edit(files: &[(PathBuf, Syntax)], name: &'static str) {
    for (path, syntax) in files {
        let Ok(text) = fs::read_to_string(path) else { continue };
        let edited = match syntax {
            Syntax::Toml => format!("{name} = 1\n{text}"),
            _ => json_text::set(&text, &[name], &serde_json::json!(1)).unwrap(),
        };
        fs::write(path, edited).unwrap();
    }
}

fn parsed(path: &std::path::Path, syntax: Syntax) -> Option<serde_json::Value> {
    let text = fs::read_to_string(path).ok()?;
    Some(match syntax {
        Syntax::Toml => serde_json::to_value(toml::from_str::<toml::Table>(&text).unwrap()).unwrap(),
        _ => serde_json::from_str(&json_text::without_comments_and_commas(&text)).unwrap(),
    })
}

#[test]
fn nothing_of_ours_is_left_after_any_order_of_modes() {
    for client in Client::ALL {
        for scope in [SetupScope::User, SetupScope::Project] {
            for first in MODES {
                for second in MODES {
                    for (there, last) in [(false, false), (true, false), (false, true), (true, true)] {
                        let what = format!("{client:?} {scope:?} {first:?} {second:?} {there} {last}");
                        let Fixture { places, _root } = fixture();
                        let of = |mode| SetupSpec { scope, ..spec(client, mode) };
                        let files = files(&places, &of(first));
                        for (path, syntax) in files.iter().filter(|_| there) {
                            fs::create_dir_all(path.parent().unwrap()).unwrap();
                            fs::write(
                                path,
                                if *syntax == Syntax::Toml { "own = 1\n" } else { "{\"own\": 1}\n" },
                            )
                            .unwrap();
                        }
                        set_up(&places, &of(first));
                        let was_there: Vec<bool> = files.iter().map(|(path, _)| path.exists()).collect();
                        edit(&files, "edited");
                        set_up(&places, &of(second));
                        let is_there: Vec<bool> =
                            files.iter().map(|(path, _)| last && path.exists()).collect();
                        if last {
                            edit(&files, "late");
                        }
                        // A program that is gone since, or broken, takes nothing away from that.
                        take_back(
                            &places,
                            &SetupSpec { program: "/new/place/ringfence".into(), ..of(second) },
                        );
                        for ((path, syntax), (edited, late)) in
                            files.iter().zip(was_there.into_iter().zip(is_there))
                        {
                            let mut expected = serde_json::Map::new();
                            let names = [("own", there), ("edited", edited), ("late", late)];
                            let names = names.into_iter().filter(|(_, is_set)| *is_set);
                            expected.extend(names.map(|(name, _)| (name.to_owned(), serde_json::json!(1))));
                            match parsed(path, *syntax) {
                                // Made by the second mode, and edited by nobody.
                                None => assert!(!there && !edited && !late, "{what}: {}", path.display()),
                                Some(found) => {
                                    let expected = serde_json::Value::Object(expected);
                                    assert_eq!(found, expected, "{what}: {}", path.display());
                                }
                            }
                        }
                        assert!(plan_removal(&places, &of(second)).unwrap().is_empty(), "{what}");
                    }
                }
            }
        }
    }
}

#[test]
fn directories_that_setup_made_go_after_an_edit_too() {
    let Fixture { places, _root } = fixture();
    let path = places.home.join(".codex/config.toml");
    set_up(&places, &spec(Client::Codex, SetupMode::Mcp));
    edit(&[(path.clone(), Syntax::Toml)], "mine");
    set_up(&places, &spec(Client::Codex, SetupMode::Both));
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("mine = 1\n", "")).unwrap();
    take_back(&places, &spec(Client::Codex, SetupMode::Both));
    assert!(!places.home.join(".codex").exists());
}

/// What the user had themselves at a place of ours, in the words of each client.
const OWN: &[(Client, &str, &str)] = &[
    (Client::Codex, ".codex/config.toml", "[features]\nshell_tool = false # mine\n"),
    (Client::Codex, ".codex/config.toml", "[features]\nshell_tool = true # mine\nunified_exec = true\n"),
    (
        Client::Opencode,
        ".config/opencode/opencode.json",
        "{\n  // mine\n  \"tools\": { \"bash\": false }\n}\n",
    ),
    (
        Client::Opencode,
        ".config/opencode/opencode.json",
        "{\n  // mine\n  \"tools\": { \"bash\": true }\n}\n",
    ),
    (Client::Gemini, ".gemini/settings.json", "{\"tools\": {\"exclude\": [\"run_shell_command\", \"x\"]}}\n"),
    (
        Client::Gemini,
        ".gemini/settings.json",
        "{\"mcpServers\": {\"ringfence\": {\"command\": \"ringfence\", \"args\": [\"mcp\", \"--private\"]}}}\n",
    ),
];

#[test]
fn a_setting_of_the_users_own_comes_back() {
    for (client, name, text) in OWN {
        for first in MODES {
            for touched in [false, true] {
                let what = format!("{client:?} {first:?} {touched} {text}");
                let Fixture { places, _root } = fixture();
                let path = places.home.join(name);
                let syntax = if *client == Client::Codex { Syntax::Toml } else { Syntax::CommentsAndCommas };
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(&path, text).unwrap();
                let mut own = parsed(&path, syntax).unwrap();
                set_up(&places, &spec(*client, first));
                if touched {
                    edit(&[(path.clone(), syntax)], "edited");
                    own["edited"] = 1.into();
                }
                set_up(&places, &spec(*client, SetupMode::Both));
                take_back(&places, &spec(*client, SetupMode::Both));
                assert_eq!(parsed(&path, syntax).unwrap(), own, "{what}");
                let after = fs::read_to_string(&path).unwrap();
                assert!(touched || after == *text, "{what}: {after}");
                assert_eq!(after.matches("mine").count(), text.matches("mine").count(), "{what}: {after}");
            }
        }
    }
}

#[test]
fn what_is_replaced_of_the_users_own_is_said() {
    for (client, name, text) in OWN {
        let Fixture { places, _root } = fixture();
        let path = places.home.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        let plan = plan_setup(&places, &spec(*client, SetupMode::Both)).unwrap();
        let said = plan.notes.iter().any(|note| note.contains("is yours") && note.contains("--remove"));
        assert_eq!(said, text.contains("true") || text.contains("--private"), "{text}: {:?}", plan.notes);
    }
}

#[test]
fn without_a_record_only_what_is_surely_ours_goes() {
    for client in Client::ALL {
        let Fixture { places, _root } = fixture();
        let wanted = spec(client, SetupMode::Both);
        set_up(&places, &wanted);
        fs::remove_dir_all(places.state.path().join("setup")).unwrap();
        let plan = plan_removal(&places, &wanted).unwrap();
        let stays = plan.notes.iter().any(|note| note.contains("no record"));
        assert_eq!(stays, client != Client::ClaudeCode, "{:?}", plan.notes);
        apply_setup(&places, &plan).unwrap();
        for (path, _) in files(&places, &wanted) {
            let text = fs::read_to_string(path).unwrap_or_default();
            assert!(!text.contains("ringfence"), "{client:?}: {text}");
        }
    }
}
