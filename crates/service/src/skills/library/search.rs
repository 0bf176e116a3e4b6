//! Search over the library. The index is a cache in the state directory, never in the library.

use std::path::PathBuf;

use ringfence_skills::{SearchError, SearchIndex, Searched};

use super::open::existing_library;
use crate::error::{ErrorCode, ServiceError};
use crate::places::Places;

const CACHE: &str = "search";

#[derive(Clone, Debug)]
pub struct SearchSpec {
    pub text: String,
    pub most: usize,
    pub library: Option<PathBuf>,
}

/// Best first. A library that was never made has nothing.
pub fn search_skills(places: &Places, spec: &SearchSpec) -> Result<Searched, ServiceError> {
    if spec.text.trim().is_empty() {
        return Err(ServiceError::new(
            ErrorCode::BadRequest,
            "there is nothing to search for",
            "name some words: ringfence skill search extract tables from pdf",
        ));
    }
    let Some(library) = existing_library(places, spec.library.as_deref())? else {
        return Ok(Searched { hits: Vec::new(), unreadable: Vec::new() });
    };
    places.state.ensure()?;
    let subject = library.path().canonicalize().unwrap_or_else(|_| library.path().to_path_buf());
    let mut index = SearchIndex::open(&places.state.path().join(CACHE), &subject.display().to_string())?;
    Ok(index.search_library(&library, &spec.text, spec.most)?)
}

impl From<SearchError> for ServiceError {
    fn from(error: SearchError) -> Self {
        match error {
            SearchError::Library(error) => error.into(),
            other => Self::new(
                ErrorCode::State,
                other.to_string(),
                "look at the state directory; what is in its `search` can be removed at any time",
            ),
        }
    }
}
