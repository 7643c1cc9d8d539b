//! Any text as a policy: taken whole, or refused with a message that names its source.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stockade::internals::policy::Policy;

fuzz_target!(|text: &str| {
    if let Err(error) = Policy::parse(text, "fuzz.toml") {
        assert!(error.to_string().contains("fuzz.toml"));
    }
});
