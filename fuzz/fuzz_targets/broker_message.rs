//! Any bytes on the channel: no panic, and nothing decodes that the encoder would not write the same way.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stockade::internals::broker::codec::{ToSupervisor, ToWorker};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(message) = ToSupervisor::decode(bytes) {
        assert_eq!(message.encode(), bytes);
    }
    if let Ok(message) = ToWorker::decode(bytes) {
        assert_eq!(message.encode(), bytes);
    }
});
