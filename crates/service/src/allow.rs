//! `denials --allow`: write the rule that allows what was blocked, beside what a file already says.

use std::path::{Path, PathBuf};

use ringfence_policy::{HostRule, NetworkMode};
use ringfence_sandbox::Denial;
use toml_edit::{Array, DocumentMut, Item, Table, Value};

use crate::config::{parse_layer, without_skills};
use crate::error::{ErrorCode, ServiceError};
use crate::files::read_if_there;
use crate::places::Places;
use crate::project::{FILE_NAME, find_project, project_root};
use crate::state::replace_file;
use crate::trust::trust_text;

/// Whose file the rule goes into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllowFor {
    /// The project's `ringfence.toml`, which is trusted as it is afterwards.
    Project,
    /// The user's own config file.
    User,
}

/// What was written, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowed {
    pub path: PathBuf,
    /// As it is written: `filesystem.read = ["/srv/data"]`.
    pub rule: String,
    /// The file said so already.
    pub unchanged: bool,
    /// What it opens, where nobody knows the port that was wanted and the rule may not be the one that helps.
    pub without_port: Option<String>,
}

/// Write the rule that would have allowed `denial`.
pub fn allow_denial(places: &Places, denial: &Denial, scope: AllowFor) -> Result<Allowed, ServiceError> {
    let Some((section, key, value)) = &denial.setting else {
        return Err(ServiceError::new(
            ErrorCode::BadRequest,
            format!("no rule allows {}", denial.what),
            denial.remedy.clone(),
        ));
    };
    let path = match scope {
        AllowFor::User => places.user_config.clone(),
        AllowFor::Project => match find_project(&places.current, &places.home)? {
            Some(project) => project.path,
            None => project_root(&places.current, &places.home).join(FILE_NAME),
        },
    };
    let before = read_if_there(&path).map_err(|error| cannot("read", &path, &error))?.unwrap_or_default();
    let after = with_rule(&path, &before, section, key, value)?;
    // What is written must be readable again, or the next run would stop at it.
    parse_layer(&path, &without_skills(&after))?;
    let unchanged = after == before;
    if !unchanged {
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory).map_err(|error| cannot("make", directory, &error))?;
        }
        // Where the file is a link into a dotfiles repository, the link stays.
        let real = std::fs::canonicalize(&path).unwrap_or_else(|_| path.clone());
        replace_file(&real, after.as_bytes(), 0o644).map_err(|error| cannot("write", &path, &error))?;
    }
    if scope == AllowFor::Project {
        trust_text(&places.state, &path, &after)?;
    }
    let name = if section.is_empty() { key.clone() } else { format!("{section}.{key}") };
    Ok(Allowed {
        path,
        rule: format!("{name} = {value}"),
        unchanged,
        without_port: without_port(section, key, value),
    })
}

fn without_port(section: &str, key: &str, value: &str) -> Option<String> {
    if (section, key) != ("network", "allow") {
        return None;
    }
    let value: Value = value.parse().ok()?;
    value.as_array()?.iter().find_map(|rule| HostRule::parse(rule.as_str()?).ok()?.without_port())
}

fn cannot(doing: &str, path: &Path, error: &std::io::Error) -> ServiceError {
    ServiceError::new(
        ErrorCode::BadPolicy,
        format!("cannot {doing} {}: {error}", path.display()),
        "make it writable, or pass the flag to `ringfence run` instead",
    )
}

/// `text` with `key = value` in `[section]`: a list is added to, a single value replaced, comments kept.
fn with_rule(path: &Path, text: &str, section: &str, key: &str, value: &str) -> Result<String, ServiceError> {
    let wrong = |why: String| {
        ServiceError::new(
            ErrorCode::BadPolicy,
            format!("{}: {why}", path.display()),
            "correct the file by hand first",
        )
    };
    // Says what is wrong in the words of the policy, with the line.
    let before = parse_layer(path, &without_skills(text))?;
    if section == "network" && before.network.mode == Some(NetworkMode::Off) {
        return Err(ServiceError::new(
            ErrorCode::BadPolicy,
            format!(
                "{} says network.mode = \"off\", which wins over what is allowed beside it",
                path.display()
            ),
            "take that line out first, or pass the flag to `ringfence run` instead",
        ));
    }
    let mut document: DocumentMut = text.parse().map_err(|error| wrong(format!("{error}")))?;
    let value: Value = value.parse().map_err(|error| wrong(format!("the rule can't be written: {error}")))?;
    let is_new_table = !section.is_empty() && !document.contains_key(section);
    if is_new_table {
        document[section] = Item::Table(Table::new());
    }
    let table = if section.is_empty() {
        document.as_table_mut() as &mut dyn toml_edit::TableLike
    } else {
        document[section].as_table_like_mut().ok_or_else(|| wrong(format!("`{section}` is not a table")))?
    };
    match (table.get_mut(key).and_then(Item::as_array_mut), &value) {
        (Some(list), Value::Array(new)) => add(list, new),
        _ => {
            let kept = table.get(key).and_then(Item::as_value).map(|old| old.decor().clone());
            let mut value = value;
            if let Some(decor) = kept {
                *value.decor_mut() = decor;
            }
            table.insert(key, Item::Value(value));
        }
    }
    Ok(document.to_string())
}

