//! Changes inside, as they are told.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use ringfence_guard::{FileChange, FileEvent, FileReply};

use super::channel::Channel;
use super::error::{FileError, FileProblem, failed};

/// Events until the session or this is gone. An event may be told twice; none is left out without `Overflow`.
#[derive(Debug)]
pub struct Watch {
    channel: Channel,
    root: PathBuf,
}

impl Watch {
    pub(super) fn new(channel: Channel, root: &Path) -> Self {
        Self { channel, root: root.into() }
    }

    /// `None`: nothing happened in that time.
    pub fn next_within(&mut self, wait: Duration) -> Result<Option<FileEvent>, FileError> {
        match self.receive(Some(wait)) {
            Err(FileProblem::NoAnswer(_)) => {
                self.channel.mend_after_quiet();
                Ok(None)
            }
            told => told.map(Some).map_err(failed("watch", &self.root)),
        }
    }

    fn receive(&mut self, wait: Option<Duration>) -> Result<FileEvent, FileProblem> {
        match self.channel.receive(wait)? {
            (FileReply::Event(event), _) if self.may_tell(&event) => Ok(event),
            _ => Err(self.channel.wrong("an event of another place")),
        }
    }

    fn may_tell(&self, event: &FileEvent) -> bool {
        let stays = |beneath: &Path| beneath.components().all(|part| matches!(part, Component::Normal(_)));
        event.change == FileChange::Overflow || event.path.strip_prefix(&self.root).is_ok_and(stays)
    }
}

impl Iterator for Watch {
    type Item = Result<FileEvent, FileError>;

    /// Waits as long as it takes; ends when the session is gone, and after an error.
    fn next(&mut self) -> Option<Self::Item> {
        if self.channel.is_broken() {
            return None;
        }
        match self.receive(None) {
            Err(FileProblem::Gone) => None,
            told => Some(told.map_err(failed("watch", &self.root))),
        }
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }
}
