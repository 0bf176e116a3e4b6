//! Where everything is measured: a network and a mount namespace with nothing but `lo`, one address on it, and names for
//! that address. Nothing is sent from the machine's own network.

use std::fs;
use std::io::Write;
use std::net::Ipv4Addr;
use std::path::Path;

use anyhow::{Context, Result, bail};
use ringfence_linux::{
    Fork, Namespaces, NetworkShape, Settings, exit_now, fork_into, make_network, make_private,
    set_die_with_parent, wait_for,
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

fn furnish() -> Result<()> {
    make_private().context("cannot make the mounts private")?;
    let shape = NetworkShape { local: vec![(SERVER.into(), 32)], sockets: Vec::new() };
    make_network(Some((&shape, &Settings::hold()?))).context("cannot make a network namespace")?;
    // Tens of thousands of connections to one address and port in a minute: without this the ports run out.
    for (name, value) in [("ip_local_port_range", "1024 65535"), ("tcp_tw_reuse", "1")] {
        let path = Path::new("/proc/sys/net/ipv4").join(name);
        fs::write(&path, value).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Make this the hosts file here.
pub(crate) fn name_hosts(file: &Path) -> Result<()> {
    fs::write(file, format!("127.0.0.1 localhost\n{SERVER} {NAME} {SECRET_NAME}\n"))?;
    rustix::mount::mount_bind(file, "/etc/hosts").context("cannot put a file over /etc/hosts")
}
