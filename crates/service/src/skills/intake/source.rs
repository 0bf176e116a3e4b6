//! Where a skill comes from, as a person writes it: a directory, an archive, a repository, with `#sub/dir` at its end.

use std::ffi::OsString;
use std::fs;
use std::path::{Component, Path, PathBuf};

use ringfence_policy::HostRule;

use crate::error::{ErrorCode, ServiceError};
use crate::places::Places;

/// More is no name that git would take.
const MOST_REVISION: usize = 250;

/// What a caller says.
#[derive(Clone, Debug, Default)]
pub struct SourceSpec {
    pub source: OsString,
    /// A directory in it; also what follows a `#`.
    pub path: Option<String>,
    /// A branch, a tag or a whole commit of a repository.
    pub revision: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Source {
    pub(super) place: SourcePlace,
    pub(super) subdirectory: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SourcePlace {
    Directory(PathBuf),
    Archive(PathBuf),
    Git(GitSource),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GitSource {
    /// As it is kept: `https://…`, or `file:///…`.
    pub(super) url: String,
    pub(super) at: GitPlace,
    pub(super) revision: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum GitPlace {
    Host(HostRule),
    Local(PathBuf),
}

/// What a source means here.
pub(super) fn parse(places: &Places, spec: &SourceSpec) -> Result<Source, ServiceError> {
    let text = spec.source.to_string_lossy().into_owned();
    if let Some(revision) = &spec.revision {
        check_revision(revision)?;
    }
    if let Some(why) = not_fetched(&text) {
        return Err(why);
    }
    let is_url = text.starts_with("https://") || text.starts_with("file://");
    if is_url {
        let (url, after) = split(&text);
        let subdirectory = subdirectory(spec.path.as_deref().or(after))?;
        let place = SourcePlace::Git(git(url, spec.revision.clone())?);
        return Ok(Source { place, subdirectory });
    }
    let whole = places.absolute(Path::new(&spec.source), &places.current);
    let (path, after) = if whole.exists() {
        (whole, None)
    } else {
        let (before, after) = split(&text);
        (places.absolute(Path::new(before), &places.current), after)
    };
    let subdirectory = subdirectory(spec.path.as_deref().or(after))?;
    let facts = fs::metadata(&path).map_err(|error| {
        bad(
            format!("{}: {error}", path.display()),
            "name a directory, an archive, or a repository as https://HOST/PATH",
        )
    })?;
    let place = if facts.is_dir() && (spec.revision.is_some() || is_bare_repository(&path)) {
        SourcePlace::Git(local(path, spec.revision.clone())?)
    } else if facts.is_dir() {
        SourcePlace::Directory(path)
    } else if spec.revision.is_some() {
        return Err(bad(format!("{} is no repository", path.display()), "leave --rev out"));
    } else {
        SourcePlace::Archive(path)
    };
    Ok(Source { place, subdirectory })
}

/// A repository as its URL was kept. Whoever may write to a shared library may have written it.
pub(super) fn git(url: &str, revision: Option<String>) -> Result<GitSource, ServiceError> {
    if let Some(revision) = &revision {
        check_revision(revision)?;
    }
    if let Some(path) = url.strip_prefix("file://") {
        let path = Path::new(path);
        if !path.is_absolute() {
            return Err(bad(
                format!("{url}: not the path of a repository"),
                "write it like file:///srv/skills.git",
            ));
        }
        return local(path.to_path_buf(), revision);
    }
    if let Some(why) = not_fetched(url) {
        return Err(why);
    }
    let example = "write it like https://example.com/team/skills";
    let Some(rest) = url.strip_prefix("https://") else {
        return Err(bad(format!("{url}: not the URL of a repository"), example));
    };
    if url.chars().any(|letter| letter.is_control() || letter.is_whitespace()) {
        return Err(bad("a URL has no spaces and control characters", example));
    }
    let host = rest.split(['/', '?']).next().unwrap_or(rest);
    if host.contains('@') {
        return Err(bad(
            "a URL with a name or a password in it would be kept in the library: nothing was fetched",
            "clone it yourself, then add the directory",
        ));
    }
    let rule =
        if host.contains(':') && !host.ends_with(']') { host.to_owned() } else { format!("{host}:443") };
    let rule = HostRule::parse(&rule).map_err(|error| bad(format!("{url}: {error}"), example))?;
    if rule.grantable().is_err() {
        return Err(bad(
            format!("{url} is no host that a sandbox can reach: this machine itself, or none at all"),
            "name a repository of this machine by its path: file:///srv/skills.git",
        ));
    }
    Ok(GitSource { url: url.to_owned(), at: GitPlace::Host(rule), revision })
}

/// `sub/dir`: only names.
pub(in crate::skills) fn subdirectory(text: Option<&str>) -> Result<Option<String>, ServiceError> {
    let Some(text) = text else { return Ok(None) };
    if text.chars().any(char::is_control) {
        let message = format!("`{}` is no directory: it has a control character", text.escape_debug());
        return Err(bad(message, "name a directory in the source: --path skills/pdf-tools"));
    }
    let mut parts = Vec::new();
    for part in Path::new(text).components() {
        match part {
            Component::Normal(name) => parts.push(name.to_string_lossy().into_owned()),
            Component::CurDir => {}
            _ => {
                let message = format!("{} leads out of the source", text.escape_debug());
                return Err(bad(message, "name a directory in it: --path skills/pdf-tools"));
            }
        }
    }
    Ok((!parts.is_empty()).then(|| parts.join("/")))
}

fn local(path: PathBuf, revision: Option<String>) -> Result<GitSource, ServiceError> {
    let real = path
        .canonicalize()
        .map_err(|error| bad(format!("{}: {error}", path.display()), "name the directory of a repository"))?;
    let text = real.to_str().ok_or_else(|| bad(format!("{}: not UTF-8", real.display()), "rename it"))?;
    Ok(GitSource { url: format!("file://{text}"), at: GitPlace::Local(real), revision })
}

/// Schemes that people write and that are not fetched, each with its reason.
fn not_fetched(text: &str) -> Option<ServiceError> {
    let is_scp_like = || {
        let (before, after) = text.split_once(':').unwrap_or((text, ""));
        before.contains('@') && !before.contains('/') && !after.starts_with("//") && !after.is_empty()
    };
    if text.starts_with("ssh://") || text.starts_with("git+ssh://") || is_scp_like() {
        return Some(bad(
            "a repository is fetched in a sandbox, which has none of your keys: ssh does not work there",
            "clone it yourself, then add the directory",
        ));
    }
    let scheme = text.split_once("://").map(|(scheme, _)| scheme)?;
    match scheme {
        "https" | "file" => {}
        "http" | "git" => {
            return Some(bad(
                format!("{scheme}:// has no protection on the way: nothing was fetched"),
                "use https://, or clone it yourself and add the directory",
            ));
        }
        _ => {
            return Some(bad(
                format!("{scheme}:// is no source of skills"),
                "name a directory, an archive, or a repository as https://HOST/PATH",
            ));
        }
    }
    let path = text.split(['#', '?']).next().unwrap_or(text);
    let is_archive = ringfence_skills::Format::of_name(path).is_some();
    (is_archive && scheme == "https").then(|| {
        bad(
            "an archive is not downloaded for you",
            "download it, look at where it came from, then add the file",
        )
    })
}

fn split(text: &str) -> (&str, Option<&str>) {
    match text.rsplit_once('#') {
        Some((before, after)) => (before, Some(after)),
        None => (text, None),
    }
}

fn is_bare_repository(path: &Path) -> bool {
    path.join("HEAD").is_file() && path.join("objects").is_dir() && path.join("refs").is_dir()
}

/// An argument of git: a name of a branch or tag, or a commit, and never an option or a refspec.
pub(super) fn check_revision(text: &str) -> Result<(), ServiceError> {
    let letters =
        |letter: char| letter.is_alphanumeric() || matches!(letter, '.' | '_' | '/' | '-' | '+' | '#');
    let right = !text.is_empty()
        && text.len() <= MOST_REVISION
        && !text.starts_with(['-', '+', '/'])
        && !text.contains("..")
        && text.chars().all(letters);
    if right {
        return Ok(());
    }
    let shown: String = text.escape_debug().take(MOST_REVISION).collect();
    Err(bad(format!("`{shown}` is no branch, tag or commit"), "write it like main, v1.2 or a whole commit"))
}

fn bad(message: impl Into<String>, next: &str) -> ServiceError {
    ServiceError::new(ErrorCode::BadRequest, message, next)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(source: &str) -> Result<Source, ServiceError> {
        let mut places = Places::from_env().unwrap();
        places.current = "/".into();
        parse(&places, &SourceSpec { source: source.into(), ..SourceSpec::default() })
    }

    #[test]
    fn urls() {
        let found = parsed("https://example.com/team/skills.git#office/pdf").unwrap();
        assert_eq!(found.subdirectory.as_deref(), Some("office/pdf"));
        let SourcePlace::Git(git) = found.place else { panic!() };
        assert_eq!(git.url, "https://example.com/team/skills.git");
        assert_eq!(git.at, GitPlace::Host(HostRule::parse("example.com:443").unwrap()));
        let SourcePlace::Git(git) = parsed("https://example.com:8443/x").unwrap().place else { panic!() };
        assert_eq!(git.at, GitPlace::Host(HostRule::parse("example.com:8443").unwrap()));
    }

    #[test]
    fn what_is_not_fetched_says_why() {
        for (source, part) in [
            ("git@example.com:team/skills", "keys"),
            ("ssh://git@example.com/x", "keys"),
            ("http://example.com/x", "protection"),
            ("git://example.com/x", "protection"),
            ("ext::sh -c true", "no such file"),
            ("ext://x", "no source"),
            ("https://user:pass@example.com/x", "password"),
            ("https://127.0.0.1/x", "this machine"),
            ("https://example.com/a.skill", "downloaded"),
            ("https://example.com/a b", "spaces"),
            ("https:///x", "https:///x"),
            ("/usr#../etc", "leads out"),
            ("/none/at/all", "/none/at/all"),
        ] {
            let error = parsed(source).unwrap_err();
            assert!(error.message.to_lowercase().contains(part), "{source}: {error}");
        }
    }

    #[test]
    fn what_was_kept_is_checked_as_what_is_said() {
        let url = "https://example.com/x";
        assert!(git(url, Some("v1".to_owned())).is_ok());
        for wrong in ["--upload-pack=touch evil", "+a:b", "a\u{1b}[2J"] {
            let error = git(url, Some(wrong.to_owned())).unwrap_err();
            assert!(error.message.contains("no branch, tag or commit"), "{error}");
            assert!(!error.message.contains('\u{1b}'), "{error:?}");
        }
        assert_eq!(subdirectory(Some("./a//b")).unwrap().as_deref(), Some("a/b"));
        for wrong in ["../a", "/etc", "a/../../b", "a\u{1b}[2J", "a\nb"] {
            let error = subdirectory(Some(wrong)).unwrap_err();
            assert!(!error.message.contains(char::is_control), "{error:?}");
        }
    }

    #[test]
    fn revisions_are_names() {
        for right in ["main", "v1.2", "feature/x-1", "0123abcd"] {
            assert!(check_revision(right).is_ok(), "{right}");
        }
        for wrong in ["", "-x", "--upload-pack=x", "+a:b", "a:b", "a b", "a..b", "a\n", "@{1}"] {
            assert!(check_revision(wrong).is_err(), "{wrong}");
        }
    }
}
