//! One direction of a relay.

use std::cell::RefCell;
use std::io;
use std::os::fd::AsFd;

use rustix::pipe::{SpliceFlags, splice};
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::task::coop::consume_budget;

use super::end_writing;
use super::pipes::{Lent, SIZE, lend};
use crate::admission::Admission;
use crate::limits::Share;

/// Bytes that are copied before a direction counts as bulk.
const BULK: u64 = 256 * 1024;
const BUFFER: usize = 128 * 1024;

thread_local! {
    /// Bytes are in here only between a read and the write right after it.
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(vec![0; BUFFER]);
}

/// Which way the bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// To the host.
    Out,
    /// From the host.
    In,
}

pub(crate) struct Pump<'a> {
    from: &'a TcpStream,
    to: &'a TcpStream,
    way: Way,
    admission: &'a Admission,
    share: Share,
    moved: u64,
    /// No more than this is read.
    left: u64,
}

enum Moved {
    Some,
    Nothing,
    End,
}

impl<'a> Pump<'a> {
    pub(crate) fn new(from: &'a TcpStream, to: &'a TcpStream, way: Way, admission: &'a Admission) -> Self {
        let bandwidth = admission.gate().bandwidth();
        let share = match way {
            Way::Out => bandwidth.outward(),
            Way::In => bandwidth.inward(),
        };
        Self { from, to, way, admission, share, moved: 0, left: u64::MAX }
    }

    /// Bytes that were read from `from` before.
    pub(crate) async fn send(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let allowed = self.share.allowance(bytes.len()).await;
            let (now, later) = bytes.split_at(allowed.min(bytes.len()));
            self.share.used(now.len());
            self.write_all(now).await?;
            self.count(now.len());
            bytes = later;
        }
        Ok(())
    }

    /// Bytes that were read from `from` before, and counted.
    pub(crate) async fn send_counted(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes).await
    }

    /// Until the end of `from`, which is passed on.
    pub(crate) async fn run(mut self) -> io::Result<()> {
        self.move_what_comes().await?;
        self.admission.settle();
        end_writing(self.to)
    }

    /// So many bytes and not one more, then an end; known to be bulk. An end of `from` before that is an error.
    pub(crate) async fn run_exactly(mut self, length: u64) -> io::Result<()> {
        (self.moved, self.left) = (BULK, length);
        self.move_what_comes().await?;
        if self.left > 0 {
            let why = format!("its answer broke off ({} bytes are missing)", self.left);
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, why));
        }
        self.admission.settle();
        end_writing(self.to)
    }

    async fn move_what_comes(&mut self) -> io::Result<()> {
        while self.left > 0 {
            self.from.readable().await?;
            let moved = if self.moved >= BULK && !self.share.is_limited() {
                match lend() {
                    Some(pipe) => self.splice(pipe).await?,
                    None => self.copy().await?,
                }
            } else {
                self.copy().await?
            };
            match moved {
                Moved::Some => consume_budget().await,
                Moved::Nothing => {}
                Moved::End => break,
            }
        }
        Ok(())
    }

    /// Of so many bytes, those that may still be read.
    fn at_most(&self, bytes: usize) -> usize {
        usize::try_from(self.left).map_or(bytes, |left| left.min(bytes))
    }

    fn count(&mut self, bytes: usize) {
        self.moved += bytes as u64;
        self.left = self.left.saturating_sub(bytes as u64);
        match self.way {
            Way::Out => self.admission.counts().add_sent(bytes as u64),
            Way::In => self.admission.counts().add_received(bytes as u64),
        }
    }

    /// What came of reading; a client that can't be read from has gone.
    fn read<T>(&self, done: io::Result<T>) -> io::Result<T> {
        self.judge(done, Way::Out)
    }

    /// What came of writing; a client that can't be written to has gone.
    fn written<T>(&self, done: io::Result<T>) -> io::Result<T> {
        self.judge(done, Way::In)
    }

    fn judge<T>(&self, done: io::Result<T>, client: Way) -> io::Result<T> {
        if self.way == client
            && let Err(error) = &done
            && error.kind() != io::ErrorKind::WouldBlock
        {
            self.admission.settle();
        }
        done
    }

    /// One read and its write.
    async fn copy(&mut self) -> io::Result<Moved> {
        let allowed = self.share.allowance(self.at_most(BUFFER)).await;
        let copied = SCRATCH.with_borrow_mut(|scratch| -> io::Result<(usize, Vec<u8>)> {
            let buffer = scratch.get_mut(..allowed).unwrap_or_default();
            let read = self.read(self.from.try_read(buffer))?;
            let bytes = buffer.get(..read).unwrap_or_default();
            let written = match self.written(self.to.try_write(bytes)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
                written => written?,
            };
            Ok((read, bytes.get(written..).unwrap_or_default().to_vec()))
        });
        match copied {
            Ok((0, _)) => Ok(Moved::End),
            Ok((read, left)) => {
                self.share.used(read);
                self.count(read);
                self.write_all(&left).await?;
                Ok(Moved::Some)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Moved::Nothing),
            Err(error) => Err(error),
        }
    }

    async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.written(self.to.try_write(bytes)) {
                Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.to.writable().await?,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// As much as comes without a pause. What is counted has been read, if not yet written.
    async fn splice(&mut self, lent: Lent) -> io::Result<Moved> {
        let Some(pipe) = lent.pipe() else { return Ok(Moved::Nothing) };
        let flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
        let last = loop {
            if self.left == 0 {
                break Moved::Some;
            }
            let filled = self.from.try_io(Interest::READABLE, || {
                Ok(splice(self.from.as_fd(), None, &pipe.into, None, self.at_most(SIZE), flags)?)
            });
            let mut held = match self.read(filled) {
                Ok(0) => break Moved::End,
                Ok(filled) => {
                    self.count(filled);
                    filled
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break Moved::Nothing,
                Err(error) => return Err(error),
            };
            while held > 0 {
                let drained = self.to.try_io(Interest::WRITABLE, || {
                    Ok(splice(&pipe.out, None, self.to.as_fd(), None, held, flags)?)
                });
                match self.written(drained) {
                    Ok(drained) => held -= drained.min(held),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.to.writable().await?,
                    Err(error) => return Err(error),
                }
            }
            consume_budget().await;
        };
        lent.give_back();
        Ok(last)
    }
}
