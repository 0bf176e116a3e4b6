//! The names in an archive: which are taken, and which two are the same somewhere.
//!
//! A name must mean one thing on Linux, macOS and Windows, and to every program that unpacks. What is odd is refused,
//! never cleaned: a cleaned name is one that the next program reads differently.

use unicode_normalization::UnicodeNormalization;

use super::error::{ArchiveError, Reason};
use super::limits::UnpackLimits;

/// The longest name of one file on every common file system.
const NAME_BYTES: usize = 255;

/// The path that an archive's entry has: relative, without a leading `./` and a trailing `/`. Empty for the top itself.
pub(super) fn safe_path(raw: &[u8], limits: &UnpackLimits) -> Result<String, ArchiveError> {
    let refuse = |reason: Reason| Err(reason.of_raw(raw));
    if raw.is_empty() {
        return refuse(Reason::EmptyName);
    }
    if raw.len() > limits.path_bytes {
        return refuse(Reason::PathTooLong);
    }
    let Ok(name) = std::str::from_utf8(raw) else { return refuse(Reason::NotUtf8) };
    if name.chars().any(char::is_control) {
        return refuse(Reason::ControlCharacter);
    }
    if name.starts_with("//") || name.starts_with("\\\\") {
        return refuse(Reason::NetworkPath);
    }
    if has_drive_letter(name) {
        return refuse(Reason::DriveLetter);
    }
    if name.starts_with('/') {
        return refuse(Reason::AbsolutePath);
    }
    if name.contains('\\') {
        return refuse(Reason::Backslash);
    }
    let path = name.strip_prefix("./").unwrap_or(name);
    let path = path.strip_suffix('/').unwrap_or(path);
    if path == "." || (path.is_empty() && name == "./") {
        return Ok(String::new());
    }
    // One for the wrapper and one for the file itself.
    if path.split('/').count() > limits.depth.saturating_add(2) {
        return refuse(Reason::TooDeep);
    }
    for part in path.split('/') {
        if let Some(reason) = odd_part(part) {
            return refuse(reason);
        }
    }
    Ok(path.to_owned())
}

/// Two names with one folding are one file where case or Unicode form does not count (macOS, Windows), or where
/// characters without a shape are dropped (HFS+).
pub(super) fn folded(path: &str) -> String {
    path.nfd()
        .filter(|character| !is_shapeless(*character))
        .flat_map(char::to_uppercase)
        .flat_map(char::to_lowercase)
        .nfd()
        .collect()
}

fn odd_part(part: &str) -> Option<Reason> {
    if part == ".." {
        Some(Reason::ParentPath)
    } else if part.is_empty() || part == "." {
        Some(Reason::DotPart)
    } else if part.len() > NAME_BYTES {
        Some(Reason::PathTooLong)
    } else if has_drive_letter(part) {
        Some(Reason::DriveLetter)
    } else if part.ends_with(['.', ' ']) {
        Some(Reason::TrailingDotOrSpace)
    } else if is_reserved(part) {
        Some(Reason::ReservedName)
    } else {
        None
    }
}

fn has_drive_letter(text: &str) -> bool {
    matches!(text.as_bytes(), [letter, b':', ..] if letter.is_ascii_alphabetic())
}

/// Windows reserves these with any extension: `con.md` is the console.
fn is_reserved(part: &str) -> bool {
    let stem = part.split('.').next().unwrap_or(part).trim_end().to_ascii_uppercase();
    match stem.as_str() {
        "CON" | "PRN" | "AUX" | "NUL" | "CONIN$" | "CONOUT$" => true,
        _ => stem.strip_prefix("COM").or_else(|| stem.strip_prefix("LPT")).is_some_and(|port| {
            matches!(port, "1" | "2" | "3" | "4" | "5" | "6" | "7" | "8" | "9" | "¹" | "²" | "³")
        }),
    }
}

fn is_shapeless(character: char) -> bool {
    matches!(character, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(raw: &[u8]) -> &'static str {
        match safe_path(raw, &UnpackLimits::default()) {
            Ok(_) => "ok",
            Err(error) => error.code(),
        }
    }

    #[test]
    fn ordinary_names_are_taken() {
        let path = |raw: &str| safe_path(raw.as_bytes(), &UnpackLimits::default()).unwrap();
        assert_eq!(path("./a/b.md"), "a/b.md");
        assert_eq!(path("a/"), "a");
        assert_eq!(path("./"), "");
        assert_eq!(path("."), "");
        assert_eq!(path("café/..a/.hidden"), "café/..a/.hidden");
        assert_eq!(path("console.md"), "console.md");
        assert_eq!(path("COM10"), "COM10");
    }

    #[test]
    fn odd_names_are_refused_each_for_its_reason() {
        for (raw, expected) in [
            ("", "empty-name"),
            ("/etc/passwd", "absolute-path"),
            ("/", "absolute-path"),
            ("//host/share", "network-path"),
            ("\\\\host\\share", "network-path"),
            ("C:\\x", "drive-letter"),
            ("a/c:x", "drive-letter"),
            ("a\\b", "backslash"),
            ("..", "parent-path"),
            ("a/../b", "parent-path"),
            ("./../b", "parent-path"),
            ("a//b", "dot-part"),
            ("a/./b", "dot-part"),
            ("././a", "dot-part"),
            ("a\nb", "control-character"),
            ("a\0b", "control-character"),
            ("a\u{85}b", "control-character"),
            ("a./b", "trailing-dot-or-space"),
            ("a ", "trailing-dot-or-space"),
            ("nul", "reserved-name"),
            ("a/Aux.md", "reserved-name"),
            ("lpt1.x.y", "reserved-name"),
        ] {
            assert_eq!(code(raw.as_bytes()), expected, "{raw:?}");
        }
        assert_eq!(code(b"a\xff"), "not-utf8");
        assert_eq!(code(&[b'a'; 256]), "path-too-long");
        assert_eq!(code("a/".repeat(600).as_bytes()), "path-too-long");
        assert_eq!(code("a/".repeat(40).as_bytes()), "too-deep");
    }

    #[test]
    fn what_is_one_name_somewhere_folds_to_one() {
        for (one, other) in [
            ("README", "readme"),
            ("caf\u{e9}", "cafe\u{301}"),
            ("straße", "STRASSE"),
            ("\u{212a}", "k"),
            ("ΟΔΟΣ", "οδος"),
            ("a\u{200b}b", "ab"),
        ] {
            assert_eq!(folded(one), folded(other), "{one} {other}");
        }
        assert_ne!(folded("a"), folded("b"));
        assert_ne!(folded("a_b"), folded("a-b"));
    }
}
