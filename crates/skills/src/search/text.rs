//! What is searched in a skill.

use serde_json::Value;

use crate::Manifest;

const MOST_TAGS: usize = 64;

/// The searchable text of one skill.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SkillText {
    pub name: String,
    pub description: String,
    pub tags: Vec<String>,
    pub body: String,
}

impl SkillText {
    pub fn of(manifest: &Manifest) -> Self {
        let mut tags = Vec::new();
        for map in [&manifest.metadata, &manifest.extra] {
            for (key, value) in map {
                if matches!(
                    key.to_lowercase().as_str(),
                    "tags" | "tag" | "keywords" | "category" | "categories"
                ) {
                    collect(value, &mut tags);
                }
            }
        }
        Self {
            name: manifest.name.clone(),
            description: manifest.description.clone(),
            tags,
            body: manifest.body.clone(),
        }
    }

    /// A manifest that can't be read is still found by its name and its words.
    pub fn of_unreadable(name: &str, bytes: &[u8]) -> Self {
        let body = String::from_utf8_lossy(bytes).into_owned();
        Self { name: name.to_owned(), body, ..Self::default() }
    }
}

fn collect(value: &Value, tags: &mut Vec<String>) {
    match value {
        _ if tags.len() >= MOST_TAGS => {}
        Value::String(text) => {
            tags.extend(
                text.split([',', ';']).map(|tag| tag.trim().to_owned()).filter(|tag| !tag.is_empty()),
            );
        }
        Value::Array(items) => {
            items.iter().filter(|item| item.is_string()).for_each(|item| collect(item, tags))
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tags_come_from_metadata_as_text_or_list() {
        let metadata = json!({"tags": "pdf, forms", "version": "1", "Keywords": ["office", 3, ["deep"]]});
        let manifest = Manifest {
            name: "x".into(),
            description: "y".into(),
            license: None,
            compatibility: None,
            allowed_tools: Vec::new(),
            metadata: metadata.as_object().unwrap().clone(),
            extra: json!({"category": "documents"}).as_object().unwrap().clone(),
            body: String::new(),
        };
        let mut tags = SkillText::of(&manifest).tags;
        tags.sort();
        assert_eq!(tags, ["documents", "forms", "office", "pdf"]);
    }
}
