//! What is inside a file: all checks of one sample, and those that take two facts together.

use super::file::{Budget, Class, Sample};
use super::finding::excerpt;
use super::patterns::{COMMANDS, PHRASES, SENDS};
use super::report::Report;
use super::rules::{
    BINARY_IN_TEXT, CREDENTIAL_READ, CREDENTIAL_THEFT, ENV_DUMP, EXFILTRATION, OBFUSCATION, PROMPT_INJECTION,
    UNREAD,
};
use super::text::{Folded, Text};
use super::{archives, autorun, comments, disguise, hidden, packages, references, secrets, size, syntax};

/// In a document, something that is read and something that is sent belong together within so many lines.
const NEAR: u32 = 15;
/// Encoded data of this length in a script is looked at by nobody.
const BLOB: usize = 2_000;

pub(super) fn check(
    report: &mut Report,
    path: &str,
    sample: &Sample,
    is_manifest: bool,
    budget: &mut Budget,
) {
    disguise::check(report, path, sample);
    archives::check(report, path, sample);
    let class = Class::of(path, &sample.head);
    if class == Class::Binary {
        return;
    }
    if !sample.whole {
        report.add(&UNREAD, path, None, "only the first MiB of this text was read");
    }
    let text = Text::decode(&sample.head);
    if let Some(at) = text.source.find('\0') {
        report.add(&BINARY_IN_TEXT, path, Some(text.line(at)), "a NUL byte");
    } else if sample.whole && !text.exact && matches!(class, Class::Document | Class::Script(_)) {
        let line = text.source.find('\u{fffd}').map(|at| text.line(at));
        report.add(&BINARY_IN_TEXT, path, line, "bytes that are not UTF-8");
    }
    hidden::check_text(report, path, &text);
    let in_script = class != Class::Document;
    check_commands(report, path, &text, in_script);
    check_phrases(report, path, &text);
    if class == Class::Document {
        comments::check(report, path, &text);
        references::check(report, path, &text);
    }
    if matches!(class, Class::Script(_)) {
        check_blob(report, path, &text);
    }
    secrets::check_text(report, path, &text);
    packages::check(report, path, &text);
    autorun::check_text(report, path, &text, is_manifest);
    if sample.whole && text.exact {
        syntax::check(report, path, class, &text.source);
    }
    if is_manifest {
        size::check_manifest(report, path, &text);
        budget.tools_line = line_of_tools(&text);
    }
}

fn check_commands(report: &mut Report, path: &str, text: &Text, in_script: bool) {
    let mut secrets_read = Vec::new();
    for hit in COMMANDS.search(&text.joined, in_script) {
        let rule = &hit.pattern.rule;
        let passage = &text.joined[hit.start..hit.end];
        // A match may begin with the line end before it.
        let blank = passage.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        let line = Some(text.line(hit.start + blank));
        if [CREDENTIAL_READ, CREDENTIAL_THEFT, ENV_DUMP].contains(rule) {
            secrets_read.extend(line);
        }
        if !report.has(rule, path, line) {
            report.add(rule, path, line, &format!("{}: {}", hit.pattern.what, excerpt(passage)));
        }
    }
    if secrets_read.is_empty() {
        return;
    }
    for hit in SENDS.search(&text.joined, in_script) {
        let line = text.line(hit.start);
        let near = secrets_read.iter().find(|read| in_script || read.abs_diff(line) <= NEAR);
        if let Some(read) = near {
            let sent = excerpt(&text.joined[hit.start..hit.end]);
            report.add(
                &EXFILTRATION,
                path,
                Some(line),
                &format!("sends data, and line {read} reads secrets: {sent}"),
            );
            return;
        }
    }
}

fn check_phrases(report: &mut Report, path: &str, text: &Text) {
    let folded = Folded::new(&text.source, 1);
    for hit in PHRASES.search(&folded.bytes, true) {
        let line = Some(folded.line(hit.start));
        if !report.has(&hit.pattern.rule, path, line) {
            let said = excerpt(&folded.bytes[hit.start..hit.end]);
            report.add(&hit.pattern.rule, path, line, &format!("{}: {said}", hit.pattern.what));
        }
    }
    for (start, word) in spelled_out(&folded.bytes) {
        const SAID: [&str; 10] = [
            "ignoreall",
            "ignoreprevious",
            "ignoreprior",
            "ignoretheabove",
            "ignoreyour",
            "disregardall",
            "disregardprevious",
            "forgetall",
            "systemprompt",
            "donottell",
        ];
        if SAID.iter().any(|said| word.contains(said)) {
            let line = Some(folded.line(start));
            report.add(
                &PROMPT_INJECTION,
                path,
                line,
                &format!("spelled letter by letter: {}", excerpt(word.as_bytes())),
            );
        }
    }
}

/// Words that are written `l i k e   t h i s`: where, and what they spell.
fn spelled_out(bytes: &[u8]) -> Vec<(usize, String)> {
    const SHORTEST: usize = 9;
    const MOST: usize = 100;
    let mut found = Vec::new();
    let mut start = 0;
    let mut word = String::new();
    let mut at = 0;
    while at < bytes.len() && found.len() < MOST {
        let single = bytes[at].is_ascii_lowercase()
            && bytes.get(at + 1).is_none_or(|next| matches!(next, b' ' | b'.' | b'-' | b'_'))
            && (at == 0 || matches!(bytes[at - 1], b' ' | b'.' | b'-' | b'_'));
        if single {
            if word.is_empty() {
                start = at;
            }
            word.push(char::from(bytes[at]));
            at += 2;
            continue;
        }
        if word.len() >= SHORTEST {
            found.push((start, std::mem::take(&mut word)));
        }
        word.clear();
        at += 1;
    }
    if word.len() >= SHORTEST {
        found.push((start, word));
    }
    found
}

/// Encoded data in a script, but for pictures and fonts.
fn check_blob(report: &mut Report, path: &str, text: &Text) {
    let bytes = text.source.as_bytes();
    let mut start = 0;
    for (at, byte) in bytes.iter().copied().chain([b'\n']).enumerate() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=') {
            continue;
        }
        if at - start >= BLOB {
            let before = &bytes[start.saturating_sub(60)..start];
            let is_picture = [&b"data:image"[..], b"data:font", b"data:audio"]
                .iter()
                .any(|mark| before.windows(mark.len()).any(|window| window == *mark));
            if !is_picture {
                let message = format!("{} characters of encoded data in a script", at - start);
                report.add(&OBFUSCATION, path, Some(text.line(start)), &message);
            }
        }
        start = at + 1;
    }
}

fn line_of_tools(text: &Text) -> Option<u32> {
    let at = text.source.lines().position(|line| line.trim_start().starts_with("allowed-tools"))?;
    u32::try_from(at + 1).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_put_together() {
        let text = b"x. i g n o r e a l l rules, a b c";
        assert_eq!(spelled_out(text), [(3, "ignoreall".to_owned())]);
        assert_eq!(spelled_out(b"plan a b c d"), []);
    }
}
