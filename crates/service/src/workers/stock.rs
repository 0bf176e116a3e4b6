//! A stock of sandboxes made ahead: for each shape of run that was asked for lately, as many as were wanted at a time,
//! within a bound. Nothing here waits: who takes one either gets it at once or does without.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ringfence_sandbox::{Job, Launcher};

use super::demand::Demand;
use super::{Order, READY, ReadyOrder, RunOrder, framed};

/// A shape that nobody has asked for in this time is not kept any more.
const KEPT: Duration = Duration::from_secs(60);

/// So many shapes are told apart at a time, and none that is longer: a caller may make up any number.
const SHAPES: usize = 64;
const SHAPE_BYTES: usize = 64 << 10;

/// What a run needs that can be made ahead of it, as it is written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shape(Vec<u8>);

impl Shape {
    /// `None` where nothing is kept for such runs.
    pub fn of(run: &RunOrder) -> Option<Self> {
        // What a skill attaches is found out by whoever runs it, and what a user's own files of policy come to as well.
        if run.skill.is_some() || run.sandbox.own.is_some() {
            return None;
        }
        let bytes = framed(&Order::Ready(Box::new(ReadyOrder::like(run)))).ok()?;
        (bytes.len() <= SHAPE_BYTES).then_some(Self(bytes))
    }
}

#[derive(Debug)]
pub struct Stock {
    launcher: Arc<Launcher>,
    most: usize,
    shelves: Mutex<BTreeMap<Shape, Shelf>>,
}

/// Sandboxes of one shape.
#[derive(Debug)]
struct Shelf {
    demand: Demand,
    jobs: VecDeque<Waiting>,
    asked: Instant,
}

#[derive(Debug)]
struct Waiting {
    job: Job,
    ready: bool,
}

/// What became of one that was begun.
enum State {
    Ready,
    InTheMaking,
    Gone,
}

impl Waiting {
    fn look(&mut self) -> State {
        if self.ready {
            return State::Ready;
        }
        let mut byte = [0];
        match self.job.socket.read(&mut byte) {
            Ok(1) if byte[0] == READY => {
                self.ready = true;
                State::Ready
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => State::InTheMaking,
            _ => State::Gone,
        }
    }
}

impl Stock {
    /// At most `most` sandboxes are kept, of all shapes together; with 0, none.
    pub fn new(launcher: Arc<Launcher>, most: usize) -> Self {
        Self { launcher, most, shelves: Mutex::default() }
    }

    /// One for this run, if one is ready. The job waits for its order. More are kept of what is missing.
    pub fn take(&self, shape: &Shape) -> Option<Job> {
        let mut shelves = self.shelves();
        if self.most == 0 || (shelves.len() >= SHAPES && !shelves.contains_key(shape)) {
            return None;
        }
        let shelf = shelves.entry(shape.clone()).or_insert_with(Shelf::new);
        shelf.asked = Instant::now();
        let mut taken = None;
        let mut rest = VecDeque::new();
        while let Some(mut waiting) = shelf.jobs.pop_front() {
            match waiting.look() {
                State::Ready if taken.is_none() => taken = Some(waiting.job),
                State::Ready | State::InTheMaking => rest.push_back(waiting),
                State::Gone => {}
            }
        }
        shelf.jobs = rest;
        match taken {
            Some(_) => shelf.demand.met(shelf.ready()),
            None => shelf.demand.missed(self.most),
        }
        taken
    }

    /// Begin what is missing of this shape, and give up what nobody asks for.
    pub fn fill(&self, shape: &Shape) -> io::Result<()> {
        let mut shelves = self.shelves();
        tidy(&mut shelves);
        let mut kept: usize = shelves.values().map(|shelf| shelf.jobs.len()).sum();
        let Some(wanted) = shelves.get(shape).map(|shelf| shelf.demand.wanted()) else { return Ok(()) };
        while kept >= self.most && give_up_oldest(&mut shelves, shape) {
            kept -= 1;
        }
        let Some(shelf) = shelves.get_mut(shape) else { return Ok(()) };
        while shelf.jobs.len() < wanted && kept < self.most {
            shelf.jobs.push_back(Waiting { job: self.begin(shape)?, ready: false });
            kept += 1;
        }
        Ok(())
    }

    /// Give up what nobody asks for, and of what is asked for less than before, what was not needed.
    pub fn tidy(&self) {
        tidy(&mut self.shelves());
    }

    /// How many are ready, and how many are kept or in the making.
    pub fn count(&self) -> (usize, usize) {
        let mut shelves = self.shelves();
        let mut all = shelves.values_mut().flat_map(|shelf| &mut shelf.jobs).map(Waiting::look);
        let (mut ready, mut kept) = (0, 0);
        for state in &mut all {
            ready += usize::from(matches!(state, State::Ready));
            kept += usize::from(!matches!(state, State::Gone));
        }
        (ready, kept)
    }

    fn begin(&self, shape: &Shape) -> io::Result<Job> {
        let null = || std::fs::OpenOptions::new().read(true).write(true).open("/dev/null").map(OwnedFd::from);
        let mut job = self.launcher.begin([null()?, null()?, null()?])?;
        job.socket.write_all(&shape.0)?;
        job.socket.set_nonblocking(true)?;
        Ok(job)
    }

    fn shelves(&self) -> MutexGuard<'_, BTreeMap<Shape, Shelf>> {
        self.shelves.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shelf {
    fn new() -> Self {
        Self { demand: Demand::new(), jobs: VecDeque::new(), asked: Instant::now() }
    }

    fn ready(&self) -> usize {
        self.jobs.iter().filter(|waiting| waiting.ready).count()
    }
}

fn tidy(shelves: &mut BTreeMap<Shape, Shelf>) {
    let now = Instant::now();
    shelves.retain(|_, shelf| now.duration_since(shelf.asked) < KEPT);
    for shelf in shelves.values_mut() {
        shelf.demand.fall(now, shelf.jobs.len());
        let surplus = shelf.jobs.len().saturating_sub(shelf.demand.wanted());
        // A job that is dropped ends.
        drop(shelf.jobs.drain(..surplus));
    }
}

/// One of another shape than `but`, of those that nobody has asked for the longest. A job that is dropped ends.
fn give_up_oldest(shelves: &mut BTreeMap<Shape, Shelf>, but: &Shape) -> bool {
    let others = shelves.iter_mut().filter(|(shape, shelf)| *shape != but && !shelf.jobs.is_empty());
    let Some((_, oldest)) = others.min_by_key(|(_, shelf)| shelf.asked) else { return false };
    oldest.demand.yielded();
    oldest.jobs.pop_front().is_some()
}
