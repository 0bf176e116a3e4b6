//! npm's configuration file: as much of it as registries are written in.

use std::collections::BTreeMap;

use serde_json::Value;

/// `key = value` lines. Sections and lists are nothing that registries are written in.
pub(super) fn from_npmrc(text: &str) -> BTreeMap<String, String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';']));
    let pairs = lines.filter_map(|line| line.split_once('='));
    pairs
        .map(|(key, value)| {
            let value = value.trim();
            let plain = value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value);
            (key.trim().to_owned(), plain.to_owned())
        })
        // Tokens are nobody's business here.
        .filter(|(key, _)| !key.contains("_auth") && !key.contains("_password"))
        .collect()
}

/// A value is one value to npm, whatever is in it.
pub(crate) fn to_npmrc(settings: &BTreeMap<String, String>) -> String {
    let line = |(name, value): (&String, &String)| format!("{name}={}\n", Value::from(value.as_str()));
    settings.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::super::url::without_credentials;
    use super::*;

    #[test]
    fn lines_of_an_npmrc() {
        let text = "; mine\nregistry = https://u:p@r.example/\n@a:registry=\"https://a.example/\"\n//r.example/:_authToken=x\n";
        let read = from_npmrc(text);
        assert_eq!(read.len(), 2);
        assert_eq!(without_credentials(&read["registry"]), "https://r.example/");
        assert_eq!(read["@a:registry"], "https://a.example/");
        assert_eq!(from_npmrc(&to_npmrc(&read)), read);
    }
}
