//! The escape table: every way out of a sandbox that we know, tried by a probe, as root and as an ordinary user.
//!
//! Each row is held by the sandbox, and has a twin: the same attempt without the sandbox, or with the clause
//! waived, where it works. A row whose twin fails would prove nothing, so that is a failure too.
//!
//! The table is run a second time through sessions, each row as the second command after a hostile first one
//! (`hostile.rs`); a row that says nothing there tells why. A third time it is run in sandboxes that a pool made ahead, and
//! once more, also in sessions, where bubblewrap, crun, runc or Docker makes them.
//!
//! `RINGFENCE_ESCAPE_ROW=name` runs only the rows whose name holds that word; `--no-capture` (nextest:
//! `--success-output final`) shows how each row was held.

mod attempt;
mod bombs;
mod devices;
mod files;
mod guard;
mod hostile;
mod input;
mod kernel;
mod proc;
mod protected;
mod row;
mod secrets;
mod sockets;
mod stdio;
mod syscalls;
mod terminals;
mod timeouts;
mod workspaces;

use ringfence_testing::{Identity, has_docker, with_provider};

/// One test a topic and identity: the table is long, and a test process has a price.
macro_rules! topics {
    ($($topic:ident),* $(,)?) => {
        $(mod $topic {
            use super::*;

            #[test]
            fn as_root() {
                row::check(stringify!($topic), &crate::$topic::rows(), Identity::Root);
            }

            #[test]
            fn as_user() {
                row::check(stringify!($topic), &crate::$topic::rows(), Identity::User);
            }

            #[test]
            fn by_bwrap_as_root() {
                with_provider("bwrap", || row::check(stringify!($topic), &crate::$topic::rows(), Identity::Root));
            }

            #[test]
            fn by_bwrap_as_user() {
                with_provider("bwrap", || row::check(stringify!($topic), &crate::$topic::rows(), Identity::User));
            }

            #[test]
            fn by_bwrap_in_a_session_as_root() {
                let rows = crate::$topic::rows();
                with_provider("bwrap", || row::check_in_session(stringify!($topic), &rows, Identity::Root));
            }

            #[test]
            fn by_bwrap_in_a_session_as_user() {
                let rows = crate::$topic::rows();
                with_provider("bwrap", || row::check_in_session(stringify!($topic), &rows, Identity::User));
            }

            #[test]
            fn by_docker_as_root() {
                if has_docker() {
                    with_provider("docker", || row::check(stringify!($topic), &crate::$topic::rows(), Identity::Root));
                }
            }

            #[test]
            fn by_docker_as_user() {
                if has_docker() {
                    with_provider("docker", || row::check(stringify!($topic), &crate::$topic::rows(), Identity::User));
                }
            }

            #[test]
            fn by_docker_in_a_session_as_root() {
                let rows = crate::$topic::rows();
                if has_docker() {
                    with_provider("docker", || row::check_in_session(stringify!($topic), &rows, Identity::Root));
                }
            }

            #[test]
            fn by_crun_as_root() {
                with_provider("oci:crun", || row::check(stringify!($topic), &crate::$topic::rows(), Identity::Root));
            }

            #[test]
            fn by_crun_as_user() {
                with_provider("oci:crun", || row::check(stringify!($topic), &crate::$topic::rows(), Identity::User));
            }

            #[test]
            fn by_crun_in_a_session_as_root() {
                let rows = crate::$topic::rows();
                with_provider("oci:crun", || row::check_in_session(stringify!($topic), &rows, Identity::Root));
            }

            #[test]
            fn by_crun_in_a_session_as_user() {
                let rows = crate::$topic::rows();
                with_provider("oci:crun", || row::check_in_session(stringify!($topic), &rows, Identity::User));
            }

            #[test]
            fn by_runc_as_root() {
                with_provider("oci:runc", || row::check(stringify!($topic), &crate::$topic::rows(), Identity::Root));
            }

            #[test]
            fn by_runc_as_user() {
                with_provider("oci:runc", || row::check(stringify!($topic), &crate::$topic::rows(), Identity::User));
            }

            #[test]
            fn by_runc_in_a_session_as_root() {
                let rows = crate::$topic::rows();
                with_provider("oci:runc", || row::check_in_session(stringify!($topic), &rows, Identity::Root));
            }

            #[test]
            fn by_runc_in_a_session_as_user() {
                let rows = crate::$topic::rows();
                with_provider("oci:runc", || row::check_in_session(stringify!($topic), &rows, Identity::User));
            }

            #[test]
            fn from_a_pool_as_root() {
                row::check_pooled(stringify!($topic), &crate::$topic::rows(), Identity::Root);
            }

            #[test]
            fn from_a_pool_as_user() {
                row::check_pooled(stringify!($topic), &crate::$topic::rows(), Identity::User);
            }

            #[test]
            fn in_a_session_as_root() {
                row::check_in_session(stringify!($topic), &crate::$topic::rows(), Identity::Root);
            }

            #[test]
            fn in_a_session_as_user() {
                row::check_in_session(stringify!($topic), &crate::$topic::rows(), Identity::User);
            }
        })*
    };
}

mod table {
    use super::*;
    topics!(
        bombs, devices, files, guard, input, kernel, proc, protected, secrets, sockets, stdio, syscalls,
        terminals, timeouts, workspaces,
    );

    #[test]
    fn has_at_least_120_rows_with_names_of_their_own() {
        let rows = [
            crate::bombs::rows(),
            crate::devices::rows(),
            crate::files::rows(),
            crate::guard::rows(),
            crate::input::rows(),
            crate::kernel::rows(),
            crate::proc::rows(),
            crate::protected::rows(),
            crate::secrets::rows(),
            crate::sockets::rows(),
            crate::stdio::rows(),
            crate::syscalls::rows(),
            crate::terminals::rows(),
            crate::timeouts::rows(),
            crate::workspaces::rows(),
        ]
        .concat();
        let names: std::collections::BTreeSet<&str> = rows.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names.len(), rows.len(), "two rows have the same name");
        assert!(rows.len() >= 120, "only {} rows", rows.len());
        println!("{} rows", rows.len());
    }
}
