//! A directory as an image: what is in it, links as links. Contents are copied beneath its descriptor: what is swapped for a link
//! meanwhile is not followed.

use std::io::{Read, copy};
use std::path::Path;

use ringfence_sandbox::snapshots::{EntryKind, LocalTree, Tree, TreePath};

use crate::archive::{LeftOut, Room};
use crate::draft::{Draft, Part};
use crate::error::{During, ImageError, Result};
use crate::spool::Spool;

pub(crate) fn read_directory(
    from: &Path,
    spool: &Spool,
    room: &Room,
    left_out: &mut LeftOut,
) -> Result<Draft> {
    let tree = LocalTree::open(from).at("open", from)?;
    let mut draft = Draft::default();
    let mut bytes = 0_u64;
    let mut waiting = vec![TreePath::top()];
    while let Some(directory) = waiting.pop() {
        let here = from.join(directory.as_os_str());
        for entry in tree.list(&directory, room.entries + 1).at("list", &here)? {
            let path = directory.join(&entry.name).ok_or_else(|| {
                ImageError::refused("image-too-deep", format!("{} is too deep", here.display()))
            })?;
            let part = match entry.stat.kind {
                EntryKind::Directory => {
                    waiting.push(path.clone());
                    Part::Directory
                }
                EntryKind::Link => Part::Link(entry.target.unwrap_or_default()),
                EntryKind::File => {
                    left_out.setuid += u64::from(entry.stat.mode & 0o6000 != 0);
                    bytes = bytes.saturating_add(entry.stat.size);
                    let at = from.join(path.as_os_str());
                    let (content, mut out) = spool.create(entry.stat.mode & 0o111 != 0)?;
                    let file = tree.open(&path).at("open", &at)?;
                    // It may grow meanwhile, for ever.
                    copy(&mut file.take(entry.stat.size), &mut out).at("copy", &at)?;
                    Part::File(content)
                }
                EntryKind::Special => {
                    left_out.devices += 1;
                    continue;
                }
            };
            draft.put(path, part)?;
            if draft.len() > room.entries || bytes > room.bytes {
                return Err(ImageError::refused(
                    "image-too-much",
                    format!("{} is too large for an image", from.display()),
                ));
            }
        }
    }
    Ok(draft)
}
