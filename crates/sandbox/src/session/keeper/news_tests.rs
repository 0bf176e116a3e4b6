//! A guard that says whatever it likes, with whatever descriptors, between calls of clients: the keeper goes on or ends the
//! session, takes no process for another, and holds no more than its processes need.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};

use proptest::collection::vec;
use proptest::prelude::*;
use ringfence_guard::{ExecStage, FromGuard, News, ToGuard};
use ringfence_linux::{Exited, control_pair, recv_with_fds, send_with_fds};
use ringfence_policy::{ProfileName, ProviderName};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::pty::{OpenptFlags, openpt};
use tempfile::TempDir;

use super::{Keeper, UNANSWERED, UNHEARD};
use crate::plan::{Plan, plan, tests as plans};
use crate::providers::Launched;
use crate::request::Request;
use crate::session::place::Place;
use crate::session::wire::{Call, ExecCall, ProcessInfo, StdioKind};

/// What a message may bring.
#[derive(Clone, Copy, Debug)]
enum Thing {
    Pipe,
    File,
    Terminal,
    Socket,
}

impl Thing {
    fn make(self) -> OwnedFd {
        match self {
            Self::Pipe => rustix::pipe::pipe().unwrap().0,
            Self::File => memfd_create("test", MemfdFlags::CLOEXEC).unwrap(),
            Self::Terminal => openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap(),
            Self::Socket => control_pair().unwrap().0,
        }
    }
}

#[derive(Clone, Debug)]
enum Act {
    Says(Vec<u8>, Vec<Thing>),
    Calls(Call),
    Leaves(u64),
}

fn exec(stdio: StdioKind) -> Call {
    let argv = vec!["true".into()];
    Call::Exec(ExecCall { argv, environment: BTreeMap::new(), directory: None, timeout_ms: None, stdio })
}

/// Few, so that many are of one that is there.
fn number() -> impl Strategy<Value = u32> {
    prop_oneof![8 => 0..6u32, 1 => any::<u32>()]
}

fn exited() -> impl Strategy<Value = Exited> {
    prop_oneof![any::<i32>().prop_map(Exited::Code), any::<i32>().prop_map(Exited::Signal)]
}

fn news() -> impl Strategy<Value = News> {
    let errno = prop_oneof![Just(super::news::EAGAIN), any::<i32>()];
    prop_oneof![
        4 => (-1..9i32, -1..9i32).prop_map(|(pid, shim)| News::Started { pid, shim }),
        2 => errno.prop_map(|errno| News::NotStarted { stage: ExecStage::Program, errno }),
        4 => (exited(), any::<u8>(), any::<u64>(), any::<u64>(), any::<bool>())
            .prop_map(|(how, full, cpu, memory, left)| News::Ended { how, full, cpu, memory, left }),
        1 => Just(News::Nothing),
        1 => Just(News::Gone),
    ]
}

fn message() -> impl Strategy<Value = Vec<u8>> {
    let known = prop_oneof![
        12 => (number(), news()).prop_map(|(id, news)| FromGuard::InSession { id, news }),
        3 => number().prop_map(|id| FromGuard::Plug { id }),
        3 => (number(), any::<u64>(), any::<u64>()).prop_map(|(id, used, all)| FromGuard::Space { id, used, all }),
        2 => Just(FromGuard::Sockets),
    ];
    let strange = prop_oneof![
        Just(FromGuard::ready().encode()),
        Just(FromGuard::waiting().encode()),
        Just(FromGuard::Network.encode()),
        vec(any::<u8>(), 1..40),
        (any::<u8>(), 4_000..9_000usize).prop_map(|(byte, length)| vec![byte; length]),
    ];
    prop_oneof![30 => known.prop_map(|message| message.encode()), 1 => strange]
}

