//! Where the frontmatter of a file begins and ends.
//!
//! The reference splits at the first two `---` wherever they stand, even in the middle of a value. People and clients
//! mean a line of its own: that is what the lenient cut looks for.

use std::borrow::Cow;

use super::{Level, Problem};

/// The most of a SKILL.md that is read.
pub const MANIFEST_BYTES: usize = 4 << 20;
/// The most that its frontmatter may have.
pub(super) const FRONTMATTER_BYTES: usize = 256 << 10;

const WHITE_SPACE: [char; 3] = [' ', '\t', '\n'];

/// A frontmatter, in which every line ends with `\n`, and what follows it.
#[derive(Debug)]
pub(super) struct Cut<'a> {
    pub(super) yaml: &'a str,
    /// The line of the file on which `yaml` begins, from 1.
    pub(super) first_line: u32,
    pub(super) body: &'a str,
    /// What had to be overlooked (lenient).
    pub(super) warnings: Vec<Problem>,
}

/// Bytes as text with `\n` as the only line end.
pub(super) fn text(bytes: &[u8]) -> Result<Cow<'_, str>, Problem> {
    if bytes.len() > MANIFEST_BYTES {
        let message = format!("the manifest has {} bytes; the most is {MANIFEST_BYTES}", bytes.len());
        return Err(Problem::error("too-large", message, None));
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let line = line_of(bytes, error.valid_up_to());
        Problem::error("not-utf8", format!("line {line} is not UTF-8"), Some(line))
    })?;
    if !bytes.contains(&b'\r') {
        return Ok(Cow::Borrowed(text));
    }
    Ok(Cow::Owned(text.replace("\r\n", "\n").replace('\r', "\n")))
}

/// As the reference cuts.
pub(super) fn cut_strictly(text: &str) -> Result<Cut<'_>, Problem> {
    let Some(rest) = text.strip_prefix("---") else {
        let message = "SKILL.md must start with frontmatter: `---` as its first characters".to_owned();
        return Err(Problem::error("frontmatter-missing", message, Some(1)));
    };
    let Some((yaml, body)) = rest.split_once("---") else { return Err(unclosed(1)) };
    limit(yaml)?;
    Ok(Cut { yaml, first_line: 1, body: body.trim(), warnings: Vec::new() })
}

/// As people mean it: a line `---`, and the next such line.
pub(super) fn cut_leniently(text: &str) -> Result<Cut<'_>, Problem> {
    let mut warnings = Vec::new();
    let start = skip_to_frontmatter(text, &mut warnings)?;
    let first_line = line_of(text.as_bytes(), start);
    let rest = &text[start + 3..];
    let (yaml, body) = match closing_line(rest) {
        Some(parts) => parts,
        None => {
            let parts = rest.split_once("---").ok_or_else(|| unclosed(first_line))?;
            let line = line_of(text.as_bytes(), start + 3 + parts.0.len());
            let message =
                format!("no line `---` ends the frontmatter; the `---` in line {line} was taken for its end");
            warnings.push(Problem::warning("frontmatter-end", message, Some(line)));
            parts
        }
    };
    limit(yaml)?;
    Ok(Cut { yaml, first_line, body, warnings })
}

/// The line of a byte, from 1.
pub(super) fn line_of(bytes: &[u8], at: usize) -> u32 {
    let before = &bytes[..at.min(bytes.len())];
    u32::try_from(before.iter().filter(|&&byte| byte == b'\n').count()).unwrap_or(u32::MAX).saturating_add(1)
}

/// Past a byte order mark, white space and HTML comments, to the offset of the first `---`. One pass, one warning of a kind.
fn skip_to_frontmatter(text: &str, warnings: &mut Vec<Problem>) -> Result<usize, Problem> {
    let mut rest = text;
    let mut line = 1;
    while !rest.starts_with("---") {
        let (after, code, what) = if let Some(after) = rest.strip_prefix('\u{feff}') {
            (after, "byte-order-mark", "a byte order mark")
        } else if let Some(comment) = rest.strip_prefix("<!--") {
            let Some((_, after)) = comment.split_once("-->") else {
                let message = "an HTML comment before the frontmatter does not end".to_owned();
                return Err(Problem::error("frontmatter-missing", message, Some(line)));
            };
            (after, "html-comment-first", "an HTML comment")
        } else if rest.starts_with(WHITE_SPACE) {
            (rest.trim_start_matches(WHITE_SPACE), "leading-blank", "white space")
        } else {
            let message = "there is no frontmatter: a line `---` as the first line".to_owned();
            return Err(Problem::error("frontmatter-missing", message, Some(line)));
        };
        // The line end behind a comment is not worth a word.
        if (code != "leading-blank" || rest.len() == text.len())
            && !warnings.iter().any(|warning| warning.code == code)
        {
            let message = format!("{what} stands before the frontmatter; it was overlooked");
            warnings.push(Problem::warning(code, message, Some(line)));
        }
        line += line_of(rest.as_bytes(), rest.len() - after.len()) - 1;
        rest = after;
    }
    Ok(text.len() - rest.len())
}

/// Up to and after the first line that has `---` and nothing else.
fn closing_line(rest: &str) -> Option<(&str, &str)> {
    let mut at = 0;
    for line in rest.split_inclusive('\n') {
        if at > 0 && line.trim_end() == "---" {
            return Some((&rest[..at], &rest[at + line.len()..]));
        }
        at += line.len();
    }
    None
}

fn unclosed(line: u32) -> Problem {
    let message = format!("the frontmatter that starts on line {line} does not end: a line `---` is missing");
    Problem::error("frontmatter-unclosed", message, Some(line))
}

fn limit(yaml: &str) -> Result<(), Problem> {
    if yaml.len() <= FRONTMATTER_BYTES {
        return Ok(());
    }
    let message = format!("the frontmatter has {} bytes; the most is {FRONTMATTER_BYTES}", yaml.len());
    Err(Problem { code: "too-large", level: Level::Error, message, line: Some(1) })
}
