//! The PEP 723 block of a script: `# /// script`, TOML in comments, `# ///`.

use super::super::origin::{Origin, Remarks};
use super::super::text::{Files, shown};
use super::declared::{Declared, add_requirement};
use super::version::VersionRange;
use super::{DeclaredIn, RequirementSource};

/// Tables of `tool.uv` that name other places to install from.
const OTHER_PLACES: &[&str] = &[
    "sources",
    "index",
    "index-url",
    "extra-index-url",
    "find-links",
    "no-index",
    "constraint-dependencies",
    "override-dependencies",
];

/// What the block of `script` declares; nothing where it has none, or one that can't be read (with a note).
pub(super) fn read(files: &Files<'_>, script: &str, remarks: &mut Remarks) -> Option<Declared> {
    let text = files.text(script).ok()?;
    let (start, block) = find(&text)?;
    let table: toml::Table = match toml::from_str(&block) {
        Ok(table) => table,
        Err(error) => {
            remarks
                .note(format!("{script}:{start}: its script block is not TOML: {}", shown(error.message())));
            return None;
        }
    };
    let mut declared = Declared::new(DeclaredIn::Script);
    if let Some(range) = table.get("requires-python").and_then(toml::Value::as_str) {
        match VersionRange::parse(range) {
            Ok(range) => declared.requires_python = Some(range),
            Err(error) => remarks.note(format!("{script}:{start}: requires-python: {error}")),
        }
    }
    for dependency in table.get("dependencies").and_then(toml::Value::as_array).into_iter().flatten() {
        let Some(dependency) = dependency.as_str() else { continue };
        let line =
            start + block.lines().position(|line| line.contains(dependency)).map_or(0, |at| at as u32 + 1);
        let origin = Origin::File { file: script.to_owned(), line };
        let from = RequirementSource::Pep723 { file: script.to_owned(), line };
        add_requirement(&mut declared.requirements, dependency, from, origin, remarks);
    }
    let uv = table.get("tool").and_then(|tool| tool.get("uv")).and_then(toml::Value::as_table);
    for key in uv.into_iter().flat_map(toml::Table::keys).filter(|key| OTHER_PLACES.contains(&key.as_str())) {
        let why = "packages come only from the registry that the user configured";
        let origin = Origin::File { file: script.to_owned(), line: start };
        remarks.refuse(&format!("tool.uv.{key}"), why, origin);
    }
    Some(declared)
}

/// The line of its opening, and its content without the comment signs.
fn find(text: &str) -> Option<(u32, String)> {
    let mut lines = text.lines().enumerate();
    let (start, _) = lines.find(|(_, line)| *line == "# /// script")?;
    let comments: Vec<&str> =
        lines.map(|(_, line)| line).take_while(|line| *line == "#" || line.starts_with("# ")).collect();
    // As the standard has it, the last closing line of the comment counts.
    let end = comments.iter().rposition(|line| *line == "# ///")?;
    let content = comments[..end].iter().map(|line| line.get(2..).unwrap_or_default());
    Some((start as u32 + 1, content.collect::<Vec<_>>().join("\n")))
}
