//! Commands in the audit, which keeps them for ever: how they begin, how long they are, and a digest of the whole.

use ringfence_store::redact;
use serde_json::{Value, json};

const MOST: usize = 4 << 10;
/// A word that is empty takes room too.
const EACH: usize = 4;

pub(crate) fn shorten_command(result: &mut Value, secrets: &[&str]) {
    let Some(words) = result.get("command").filter(|words| words.is_array()) else { return };
    if length(words) <= MOST {
        return;
    }
    // First: half of a secret is not known for one.
    let words = redact(words, secrets);
    let digest = blake3::hash(words.to_string().as_bytes()).to_hex().to_string();
    let bytes = length(&words);
    let mut left = MOST;
    let mut start = Vec::new();
    for word in words.as_array().into_iter().flatten().filter_map(Value::as_str) {
        let fits = word.floor_char_boundary(word.len().min(left.saturating_sub(EACH)));
        let whole = fits == word.len();
        start.push(if whole { word.to_owned() } else { format!("{}…", &word[..fits]) });
        left = left.saturating_sub(fits + EACH);
        if !whole || left == 0 {
            break;
        }
    }
    result["command"] = start.into();
    result["command_whole"] = json!({ "bytes": bytes, "digest": digest });
}

fn length(words: &Value) -> usize {
    let words = words.as_array().into_iter().flatten();
    words.map(|word| word.as_str().map_or(0, str::len) + EACH).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_command_stays_whole() {
        let mut told = json!({ "command": ["echo", "hi"], "exit_code": 0 });
        let before = told.clone();
        shorten_command(&mut told, &[]);
        assert_eq!(told, before);
        let mut none = Value::Null;
        shorten_command(&mut none, &[]);
        assert_eq!(none, Value::Null);
    }

    #[test]
    fn a_long_one_is_cut_and_no_secret_with_it() {
        let secret = "planted-secret-value-of-some-length";
        let long = format!("{}{secret}{}", "ä".repeat(2030), "z".repeat(200));
        let mut told = json!({ "command": ["echo", long, "more"] });
        shorten_command(&mut told, &[secret]);
        let text = told.to_string();
        assert!(text.len() < MOST + 300 && !text.contains("planted"), "{text}");
        assert_eq!(told["command"].as_array().map(Vec::len), Some(2));
        let many: Vec<&str> = std::iter::repeat_n("", 1 << 20).collect();
        let mut told = json!({ "command": many });
        shorten_command(&mut told, &[]);
        assert_eq!(told["command"].as_array().map(Vec::len), Some(MOST / EACH));
        assert!(told["command_whole"]["digest"].is_string());
    }
}
