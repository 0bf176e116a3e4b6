//! What ships in `integrations/` says what `setup` writes, but for the program, which is found by PATH there.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::tests::{Fixture, fixture, set_up, spec};
use super::*;

fn shipped(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../integrations").join(name)).unwrap()
}

fn json_of(text: &str) -> Value {
    serde_json::from_str(&json_text::without_comments_and_commas(text)).unwrap()
}

/// What a setup of everything writes to this file of the home, with the program by its name.
fn written(client: Client, name: &str) -> String {
    let Fixture { places, _root } = fixture();
    set_up(&places, &spec(client, SetupMode::Both));
    fs::read_to_string(places.home.join(name)).unwrap().replace("\"/opt/bin/ringfence\"", "\"ringfence\"")
}

#[test]
fn what_ships_is_what_setup_writes() {
    let server = |text: &str| json_of(text)["mcpServers"].clone();
    assert_eq!(
        server(&shipped("claude-code/.mcp.json")),
        server(&written(Client::ClaudeCode, ".claude.json"))
    );

    let toml = |text: &str| toml::from_str::<toml::Table>(text).unwrap();
    assert_eq!(toml(&shipped("codex/config.toml")), toml(&written(Client::Codex, ".codex/config.toml")));

    let extension = shipped("gemini/gemini-extension.json");
    let settings = written(Client::Gemini, ".gemini/settings.json");
    assert_eq!(server(&extension), server(&settings));
    assert_eq!(json_of(&extension)["excludeTools"], json_of(&settings)["tools"]["exclude"]);

    let mut config = json_of(&shipped("opencode/opencode.json"));
    assert!(config.as_object_mut().unwrap().remove("$schema").is_some());
    assert_eq!(config, json_of(&written(Client::Opencode, ".config/opencode/opencode.json")));
    let plugin = written(Client::Opencode, ".config/opencode/plugin/ringfence.js");
    assert_eq!(shipped("opencode/plugin/ringfence.js"), plugin);
    assert_ne!(config["mcp"]["ringfence"]["command"], json!(null));
}
