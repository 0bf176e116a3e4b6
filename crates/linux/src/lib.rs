//! The kernel's mechanisms as safe functions: namespaces, mounts, id maps, Landlock, seccomp, cgroups,
//! capabilities, process control and terminals.
//!
//! Invariant: this is the only crate that may use `unsafe`, each block says why it is sound, and nothing here
//! knows what a policy is. A function does one step, does not retry, and reports the errno of that step.

mod borrow;
mod caps;
mod cgroup;
mod confine;
mod diag;
mod fds;
mod helper;
mod idmap;
mod mount;
mod namespaces;
mod network;
#[cfg(feature = "probe")]
pub mod probe_calls;
mod process;
mod programs;
mod pty;
pub mod seccomp;
mod signals;
mod sockets;

pub use borrow::{Borrower, as_user, connect_bytes, read_memory};
pub use caps::{drop_all_capabilities, give_up_capabilities};
pub use cgroup::{
    Cgroup, CgroupCounts, CgroupError, CgroupLimits, Controller, Hierarchy, sweep as sweep_cgroups,
};
pub use confine::{LandlockAccess, LandlockRule, LandlockRuleset, LandlockTarget, landlock_abi};
pub use diag::UnixSockets;
pub use fds::{
    StdioProblem, check_stdio, cloexec_from, close_except, inherited, move_fd, reopen_read_only,
    reopen_write_only,
};
pub use helper::{Helper, Pending};
pub use idmap::{IdMap, deny_setgroups, write_id_map};
pub use mount::{
    MountFlags, attach, attach_to, clone_mount, clone_mount_of, clone_tree, clone_tree_of, idmap_tree,
    make_private, mount_devpts, mount_overlay, mount_proc, mount_tmpfs, pivot_into, release_old_root,
    restrict_mount, restrict_tree,
};
pub use namespaces::{
    Fork, Namespaces, NewNetwork, enter_network, fork_copy, fork_into, make_network, spawn, unshare_cgroup,
    unshare_mounts, unshare_user,
};
pub use network::{NetworkShape, Settings, SocketShape, make_socket};
pub use process::{
    ChildNews, Exited, Reaped, adopt_orphans, become_user, change_environment, environment_names, exec,
    exit_now, has_children, hide_arguments, is_living, kill_all, kill_group, kill_process, next_child_news,
    own_usage, pid_namespace, read_kernel_file, reap, replace_environment, scrub_environment,
    set_die_with_parent, set_dumpable, set_hostname, set_limit, start_session, start_time, wait_for,
    wait_for_any,
};
pub use programs::system_program;
pub use pty::{Pty, make_controlling, open_pty, window_size};
pub use signals::{SignalFd, reset_signal_actions, restore_pipe_signal, stop_self, unblock_all};
pub use sockets::{
    MAX_FDS, Message, Received, control_pair, is_hung_up, loopback_up, recv_from_process, recv_into,
    recv_with_fds, send_some_with_fds, send_with_fds, tell_senders,
};
