//! The network, through the real command, on a machine of a test internet: unmodified programs that work where they are
//! granted and fail fast where not, a table of attacks with a twin each, secrets that never enter, and what happens when
//! egress dies.
//!
//! `RINGFENCE_ESCAPE_ROW=name` runs only the rows whose name holds that word.

mod addresses;
mod attempt;
mod by_provider;
mod death;
mod dns;
mod floods;
mod http;
mod names;
mod programs;
mod proxies;
mod records;
mod registries;
mod relays;
#[expect(dead_code, reason = "what is of sessions is for the escape table")]
#[path = "../escape/row.rs"]
mod row;
mod rules;
mod secrets;
mod skill_sources;
mod sockets;
mod tls;

use ringfence_testing::{Identity, Internet, has_docker, with_provider};

/// The internet of this process. Only where there is one: see [`check`].
pub(crate) fn internet() -> &'static Internet {
    Internet::get().expect("a test internet")
}

fn check(topic: &str, rows: Vec<row::Row>, identity: Identity) {
    let Some(internet) = Internet::get() else { return };
    // What a row would start counts as left behind by it.
    internet.services.proxies();
    if topic == "tls" {
        internet.services.postgres();
        internet.services.starttls();
    }
    row::check(topic, &rows, identity);
}

macro_rules! topics {
    ($($topic:ident),* $(,)?) => {
        $(mod $topic {
            use super::*;

            #[test]
            fn as_root() {
                check(stringify!($topic), crate::$topic::rows(), Identity::Root);
            }

            #[test]
            fn as_user() {
                check(stringify!($topic), crate::$topic::rows(), Identity::User);
            }

            #[test]
            fn by_bwrap_as_root() {
                with_provider("bwrap", || check(stringify!($topic), crate::$topic::rows(), Identity::Root));
            }

            #[test]
            fn by_docker_as_root() {
                if has_docker() {
                    with_provider("docker", || check(stringify!($topic), crate::$topic::rows(), Identity::Root));
                }
            }

            #[test]
            fn by_bwrap_as_user() {
                with_provider("bwrap", || check(stringify!($topic), crate::$topic::rows(), Identity::User));
            }
        })*

        fn all() -> Vec<row::Row> {
            [$(crate::$topic::rows()),*].concat()
        }
    };
}

mod table {
    use super::*;
    topics!(addresses, dns, floods, http, names, relays, sockets, tls);

    /// What a runtime makes is the namespace alone; egress is the same code. So these topics, and no more.
    mod by_crun {
        use super::*;

        fn check_by_crun(topic: &str, rows: Vec<row::Row>, identity: Identity) {
            with_provider("oci:crun", || check(topic, rows, identity));
        }

        #[test]
        fn names_as_root() {
            check_by_crun("names", crate::names::rows(), Identity::Root);
        }

        #[test]
        fn addresses_as_user() {
            check_by_crun("addresses", crate::addresses::rows(), Identity::User);
        }

        #[test]
        fn sockets_as_user() {
            check_by_crun("sockets", crate::sockets::rows(), Identity::User);
        }
    }

    #[test]
    fn has_at_least_80_rows_with_names_of_their_own() {
        let rows = all();
        let names: std::collections::BTreeSet<&str> = rows.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names.len(), rows.len(), "two rows have the same name");
        assert!(rows.len() >= 80, "only {} rows", rows.len());
        println!("{} rows", rows.len());
    }
}
