//! Root filesystem images: made, listed, checked, removed, and found for a run that names one.

use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use ringfence_images::{
    Built, FoundImage, ImageError, ImageRecord, ImageSource, ImageStore, build, find_image,
};
use ringfence_sandbox::ImageTree;

use crate::error::{ErrorCode, ServiceError};
use crate::places::Places;

/// What to make an image from.
#[derive(Clone, Debug)]
pub struct ImageBuild {
    pub name: String,
    /// `host`, `docker:NAME`, or a directory or archive.
    pub from: String,
    /// Programs of the host.
    pub with: Vec<String>,
}

/// Make an image; `progress` gets what is done and how much there is, and may break off.
pub fn build_image(
    places: &Places,
    spec: ImageBuild,
    progress: &mut dyn FnMut(u64, u64) -> ControlFlow<()>,
) -> Result<Built, ServiceError> {
    let source = match ImageSource::parse(&spec.from, spec.with)? {
        ImageSource::Path(path) => ImageSource::Path(places.absolute(&path, &places.current)),
        other => other,
    };
    Ok(build(&open(places)?, &spec.name, &source, progress)?)
}

pub fn list_images(places: &Places) -> Result<Vec<ImageRecord>, ServiceError> {
    // Looking makes nothing.
    if !places.state.path().join("images").is_dir() {
        return Ok(Vec::new());
    }
    Ok(open(places)?.list()?)
}

/// What is known of an image, and where its tree is.
pub fn show_image(places: &Places, name: &str) -> Result<(ImageRecord, PathBuf), ServiceError> {
    let FoundImage { record, root, .. } = find_image(places.state.path(), name)?;
    Ok((record, root))
}

pub fn remove_image(places: &Places, name: &str) -> Result<ImageRecord, ServiceError> {
    Ok(open(places)?.remove(name)?)
}

/// What is wrong with it; nothing, if it is what was built.
pub fn verify_image(places: &Places, name: &str) -> Result<Vec<String>, ServiceError> {
    Ok(open(places)?.verify(name)?)
}

/// The image that a policy names, and the lock that keeps it while the sandbox lives.
pub(crate) fn used_image(
    places: &Places,
    name: Option<&str>,
) -> Result<Option<(ImageTree, OwnedFd)>, ServiceError> {
    let Some(name) = name else { return Ok(None) };
    let FoundImage { record, root, held } = find_image(places.state.path(), name)?;
    // Where it really is: what is mounted is not looked up through a link of the state directory's.
    let root = root.canonicalize().map_err(|error| ServiceError::state("find", &root, &error))?;
    Ok(Some((ImageTree { name: record.name, digest: record.digest, root, path: record.path }, held)))
}

pub(crate) fn open(places: &Places) -> Result<ImageStore, ServiceError> {
    places.state.ensure()?;
    Ok(ImageStore::open(places.state.path())?)
}

impl From<ImageError> for ServiceError {
    fn from(error: ImageError) -> Self {
        Self::new(ErrorCode::Image, error.message, error.fix)
    }
}
