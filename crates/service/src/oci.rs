//! A policy as an OCI bundle, for a runtime that enforces it by itself.

use std::path::Path;

use ringfence_sandbox::{FILES, Host, OciBundle, bundle, write_bundle};

use crate::error::{ErrorCode, ServiceError};
use crate::places::Places;
use crate::runs::{Requested, RunSpec, requested};

/// The configuration alone. Its small files are named relative to the bundle that it will be in.
pub fn oci_spec(places: &Places, spec: RunSpec) -> Result<OciBundle, ServiceError> {
    made(places, spec, Path::new(FILES))
}

/// The same, written with its root and its files into a directory that is new or empty.
pub fn oci_bundle(places: &Places, spec: RunSpec, directory: &Path) -> Result<OciBundle, ServiceError> {
    let directory = places.absolute(directory, &places.current);
    let bundle = made(places, spec, &directory.join(FILES))?;
    write_bundle(&bundle, &directory)?;
    Ok(bundle)
}

fn made(places: &Places, spec: RunSpec, files_at: &Path) -> Result<OciBundle, ServiceError> {
    if spec.argv.first().is_none_or(|command| command.is_empty()) {
        return Err(ServiceError::new(
            ErrorCode::BadRequest,
            "there is no command to run",
            "name it after `--`: ringfence oci spec -- COMMAND",
        ));
    }
    let Requested { request, notes, held: _held } = requested(places, spec)?;
    let host = Host::look(&request)?;
    let mut bundle = bundle(&request, &host, files_at)?;
    bundle.notes.splice(0..0, notes);
    Ok(bundle)
}