fn act() -> impl Strategy<Value = Act> {
    let thing = prop_oneof![Just(Thing::Pipe), Just(Thing::File), Just(Thing::Terminal), Just(Thing::Socket)];
    let stdio = prop_oneof![
        Just(StdioKind::Pipes),
        Just(StdioKind::Terminal { rows: 2, columns: 3 }),
        any::<bool>().prop_map(|stdin| StdioKind::Log { stdin, terminal: None }),
        Just(StdioKind::Log { stdin: true, terminal: Some((2, 3)) }),
    ];
    let call = prop_oneof![
        6 => stdio.prop_map(exec),
        1 => Just(Call::Stats),
        1 => Just(Call::Connect),
        1 => Just(Call::Processes),
        1 => number().prop_map(|process| Call::Wait { process }),
        1 => (number(), any::<bool>()).prop_map(|(process, tree)| Call::Signal { process, signal: 15, tree }),
        1 => number().prop_map(|process| Call::CloseStdin { process }),
        1 => prop_oneof![Just(Call::Pause), Just(Call::Resume), Just(Call::Hold)],
    ];
    prop_oneof![
        10 => (message(), vec(thing, 0..5)).prop_map(|(bytes, things)| Act::Says(bytes, things)),
        5 => call.prop_map(Act::Calls),
        1 => (0..3u64).prop_map(Act::Leaves),
    ]
}

struct Scene {
    request: Request,
    plan: Plan,
    place: Place,
    _directory: TempDir,
}

impl Scene {
    fn new() -> Self {
        let directory = TempDir::new().unwrap();
        let request = plans::request(ProfileName::Restrictive, "");
        let plan = plan(&request, &plans::host(1000), ProviderName::Native).unwrap();
        let place = Place::new(directory.path(), "s").unwrap();
        place.make().unwrap();
        Self { request, plan, place, _directory: directory }
    }

