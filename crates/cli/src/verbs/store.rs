//! The server's database, for verbs that need no server.

use std::path::PathBuf;

use ringfence_service::{ErrorCode, Places, ServiceError};
use ringfence_store::{Store, StoreError, StoreOptions};

use crate::failure::Failure;

pub(crate) fn database() -> Result<PathBuf, ServiceError> {
    Ok(Places::from_env()?.state.path().join("server.db"))
}

/// Open the database, do one thing, close it.
pub(crate) fn with_store<T, W>(work: impl FnOnce(Store) -> W) -> Result<T, Failure>
where
    W: Future<Output = Result<T, StoreError>>,
{
    with_store_of(StoreOptions::default(), work)
}

/// The same with anchors elsewhere.
pub(crate) fn with_store_of<T, W>(options: StoreOptions, work: impl FnOnce(Store) -> W) -> Result<T, Failure>
where
    W: Future<Output = Result<T, StoreError>>,
{
    Places::from_env()?.state.ensure()?;
    let path = database()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(format!("cannot start: {error}"), "try again"))?;
    let done = runtime.block_on(async {
        let store = Store::open_with(&path, options).await?;
        let done = work(store.clone()).await;
        store.close().await;
        done
    });
    done.map_err(|error| {
        let text = error.to_string();
        let (message, next) = text.rsplit_once("; ").unwrap_or((&text, "see docs/server.md"));
        ServiceError::new(ErrorCode::State, message, next).into()
    })
}
