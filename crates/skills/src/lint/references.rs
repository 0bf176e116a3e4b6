//! Links in documents that lead to files outside of the skill.

use super::finding::excerpt;
use super::report::Report;
use super::rules::REFERENCE_OUT;
use super::text::Text;

/// So many links of a file.
const MOST: usize = 5_000;

pub(super) fn check(report: &mut Report, path: &str, text: &Text) {
    let mut at = 0;
    for _ in 0..MOST {
        let Some(start) = text.source[at..].find("](").map(|offset| at + offset + 2) else { break };
        at = start;
        let target = target(&text.source[start..]);
        if leads_out(path, target) {
            let message = format!("a reference to {}", excerpt(target.as_bytes()));
            report.add(&REFERENCE_OUT, path, Some(text.line(start)), &message);
        }
    }
}

/// From the opening bracket to the closing one, a title or a line end.
fn target(rest: &str) -> &str {
    const LONGEST: usize = 1_000;
    let rest = rest.trim_start_matches('<');
    let end = rest
        .bytes()
        .take(LONGEST)
        .position(|byte| matches!(byte, b')' | b'>' | b' ' | b'\n' | b'\t'))
        .unwrap_or(0);
    &rest[..end]
}

fn leads_out(path: &str, target: &str) -> bool {
    if let Some(rest) = strip_scheme(target) {
        return rest;
    }
    let file = target.split(['#', '?']).next().unwrap_or_default();
    if file.is_empty() {
        return false;
    }
    let decoded = file.replace("%2e", ".").replace("%2E", ".").replace("%2f", "/").replace("%2F", "/");
    decoded.starts_with(['~', '/', '\\']) || climbs_out(path, &decoded)
}

/// By its text, as a reader of the page resolves it: unlike a link of the tree, a name may be stepped back from.
fn climbs_out(path: &str, target: &str) -> bool {
    let mut depth = path.split('/').count() - 1;
    for part in target.split(['/', '\\']) {
        match part {
            "" | "." => {}
            ".." if depth == 0 => return true,
            ".." => depth -= 1,
            _ => depth += 1,
        }
    }
    false
}

/// Of a target with a scheme, whether it is a file of this machine.
fn strip_scheme(target: &str) -> Option<bool> {
    let (scheme, _) = target.split_once(':')?;
    let is_scheme = !scheme.is_empty()
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'));
    // A single letter is a drive.
    is_scheme.then(|| scheme.eq_ignore_ascii_case("file") || scheme.len() == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leads_out_is_told_from_what_does_not() {
        for target in
            ["../x.md", "a/../../x", "/etc/passwd", "file:///etc/passwd", "~/.ssh/id", "..%2fx", "C:/x"]
        {
            assert!(leads_out("SKILL.md", target), "{target}");
        }
        for target in
            ["x.md", "a/../x", "https://e.example/../x", "#top", "mailto:a@b.c", "./references/a.md#b", ""]
        {
            assert!(!leads_out("SKILL.md", target), "{target}");
        }
        assert!(!leads_out("references/a.md", "../SKILL.md"));
    }

    #[test]
    fn a_target_ends_where_the_link_does() {
        assert_eq!(target("a.md \"title\") x"), "a.md");
        assert_eq!(target("<a.md>) x"), "a.md");
    }
}
