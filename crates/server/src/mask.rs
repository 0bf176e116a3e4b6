//! Paths of the server in what is told to users: a workspace is told by its name, the rest not at all.

use std::path::Path;

use ringfence_service::{Places, skills::library_root};
use serde_json::Value;

use crate::error::ApiError;

const WORKSPACES: &str = "/workspaces/";

#[derive(Debug, Default)]
pub(crate) struct Mask {
    /// With and without links in it, the longest first.
    roots: Vec<String>,
}

impl Mask {
    pub(crate) fn new(places: &Places, config: Option<&Path>) -> Self {
        let state = places.state.path().to_path_buf();
        let library = library_root(places, None).ok();
        let mut roots: Vec<String> = [Some(state), library, config.map(Path::to_path_buf)]
            .into_iter()
            .flatten()
            .flat_map(|path| [path.canonicalize().unwrap_or_else(|_| path.clone()), path])
            .filter(|path| path.is_absolute() && path.components().count() > 2)
            .map(|path| path.display().to_string())
            .collect();
        roots.sort_by_key(|root| std::cmp::Reverse(root.len()));
        roots.dedup();
        Self { roots }
    }

    pub(crate) fn text(&self, text: &str) -> String {
        self.roots.iter().fold(text.to_owned(), |text, root| without(&text, root))
    }

    /// Every string in it.
    pub(crate) fn value(&self, value: Value) -> Value {
        match value {
            Value::String(text) if self.roots.iter().any(|root| text.contains(root.as_str())) => {
                Value::String(self.text(&text))
            }
            Value::Array(all) => Value::Array(all.into_iter().map(|one| self.value(one)).collect()),
            Value::Object(all) => all.into_iter().map(|(key, one)| (key, self.value(one))).collect(),
            other => other,
        }
    }

    pub(crate) fn error(&self, mut error: ApiError) -> ApiError {
        error.message = self.text(&error.message);
        error.hint = self.text(&error.hint);
        error
    }
}

/// `ROOT/workspaces/USER/NAME/files` is `workspace NAME`; any other path below `root` is the server's own.
fn without(text: &str, root: &str) -> String {
    let mut told = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(root) {
        told.push_str(&rest[..at]);
        let tail = &rest[at + root.len()..];
        let ends = |c: char| c.is_whitespace() || "\"'`,;:)]}".contains(c);
        let path = &tail[..tail.find(ends).unwrap_or(tail.len())];
        rest = &tail[path.len()..];
        let name = path.strip_prefix(WORKSPACES).and_then(|below| below.split('/').nth(1));
        match name {
            Some(name) => {
                told.push_str("workspace ");
                told.push_str(name);
                let inside = path.split_once("/files").map_or("", |(_, inside)| inside);
                told.push_str(inside);
            }
            None => told.push_str("(the server's own)"),
        }
    }
    told.push_str(rest);
    told
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_workspace_is_told_by_its_name_and_nothing_else_is_told() {
        let mask = Mask { roots: vec!["/var/lib/ringfence".into()] };
        for (text, told) in [
            ("no path", "no path"),
            (
                "/workspace is /var/lib/ringfence/workspaces/ada/default/files",
                "/workspace is workspace default",
            ),
            ("`/var/lib/ringfence/workspaces/ada/w/files/a/b`: no", "`workspace w/a/b`: no"),
            ("cannot open /var/lib/ringfence/server.db: no", "cannot open (the server's own): no"),
            ("/var/lib/ringfence, /var/lib/ringfence/x", "(the server's own), (the server's own)"),
        ] {
            assert_eq!(mask.text(text), told);
        }
        let value = mask.value(json!({ "a": ["/var/lib/ringfence/x", 1], "b": { "c": "/usr" } }));
        assert_eq!(value, json!({ "a": ["(the server's own)", 1], "b": { "c": "/usr" } }));
    }
}
