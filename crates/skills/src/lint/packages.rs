//! Names of packages that are one letter away from a well-known one.

use std::sync::LazyLock;

use regex::bytes::{Regex, RegexBuilder};

use super::file::name;
use super::report::Report;
use super::rules::TYPOSQUAT;
use super::text::Text;

/// Packages that many install, whose misspellings are registered by others. Five letters or more: shorter names have too
/// many honest neighbours.
const WELL_KNOWN: [&str; 74] = [
    "aiohttp",
    "anthropic",
    "asyncio",
    "axios",
    "beautifulsoup4",
    "black",
    "boto3",
    "botocore",
    "certifi",
    "chalk",
    "cheerio",
    "click",
    "colorama",
    "commander",
    "cross-env",
    "cryptography",
    "django",
    "dotenv",
    "electron",
    "esbuild",
    "eslint",
    "express",
    "fastapi",
    "flask",
    "google-auth",
    "gunicorn",
    "httpx",
    "jellyfish",
    "jinja2",
    "jsonschema",
    "jupyter",
    "keras",
    "langchain",
    "lodash",
    "matplotlib",
    "moment",
    "mongoose",
    "networkx",
    "numpy",
    "openai",
    "opencv-python",
    "openpyxl",
    "pandas",
    "paramiko",
    "pillow",
    "playwright",
    "prettier",
    "psutil",
    "puppeteer",
    "pydantic",
    "pygments",
    "pymongo",
    "pypdf",
    "pytest",
    "python-dateutil",
    "python-docx",
    "pyyaml",
    "react",
    "requests",
    "scikit-learn",
    "scipy",
    "selenium",
    "setuptools",
    "socket.io",
    "sqlalchemy",
    "tensorflow",
    "torch",
    "transformers",
    "typescript",
    "typing-extensions",
    "urllib3",
    "uvicorn",
    "webpack",
    "websockets",
];
/// Packages of their own that are near a well-known one.
const HONEST: [&str; 10] = [
    "scapy",
    "preact",
    "openapi",
    "pyaml",
    "slack",
    "pypdf2",
    "pypdf3",
    "pypdf4",
    "websocket",
    "transformer",
];
/// So many names of a file.
const MOST: usize = 500;

pub(super) fn check(report: &mut Report, path: &str, text: &Text) {
    for hit in INSTALL.captures_iter(&text.joined).take(MOST) {
        let Some(names) = hit.get(1) else { continue };
        let mut at = names.start();
        for word in names.as_bytes().split(|byte| byte.is_ascii_whitespace()).take(MOST) {
            check_package(report, path, text, at, word);
            at += word.len() + 1;
        }
    }
    let file = name(path);
    if file.starts_with("requirements") && file.ends_with(".txt") {
        let mut at = 0;
        for line in text.source.lines().take(MOST) {
            check_package(report, path, text, at, line.trim().as_bytes());
            at += line.len() + 1;
        }
    }
}

fn check_package(report: &mut Report, path: &str, text: &Text, at: usize, word: &[u8]) {
    let word = String::from_utf8_lossy(word);
    let name: String = word
        .trim_start_matches(['"', '\''])
        .chars()
        .take_while(|character| character.is_ascii_alphanumeric() || matches!(character, '-' | '_' | '.'))
        .collect::<String>()
        .to_ascii_lowercase()
        .replace('_', "-");
    if let Some(meant) = neighbour(&name) {
        report.add(&TYPOSQUAT, path, Some(text.line(at)), &format!("{name}, which is near to {meant}"));
    }
}

fn neighbour(name: &str) -> Option<&'static str> {
    let honest = name.len() < 5 || WELL_KNOWN.contains(&name) || HONEST.contains(&name);
    if honest {
        return None;
    }
    WELL_KNOWN.into_iter().find(|known| known.len() >= 5 && one_apart(name.as_bytes(), known.as_bytes()))
}

/// One letter more, less or other, or two that changed places.
fn one_apart(left: &[u8], right: &[u8]) -> bool {
    let (short, long) = if left.len() <= right.len() { (left, right) } else { (right, left) };
    let same = short.iter().zip(long).take_while(|(one, other)| one == other).count();
    match long.len() - short.len() {
        0 => {
            short[same..].get(1..) == long[same..].get(1..)
                || (short.len() >= same + 2
                    && short[same] == long[same + 1]
                    && short[same + 1] == long[same]
                    && short[same + 2..] == long[same + 2..])
        }
        1 => short[same..] == long[same + 1..],
        _ => false,
    }
}

static INSTALL: LazyLock<Regex> = LazyLock::new(|| {
    RegexBuilder::new(
        r"\b(?:pip3?|uv\s+pip|uv|pipx|poetry|npm|pnpm|yarn|bun)\s+(?:install|add|i)\s+((?:[ \t]*[\w@./=<>~^!\[\],'\x22-]+)+)",
    )
    .unicode(false)
    .case_insensitive(true)
    .build()
    .expect("the pattern is a constant, and a test compiles it")
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_name_is_told_from_a_right_one() {
        for name in [
            "reqeusts",
            "requets",
            "request",
            "numpyy",
            "pandsa",
            "beautifulsup4",
            "expres",
            "colourama",
            "lodahs",
        ] {
            assert!(neighbour(name).is_some(), "{name}");
        }
        for name in
            ["requests", "scapy", "preact", "pypdf2", "requests-oauthlib", "numpy", "flask-cors", "pip", ""]
        {
            assert_eq!(neighbour(name), None, "{name}");
        }
    }

    #[test]
    fn install_commands_are_found() {
        let hit = INSTALL.captures(b"run `pip install -U reqeusts==2.0 'x'`").unwrap();
        assert_eq!(&hit[1], b"-U reqeusts==2.0 'x'");
    }
}
