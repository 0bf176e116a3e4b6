//! Paths of a tree: bytes, as the kernel has them, relative, and without a part that leads elsewhere.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Longer ones are not kept: a chain of directories would make a manifest that grows with its square.
pub(super) const MOST_PATH: usize = 32 * 1024;
const MOST_NAME: usize = 255;

/// Ordered part by part, so that a directory is followed by what is in it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct TreePath(Box<[u8]>);

impl TreePath {
    /// The top of a tree.
    pub fn top() -> Self {
        Self(Box::default())
    }

    pub fn is_top(&self) -> bool {
        self.0.is_empty()
    }

    /// `None`: a path that leads elsewhere, that no file can have, or that is too long.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let right = bytes.len() <= MOST_PATH && bytes.split(|&byte| byte == b'/').all(is_name);
        right.then(|| Self(bytes.into()))
    }

    /// What is called `name` in this directory.
    pub fn join(&self, name: &[u8]) -> Option<Self> {
        if !is_name(name) {
            return None;
        }
        let bytes = if self.is_top() { name.to_vec() } else { [&self.0, b"/".as_slice(), name].concat() };
        (bytes.len() <= MOST_PATH).then(|| Self(bytes.into()))
    }

    /// The directory that it is in, and its name there; `None` for the top.
    pub fn split(&self) -> Option<(Self, &[u8])> {
        if self.is_top() {
            return None;
        }
        Some(match self.0.iter().rposition(|&byte| byte == b'/') {
            Some(slash) => (Self(self.0[..slash].into()), &self.0[slash + 1..]),
            None => (Self::top(), &self.0),
        })
    }

    /// What is left of this path below `directory`; `None` if it is not below it.
    pub fn below(&self, directory: &Self) -> Option<&[u8]> {
        if directory.is_top() {
            return (!self.is_top()).then_some(&self.0);
        }
        self.0.strip_prefix(&*directory.0)?.strip_prefix(b"/")
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub fn as_os_str(&self) -> &OsStr {
        OsStr::from_bytes(&self.0)
    }
}

/// Whether a file can be called this.
pub(super) fn is_name(name: &[u8]) -> bool {
    !name.is_empty()
        && name.len() <= MOST_NAME
        && name != b"."
        && name != b".."
        && !name.iter().any(|&byte| byte == b'/' || byte == 0)
}

impl Ord for TreePath {
    fn cmp(&self, other: &Self) -> Ordering {
        // As if `/` were the lowest byte: names can't hold a NUL.
        let low = |&byte: &u8| if byte == b'/' { 0 } else { byte };
        self.0.iter().map(low).cmp(other.0.iter().map(low))
    }
}

impl PartialOrd for TreePath {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for TreePath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&shown(&self.0))
    }
}

impl fmt::Debug for TreePath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl Serialize for TreePath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&escape(&self.0))
    }
}

impl<'de> Deserialize<'de> for TreePath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <Cow<'de, str>>::deserialize(deserializer)?;
        let bytes = unescape(&text).ok_or_else(|| D::Error::custom("a path with a wrong escape"))?;
        Self::new(&bytes).ok_or_else(|| D::Error::custom("a path that a tree can't have"))
    }
}

/// Bytes as text, exactly: text without `%` and control characters is itself; of all else, `%` and every byte that is
/// not printable ASCII is `%` and two hexadecimal digits.
pub(super) fn escape(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.contains(|c: char| c == '%' || c.is_control()) => Cow::Borrowed(text),
        _ => Cow::Owned(bytes.iter().map(|&byte| escaped_byte(byte)).collect()),
    }
}

fn escaped_byte(byte: u8) -> String {
    let plain = matches!(byte, b' '..=b'~') && byte != b'%';
    if plain { char::from(byte).to_string() } else { format!("%{byte:02x}") }
}

/// The bytes of an escaped text; `None` if `escape` would have written them differently.
pub(super) fn unescape(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte == b'%' {
            let (digits, after) = rest.split_at_checked(2)?;
            bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
            rest = after;
        } else {
            bytes.push(byte);
        }
    }
    (escape(&bytes) == text).then_some(bytes)
}

/// A path for people, as git writes it: in quotes, with escapes, if it has what a terminal could be misled by.
pub fn shown(bytes: &[u8]) -> String {
    let misleading = |c: char| c.is_control() || matches!(c, '"' | '\\') || reorders(c);
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.contains(misleading) => text.to_owned(),
        _ => format!("\"{}\"", bytes.iter().map(|&byte| quoted_byte(byte)).collect::<String>()),
    }
}

/// Characters that are not seen, or that change the order in which others are.
fn reorders(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}')
}

fn quoted_byte(byte: u8) -> String {
    match byte {
        b'\n' => "\\n".into(),
        b'\t' => "\\t".into(),
        b'\r' => "\\r".into(),
        b'"' => "\\\"".into(),
        b'\\' => "\\\\".into(),
        b' '..=b'~' => char::from(byte).to_string(),
        _ => format!("\\{byte:03o}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_leads_elsewhere_is_a_path() {
        for bad in ["", "/", "/a", "a/", "a//b", ".", "..", "a/../b", "./a", "a/.", "a\0b"] {
            assert_eq!(TreePath::new(bad.as_bytes()), None, "{bad:?}");
        }
        assert_eq!(TreePath::new(&[b'x'; 256]), None);
        assert_eq!(TreePath::new(&b"x/".repeat(MOST_PATH / 2 + 1)[..MOST_PATH + 1]), None);
        assert!(TreePath::new(b"...").is_some());
        for bad in ["", "..", "a/b", "\0"] {
            assert_eq!(TreePath::top().join(bad.as_bytes()), None, "{bad:?}");
        }
    }

    #[test]
    fn a_directory_is_followed_by_what_is_in_it() {
        let mut paths =
            ["a.b", "a/z", "a", "a/b/c", "a/b", "a\u{1}"].map(|text| TreePath::new(text.as_bytes()).unwrap());
        paths.sort();
        assert_eq!(
            paths.map(|path| path.as_bytes().to_vec()),
            [
                b"a".to_vec(),
                b"a/b".to_vec(),
                b"a/b/c".to_vec(),
                b"a/z".to_vec(),
                b"a\x01".to_vec(),
                b"a.b".to_vec(),
            ]
        );
    }

    #[test]
    fn below_is_by_whole_names() {
        let path = |text: &str| TreePath::new(text.as_bytes()).unwrap();
        assert_eq!(path("a/b/c").below(&path("a")), Some(b"b/c".as_slice()));
        assert_eq!(path("ab").below(&path("a")), None);
        assert_eq!(path("a").below(&TreePath::top()), Some(b"a".as_slice()));
        assert_eq!(TreePath::top().below(&TreePath::top()), None);
    }

    #[test]
    fn a_misleading_name_is_quoted() {
        assert_eq!(shown(b"src/main.rs"), "src/main.rs");
        assert_eq!(shown("straße".as_bytes()), "straße");
        assert_eq!(shown(b"a\nb\x1b[0m\xff"), r#""a\nb\033[0m\377""#);
        assert_eq!(shown("gpj.\u{202e}exe".as_bytes()), r#""gpj.\342\200\256exe""#);
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_survive_and_have_one_spelling(bytes: Vec<u8>, text: String) {
            proptest::prop_assert_eq!(unescape(&escape(&bytes)).unwrap(), bytes);
            if let Some(read) = unescape(&text) {
                proptest::prop_assert_eq!(escape(&read), text);
            }
        }
    }
}
