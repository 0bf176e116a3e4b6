//! A manifest as clients read it: warn and load. Only what has no description, or can't be read even after repairs, is
//! refused.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use super::characters::{quoted, strip};
use super::fields::texts;
use super::frontmatter::{Cut, cut_leniently, line_of, text};
use super::repair::repair;
use super::strict::{self, COMPATIBILITY_CHARACTERS, DESCRIPTION_CHARACTERS, name_problems, too_long};
use super::tools::allowed_tools;
use super::types::typed_mapping;
use super::yaml::{self, Content, Fault, Key, Node, mapping_to_json};
use super::{Level, Loaded, Manifest, Problem};

pub(super) fn load(bytes: &[u8], directory: &str) -> Result<Loaded, Problem> {
    let text = text(bytes)?;
    if let Some(at) = text.as_bytes().iter().position(|byte| *byte == 0) {
        let line = line_of(text.as_bytes(), at);
        return Err(Problem::error("nul-byte", format!("a NUL byte in line {line}"), Some(line)));
    }
    let mut cut = cut_leniently(&text)?;
    let mut warnings = std::mem::take(&mut cut.warnings);
    let document = read(&cut, &mut warnings)?;
    let Some(Content::Mapping(entries)) = document.as_deref().map(|node| &node.content) else {
        let message = "the frontmatter must have keys and values: `name: …`, `description: …`".to_owned();
        return Err(Problem::error("frontmatter-not-a-mapping", message, Some(cut.first_line)));
    };
    let manifest = manifest(entries, &cut, directory, &mut warnings)?;
    let last_line = cut.first_line.saturating_add(line_of(cut.yaml.as_bytes(), cut.yaml.len())) - 2;
    Ok(Loaded { manifest, warnings, texts: texts(entries, last_line), frontmatter: typed_mapping(entries) })
}

/// The reader of the reference first, so that what is valid means the same here; then one for all of YAML; then repairs.
fn read(cut: &Cut<'_>, warnings: &mut Vec<Problem>) -> Result<Option<Rc<Node>>, Problem> {
    let line = |line: usize| u32::try_from(line).unwrap_or(u32::MAX).saturating_add(cut.first_line);
    if let Some(document) = strict::read(cut.yaml, cut.first_line) {
        return Ok(document);
    }
    let fault = match yaml::read(cut.yaml, line) {
        Ok(document) => return Ok(document),
        Err(fault) => fault,
    };
    // A budget is no mistake to be repaired.
    if fault.code == "yaml-invalid"
        && let Some(repaired) = repair(cut.yaml)
    {
        let original =
            |at: usize| line(repaired.lines.get(at).or(repaired.lines.last()).copied().unwrap_or(0));
        match yaml::read(&repaired.yaml, original) {
            Ok(document) => {
                warnings.extend(
                    repaired
                        .repairs
                        .into_iter()
                        .map(|repair| Problem { line: repair.line.map(|at| line(at as usize)), ..repair }),
                );
                return Ok(document);
            }
            Err(again) if again.code != "yaml-invalid" => return Err(unreadable(again)),
            Err(_) => {}
        }
    }
    Err(unreadable(fault))
}

fn unreadable(fault: Fault) -> Problem {
    let message = format!("line {}: the YAML can't be read: {}", fault.line, fault.message);
    Problem::error(fault.code, message, Some(fault.line))
}

