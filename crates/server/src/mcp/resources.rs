//! Resources: outputs that were too long for an answer, and the files of skills.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rmcp::model::{Resource, ResourceContents, ResourceTemplate};

use super::connection::Connection;
use super::host::Host;
use super::tools::file_of;
use crate::error::{Answer, ApiError};

const OUTPUT: &str = "ringfence://output/";
pub(super) const SKILL: &str = "skill://";

pub(super) fn output_uri(number: u64) -> String {
    format!("{OUTPUT}{number}")
}

/// The outputs that are kept. Skills are listed apart.
pub(super) fn outputs(connection: &Connection) -> Vec<Resource> {
    let shown = |(number, size): (u64, usize)| {
        Resource::new(output_uri(number), format!("output {number}"))
            .with_description("The whole output of a command")
            .with_mime_type("text/plain")
            .with_size(size as u64)
    };
    connection.outputs.list().into_iter().map(shown).collect()
}

pub(super) fn templates() -> Vec<ResourceTemplate> {
    vec![
        ResourceTemplate::new(format!("{SKILL}{{domain}}/{{name}}/{{+path}}"), "skill file")
            .with_description("A file of a skill of the library"),
        ResourceTemplate::new(format!("{OUTPUT}{{number}}"), "command output")
            .with_description("The whole output of a command that was too long for its answer"),
    ]
}

/// What a resource holds.
pub(super) async fn read(host: &Host, connection: &Connection, uri: &str) -> Answer<ResourceContents> {
    let missing = || ApiError::not_found("resource", uri);
    if let Some(number) = uri.strip_prefix(OUTPUT) {
        let number = number.parse().map_err(|_| missing())?;
        let bytes = connection.outputs.get(number).ok_or_else(missing)?;
        return Ok(contents(uri, bytes, "text/plain"));
    }
    let (skill, path) = skill_file(uri).ok_or_else(missing)?;
    let kind = mime_type(&path);
    let skill = host.skill(&skill).await?;
    let bytes = file_of(host, &skill, Some(path)).await?;
    Ok(contents(uri, bytes, kind))
}

/// `domain/name`, and the path of a file of it.
pub(super) fn skill_file(uri: &str) -> Option<(String, String)> {
    let mut parts = uri.strip_prefix(SKILL)?.splitn(3, '/');
    let (domain, name, path) = (parts.next()?, parts.next()?, parts.next()?);
    let path = decoded(path)?;
    (!domain.is_empty() && !name.is_empty() && !path.is_empty()).then(|| (format!("{domain}/{name}"), path))
}

pub(super) fn skill_uri(skill: &str, path: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/!$&'()*+,;=:@".contains(&byte);
    let path: String = path
        .bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect();
    format!("{SKILL}{skill}/{path}")
}

fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, more @ ..] = rest {
        rest = more;
        if *first == b'%' {
            let [high, low, after @ ..] = rest else { return None };
            let digit = |byte: u8| char::from(byte).to_digit(16);
            bytes.push((digit(*high)? * 16 + digit(*low)?) as u8);
            rest = after;
        } else {
            bytes.push(*first);
        }
    }
    String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))
}

fn contents(uri: &str, bytes: Vec<u8>, kind: &str) -> ResourceContents {
    match String::from_utf8(bytes) {
        Ok(text) => ResourceContents::text(text, uri).with_mime_type(kind),
        Err(error) => ResourceContents::blob(STANDARD.encode(error.into_bytes()), uri)
            .with_mime_type("application/octet-stream"),
    }
}

fn mime_type(path: &str) -> &'static str {
    match path.rsplit('.').next().unwrap_or_default() {
        "md" => "text/markdown",
        "json" => "application/json",
        "html" => "text/html",
        "csv" => "text/csv",
        _ => "text/plain",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_and_back() {
        for path in ["SKILL.md", "scripts/a b.py", "ä/100%.txt", "x?y#z"] {
            let uri = skill_uri("docs/pdf", path);
            assert_eq!(skill_file(&uri), Some(("docs/pdf".into(), path.into())), "{uri}");
            assert!(uri.bytes().all(|byte| byte.is_ascii_graphic() && !b"?#".contains(&byte)), "{uri}");
        }
        for bad in [
            "skill://",
            "skill://a/b",
            "skill://a/b/",
            "file:///etc/passwd",
            "skill://a/b/%zz",
            "skill://a/b/%0",
        ] {
            assert_eq!(skill_file(bad), None, "{bad}");
        }
    }
}
