//! Any bytes as a call to a session's keeper: understood or refused, and understood the same when it is said again.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Some(again) = ringfence_sandbox::call_again(bytes) {
        assert_eq!(ringfence_sandbox::call_again(&again).as_deref(), Some(&again[..]));
    }
});
