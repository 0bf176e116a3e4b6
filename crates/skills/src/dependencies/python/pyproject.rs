//! `pyproject.toml`: the dependencies of `[project]`, or those of Poetry where they are simple.

use super::super::origin::{Origin, Remarks};
use super::super::text::{Files, shown};
use super::declared::{Declared, add_requirement};
use super::version::VersionRange;
use super::{DeclaredIn, RequirementSource};

/// What the file declares; nothing where it is about something else (a linter's settings).
pub(super) fn read(files: &Files<'_>, path: &str, remarks: &mut Remarks) -> Option<Declared> {
    let table: toml::Table = match files.text(path).map(|text| toml::from_str(&text)) {
        Ok(Ok(table)) => table,
        Ok(Err(error)) => {
            remarks.note(format!("{path}: not TOML: {}", shown(error.message())));
            return None;
        }
        Err(why) => {
            remarks.note(why);
            return None;
        }
    };
    let mut reader = Reader { path, remarks, declared: Declared::new(DeclaredIn::Pyproject) };
    let project = table.get("project").and_then(toml::Value::as_table);
    let poetry = table
        .get("tool")
        .and_then(|tool| tool.get("poetry"))
        .and_then(|poetry| poetry.get("dependencies"))
        .and_then(toml::Value::as_table);
    let declares = match (project, poetry) {
        (Some(project), _) if project.contains_key("dependencies") => reader.project(project),
        (_, Some(poetry)) => reader.poetry(poetry),
        (Some(project), None) => {
            // Only which Python, or nothing at all: the packages are read elsewhere.
            reader.python(project.get("requires-python").and_then(toml::Value::as_str));
            let dynamic = project.get("dynamic").and_then(toml::Value::as_array);
            if dynamic.into_iter().flatten().any(|one| one.as_str() == Some("dependencies")) {
                reader
                    .remarks
                    .note(format!("{path}: its dependencies are made by a build, which is not run"));
            }
            false
        }
        (None, None) => false,
    };
    (declares || reader.declared.requires_python.is_some()).then_some(reader.declared).map(|mut declared| {
        if !declares {
            declared.source = DeclaredIn::Imports;
        }
        declared
    })
}

struct Reader<'a> {
    path: &'a str,
    remarks: &'a mut Remarks,
    declared: Declared,
}

impl Reader<'_> {
    fn project(&mut self, project: &toml::Table) -> bool {
        self.python(project.get("requires-python").and_then(toml::Value::as_str));
        let Some(list) = project.get("dependencies").and_then(toml::Value::as_array) else { return false };
        for dependency in list.iter().filter_map(toml::Value::as_str) {
            self.add(dependency);
        }
        true
    }

    fn poetry(&mut self, dependencies: &toml::Table) -> bool {
        for (name, value) in dependencies {
            let (constraint, table) = match value {
                toml::Value::String(constraint) => (constraint.as_str(), None),
                toml::Value::Table(table) => {
                    (table.get("version").and_then(toml::Value::as_str).unwrap_or("*"), Some(table))
                }
                _ => {
                    self.refuse(name, "a form of Poetry that is not read");
                    continue;
                }
            };
            let has = |key: &str| table.is_some_and(|table| table.contains_key(key));
            if has("git") || has("url") || has("path") || has("source") {
                self.refuse(name, "packages come only from the registry that the user configured");
                continue;
            }
            if table.and_then(|table| table.get("optional")).and_then(toml::Value::as_bool) == Some(true) {
                continue;
            }
            let Some(range) = poetry_range(constraint) else {
                self.refuse(&format!("{name} {constraint}"), "its versions are not a range that can be read");
                continue;
            };
            if name == "python" {
                self.python(Some(&range));
                continue;
            }
            let list = |key: &str| table.and_then(|table| table.get(key)).and_then(toml::Value::as_array);
            let extras: Vec<&str> =
                list("extras").into_iter().flatten().filter_map(toml::Value::as_str).collect();
            let extras = if extras.is_empty() { String::new() } else { format!("[{}]", extras.join(",")) };
            let markers = table.and_then(|table| table.get("markers")).and_then(toml::Value::as_str);
            let markers = markers.map_or_else(String::new, |markers| format!("; {markers}"));
            self.add(&format!("{name}{extras}{range}{markers}"));
        }
        true
    }

    fn python(&mut self, range: Option<&str>) {
        match range.map(VersionRange::parse) {
            Some(Ok(range)) => self.declared.requires_python = Some(range),
            Some(Err(error)) => self.remarks.note(format!("{}: requires-python: {error}", self.path)),
            None => {}
        }
    }

    fn add(&mut self, text: &str) {
        let from = RequirementSource::Pyproject { file: self.path.to_owned() };
        let origin = Origin::File { file: self.path.to_owned(), line: 1 };
        add_requirement(&mut self.declared.requirements, text, from, origin, self.remarks);
    }

    fn refuse(&mut self, what: &str, why: &str) {
        self.remarks.refuse(what, why, Origin::File { file: self.path.to_owned(), line: 1 });
    }
}

/// Poetry's `^1.2`, `~1.2`, `1.2` and `*` as PEP 440 says them.
fn poetry_range(text: &str) -> Option<String> {
    let mut out = Vec::new();
    for part in text.split(',').map(str::trim) {
        if part == "*" || part.is_empty() {
            continue;
        }
        let numbers = |version: &str| -> Option<Vec<u64>> {
            version.split('.').map(|number| number.parse().ok()).collect()
        };
        let below = |mut upper: Vec<u64>, at: usize| -> Option<String> {
            upper.truncate(at + 1);
            let last = upper.last_mut()?;
            *last = last.checked_add(1)?;
            Some(upper.iter().map(u64::to_string).collect::<Vec<_>>().join("."))
        };
        if let Some(version) = part.strip_prefix('^') {
            let numbers = numbers(version.trim())?;
            // The first part that is not 0 may not change.
            let fixed = numbers.iter().position(|number| *number != 0).unwrap_or(numbers.len() - 1);
            out.push(format!(">={},<{}", version.trim(), below(numbers, fixed)?));
        } else if let Some(version) = part.strip_prefix('~').filter(|rest| !rest.starts_with('=')) {
            let numbers = numbers(version.trim())?;
            let fixed = numbers.len().min(2) - 1;
            out.push(format!(">={},<{}", version.trim(), below(numbers, fixed)?));
        } else if part.starts_with(|c: char| c.is_ascii_digit()) {
            out.push(format!("=={part}"));
        } else {
            out.push(part.to_owned());
        }
    }
    let text = out.join(",");
    VersionRange::parse(&text).ok().map(|range| range.to_string())
}
