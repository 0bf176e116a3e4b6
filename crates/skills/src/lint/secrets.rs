//! Secrets that were left in files. What is found is never repeated in full.

use super::file::{extension, name};
use super::patterns::SECRETS;
use super::report::Report;
use super::rules::{CREDENTIAL_FILE, SECRET_LIKE};
use super::text::Text;

pub(super) fn check_name(report: &mut Report, path: &str, size: u64) {
    let file = name(path).to_ascii_lowercase();
    let named = matches!(
        file.as_str(),
        ".env"
            | ".env.local"
            | ".env.production"
            | ".netrc"
            | ".pgpass"
            | ".git-credentials"
            | ".pypirc"
            | "id_rsa"
            | "id_ed25519"
            | "id_ecdsa"
            | "id_dsa"
            | "credentials.json"
            | "service-account.json"
            | "token.json"
    );
    let ends = matches!(
        extension(&file),
        "pem" | "key" | "p12" | "pfx" | "jks" | "keystore" | "kdbx" | "ppk" | "ovpn"
    );
    if size > 0 && (named || ends) {
        report.add(&CREDENTIAL_FILE, path, None, &format!("a file named {}", name(path)));
    }
}

pub(super) fn check_text(report: &mut Report, path: &str, text: &Text) {
    let mut known_lines = Vec::new();
    for hit in SECRETS.search(&text.joined, true) {
        let found = String::from_utf8_lossy(&text.joined[hit.start..hit.end]);
        let line = text.line(hit.start);
        let guess = hit.pattern.rule == SECRET_LIKE;
        let value = if guess { quoted_value(&found) } else { found.as_ref() };
        if is_placeholder(value) || (guess && (known_lines.contains(&line) || !looks_random(value))) {
            continue;
        }
        known_lines.push(line);
        report.add(&hit.pattern.rule, path, Some(line), &format!("{}: {}", hit.pattern.what, masked(&found)));
    }
}

/// Enough to find it by, not enough to use it.
fn masked(found: &str) -> String {
    let name = found.split(['=', ':']).next().filter(|name| name.len() + 10 < found.len());
    let shown = match name {
        Some(name) => name.chars().take(40).collect::<String>(),
        None => found.chars().take(8).collect(),
    };
    format!("{shown}… ({} characters)", found.chars().count())
}

fn quoted_value(assignment: &str) -> &str {
    let inner = assignment.trim_end_matches(['"', '\'']);
    inner.rsplit(['"', '\'']).next().unwrap_or(inner)
}

/// What people write where a secret goes: words, rows of one character, the alphabet.
fn is_placeholder(value: &str) -> bool {
    const WORDS: [&str; 22] = [
        "example",
        "xxxx",
        "your",
        "placeholder",
        "changeme",
        "change_me",
        "dummy",
        "sample",
        "redacted",
        "insert",
        "replace",
        "todo",
        "fake",
        "test",
        "1234567",
        "abcdef",
        "....",
        "****",
        "00000",
        "user:pass",
        "username:",
        ":password@",
    ];
    let lower = value.to_ascii_lowercase();
    WORDS.iter().any(|word| lower.contains(word)) || entropy(value) < 2.5
}

/// Digits and letters mixed, as no word and no path has them.
fn looks_random(value: &str) -> bool {
    let has = |kind: fn(&u8) -> bool| value.as_bytes().iter().any(kind);
    let kinds = [has(u8::is_ascii_lowercase), has(u8::is_ascii_uppercase), has(u8::is_ascii_digit)];
    let separators = value.bytes().filter(|byte| matches!(byte, b'.' | b'-' | b'_' | b'/')).count();
    let is_hexadecimal = value.bytes().all(|byte| byte.is_ascii_hexdigit());
    let enough = if is_hexadecimal { 3.3 } else { 4.0 };
    kinds.iter().filter(|kind| **kind).count() >= 2
        && kinds[2]
        && separators * 6 <= value.len()
        && entropy(value) >= enough
}

/// Bits a character, by how often each occurs.
fn entropy(value: &str) -> f64 {
    let mut counts = [0u32; 256];
    for byte in value.bytes() {
        counts[usize::from(byte)] += 1;
    }
    let length = value.len().max(1) as f64;
    counts
        .iter()
        .filter(|count| **count > 0)
        .map(|count| {
            let share = f64::from(*count) / length;
            -share * share.log2()
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_no_secrets() {
        for value in [
            "AKIAIOSFODNN7EXAMPLE",
            "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
            "sk-your-key-here",
            "aaaaaaaaaaaaaaaaaaaa",
        ] {
            assert!(is_placeholder(value), "{value}");
        }
        assert!(!is_placeholder("AKIA2E7QJ5XKLMN4WZRT"));
    }

    #[test]
    fn words_and_paths_are_not_random() {
        for value in [
            "my-application-secret-name",
            "projects/foo/secrets/bar",
            "ThisIsJustALongIdentifier",
            "11111111111111111111",
        ] {
            assert!(!looks_random(value), "{value}");
        }
        assert!(looks_random("q7Zx2Lm9VbT4kRw8YpN3"));
        assert!(looks_random("9f86d081884c7d659a2feaa0c55ad015a3bf4f1b"));
    }

    #[test]
    fn a_secret_is_not_repeated() {
        assert_eq!(masked("AKIA2E7QJ5XKLMN4WZRT"), "AKIA2E7Q… (20 characters)");
        assert_eq!(masked("api_key = \"q7Zx2Lm9VbT4kRw8YpN3\""), "api_key … (32 characters)");
    }
}
