//! Where everything is measured: a network namespace for the client and egress, one for the server, a cable between them,
//! and names for the server's address, which must not be an address of egress's own. Nothing is sent from the machine's own
//! network.

use std::fs;
use std::io::Write;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::thread;

use anyhow::{Context, Result, bail};
use ringfence_linux::{
    Fork, Namespaces, enter_network, exit_now, fork_into, make_network, make_private, set_die_with_parent,
    wait_for,
};

/// Kept for documentation: it counts as public, so that egress dials it, and belongs to nobody.
pub(crate) const SERVER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 10);
/// Reached as it is.
pub(crate) const NAME: &str = "bench.example";
/// Has a secret: its TLS ends in egress.
pub(crate) const SECRET_NAME: &str = "secret.bench.example";

/// Do this in a process of its own, in that place.
pub(crate) fn within(act: impl FnOnce() -> Result<()>) -> Result<()> {
    match fork_into(Namespaces::MOUNT, None).context("cannot fork into a mount namespace")? {
        Fork::Parent { pid, .. } => match wait_for(pid)? {
            Some((exited, ..)) if exited.shell_code() == 0 => Ok(()),
            Some((exited, ..)) => exit_now(exited.shell_code()),
            None => bail!("the measuring process is lost"),
        },
        Fork::Child => {
            let done =
                set_die_with_parent().map_err(Into::into).and_then(|()| furnish()).and_then(|()| act());
            if let Err(error) = &done {
                let _ = writeln!(std::io::stderr(), "Error: {error:?}");
            }
            let _ = std::io::stdout().flush();
            exit_now(i32::from(done.is_err()))
        }
    }
}

/// The server's side.
static THERE: OnceLock<OwnedFd> = OnceLock::new();

fn furnish() -> Result<()> {
    make_private().context("cannot make the mounts private")?;
    let there = thread::scope(|scope| scope.spawn(|| make_network(None)).join());
    let there =
        there.ok().context("the server's side is lost")?.context("cannot make a network namespace")?;
    make_network(None).context("cannot make a network namespace")?;
    let end = format!("/proc/{}/fd/{}", std::process::id(), there.namespace.as_raw_fd());
    ip(&format!(
        "link add eth0 type veth peer name up0 netns {end}\naddr add 203.0.113.2/24 dev eth0\nlink set eth0 up\n\
         route add {SERVER}/32 via 203.0.113.1\n"
    ))?;
    let there = THERE.get_or_init(|| there.namespace);
    on_the_servers_side(there, || {
        ip(&format!("addr add 203.0.113.1/24 dev up0\nlink set up0 up\naddr add {SERVER}/32 dev lo\n"))
    })?;
    // Tens of thousands of connections to one address and port in a minute: without this the ports run out.
    for (name, value) in [("ip_local_port_range", "1024 65535"), ("tcp_tw_reuse", "1")] {
        let path = Path::new("/proc/sys/net/ipv4").join(name);
        fs::write(&path, value).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// A socket listens where it was made, whoever accepts on it.
pub(crate) fn listen_there(port: u16) -> Result<TcpListener> {
    let there = THERE.get().context("there is no server's side")?;
    on_the_servers_side(there, || TcpListener::bind((SERVER, port)).context("cannot listen"))
}

/// In a thread of its own, which is then in that namespace.
fn on_the_servers_side<T: Send>(there: &OwnedFd, act: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let work = || {
        enter_network(there.as_fd()).context("cannot enter the server's side")?;
        act()
    };
    thread::scope(|scope| scope.spawn(work).join()).map_err(|_| anyhow::anyhow!("a thread panicked"))?
}

fn ip(lines: &str) -> Result<()> {
    let mut command = Command::new("ip");
    command.args(["-batch", "-"]).stdin(Stdio::piped());
    let mut child = command.spawn().context("cannot start ip (iproute2)")?;
    child.stdin.take().context("ip has no stdin")?.write_all(lines.as_bytes())?;
    if !child.wait()?.success() {
        bail!("ip refused one of:\n{lines}");
    }
    Ok(())
}

/// Make this the hosts file here.
pub(crate) fn name_hosts(file: &Path) -> Result<()> {
    fs::write(file, format!("127.0.0.1 localhost\n{SERVER} {NAME} {SECRET_NAME}\n"))?;
    rustix::mount::mount_bind(file, "/etc/hosts").context("cannot put a file over /etc/hosts")
}
