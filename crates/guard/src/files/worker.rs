//! The worker's loop: a request, its answer.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use ringfence_linux::{exit_now, recv_into, send_with_fds};
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::process::umask;

use super::draft::Drafts;
use super::outcome::{Answer, Refused};
use super::reply::FileReply;
use super::request::FileRequest;
use super::{FILES_VERSION, change, list, look, remove, watch};

/// Two paths of the greatest length and what is around them.
const REQUEST_BYTES: usize = 16 << 10;
/// How often a client hears that a long removal goes on.
const SIGN_OF_LIFE: Duration = Duration::from_secs(1);

/// Serve file operations on `channel` until it closes; then this process ends. For a fork of guard.
pub fn serve_files(channel: OwnedFd) -> ! {
    // Modes are those that a client names.
    umask(Mode::empty());
    let mut worker = Worker { channel: channel.as_fd(), drafts: Drafts::default() };
    if worker.greet() {
        worker.run();
    }
    drop(worker);
    exit_now(0)
}

struct Worker<'a> {
    channel: BorrowedFd<'a>,
    drafts: Drafts,
}

/// Whether there is another request to wait for.
enum Next {
    Listen,
    End,
}

/// `Err`: what came is no request.
type Heard = Result<FileRequest, Errno>;

impl Worker<'_> {
    /// Both ends must speak the same version.
    fn greet(&self) -> bool {
        let Some(Ok(FileRequest::Hello { version })) = self.hear() else { return false };
        self.say(&FileReply::Hello { version: FILES_VERSION }.into()) && version == FILES_VERSION
    }

    fn run(&mut self) {
        while let Some(heard) = self.hear() {
            let next = match heard {
                Ok(request) => self.handle(&request),
                Err(errno) => self.answer(Err(errno.into())),
            };
            if let Next::End = next {
                return;
            }
        }
    }

    /// `None`: the client is gone. Descriptors that a client sends are closed.
    fn hear(&self) -> Option<Heard> {
        let mut buffer = [0; REQUEST_BYTES];
        let received = recv_into(self.channel, &mut buffer).ok()?;
        if received.length == 0 {
            return None;
        }
        if received.cut {
            return Some(Err(Errno::NAMETOOLONG));
        }
        Some(FileRequest::decode(&buffer[..received.length]).ok_or(Errno::BADMSG))
    }

    fn say(&self, answer: &Answer) -> bool {
        let fd: Vec<BorrowedFd<'_>> = answer.fd.iter().map(AsFd::as_fd).collect();
        send_with_fds(self.channel, &answer.reply.encode(), &fd).is_ok()
    }

    fn answer(&self, result: Result<Answer, Refused>) -> Next {
        if self.say(&result.unwrap_or_else(Answer::from)) { Next::Listen } else { Next::End }
    }

    fn handle(&mut self, request: &FileRequest) -> Next {
        let result = match request {
            FileRequest::Hello { .. } => Err(Errno::BADMSG.into()),
            FileRequest::Stat { path, links } => look::stat(path, *links),
            FileRequest::List { path } => list::list(path, &mut |reply| self.say(&reply.into())),
            FileRequest::OpenRead { path, links } => look::open_read(path, *links),
            FileRequest::Create { path, mode, links } => self.drafts.create(path, *mode, *links),
            FileRequest::Finish { draft, existing, durability } => {
                self.drafts.finish(*draft, *existing, *durability)
            }
            FileRequest::Abandon { draft } => self.drafts.abandon(*draft),
            FileRequest::MakeDirectory { path, mode, parents } => {
                change::make_directory(path, *mode, *parents)
            }
            FileRequest::Rename { from, to, existing } => change::rename(from, to, *existing),
            FileRequest::Remove { path, reach } => remove::remove(path, *reach, &mut self.sign_of_life()),
            FileRequest::Symlink { target, path } => change::make_symlink(target, path),
            FileRequest::SetMode { path, mode } => change::set_mode(path, *mode),
            FileRequest::SetModified { path, time } => change::set_modified(path, *time),
            FileRequest::Truncate { path, size } => change::truncate(path, *size),
            FileRequest::Watch { path, reach } => match watch::begin(path, *reach) {
                Err(errno) => Err(errno.into()),
                Ok(begun) => return self.watch(begun),
            },
        };
        self.answer(result)
    }

    fn watch(&self, begun: watch::Begun) -> Next {
        if self.say(&FileReply::Done.into()) {
            watch::tell(begun, self.channel, &mut |reply| self.say(&reply.into()));
        }
        Next::End
    }

    /// Tells a waiting client now and then that work goes on; false once it is gone.
    fn sign_of_life(&self) -> impl FnMut() -> bool {
        let mut last = Instant::now();
        move || {
            if last.elapsed() < SIGN_OF_LIFE {
                return true;
            }
            last = Instant::now();
            self.say(&FileReply::Working.into())
        }
    }
}
