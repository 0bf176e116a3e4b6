//! Gemini CLI: `tools.sandbox` with `tools.sandboxAllowedPaths` and `tools.sandboxNetworkAccess`.

use serde_json::{Map, Value};

use super::draft::Draft;
use super::json::{boolean, object, section, texts, wrong};
use super::place::place;
use super::srt::UNKNOWN;
use super::{ImportError, ImportPlaces};

pub(super) fn read<'a>(text: &str, places: &'a ImportPlaces) -> Result<Draft<'a>, ImportError> {
    let settings = object(text)?;
    let mut draft = Draft::new(places);
    draft.write("(the working directory can be written)", place(".", &places.current, &places.home));
    let none = Map::new();
    let tools = settings.get("tools").map(|tools| section(tools, "tools")).transpose()?.unwrap_or(&none);
    for (key, value) in tools {
        let setting = format!("tools.{key}");
        match key.as_str() {
            "sandbox" => sandbox(&mut draft, &setting, value, places)?,
            "sandboxAllowedPaths" => allowed_paths(&mut draft, &setting, value, places)?,
            "sandboxNetworkAccess" => network(&mut draft, &setting, boolean(value, &setting)?),
            "sandboxFlags" => draft.not_expressible(&setting, "they are words for another container program"),
            "exclude"
            | "core"
            | "allowed"
            | "confirmationRequired"
            | "callCommand"
            | "discoveryCommand"
            | "shell"
            | "useRipgrep" => {
                draft.not_expressible(&setting, "it is about tools, and stays with Gemini CLI");
            }
            key if key.starts_with("sandbox") => draft.not_expressible(&setting, UNKNOWN),
            _ => {}
        }
    }
    Ok(draft)
}

fn sandbox(
    draft: &mut Draft,
    setting: &str,
    value: &Value,
    places: &ImportPlaces,
) -> Result<(), ImportError> {
    match value {
        Value::Bool(false) => {
            draft.tightened(setting, "", "commands of `ringfence run` are always in a sandbox");
        }
        Value::Bool(true) => image(draft, setting),
        Value::String(command) => image(draft, &format!("{setting}: {command}")),
        Value::Object(object) => {
            for (key, value) in object {
                let setting = format!("{setting}.{key}");
                match key.as_str() {
                    "enabled" if boolean(value, &setting)? => image(draft, &setting),
                    "enabled" => {
                        draft.tightened(&setting, "", "commands of `ringfence run` are always in a sandbox")
                    }
                    "allowedPaths" => allowed_paths(draft, &setting, value, places)?,
                    "networkAccess" => network(draft, &setting, boolean(value, &setting)?),
                    "command" | "image" | "flags" => {
                        draft.not_expressible(&setting, "the sandbox is Ringfence's own, and has no image");
                    }
                    _ => draft.not_expressible(&setting, UNKNOWN),
                }
            }
        }
        _ => return Err(wrong(setting, "it is neither true or false, a command nor an object")),
    }
    Ok(())
}

fn image(draft: &mut Draft, setting: &str) {
    draft.carried(
        setting,
        "filesystem.host = \"system\"",
        "in place of an image, this host's system directories",
    );
}

/// Whether they may be written is not said: they can be read.
fn allowed_paths(
    draft: &mut Draft,
    setting: &str,
    value: &Value,
    places: &ImportPlaces,
) -> Result<(), ImportError> {
    for text in texts(value, setting)? {
        let setting = format!("{setting}: {text}");
        draft.read(&setting, place(&text, &places.current, &places.home));
        draft.tightened(
            &setting,
            "",
            "it can be read; grant it with `write` if a command has to write there",
        );
    }
    Ok(())
}

fn network(draft: &mut Draft, setting: &str, is_on: bool) {
    if is_on {
        draft.open_network(setting);
    } else {
        draft.carried(setting, "network.mode = \"off\"", "");
    }
}
