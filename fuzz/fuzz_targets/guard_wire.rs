//! Any bytes as what guard, its owner and its shims say to each other: whatever is understood is said again in the same bytes'
//! meaning.

#![no_main]

use libfuzzer_sys::fuzz_target;
use ringfence_guard::{FromGuard, Program, ToGuard, ToShim};

fuzz_target!(|bytes: &[u8]| {
    if let Some(order) = ToGuard::decode(bytes) {
        assert_eq!(ToGuard::decode(&order.encode()), Some(order));
    }
    match FromGuard::decode(bytes) {
        // Its texts are cut to what a datagram holds, and to UTF-8.
        None | Some(FromGuard::Failed { .. }) => {}
        Some(message) => assert_eq!(FromGuard::decode(&message.encode()), Some(message)),
    }
    if let Some(order) = ToShim::decode(bytes) {
        assert_eq!(order.encode(), bytes);
    }
    if let Some(program) = Program::decode(bytes) {
        assert_eq!(Program::decode(&program.encode()), Some(program));
    }
});
