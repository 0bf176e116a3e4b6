//! Making an image, from wherever it comes, and giving it its name.

use std::fs::File;
use std::ops::ControlFlow;
use std::path::PathBuf;

use crate::archive::{LeftOut, Room, read_layer};
use crate::directory::read_directory;
use crate::docker;
use crate::draft::Draft;
use crate::error::{During, ImageError, Result};
use crate::host::host_image;
use crate::layout::{Layout, is_layout};
use crate::pack::check_packed;
use crate::spool::Spool;
use crate::store::{ImageRecord, ImageStore, NewImage};

/// What an image is made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageSource {
    /// These programs of the host, and what they need.
    Host { programs: Vec<String> },
    /// A directory (a root filesystem or an OCI layout), or an archive of either.
    Path(PathBuf),
    /// An image of the Docker daemon.
    Docker(String),
}

impl ImageSource {
    /// As the command line names it: `host`, `docker:NAME` or a path.
    pub fn parse(text: &str, programs: Vec<String>) -> Result<Self> {
        let wrong = |what: &str, fix: &str| Err(ImageError::new("image-bad-request", what, fix));
        let source = match (text, text.strip_prefix("docker:")) {
            ("", _) => {
                return wrong("--from is empty", "name `host`, a directory, an archive or `docker:NAME`");
            }
            ("host", _) if programs.is_empty() => {
                return wrong("an image of the host needs programs", "name them: --with python3,git");
            }
            ("host", _) => return Ok(Self::Host { programs }),
            (_, Some(name)) => Self::Docker(name.to_owned()),
            (path, None) => Self::Path(PathBuf::from(path)),
        };
        if programs.is_empty() {
            return Ok(source);
        }
        wrong(
            "--with names programs of the host, and the image is made from something else",
            "leave it out, or pass --from host",
        )
    }

    fn shown(&self) -> String {
        match self {
            Self::Host { .. } => "host".to_owned(),
            Self::Path(path) => path.display().to_string(),
            Self::Docker(name) => format!("docker:{name}"),
        }
    }
}

/// What came of a build.
#[derive(Clone, Debug)]
pub struct Built {
    pub record: ImageRecord,
    /// Contents that were not in the store before.
    pub new_objects: u64,
}

/// Make the image and give it the name; one that had it before loses it. `progress` gets what is done and how much there is, and
/// may break off.
pub fn build(
    store: &ImageStore,
    name: &str,
    source: &ImageSource,
    progress: &mut dyn FnMut(u64, u64) -> ControlFlow<()>,
) -> Result<Built> {
    let spool = store.spool()?;
    let mut room = Room::default();
    let mut left_out = LeftOut::default();
    let mut notes = Vec::new();
    let mut with = Vec::new();
    let (mut draft, path) = match source {
        ImageSource::Host { programs } => {
            let made = host_image(programs, &spool)?;
            notes.extend(made.notes);
            with.clone_from(programs);
            (made.draft, None)
        }
        ImageSource::Docker(image) => {
            let saved = docker::save(image, &docker::socket()?, &spool, room.bytes)?;
            read_file(&File::open(&saved).at("open", &saved)?, &spool, &mut room, &mut left_out)?
        }
        ImageSource::Path(path) => {
            let file = File::open(path).at("open", path)?;
            if !file.metadata().at("look at", path)?.is_dir() {
                read_file(&file, &spool, &mut room, &mut left_out)?
            } else if path.join("oci-layout").is_file() {
                let files = read_directory(path, &spool, &room, &mut left_out)?;
                let read = Layout(files).read(&spool, &mut room, &mut left_out)?;
                (read.draft, read.path)
            } else {
                (read_directory(path, &spool, &room, &mut left_out)?, None)
            }
        }
    };
    let packed = check_packed(&mut draft)?;
    draft.finish(&spool)?;
    notes.extend(left_out.notes());
    let new = NewImage { name, from: source.shown(), with, path, notes, packed };
    store.keep(&draft, new, progress)
}

fn read_file(
    file: &File,
    spool: &Spool,
    room: &mut Room,
    left_out: &mut LeftOut,
) -> Result<(Draft, Option<String>)> {
    let layer = read_layer(file, spool, room, left_out)?;
    if is_layout(&layer) {
        // The blobs count once as files of the archive; what they come to counts again.
        let mut room = Room::default();
        let read = Layout(layer.own().clone()).read(spool, &mut room, left_out)?;
        return Ok((read.draft, read.path));
    }
    let mut draft = Draft::default();
    layer.apply(&mut draft)?;
    Ok((draft, None))
}