fn manifest(
    entries: &[(Key, Rc<Node>)],
    cut: &Cut<'_>,
    directory: &str,
    warnings: &mut Vec<Problem>,
) -> Result<Manifest, Problem> {
    let mut fields = Fields { entries, warnings };
    fields.warn_of_duplicates();
    let description = fields.description(cut.first_line)?;
    let name = fields.name(directory);
    let mut extra = mapping_to_json(entries);
    for field in strict::FIELDS {
        extra.remove(field);
    }
    let lines: HashMap<_, _> = entries.iter().map(|(key, _)| (key.text.as_str(), key.line)).collect();
    for key in extra.keys() {
        let line = lines.get(key.as_str()).copied();
        let message = format!("{} is not a field of the specification; it was kept", quoted(key));
        fields.warnings.push(Problem::warning("unknown-field", message, line));
    }
    let mut not_text = |field: &'static str, code, fields: &mut Fields<'_>| {
        let (key, node) = fields.find(field)?;
        if let Some(text) = node.text() {
            return Some(text.to_owned());
        }
        let message = format!("`{field}` is not text; it was kept as it is");
        fields.warnings.push(Problem::warning(code, message, Some(key.line)));
        extra.insert(field.to_owned(), node.to_json());
        None
    };
    let license = not_text("license", "license-not-text", &mut fields);
    let compatibility = not_text("compatibility", "compatibility-not-text", &mut fields);
    if let (Some(text), Some((key, _))) = (&compatibility, fields.find("compatibility")) {
        let most = COMPATIBILITY_CHARACTERS;
        fields.warnings.extend(too_long("compatibility", text, most, Level::Warning, Some(key.line)));
    }
    let mut metadata = serde_json::Map::new();
    if let Some((key, node)) = fields.find("metadata") {
        match &node.content {
            Content::Mapping(entries) => metadata = mapping_to_json(entries),
            Content::Text(text) if text.is_empty() => {}
            _ => {
                let message = "`metadata` has no keys; it was kept as it is".to_owned();
                fields.warnings.push(Problem::warning("metadata-not-a-mapping", message, Some(key.line)));
                extra.insert("metadata".to_owned(), node.to_json());
            }
        }
    }
    let mut tools = Vec::new();
    if let Some((_, node)) = fields.find("allowed-tools") {
        tools = allowed_tools(node, fields.warnings);
        if tools.is_empty() || node.text() != Some(&tools.join(" ")) {
            extra.insert("allowed-tools".to_owned(), node.to_json());
        }
    }
    Ok(Manifest {
        name,
        description,
        license,
        compatibility,
        allowed_tools: tools,
        metadata,
        extra,
        body: cut.body.to_owned(),
    })
}

/// The keys at the top, and where to complain.
struct Fields<'a> {
    entries: &'a [(Key, Rc<Node>)],
    warnings: &'a mut Vec<Problem>,
}

impl<'a> Fields<'a> {
    /// The last of that name, as most clients do.
    fn find(&self, name: &str) -> Option<(&'a Key, &'a Node)> {
        self.entries.iter().rev().find(|(key, _)| key.text == name).map(|(key, node)| (key, &**node))
    }

    fn warn_of_duplicates(&mut self) {
        let mut seen = HashSet::new();
        for (key, _) in self.entries {
            if !seen.insert(key.text.as_str()) {
                let message = format!("the key {} is there twice; the last one counts", quoted(&key.text));
                self.warnings.push(Problem::warning("yaml-duplicate-key", message, Some(key.line)));
            }
        }
    }

    fn description(&mut self, first_line: u32) -> Result<String, Problem> {
        let Some((key, node)) = self.find("description") else {
            let message = "there is no `description`: a client can't know when to use the skill".to_owned();
            return Err(Problem::error("description-missing", message, Some(first_line)));
        };
        let Some(text) = node.text() else {
            let message = "`description` is not text; put it in quotes".to_owned();
            return Err(Problem::error("description-not-text", message, Some(key.line)));
        };
        if strip(text).is_empty() {
            let message = "`description` is empty: a client can't know when to use the skill".to_owned();
            return Err(Problem::error("description-empty", message, Some(key.line)));
        }
        self.warnings.extend(too_long(
            "description",
            text,
            DESCRIPTION_CHARACTERS,
            Level::Warning,
            Some(key.line),
        ));
        Ok(strip(text).to_owned())
    }

    fn name(&mut self, directory: &str) -> String {
        let found = self.find("name");
        let line = found.map(|(key, _)| key.line);
        match found.and_then(|(_, node)| node.text()).map(strip).filter(|name| !name.is_empty()) {
            Some(name) => {
                self.warnings.extend(name_problems(name, directory, Level::Warning, line));
                name.to_owned()
            }
            None => {
                let message = format!(
                    "there is no `name` that is text; the directory's was taken, {}",
                    quoted(directory)
                );
                self.warnings.push(Problem::warning("name-missing", message, line));
                directory.to_owned()
            }
        }
    }
}
