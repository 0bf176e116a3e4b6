//! A server program of the test internet: started by the place's own thread, and killed by the kernel when the test
//! process ends.

use std::fs::{self, File};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::chown;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::{PATH, Place};

/// Where servers keep their files: a tmpfs that only they see.
pub(super) const FILES: &str = "/run/rf";
/// The account of servers that must not be root. Its passwd entry exists only where the servers are.
pub(super) const ACCOUNT: &str = "rfserver";
pub(super) const ACCOUNT_ID: u32 = 61235;

const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Clone, Debug)]
pub(super) struct Daemon {
    name: &'static str,
    args: Vec<String>,
    without_root: bool,
}

impl Daemon {
    pub(super) fn new(name: &'static str, args: &[&str]) -> Self {
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        Self { name, args, without_root: false }
    }

    /// Not as root.
    pub(super) fn without_root(mut self) -> Self {
        self.without_root = true;
        self
    }

    /// Start it. What it says goes to `NAME.log` among the servers' files.
    pub(super) fn start(self, place: &Place) {
        place.serve(move || {
            let log = File::create(format!("{FILES}/{}.log", self.name)).expect("a log file");
            let mut command = Command::new("setpriv");
            if self.without_root {
                command.args(["--reuid", ACCOUNT, "--regid", ACCOUNT, "--clear-groups"]);
            }
            command
                .args(["--pdeathsig", "KILL", "--"])
                .args(&self.args)
                .env_clear()
                .env("PATH", PATH)
                .env("HOME", FILES)
                .current_dir(FILES)
                .stdin(Stdio::null())
                .stdout(log.try_clone().expect("a second handle"))
                .stderr(log);
            command
        });
    }

    /// Start it, and wait until it listens there.
    pub(super) fn start_at(self, place: &Place, address: &str) {
        let name = self.name;
        self.start(place);
        let address: SocketAddr = address.parse().expect("an address");
        place.within(|| {
            let deadline = Instant::now() + PATIENCE;
            while TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_err() {
                assert!(
                    Instant::now() < deadline,
                    "{name} does not listen at {address}:\n{}",
                    fs::read_to_string(format!("{FILES}/{name}.log")).unwrap_or_default()
                );
                std::thread::sleep(Duration::from_millis(10));
            }
        });
    }
}

/// Run a line of shell where the servers are, as their account, and fail if it fails.
pub(super) fn prepare(place: &Place, script: &str) {
    let output = place.within(|| {
        Command::new("setpriv")
            .args(["--reuid", ACCOUNT, "--regid", ACCOUNT, "--clear-groups", "--", "sh", "-ec", script])
            .env_clear()
            .env("PATH", PATH)
            .env("HOME", FILES)
            .current_dir(FILES)
            .stdin(Stdio::null())
            .output()
            .expect("setpriv (util-linux) starts")
    });
    assert!(
        output.status.success(),
        "{script}\n{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Furnish a new mount namespace for the servers: a place for their files, and an account.
pub(super) fn furnish() {
    use rustix::mount::{MountFlags, mount};
    mount("tmpfs", "/run", "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, Some(c"mode=0755"))
        .expect("mount a tmpfs");
    fs::create_dir("/run/sshd").expect("mkdir");
    fs::create_dir(FILES).expect("mkdir");
    chown(FILES, Some(ACCOUNT_ID), Some(ACCOUNT_ID)).expect("chown");
    for (file, line) in [
        ("passwd", format!("{ACCOUNT}:x:{ACCOUNT_ID}:{ACCOUNT_ID}::{FILES}:/bin/sh\n")),
        ("group", format!("{ACCOUNT}:x:{ACCOUNT_ID}:\n")),
        ("shadow", format!("{ACCOUNT}:*:19000:0:99999:7:::\n")),
    ] {
        let text = fs::read_to_string(format!("/etc/{file}")).unwrap_or_default();
        show("/run", file, &(text + &line));
    }
    show("/run", "resolv.conf", &super::machine::resolv_conf());
}

/// Keep a text in `directory` and show it in `/etc`.
pub(super) fn show(directory: &str, name: &str, text: &str) {
    let (own, shown) = (format!("{directory}/{name}"), format!("/etc/{name}"));
    fs::write(&own, text).expect("write a file of the place");
    rustix::mount::mount_bind(&own, &shown).unwrap_or_else(|error| panic!("bind {shown}: {error}"));
}