fn add(list: &mut Array, new: &Array) {
    for item in new {
        let same = |had: &Value| match (had, item) {
            (Value::String(had), Value::String(item)) => had.value() == item.value(),
            (Value::Integer(had), Value::Integer(item)) => had.value() == item.value(),
            _ => false,
        };
        if !list.iter().any(same) {
            list.push(item.clone().decorated("", ""));
            if list.len() > 1 {
                let last = list.len() - 1;
                // On lines of their own if the others are.
                let prefix =
                    list.get(last - 1).and_then(|had| had.decor().prefix()?.as_str().map(str::to_owned));
                let prefix = prefix.filter(|prefix| prefix.contains('\n')).map_or(" ".to_owned(), |prefix| {
                    format!("\n{}", prefix.rsplit('\n').next().unwrap_or_default())
                });
                if let Some(last) = list.get_mut(last) {
                    last.decor_mut().set_prefix(prefix);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(text: &str, section: &str, key: &str, value: &str) -> String {
        with_rule(Path::new("x.toml"), text, section, key, value).unwrap()
    }

    #[test]
    fn an_empty_file_gets_the_section() {
        assert_eq!(rule("", "filesystem", "read", r#"["/srv"]"#), "[filesystem]\nread = [\"/srv\"]\n");
        assert_eq!(rule("", "", "waive", r#"["network"]"#), "waive = [\"network\"]\n");
    }

    #[test]
    fn lists_are_added_to_and_comments_stay() {
        let text = "# mine\nprofile = \"moderate\" # why\n\n[filesystem]\n# data\nread = [\"/a\"] # here\n";
        let after = rule(text, "filesystem", "read", r#"["/b"]"#);
        assert_eq!(after, text.replace("[\"/a\"]", "[\"/a\", \"/b\"]"));
        assert_eq!(rule(&after, "filesystem", "read", r#"["/b"]"#), after, "written once");
    }

    #[test]
    fn a_list_on_many_lines_stays_one() {
        let text = "[filesystem]\nread = [\n  \"/a\", # first\n  \"/b\",\n]\n";
        let after = rule(text, "filesystem", "read", r#"["/c"]"#);
        assert_eq!(after, "[filesystem]\nread = [\n  \"/a\", # first\n  \"/b\",\n  \"/c\",\n]\n");
    }

    #[test]
    fn a_limit_is_replaced_and_a_top_key_stays_at_the_top() {
        let text = "[limits]\nmemory = \"1G\" # for now\n";
        assert_eq!(rule(text, "limits", "memory", "\"2G\""), "[limits]\nmemory = \"2G\" # for now\n");
        let after = rule(text, "", "waive", r#"["network"]"#);
        assert!(after.starts_with("waive"), "{after}");
        assert!(parse_layer(Path::new("x.toml"), &after).is_ok(), "{after}");
    }

    #[test]
    fn hosts_and_ports_are_added_once_unless_the_file_says_off() {
        let text = "[network]\nallow = [\"a.example:443\"]\nlocal = [8080]\n";
        assert_eq!(rule(text, "network", "local", "[8080]"), text);
        assert_eq!(rule(text, "network", "local", "[9090]"), text.replace("[8080]", "[8080, 9090]"));
        let after = rule(text, "network", "allow", r#"["b.example:22"]"#);
        assert_eq!(after, text.replace("443\"]", "443\", \"b.example:22\"]"));
        let off = "[network]\nmode = \"off\"\n";
        let error = with_rule(Path::new("x.toml"), off, "network", "allow", r#"["a.example"]"#).unwrap_err();
        assert!(error.message.contains("network.mode"), "{error}");
    }

    #[test]
    fn a_rule_that_may_not_be_the_one_says_so() {
        let note = |value: &str| without_port("network", "allow", value);
        assert!(
            note(r#"["b.example"]"#)
                .is_some_and(|note| note.contains("80 and 443") && note.contains("`b.example:PORT`"))
        );
        assert_eq!(note(r#"["b.example:22"]"#), None);
        assert_eq!(without_port("filesystem", "read", r#"["/srv"]"#), None);
    }

    #[test]
    fn a_section_written_inline_is_kept_so() {
        let after = rule("limits = { memory = \"1G\" }\n", "limits", "processes", "64");
        assert_eq!(after.replace(' ', ""), "limits={memory=\"1G\",processes=64}\n");
    }

    #[test]
    fn a_broken_file_is_left_alone() {
        assert!(with_rule(Path::new("x.toml"), "[filesystm]\n", "limits", "memory", "\"1G\"").is_err());
    }
}
