//! What a user holds open at a time: streams and waits, and bodies that are kept until they were looked at. Each is a place of
//! a number that nobody else has a share in, so that nobody can take what is others'.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::http::StatusCode;
use rustix::fs::{CWD, Mode, OFlags, openat};
use uuid::Uuid;

use crate::app::App;
use crate::auth::Caller;
use crate::error::{Answer, ApiError};

/// Places that are taken, by user. How many there are is said by whoever takes one: it goes by their role at that moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct PerUser(Arc<Mutex<HashMap<String, u64>>>);

/// Free again when it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    all: PerUser,
    user: String,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.all.taken();
        if let Some(count) = taken.get_mut(&self.user) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                taken.remove(&self.user);
            }
        }
    }
}

impl PerUser {
    fn taken(&self) -> MutexGuard<'_, HashMap<String, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn of(&self, user: &str) -> u64 {
        self.taken().get(user).copied().unwrap_or(0)
    }

    /// None: as many as may be are taken.
    pub(crate) fn take(&self, user: &str, most: u64) -> Option<Place> {
        let mut taken = self.taken();
        let count = taken.get(user).copied().unwrap_or(0);
        if count >= most {
            return None;
        }
        taken.insert(user.to_owned(), count + 1);
        drop(taken);
        Some(Place { all: self.clone(), user: user.to_owned() })
    }

    /// For what is there already.
    pub(crate) fn count_in(&self, user: &str) -> Place {
        *self.taken().entry(user.to_owned()).or_default() += 1;
        Place { all: self.clone(), user: user.to_owned() }
    }
}

/// The right to hold one more answer open.
#[derive(Debug)]
pub(crate) struct Held {
    _place: Place,
}

/// Bodies of one user that are kept at a time: each may be as large as what is left of their disk.
const STAGED: u64 = 2;

impl App {
    /// For a stream, or for a wait that goes on while nothing is done.
    pub(crate) fn hold(&self, caller: &Caller) -> Answer<Held> {
        let most = self.config.role(caller.role).quotas.streams;
        let place = self.held.take(&caller.user, u64::from(most)).ok_or_else(|| {
            ApiError::too_many(
                format!("{most} streams and waits of yours are open, and that is your quota"),
                "wait until one has ended, or close one",
                1,
            )
        })?;
        Ok(Held { _place: place })
    }

    /// For a body that is kept until it was looked at.
    pub(crate) fn stage(&self, caller: &Caller) -> Answer<Held> {
        let place = self.staged.take(&caller.user, STAGED).ok_or_else(|| {
            ApiError::too_many(
                format!("{STAGED} archives of yours are being taken in, and that is as many as may"),
                "wait until one has been",
                1,
            )
        })?;
        Ok(Held { _place: place })
    }
}

/// All of a body, in a file with no name on the server's own disk, to be read from its beginning more than once. It is gone with its last
/// descriptor, also when the server is killed.
pub(crate) fn staged(directory: &Path, body: &mut dyn Read, most: u64) -> Answer<File> {
    let problem = |error: io::Error| ApiError::internal("keep an archive", error);
    let mut file = nameless(directory).map_err(problem)?;
    let mut block = vec![0; 128 << 10];
    let mut left = most;
    loop {
        // What breaks off here is the client's doing.
        let read = body.read(&mut block).map_err(|error| {
            ApiError::bad(format!("the stream broke off: {error}"), "send it again, whole")
        })?;
        if read == 0 {
            break;
        }
        left = left.checked_sub(read as u64).ok_or_else(|| {
            ApiError::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                "too_large",
                format!("there is more than the limit of {most} bytes"),
                "send a part of it",
            )
        })?;
        file.write_all(&block[..read]).map_err(|error| {
            tracing::warn!(%error, "an archive can't be kept");
            ApiError::new(
                StatusCode::INSUFFICIENT_STORAGE,
                "not_written",
                "the server has no room to look at the archive",
                "send a part of it, or ask an admin",
            )
        })?;
    }
    rewound(file)
}

/// From its beginning.
pub(crate) fn rewound(mut file: File) -> Answer<File> {
    file.seek(SeekFrom::Start(0)).map_err(|error| ApiError::internal("read an archive again", error))?;
    Ok(file)
}

fn nameless(directory: &Path) -> io::Result<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    if let Ok(file) = openat(CWD, directory, flags, Mode::RUSR | Mode::WUSR) {
        return Ok(file.into());
    }
    // Not every filesystem can.
    let path = directory.join(format!(".staged-{}", Uuid::now_v7().simple()));
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_free_again_when_it_is_let_go_and_is_nobody_elses() {
        let places = PerUser::default();
        let first = places.take("ada", 1).unwrap();
        assert!(places.take("ada", 1).is_none() && places.take("bob", 1).is_some());
        drop(first);
        assert!(places.take("ada", 1).is_some());
        assert!(places.taken().is_empty());
    }

    #[test]
    fn how_many_there_are_goes_by_the_role_of_the_moment() {
        let places = PerUser::default();
        let _first = places.take("ada", 1).unwrap();
        let second = places.take("ada", 2).unwrap();
        assert!(places.take("ada", 1).is_none() && places.take("ada", 2).is_none());
        let _there = places.count_in("ada");
        drop(second);
        assert!(places.of("ada") == 2 && places.take("ada", 2).is_none());
    }

    #[test]
    fn what_is_staged_is_bounded_and_has_no_name() {
        let root = tempfile::tempdir().unwrap();
        let mut file = staged(root.path(), &mut &b"0123456789"[..], 10).unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "0123456789");
        assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 0);
        let refused = staged(root.path(), &mut &b"0123456789"[..], 9).unwrap_err();
        assert_eq!((refused.status.as_u16(), refused.code.as_str()), (413, "too_large"));
    }
}
