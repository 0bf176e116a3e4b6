//! One layer of an image: what it adds and what it takes away, applied to what lies beneath in the order that the OCI
//! specification gives: opaque directories, whiteouts, then entries.

use ringfence_sandbox::snapshots::TreePath;

use crate::draft::{Draft, Part};
use crate::error::{ImageError, Result};

const WHITEOUT: &[u8] = b".wh.";
const OPAQUE: &[u8] = b".wh..wh..opq";

/// What one layer says.
#[derive(Clone, Debug, Default)]
pub(crate) struct Layer {
    own: Draft,
    /// In the order of the archive.
    named: Vec<TreePath>,
    whiteouts: Vec<TreePath>,
    opaque: Vec<TreePath>,
    /// A second name for a file of a lower layer: its path, and the file's.
    links_down: Vec<(TreePath, TreePath)>,
}

impl Layer {
    /// A file, link or directory. One that takes something away has a name of its own, and no content that counts.
    pub(crate) fn add(&mut self, path: TreePath, part: Part) -> Result<()> {
        let Some((above, name)) = path.split() else { return Ok(()) };
        if name == OPAQUE {
            self.opaque.push(above);
            return Ok(());
        }
        if let Some(hidden) = name.strip_prefix(WHITEOUT) {
            let hidden = above.join(hidden).ok_or_else(|| {
                ImageError::refused(
                    "image-bad-whiteout",
                    format!("{path} takes nothing away that has a name"),
                )
            })?;
            self.whiteouts.push(hidden);
            return Ok(());
        }
        self.new_name(&path, &part)?;
        self.own.put(path.clone(), part)?;
        self.named.push(path);
        Ok(())
    }

    /// A hard link to a file of this layer, or of one beneath.
    pub(crate) fn add_hard_link(&mut self, path: TreePath, to: TreePath) -> Result<()> {
        match self.own.get(&to) {
            Some(Part::File(content)) => {
                let part = Part::File(content.clone());
                self.add(path, part)
            }
            Some(_) => Err(bad_link(&path, &to)),
            None => {
                self.new_name(&path, &Part::File(Default::default()))?;
                self.links_down.push((path, to));
                Ok(())
            }
        }
    }

    /// A name that comes twice is read in two ways by two programs.
    fn new_name(&self, path: &TreePath, part: &Part) -> Result<()> {
        let twice = match self.own.get(path) {
            None => self.links_down.iter().any(|(known, _)| known == path),
            Some(Part::Directory) => *part != Part::Directory,
            Some(_) => true,
        };
        if twice {
            return Err(ImageError::refused("image-duplicate", format!("{path} is in one layer twice")));
        }
        Ok(())
    }

    /// The files and links of this layer alone, where it is looked at as an archive and not as a part of an image.
    pub(crate) fn own(&self) -> &Draft {
        &self.own
    }

    pub(crate) fn entries(&self) -> usize {
        self.own.len() + self.links_down.len() + self.whiteouts.len() + self.opaque.len()
    }

    pub(crate) fn apply(self, image: &mut Draft) -> Result<()> {
        let found = self.links_down.into_iter().map(|(path, to)| match image.get(&to) {
            Some(Part::File(content)) => Ok((path, Part::File(content.clone()))),
            _ => Err(bad_link(&path, &to)),
        });
        let links = found.collect::<Result<Vec<_>>>()?;
        for directory in &self.opaque {
            image.clear(directory);
        }
        for path in &self.whiteouts {
            image.remove(path);
        }
        for path in self.named {
            if let Some(part) = self.own.get(&path) {
                image.put(path, part.clone())?;
            }
        }
        links.into_iter().try_for_each(|(path, part)| image.put(path, part))
    }
}

fn bad_link(path: &TreePath, to: &TreePath) -> ImageError {
    ImageError::refused(
        "image-bad-link",
        format!("{path} is a hard link to {to}, which is no file of the image"),
    )
}
