//! The test harness: run the real `ringfence` command as root or as an ordinary user, look at what came back,
//! and check that nothing was left behind.
//!
//! ```no_run
//! use ringfence_testing::{Leftovers, Test};
//!
//! let before = Leftovers::before();
//! Test::new().as_user().profile("restrictive").run(["bash", "-c", "echo hi"]).code(0).stdout("hi\n");
//! before.assert_none_since();
//! ```
//!
//! * [`Test`] builds one call; `run` waits for its [`Outcome`], `spawn` gives a [`Running`] one.
//! * [`Outcome`] is read from `--json` (or from plain stdio after [`Test::plain`]); each assertion returns it again.
//! * [`Scene`] is a scratch place on the host: a workspace, a home, a state directory, and a secret outside.
//! * [`Session`] is a session of a scene, removed when dropped.
//! * [`Server`] is a `ringfence serve` of a scene, ended when dropped.
//! * [`docker`] is a Docker daemon that all tests of a run share.
//! * [`Leftovers`] counts mounts, cgroups, processes, files and fds before and after.
//! * [`Internet`] is a test internet in network namespaces, with a machine on it where `ringfence` is run.
//! * [`Stage`] holds world-readable copies of `ringfence` and `ringfence-probe`; the probe is built when needed.
//!
//! Tests of both identities loop over [`Identity::all`], which skips root with a notice where the tests
//! are not run by root (and fails in CI).

mod closed_calls;
mod docker;
mod host_objects;
mod identity;
mod internet;
mod keyring;
mod leftovers;
mod outcome;
mod own_mounts;
mod pool;
mod processes;
mod provider;
mod running;
mod scene;
mod server;
mod session;
mod skip;
mod stage;
mod starter;
mod test;
mod websocket;

pub use closed_calls::{ClosedCall, closed_calls};
pub use docker::{DockerDaemon, docker, has_docker};
pub use host_objects::{Greeter, HostQueue, HostSharedMemory, Victim};
pub use identity::{Identity, USER_ID};
pub use internet::{
    Answer, CDN, CLOSED, Certificates, Contact, Credentials, DNS, Dns, ECHO_PORT, EVIL, EVIL_V6, H2C_PORT,
    HTTP_PROXY_PORT, Internet, MACHINE_PRIVATE, MACHINE_V4, MACHINE_V6, METADATA, NAT64_METADATA, NAT64_TEN,
    PROXY, Place, Query, RAW_HTTP_PORT, Recorder, SCRIPTED_HTTP_PORT, SERVICES, SERVICES_V6, SHARED,
    SMTP_PORT, SOCKS_PROXY_PORT, Services, SshAccess, TEN, UNIQUE_LOCAL, WEB, WEB_V6, Web,
};
pub use keyring::Keyring;
pub use leftovers::Leftovers;
pub use outcome::{Denial, Outcome};
pub use own_mounts::own_mounts;
pub use pool::Pool;
pub use processes::{Process, children, processes_with_marker};
pub use provider::{provider_environment, provider_flags, with_provider};
pub use running::Running;
pub use scene::Scene;
pub use server::{EventReader, Reply, SentEvent, Server, database};
pub use session::{Session, eventually};
pub use stage::Stage;
pub use test::Test;
pub use websocket::{Frame, WebSocket};
