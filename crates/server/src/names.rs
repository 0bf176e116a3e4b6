//! Names of users: they are parts of paths too.

use crate::error::{Answer, ApiError};

const LONGEST: usize = 64;
/// What a directory of workspaces holds itself.
const RESERVED: &[&str] = &["files", "image", "mounted", "lock"];

/// Whether a user may be called so.
pub fn is_user_name(name: &str) -> bool {
    let first = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    name.len() <= LONGEST
        && name.bytes().next().is_some_and(first)
        && name.bytes().all(|byte| first(byte) || b"._-".contains(&byte))
        && !RESERVED.contains(&name)
        && !name.starts_with(crate::jwt::PREFIX)
}

pub(crate) fn check_user_name(name: &str) -> Answer<()> {
    if is_user_name(name) {
        return Ok(());
    }
    Err(ApiError::bad(
        format!("`{}` is no name for a user", name.escape_debug()),
        "use up to 64 of a-z, 0-9, `.`, `_` and `-`, beginning with a letter or digit",
    ))
}

#[cfg(test)]
mod tests {
    use super::is_user_name;

    #[test]
    fn no_name_leads_elsewhere() {
        for name in ["ada", "a.b-c_d", "0"] {
            assert!(is_user_name(name), "{name}");
        }
        for name in ["", ".", "..", "a/b", "../a", "A", "ä", "lock", "jwt.ada", "a\0", &"a".repeat(65)] {
            assert!(!is_user_name(name), "{name:?}");
        }
    }
}
