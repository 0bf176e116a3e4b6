//! A difference as text, as git writes it, so that `git apply` and people can read it.

use std::io::{self, Read, Write};
use std::time::Duration;

use similar::{Algorithm, TextDiff};

use super::diff::{Change, Changed, Diff, DiffLimits, DiffSide, Seen};
use super::error::{During, Result};
use super::path::shown;
use super::reading::{Reading, steadily};
use super::store::SnapshotStore;
use super::tree::EntryKind;

/// A file that takes longer is shown as replaced in large parts.
const MOST_TIME: Duration = Duration::from_secs(1);
const CONTEXT: usize = 3;
/// Git looks for a NUL in so many bytes to tell text from the rest.
const LOOKED_AT: usize = 8000;

enum Content {
    Text(Vec<u8>),
    Binary,
    TooLarge,
}

impl SnapshotStore {
    /// `diff` must be of these two sides. Files of a live side are read now.
    pub fn write_diff(
        &self,
        diff: &Diff,
        (base, other): (DiffSide<'_>, DiffSide<'_>),
        limits: DiffLimits,
        out: &mut dyn Write,
    ) -> Result<()> {
        let _lock = self.shared()?;
        let several = diff.roots.len() > 1;
        let mut left = limits.output_bytes;
        for (index, change) in diff.changes.iter().enumerate() {
            let next = diff.changes.get(index + 1).filter(|next| next.root == change.root);
            let is_implied = next.is_some_and(|next| next.path.below(&change.path).is_some());
            let most = limits.file_bytes.min(left);
            let before = self.content(change, change.before.as_ref(), base, most)?;
            let after = self.content(change, change.after.as_ref(), other, most)?;
            let name = if several {
                [change.root.as_bytes(), b"/", change.path.as_bytes()].concat()
            } else {
                change.path.as_bytes().to_vec()
            };
            let mut text = Vec::new();
            for part in parts(change, &before, &after) {
                part.write(&name, is_implied, &mut text).during("write", "the difference")?;
            }
            left = left.saturating_sub(text.len() as u64);
            out.write_all(&text).during("write", "the difference")?;
        }
        Ok(())
    }

    /// Nothing for a directory, and for what is not there.
    fn content(
        &self,
        change: &Change,
        seen: Option<&Seen>,
        side: DiffSide<'_>,
        most: u64,
    ) -> Result<Content> {
        let Some(seen) = seen else { return Ok(Content::Text(Vec::new())) };
        if let Some(target) = &seen.target {
            return Ok(Content::Text(target.as_bytes().to_vec()));
        }
        if seen.kind != EntryKind::File {
            return Ok(Content::Text(Vec::new()));
        }
        if seen.size > most {
            return Ok(Content::TooLarge);
        }
        let bytes = match (side, seen.object) {
            (DiffSide::Snapshot(_), Some(object)) => read(&mut self.objects.open(&object, seen.size)?),
            (DiffSide::Live { roots, .. }, _) => {
                let Some(root) = roots.iter().find(|root| root.label == change.root) else {
                    return Ok(Content::Binary);
                };
                let reading = steadily(root.tree, &change.path, |content, stat| {
                    let content = if stat.size > most { None } else { Some(read(content)) };
                    content.transpose().during("read", change.path.to_string())
                })?;
                match reading {
                    Reading::Read(Some(bytes), _) => Ok(bytes),
                    Reading::Read(None, _) => return Ok(Content::TooLarge),
                    Reading::Gone | Reading::Unreadable => return Ok(Content::Binary),
                }
            }
            (DiffSide::Snapshot(_), None) => return Ok(Content::Binary),
        };
        let bytes = bytes.during("read", change.path.to_string())?;
        let is_binary = bytes[..bytes.len().min(LOOKED_AT)].contains(&0);
        Ok(if is_binary { Content::Binary } else { Content::Text(bytes) })
    }
}

fn read(content: &mut dyn Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    content.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// One `diff` of the output: a change of kind is two, a removal and an addition.
struct Part<'a> {
    before: Option<(&'a Seen, &'a Content)>,
    after: Option<(&'a Seen, &'a Content)>,
}

