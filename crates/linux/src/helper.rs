//! A second thread for the parts of a set-up on which the kernel makes its caller wait: on a second core they cost no
//! time. It is gone before anything of the caller's runs.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};

use crate::process::thread_count;

const STACK_BYTES: usize = 64 << 10;

type Job = Box<dyn FnOnce() + Send>;

#[derive(Debug)]
pub struct Helper {
    jobs: Sender<Job>,
    thread: JoinHandle<()>,
}

/// What came of a job.
#[derive(Debug)]
pub struct Pending<T>(Receiver<io::Result<T>>);

impl<T> Pending<T> {
    pub fn wait(self) -> io::Result<T> {
        self.0.recv().map_err(|_| io::Error::other("the helper thread is gone"))?
    }
}

impl Helper {
    /// In a process that has no other thread.
    pub fn start() -> io::Result<Self> {
        let (jobs, queue) = channel::<Job>();
        let work = move || queue.into_iter().for_each(|job| job());
        Ok(Self { jobs, thread: Builder::new().stack_size(STACK_BYTES).spawn(work)? })
    }

    /// Do `job` in the helper's thread, after those before.
    pub fn give<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<Pending<T>> {
        let (tell, told) = channel();
        let job = Box::new(move || drop(tell.send(job())));
        self.jobs.send(job).map_err(|_| io::Error::other("the helper thread is gone"))?;
        Ok(Pending(told))
    }

    /// Wait for the thread to end; this process has one thread again.
    pub fn finish(self) -> io::Result<()> {
        drop(self.jobs);
        self.thread.join().map_err(|_| io::Error::other("the helper thread panicked"))?;
        // A joined thread is gone from here, but the kernel may need a moment more to count one thread only.
        while thread_count()? != 1 {
            std::thread::yield_now();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_done_in_order_in_another_thread() {
        let helper = Helper::start().unwrap();
        let first = helper.give(|| Ok(std::thread::current().id())).unwrap();
        let second = helper.give(|| Err::<(), _>(io::ErrorKind::NotFound.into())).unwrap();
        assert_ne!(first.wait().unwrap(), std::thread::current().id());
        assert_eq!(second.wait().unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