    /// With a keeper whose guard is whoever has what is beside it.
    fn with<T>(&self, act: impl FnOnce(&mut Keeper<'_>, &OwnedFd) -> T) -> T {
        let (ours, guards) = control_pair().unwrap();
        rustix::io::ioctl_fionbio(&guards, true).unwrap();
        let mut launched = Launched::stand_in(ours);
        let served = launched.warden(&self.plan, false);
        let mut keeper = Keeper::new((&self.request, &self.plan), served, &self.place, None);
        keeper.built = true;
        act(&mut keeper, &guards)
    }
}

fn fds() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

type Known = BTreeMap<u32, (ProcessInfo, u32)>;

/// All processes, and the shim that each has.
fn known(keeper: &Keeper<'_>) -> Known {
    let all = keeper.processes.all().into_iter();
    all.map(|process| (process.id, (process.info(), process.hired.number))).collect()
}

/// What is told of a process stays true of it.
fn goes_on(before: &Known, after: &Known) {
    for (id, (had, _)) in before {
        // Forgotten, after many others.
        let Some((has, _)) = after.get(id) else { continue };
        assert!(had.pid.is_none() || had.pid == has.pid, "{had:?} became {has:?}");
        assert!(had.result.is_none() || had.result == has.result, "{had:?} became {has:?}");
        assert!(!had.gone || has.gone, "{had:?} became {has:?}");
    }
}

/// Nobody but who has this shim is touched by what it says.
fn touches_only(shim: u32, before: &Known, after: &Known) {
    for (id, (had, its)) in before {
        if shim == 0 || *its != shim {
            assert_eq!(Some(had), after.get(id).map(|(has, _)| has), "shim {shim} is not the one of {id}");
        }
    }
}

fn drain(guards: &OwnedFd) {
    while recv_with_fds(guards.as_fd()).is_ok_and(|message| !message.bytes.is_empty()) {}
}

fn perform(keeper: &mut Keeper<'_>, guards: &OwnedFd, acts: &[Act]) {
    let base = fds();
    for act in acts {
        let before = known(keeper);
        match act {
            Act::Says(bytes, things) => {
                let said = FromGuard::decode(bytes);
                if keeper.take_news(bytes, things.iter().map(|thing| thing.make()).collect()).is_err() {
                    // The session ends. Nothing that a guard in order says does that.
                    assert!(!matches!(
                        said,
                        Some(FromGuard::InSession { .. } | FromGuard::Plug { .. } | FromGuard::Space { .. })
                    ));
                    return;
                }
                if let Some(FromGuard::InSession { id, .. }) = said {
                    touches_only(id, &before, &known(keeper));
                }
            }
            Act::Calls(call) => {
                let pipes = || {
                    let (read, write) = rustix::pipe::pipe().unwrap();
                    vec![read, write.try_clone().unwrap(), write]
                };
                let fds = match call {
                    Call::Exec(ExecCall { stdio: StdioKind::Pipes, .. }) => pipes(),
                    _ => Vec::new(),
                };
                keeper.take_call(1, call.clone(), fds);
            }
            Act::Leaves(client) => keeper.lose_client(*client),
        }
        let after = known(keeper);
        goes_on(&before, &after);
        drain(guards);
        // Three of its stdio, a channel and what its output is kept with; an ended one has its log at most.
        assert!(
            fds() <= base + 8 + 9 * after.len(),
            "{} descriptors for {} processes",
            fds() - base,
            after.len()
        );
        assert!(keeper.asked.len() <= UNANSWERED && keeper.early.len() <= 256);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn no_guard_confuses_its_keeper(acts in vec(act(), 1..80)) {
        let scene = Scene::new();
        let before = fds();
        scene.with(|keeper, guards| perform(keeper, guards, &acts));
        prop_assert_eq!(fds(), before);
    }
}

/// One that starts again and again brings a terminal each time, and none of them is kept.
#[test]
fn a_process_starts_once_and_has_one_terminal() {
    let scene = Scene::new();
    scene.with(|keeper, guards| {
        keeper.take_call(1, exec(StdioKind::Log { stdin: true, terminal: Some((2, 3)) }), Vec::new());
        let before = fds();
        for pid in 2..100 {
            let started = FromGuard::InSession { id: 1, news: News::Started { pid, shim: 7 } };
            keeper.take_news(&started.encode(), vec![Thing::Terminal.make()]).unwrap();
            drain(guards);
        }
        assert_eq!(known(keeper)[&1].0.pid, Some(2));
        assert!(fds() <= before + 2, "{} more descriptors", fds() - before);
    });
}

/// What is read here must not be able to make the keeper wait.
#[test]
fn nothing_but_a_terminal_is_taken_for_one() {
    for thing in [Thing::Pipe, Thing::File, Thing::Socket] {
        let scene = Scene::new();
        scene.with(|keeper, _guards| {
            keeper.take_call(1, exec(StdioKind::Log { stdin: true, terminal: Some((2, 3)) }), Vec::new());
            let started = FromGuard::InSession { id: 1, news: News::Started { pid: 3, shim: 2 } };
            keeper.take_news(&started.encode(), vec![thing.make()]).unwrap();
            let kept = keeper.processes.live_mut(1).unwrap().kept.as_ref().unwrap();
            assert!(kept.outputs.is_empty() && kept.stdin.is_none(), "{thing:?} is kept");
        });
    }
}

#[test]
fn the_walls_go_up_once_and_in_one_version() {
    let scene = Scene::new();
    scene.with(|keeper, _guards| {
        for words in [FromGuard::ready(), FromGuard::Network] {
            keeper.take_news(&words.encode(), vec![Thing::Socket.make()]).unwrap_err();
        }
        keeper.built = false;
        let other = keeper.take_news(&FromGuard::Ready { version: 9 }.encode(), Vec::new()).unwrap_err();
        assert!(other.to_string().contains("speaks version 9"), "{other}");
        assert!(!keeper.built, "it is served all the same");
        keeper.take_news(&FromGuard::ready().encode(), Vec::new()).unwrap();
        assert!(keeper.built);
    });
}

/// What it says meanwhile is kept, but not without end.
#[test]
fn a_guard_that_only_talks_is_not_listened_to_for_ever() {
    let scene = Scene::new();
    scene.with(|keeper, guards| {
        let guards = guards.try_clone().unwrap();
        rustix::io::ioctl_fionbio(&guards, false).unwrap();
        let (done, end) = std::sync::mpsc::channel::<()>();
        let talker = std::thread::spawn(move || {
            let words = FromGuard::Space { id: 1, used: 2, all: 3 }.encode();
            while end.try_recv().is_err() && send_with_fds(guards.as_fd(), &words, &[]).is_ok() {}
        });
        let told = (0..100_000).try_for_each(|_| keeper.tell_guard(&ToGuard::ContinueAll, &[]));
        assert!(told.is_err(), "it was told everything");
        assert!(keeper.heard.borrow().len() <= UNHEARD);
        done.send(()).unwrap();
        // It may wait for room.
        while !talker.is_finished() {
            let _ = recv_with_fds(keeper.held.control);
        }
        talker.join().unwrap();
    });
}
