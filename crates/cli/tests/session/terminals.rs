//! Terminals: `session exec -t` and `session shell` on a real one, and detached processes that have one of their own.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ringfence_testing::{Scene, Session, Stage, eventually};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Termios, Winsize, tcgetattr, tcsetwinsize};

use crate::{each, each_swept, mark, nobody_remains};

/// `ringfence` on a terminal of its own, and what that shows.
struct Terminal {
    child: Child,
    keyboard: File,
    /// The end that programs have; it stays open so that its modes can be looked at.
    end: File,
    shown: Arc<Mutex<String>>,
    before: Termios,
}

impl Terminal {
    fn start(scene: &Scene, args: &[&str]) -> Self {
        let emulator = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&emulator).unwrap();
        unlockpt(&emulator).unwrap();
        let path = PathBuf::from(ptsname(&emulator, Vec::new()).unwrap().to_string_lossy().into_owned());
        scene.identity.own(&path);
        let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY | rustix::fs::OFlags::CLOEXEC;
        let end = File::from(rustix::fs::open(&path, flags, rustix::fs::Mode::empty()).unwrap());
        let keyboard = File::from(emulator);
        resize(&keyboard, 30, 100);
        let before = tcgetattr(&end).unwrap();
        // It becomes `ringfence` itself: nothing forks in between.
        let mut command = Command::new("setsid");
        command.arg("--ctty").arg(&Stage::get().ringfence).arg("session").args(args);
        command.env_clear().env("PATH", "/usr/bin:/bin").env("TERM", "dumb").env("HOME", scene.home());
        command.env("RINGFENCE_STATE_DIR", scene.state()).current_dir(scene.workspace());
        let copy = || end.try_clone().unwrap();
        command.stdin(copy()).stdout(copy()).stderr(copy());
        scene.identity.apply(&mut command);
        let child = command.spawn().unwrap();
        let shown = Arc::new(Mutex::new(String::new()));
        let (mut screen, text) = (keyboard.try_clone().unwrap(), shown.clone());
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = screen.read(&mut buffer) {
                text.lock().unwrap().push_str(&String::from_utf8_lossy(&buffer[..read]));
            }
        });
        Self { child, keyboard, end, shown, before }
    }

    fn types(&mut self, text: &str) {
        self.keyboard.write_all(text.as_bytes()).unwrap();
    }

    #[track_caller]
    fn shows(&self, text: &str) {
        eventually(&format!("the terminal shows {text:?}"), || self.shown.lock().unwrap().contains(text));
    }

    fn modes(&self) -> Termios {
        tcgetattr(self.end.as_fd()).unwrap()
    }

    fn is_as_it_was(&self) -> bool {
        let (now, before) = (self.modes(), &self.before);
        now.local_modes == before.local_modes
            && now.input_modes == before.input_modes
            && now.output_modes == before.output_modes
            && now.control_modes == before.control_modes
    }

    fn is_raw(&self) -> bool {
        !self.modes().local_modes.intersects(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG)
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn code(&mut self) -> i32 {
        eventually("it ends", || self.child.try_wait().unwrap().is_some());
        self.child.wait().unwrap().code().unwrap_or(-1)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn resize(terminal: &File, rows: u16, columns: u16) {
    tcsetwinsize(terminal, Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
}

#[test]
fn a_command_has_a_terminal_of_the_callers_size_and_hears_of_a_new_one() {
    each(|scene| {
        let session = Session::create(scene, ["--profile", "restrictive"]);
        let script = "trap 'stty size' WINCH; tty; stty size; echo ready; while :; do sleep 0.05; done";
        let mut terminal = Terminal::start(scene, &["exec", "-t", &session.name, "--", "bash", "-c", script]);
        terminal.shows("/dev/pts/");
        terminal.shows("30 100");
        terminal.shows("ready");
        assert!(terminal.is_raw(), "{:?}", terminal.modes());
        resize(&terminal.keyboard, 41, 123);
        terminal.shows("41 123");
        // In raw mode it is a byte for the command's own terminal.
        terminal.types("\u{3}");
        assert_eq!(terminal.code(), 128 + 2);
    });
}

#[test]
fn the_callers_terminal_is_as_it_was_however_it_ends() {
    each(|scene| {
        let session = Session::create(scene, ["--profile", "restrictive"]);
        let script = format!("echo ready; read -r line; exit $line; : {}", mark(scene));
        let args = ["exec", "-t", &session.name, "--", "bash", "-c", &script];
        let mut terminal = Terminal::start(scene, &args);
        terminal.shows("ready");
        terminal.types("7\r");
        assert_eq!(terminal.code(), 7);
        assert!(terminal.is_as_it_was(), "after an end: {:?}", terminal.modes());

        let mut terminal = Terminal::start(scene, &args);
        terminal.shows("ready");
        eventually("it is raw", || terminal.is_raw());
        terminal.signal(Signal::TERM);
        assert_eq!(terminal.code(), 128 + 15);
        assert!(terminal.is_as_it_was(), "after SIGTERM: {:?}", terminal.modes());
        nobody_remains(&mark(scene));

        let script = format!("trap '' TERM; echo ready; sleep 1000 & wait; wait; : {}", mark(scene));
        let mut terminal =
            Terminal::start(scene, &["exec", "-t", &session.name, "--", "bash", "-c", &script]);
        terminal.shows("ready");
        terminal.signal(Signal::TERM);
        std::thread::sleep(Duration::from_millis(300));
        terminal.signal(Signal::TERM);
        assert_eq!(terminal.code(), 128 + 9);
        assert!(terminal.is_as_it_was(), "after two SIGTERMs: {:?}", terminal.modes());
        nobody_remains(&mark(scene));
    });
}

#[test]
fn the_terminal_is_given_back_when_the_session_ends_under_it() {
    each_swept(|scene| {
        let session = Session::create(scene, ["--profile", "restrictive"]);
        let args = ["exec", "-t", &session.name, "--", "bash", "-c", "echo ready; sleep 1000"];
        let mut terminal = Terminal::start(scene, &args);
        terminal.shows("ready");
        crate::ends::kill_keeper(&session, Signal::KILL);
        assert_eq!(terminal.code(), 125);
        terminal.shows("has ended");
        assert!(terminal.is_as_it_was(), "{:?}", terminal.modes());
    });
}

#[test]
fn a_shell_is_interactive() {
    each(|scene| {
        let session = Session::create(scene, ["--profile", "restrictive"]);
        let mut terminal = Terminal::start(scene, &["shell", &session.name]);
        eventually("it is raw", || terminal.is_raw());
        terminal.types("echo $((6 * 7))-here; [[ $- == *i* ]] && echo interactive-$((1 + 1))\r");
        terminal.shows("42-here");
        terminal.shows("interactive-2");
        // Job control: the foreground job is stopped, the shell goes on.
        terminal.types("sleep 1000\r");
        std::thread::sleep(Duration::from_millis(500));
        terminal.types("\u{1a}");
        terminal.types("jobs; echo back-$((2 + 2))\r");
        terminal.shows("back-4");
        terminal.types("fg\r");
        std::thread::sleep(Duration::from_millis(500));
        terminal.types("\u{3}");
        terminal.types("exit 9\r");
        assert_eq!(terminal.code(), 9);
    });
}

/// Pushed input would be run by the caller's shell.
#[test]
fn no_input_is_pushed_into_a_terminal() {
    each(|scene| {
        let probe = Stage::get().probe.display().to_string();
        let reads = Stage::get().probe_dir().display().to_string();
        let session = Session::create(scene, ["--profile", "restrictive", "--read", &reads]);
        for attack in ["push-input", "push-input-wide", "push-input-tty"] {
            let mut terminal = Terminal::start(scene, &["exec", "-t", &session.name, "--", &probe, attack]);
            terminal.shows("held:");
            assert_eq!(terminal.code(), 1);
        }
    });
}

#[test]
fn a_shell_without_a_terminal_is_refused() {
    each(|scene| {
        let session = Session::create(scene, ["--profile", "restrictive"]);
        session.call("shell", &[] as &[&str]).refused("needs a terminal");
    });
}

#[test]
fn a_detached_process_has_a_terminal_that_is_attached_to() {
    each(|scene| {
        let session = Session::create(scene, ["--profile", "restrictive"]);
        let script = "tty; stty size; read -r line; echo got-$line; exit 4";
        let process = session.detach(&["-t", "-i"], script).to_string();
        eventually("it has its terminal", || session.call("logs", &[&process]).output.contains("24 80"));
        session.call("logs", &[&process]).stdout_contains("/dev/pts/");
        let attached = session.test("attach", &[&process]).stdin("words\n").call();
        attached.code(4).stdout_contains("got-words");
    });
}

/// More than a terminal holds; its program reads when it is told to.
const MUCH: usize = 300_000;

fn slow_reader(session: &Session<'_>) -> String {
    let script = format!(
        "stty raw -echo; echo ready; while [ ! -e go ]; do sleep 0.05; done; head -c {MUCH} | md5sum; exit 3"
    );
    let process = session.detach(&["-t", "-i"], &script).to_string();
    eventually("it is ready", || session.call("logs", &[&process]).output.contains("ready"));
    process
}

fn much() -> (Vec<u8>, String) {
    let bytes: Vec<u8> = (0..MUCH).map(|at| b'a' + (at % 23) as u8).collect();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &bytes).unwrap();
    let sum = Command::new("md5sum").arg(file.path()).output().unwrap();
    (bytes, String::from_utf8_lossy(&sum.stdout)[..32].to_owned())
}

/// Both failed, or dropped the rest, as soon as the terminal was full.
#[test]
fn a_slow_reader_gets_all_that_is_typed() {
    each(|scene| {
        let (bytes, sum) = much();
        for verb in ["stdin", "attach"] {
            let session = Session::create(scene, ["--profile", "restrictive"]);
            let process = slow_reader(&session);
            let mut typing = session.test(verb, &[&process]).stdin(bytes.clone()).spawn_call();
            // Until it has met a full terminal, or has gone on as if there were none.
            std::thread::sleep(Duration::from_millis(500));
            assert!(!typing.has_ended(), "{verb}: it did not wait: {}", typing.wait().describe());
            session.sh("touch go").code(0);
            let code = if verb == "stdin" { 0 } else { 3 };
            typing.wait().code(code);
            session.call("wait", &[&process]).code(3);
            session.call("logs", &[&process]).stdout_contains(&sum);
        }
    });
}

#[test]
fn what_is_typed_to_a_program_that_ends_is_not_waited_with() {
    each(|scene| {
        let session = Session::create(scene, ["--profile", "restrictive"]);
        let process = session
            .detach(&["-t", "-i"], "stty raw -echo; echo ready; while [ ! -e go ]; do sleep 0.05; done")
            .to_string();
        eventually("it is ready", || session.call("logs", &[&process]).output.contains("ready"));
        let typing = session.test("stdin", &[&process]).stdin(much().0).spawn_call();
        session.sh("touch go").code(0);
        typing.wait().refused("has ended");
    });
}

/// `--close` said that it had, and the program read on.
#[test]
fn a_terminal_has_no_end_but_its_own_character() {
    each(|scene| {
        let session = Session::create(scene, ["--profile", "restrictive"]);
        let process = session.detach(&["-t", "-i"], "stty -echo; echo ready; cat; echo end").to_string();
        eventually("it is ready", || session.call("logs", &[&process]).output.contains("ready"));
        session.test("stdin", &[&process, "--close"]).stdin("lost\n").call().refused("end-of-file character");
        session.test("stdin", &[&process]).stdin("kept\n\u{4}").call().code(0);
        session.call("wait", &[&process]).code(0);
        let said = session.call("logs", &[&process]);
        said.stdout_contains("kept").stdout_contains("end");
        assert!(!said.output.contains("lost"), "{}", said.describe());
    });
}
