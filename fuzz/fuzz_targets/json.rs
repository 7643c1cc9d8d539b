//! What our strict reader takes, serde_json reads the same way; what it refuses, it refuses without a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stockade::internals::wire::json;

fuzz_target!(|text: &[u8]| {
    if let Ok(value) = json::parse(text) {
        assert_eq!(Some(value), serde_json::from_slice(text).ok());
    }
});
