//! A path as a tool's settings write it: `~`, relative, `//absolute`, with or without a pattern in it.
//!
//! `..` is taken away by text, as all four tools do. A pattern is known by the directory that all it can match is in.

use std::path::{Component, Path, PathBuf};

/// Where a path of settings is, and whether it names one place or many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// This file or directory, with all in it. `as_directory`: it was written with a slash at its end.
    Path { path: PathBuf, as_directory: bool },
    /// Some of what is in this directory, at any depth.
    Pattern { within: PathBuf },
}

impl Place {
    /// The one place, or the directory that all the places are in.
    pub(super) fn outer(&self) -> &Path {
        match self {
            Place::Path { path, .. } => path,
            Place::Pattern { within } => within,
        }
    }
}

/// `text`, where relative paths begin at `base`.
pub(super) fn place(text: &str, base: &Path, home: &Path) -> Option<Place> {
    if text.is_empty() || text.contains('\0') {
        return None;
    }
    let (start, rest) = match text {
        "~" => (home, ""),
        _ => match text.strip_prefix("~/") {
            Some(rest) => (home, rest),
            // Another user's home is not looked up.
            None if text.starts_with('~') => return None,
            None if text.starts_with('/') => (Path::new("/"), text),
            None => (base, text),
        },
    };
    // All that is in a directory is the directory. Any other form with a pattern in it is one, `x/**/` too.
    let rest = rest.strip_suffix("/**").unwrap_or(rest);
    let as_directory = text.ends_with('/') || text.ends_with("/**");
    let literal: Vec<&str> = rest.split('/').take_while(|part| !is_pattern(part)).collect();
    let path = normal(&start.join(literal.join("/").trim_start_matches('/')));
    if literal.len() < rest.split('/').count() {
        // `..` behind a pattern could lead out of any directory.
        let leads_out = rest.split('/').skip(literal.len()).any(|part| part == "..");
        return Some(Place::Pattern { within: if leads_out { PathBuf::from("/") } else { path } });
    }
    Some(Place::Path { path, as_directory })
}

pub(super) fn is_pattern(part: &str) -> bool {
    part.contains(['*', '?', '[', '{'])
}

/// Without `.` and `..`.
pub(super) fn normal(path: &Path) -> PathBuf {
    let mut out = PathBuf::from("/");
    for part in path.components() {
        match part {
            Component::ParentDir => {
                out.pop();
            }
            Component::Normal(part) => out.push(part),
            _ => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<Place> {
        place(text, Path::new("/work/app"), Path::new("/home/ann"))
    }

    fn path(path: &str, as_directory: bool) -> Option<Place> {
        Some(Place::Path { path: path.into(), as_directory })
    }

    fn pattern(within: &str) -> Option<Place> {
        Some(Place::Pattern { within: within.into() })
    }

    #[test]
    fn each_form() {
        assert_eq!(read("."), path("/work/app", false));
        assert_eq!(read("./src/"), path("/work/app/src", true));
        assert_eq!(read("src/**"), path("/work/app/src", true));
        assert_eq!(read("**"), pattern("/work/app"));
        assert_eq!(read("src/**/"), pattern("/work/app/src"));
        assert_eq!(read("src/**/**"), pattern("/work/app/src"));
        assert_eq!(read("~"), path("/home/ann", false));
        assert_eq!(read("~/.ssh"), path("/home/ann/.ssh", false));
        assert_eq!(read("/etc/../srv"), path("/srv", false));
        assert_eq!(read("//srv/x"), path("/srv/x", false));
        assert_eq!(read("../../../../x"), path("/x", false));
        assert_eq!(read("**/.env"), pattern("/work/app"));
        assert_eq!(read(".env.*"), pattern("/work/app"));
        assert_eq!(read("~/keys/*.pem"), pattern("/home/ann/keys"));
        assert_eq!(read("/**/x"), pattern("/"));
        assert_eq!(read("src/*/../../../x"), pattern("/"));
        assert_eq!(read("/a/{b,c}"), pattern("/a"));
        assert_eq!(read("~root/x"), None);
        assert_eq!(read(""), None);
    }
}
