//! A request's path in the one form that can be compared with a prefix.
//!
//! Servers differ in what they make of `..`, `//`, `;` and encoded slashes. A path that two of them could read as two
//! different ones has no plain form, and so is below no prefix.

/// The path with needless percent-encoding undone, or nothing if it can be read in more than one way.
pub(super) fn plain_path(path: &str) -> Option<String> {
    let mut rest = path.strip_prefix('/')?.bytes();
    let mut plain = vec![b'/'];
    while let Some(byte) = rest.next() {
        match byte {
            b'%' => {
                let digit = |byte: u8| char::from(byte).to_digit(16);
                let decoded = u8::try_from(digit(rest.next()?)? * 16 + digit(rest.next()?)?).ok()?;
                match decoded {
                    b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'~' => plain.push(decoded),
                    // A slash or dot that is hidden, a second layer of encoding, what ends a string in C.
                    b'/' | b'\\' | b'.' | b'%' | b';' | b'?' | b'#' | 0..=0x1f | 0x7f => return None,
                    _ => plain.extend(format!("%{decoded:02X}").bytes()),
                }
            }
            b'!' | b'$' | b'&'..=b';' | b'=' | b'@'..=b'Z' | b'_' | b'a'..=b'z' | b'~' => plain.push(byte),
            _ => return None,
        }
    }
    let plain = String::from_utf8(plain).ok()?;
    let mut segments = plain[1..].split('/').peekable();
    while let Some(segment) = segments.next() {
        // `..;x` is `..` to servers that cut parameters off.
        let name = segment.split(';').next().unwrap_or(segment);
        let last = segments.peek().is_none();
        if name == "." || name == ".." || (name.is_empty() && !(last && segment.is_empty())) {
            return None;
        }
    }
    Some(plain)
}

/// Whole segments: `/repos` is above `/repos` and `/repos/x`, not above `/repository`.
pub(super) fn is_below(path: &str, prefix: &str) -> bool {
    path.strip_prefix(prefix)
        .is_some_and(|rest| rest.is_empty() || prefix.ends_with('/') || rest.starts_with('/'))
}