fn parts<'a>(change: &'a Change, before: &'a Content, after: &'a Content) -> Vec<Part<'a>> {
    let before = change.before.as_ref().map(|seen| (seen, before));
    let after = change.after.as_ref().map(|seen| (seen, after));
    if change.what == Changed::Kind {
        vec![Part { before, after: None }, Part { before: None, after }]
    } else {
        vec![Part { before, after }]
    }
}

impl Part<'_> {
    fn write(&self, name: &[u8], is_implied: bool, out: &mut dyn Write) -> io::Result<()> {
        let old = shown(&[b"a/", name].concat());
        let new = shown(&[b"b/", name].concat());
        let seen = [self.before, self.after].into_iter().flatten().map(|(seen, _)| seen);
        if seen.clone().any(|seen| !has_content(seen)) {
            return if is_implied { Ok(()) } else { self.write_named(name, out) };
        }
        writeln!(out, "diff --git {old} {new}")?;
        let (old, new) = match (self.before, self.after) {
            (None, Some((after, _))) => {
                writeln!(out, "new file mode {}", git_mode(after))?;
                ("/dev/null".to_owned(), new)
            }
            (Some((before, _)), None) => {
                writeln!(out, "deleted file mode {}", git_mode(before))?;
                (old, "/dev/null".to_owned())
            }
            (Some((before, _)), Some((after, _))) if git_mode(before) != git_mode(after) => {
                writeln!(out, "old mode {}\nnew mode {}", git_mode(before), git_mode(after))?;
                (old, new)
            }
            _ => (old, new),
        };
        self.write_content(&old, &new, out)
    }

    /// Directories, and what is in a snapshot by name only.
    fn write_named(&self, name: &[u8], out: &mut dyn Write) -> io::Result<()> {
        let name = shown(name);
        match (self.before, self.after) {
            (Some((seen, _)), None) => writeln!(out, "Only in a: {name} ({})", noun(seen)),
            (None, Some((seen, _))) => writeln!(out, "Only in b: {name} ({})", noun(seen)),
            (Some((old, _)), Some((new, _))) => {
                writeln!(out, "Mode of {name} ({}): {:04o} in a, {:04o} in b", noun(old), old.mode, new.mode)
            }
            (None, None) => Ok(()),
        }
    }

    fn write_content(&self, old: &str, new: &str, out: &mut dyn Write) -> io::Result<()> {
        let nothing = Content::Text(Vec::new());
        let before = self.before.map_or(&nothing, |(_, content)| content);
        let after = self.after.map_or(&nothing, |(_, content)| content);
        match (before, after) {
            (Content::Text(before), Content::Text(after)) => {
                let (old, new) = (header_name(old), header_name(new));
                let diff = TextDiff::configure()
                    .algorithm(Algorithm::Myers)
                    .timeout(MOST_TIME)
                    .diff_lines(before.as_slice(), after.as_slice());
                diff.unified_diff().context_radius(CONTEXT).header(&old, &new).to_writer(out)
            }
            (Content::TooLarge, _) | (_, Content::TooLarge) => {
                writeln!(out, "Files {old} and {new} differ, and are too large to be shown")
            }
            (Content::Binary, _) | (_, Content::Binary) => {
                writeln!(out, "Binary files {old} and {new} differ")
            }
        }
    }
}

/// Where a name ends must be clear: a tab says so if it has a space.
fn header_name(name: &str) -> String {
    if name.contains(' ') && !name.starts_with('"') { format!("{name}\t") } else { name.to_owned() }
}

fn has_content(seen: &Seen) -> bool {
    matches!(seen.kind, EntryKind::File | EntryKind::Link)
}

fn noun(seen: &Seen) -> &'static str {
    match seen.kind {
        EntryKind::Directory => "directory",
        EntryKind::File => "file",
        EntryKind::Link => "link",
        EntryKind::Special => "not kept",
    }
}

fn git_mode(seen: &Seen) -> String {
    match seen.kind {
        EntryKind::Link => "120000".into(),
        _ => format!("100{:03o}", seen.mode & 0o777),
    }
}
