//! Where another program makes the sandbox: secrets are where they are under our own provider, and a dead egress opens
//! nothing either.

use ringfence_testing::{Identity, has_docker, with_provider};
use rustix::process::Signal;

use crate::{death, secrets};

/// Each check under bwrap and crun, as root and as an ordinary user, and under docker, whose users are root.
macro_rules! under_each {
    ($($name:ident: $check:expr),* $(,)?) => {
        $(mod $name {
            use super::*;

            #[test]
            fn by_bwrap() {
                with_provider("bwrap", || $check(&Identity::all()));
            }

            #[test]
            fn by_crun() {
                with_provider("oci:crun", || $check(&Identity::all()));
            }

            #[test]
            fn by_docker() {
                if has_docker() {
                    with_provider("docker", || $check(&[Identity::Root]));
                }
            }
        })*
    };
}

under_each! {
    nothing_inside_has_a_secret: secrets::check_inside,
    nothing_outside_but_egress_has_a_secret: secrets::check_outside,
    a_killed_egress_takes_the_network_with_it: |identities: &[Identity]| death::killed(Signal::KILL, identities),
    a_session_whose_egress_was_killed_has_none: death::killed_in_a_session,
}
