//! What is inside a file: all checks of one sample, and those that take two facts together.

use super::file::{Budget, Class, Sample};
use super::finding::excerpt;
use super::patterns::{COMMANDS, Hit, PHRASES, SENDS};
use super::report::Report;
use super::rules::{
    BINARY_IN_TEXT, CREDENTIAL_READ, CREDENTIAL_THEFT, ENV_DUMP, EXFILTRATION, OBFUSCATION, PROMPT_INJECTION,
    Rule, UNREAD,
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

/// A passage that a rule is about.
pub(super) struct Suspicion {
    pub(super) rule: Rule,
    pub(super) at: usize,
    pub(super) message: String,
}

/// What commands and code in joined text do.
pub(super) fn commands_in(joined: &[u8], in_script: bool) -> Vec<Suspicion> {
    let suspicion = |hit: Hit| {
        let passage = &joined[hit.start..hit.end];
        // A match may begin with the line end before it.
        let blank = passage.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        let message = format!("{}: {}", hit.pattern.what, excerpt(passage));
        Suspicion { rule: hit.pattern.rule, at: hit.start + blank, message }
    };
    COMMANDS.search(joined, in_script).into_iter().map(suspicion).collect()
}

fn check_commands(report: &mut Report, path: &str, text: &Text, in_script: bool) {
    let mut secrets_read = Vec::new();
    for Suspicion { rule, at, message } in commands_in(&text.joined, in_script) {
        let line = Some(text.line(at));
        if [CREDENTIAL_READ, CREDENTIAL_THEFT, ENV_DUMP].contains(&rule) {
            secrets_read.extend(line);
        }
        if !report.has(&rule, path, line) {
            report.add(&rule, path, line, &message);
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
    for Suspicion { rule, at, message } in phrases_in(&folded) {
        let line = Some(folded.line(at));
        if !report.has(&rule, path, line) {
            report.add(&rule, path, line, &message);
        }
    }
}

/// What is said to a model, also letter by letter.
pub(super) fn phrases_in(folded: &Folded) -> Vec<Suspicion> {
    const SPELLED: [&str; 10] = [
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
    let said = PHRASES.search(&folded.bytes, true).into_iter().map(|hit| {
        let passage = excerpt(&folded.bytes[hit.start..hit.end]);
        Suspicion {
            rule: hit.pattern.rule,
            at: hit.start,
            message: format!("{}: {passage}", hit.pattern.what),
        }
    });
    let spelled = spelled_out(&folded.bytes)
        .into_iter()
        .filter(|(_, word)| SPELLED.iter().any(|said| word.contains(said)))
        .map(|(at, word)| {
            let message = format!("spelled letter by letter: {}", excerpt(word.as_bytes()));
            Suspicion { rule: PROMPT_INJECTION, at, message }
        });
    said.chain(spelled).collect()
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
