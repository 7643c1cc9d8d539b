//! Any line of a client: a call, a cancellation or an error to answer, never a panic. What is answered is one line.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stockade::internals::wire::envelope::{self, Incoming};

fuzz_target!(|line: &[u8]| {
    if let Incoming::Invalid { id, error } = envelope::parse(line) {
        let mut reply = Vec::new();
        envelope::write_error(&mut reply, id.as_ref(), &error);
        assert_eq!(reply.iter().filter(|byte| **byte == b'\n').count(), 1);
        assert!(reply.ends_with(b"\n"));
    }
});
