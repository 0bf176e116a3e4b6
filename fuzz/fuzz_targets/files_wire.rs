//! Any bytes as a request to a file worker, or as its reply: what is understood has one form only.

#![no_main]

use libfuzzer_sys::fuzz_target;
use ringfence_guard::{FileReply, FileRequest};

fuzz_target!(|bytes: &[u8]| {
    if let Some(request) = FileRequest::decode(bytes) {
        assert_eq!(FileRequest::decode(&request.encode()), Some(request));
    }
    if let Some(reply) = FileReply::decode(bytes) {
        assert_eq!(FileReply::decode(&reply.encode()), Some(reply));
    }
});
