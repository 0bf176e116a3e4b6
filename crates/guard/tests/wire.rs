//! What guard and its owner hear is bytes that anybody may have sent: no such bytes stop the hearer, and whatever is said
//! is heard as it was said.

use std::ffi::{CString, OsString};
use std::os::unix::ffi::OsStringExt;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use ringfence_guard::{ExecStage, FromGuard, News, Program, ToGuard, ToShim};
use ringfence_linux::Exited;

fn text() -> impl Strategy<Value = CString> {
    vec(1..=255u8, 0..40).prop_map(|bytes| CString::new(bytes).unwrap())
}

fn bytes() -> impl Strategy<Value = OsString> {
    vec(any::<u8>(), 0..60).prop_map(OsString::from_vec)
}

fn program() -> impl Strategy<Value = Program> {
    let terminal = option::of((any::<u16>(), any::<u16>()));
    (vec(text(), 0..8), vec(text(), 0..8), bytes(), bytes(), terminal).prop_map(
        |(argv, environment, path, directory, terminal)| Program {
            argv,
            environment,
            path,
            directory: directory.into(),
            terminal,
        },
    )
}

fn order() -> impl Strategy<Value = ToGuard> {
    prop_oneof![
        any::<i32>().prop_map(ToGuard::Signal),
        Just(ToGuard::StopAll),
        Just(ToGuard::ContinueAll),
        (any::<u8>(), any::<u8>()).prop_map(|(v4, v6)| ToGuard::Sockets { v4, v6 }),
        any::<u32>().prop_map(|id| ToGuard::Shim { id }),
        (any::<i32>(), any::<i32>()).prop_map(|(group, signal)| ToGuard::SignalGroup { group, signal }),
        any::<u32>().prop_map(|id| ToGuard::KillTree { id }),
        Just(ToGuard::Files),
        any::<u32>().prop_map(|id| ToGuard::Plug { id }),
        any::<u32>().prop_map(|id| ToGuard::Space { id }),
    ]
}

fn stage() -> impl Strategy<Value = ExecStage> {
    prop_oneof![Just(ExecStage::Directory), Just(ExecStage::Stdio), Just(ExecStage::Program)]
}

fn exited() -> impl Strategy<Value = Exited> {
    prop_oneof![any::<i32>().prop_map(Exited::Code), any::<i32>().prop_map(Exited::Signal)]
}

fn news() -> impl Strategy<Value = News> {
    prop_oneof![
        (any::<i32>(), any::<i32>()).prop_map(|(pid, shim)| News::Started { pid, shim }),
        (stage(), any::<i32>()).prop_map(|(stage, errno)| News::NotStarted { stage, errno }),
        (exited(), any::<u8>(), any::<u64>(), any::<u64>(), any::<bool>())
            .prop_map(|(how, full, cpu, memory, left)| News::Ended { how, full, cpu, memory, left }),
        Just(News::Nothing),
        Just(News::Gone),
    ]
}

fn message() -> impl Strategy<Value = FromGuard> {
    prop_oneof![
        Just(FromGuard::Network),
        Just(FromGuard::Sockets),
        any::<u16>().prop_map(|version| FromGuard::Ready { version }),
        any::<u16>().prop_map(|version| FromGuard::Waiting { version }),
        ("[^\0]{0,20}", "[^\0]{0,20}", any::<i32>()).prop_map(|(step, subject, errno)| FromGuard::Failed {
            step,
            subject,
            errno
        }),
        (stage(), any::<i32>()).prop_map(|(stage, errno)| FromGuard::NotStarted { stage, errno }),
        (exited(), any::<u8>(), any::<u64>(), any::<u64>())
            .prop_map(|(how, full, cpu, memory)| FromGuard::Exited { how, full, cpu, memory }),
        (any::<u32>(), news()).prop_map(|(id, news)| FromGuard::InSession { id, news }),
        any::<u32>().prop_map(|id| FromGuard::Plug { id }),
        (any::<u32>(), any::<u64>(), any::<u64>()).prop_map(|(id, used, all)| FromGuard::Space {
            id,
            used,
            all
        }),
    ]
}

/// A message, cut and with some bytes of it changed.
fn damaged(whole: Vec<u8>) -> impl Strategy<Value = Vec<u8>> {
    let length = whole.len();
    let changes = vec((0..length.max(1), any::<u8>()), 0..4);
    (0..=length, changes).prop_map(move |(cut, changes)| {
        let mut bytes = whole.clone();
        for (at, byte) in changes {
            if let Some(old) = bytes.get_mut(at) {
                *old = byte;
            }
        }
        bytes.truncate(cut);
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_bytes_stop_the_hearer(bytes in vec(any::<u8>(), 0..300)) {
        let _ = (ToGuard::decode(&bytes), FromGuard::decode(&bytes), ToShim::decode(&bytes), Program::decode(&bytes));
    }

    #[test]
    fn no_damaged_order_stops_guard(bytes in order().prop_flat_map(|order| damaged(order.encode()))) {
        let _ = ToGuard::decode(&bytes);
    }

    #[test]
    fn no_damaged_message_stops_the_owner(bytes in message().prop_flat_map(|message| damaged(message.encode()))) {
        let _ = FromGuard::decode(&bytes);
    }

    #[test]
    fn no_damaged_program_stops_the_shim(bytes in program().prop_flat_map(|program| damaged(program.encode()))) {
        let _ = Program::decode(&bytes);
    }

    #[test]
    fn orders_survive_the_wire(order in order()) {
        prop_assert_eq!(ToGuard::decode(&order.encode()), Some(order));
    }

    #[test]
    fn messages_survive_the_wire(message in message()) {
        prop_assert_eq!(FromGuard::decode(&message.encode()), Some(message));
    }

    #[test]
    fn programs_survive_the_wire(program in program()) {
        prop_assert_eq!(Program::decode(&program.encode()), Some(program));
    }
}
