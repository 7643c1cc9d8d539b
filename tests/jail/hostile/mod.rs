//! Hostile code in a worker. The real `stockaded` starts this very program as its `stockade-worker`: it is given the real
//! set-up, confines itself with the library's own functions, proves it as a worker must, takes over a client's connection,
//! and then does what an attacker would.
#![allow(unsafe_code, clippy::unwrap_used, reason = "an attacker is not careful")]

mod attempts;
mod contained;
mod payload;
mod real_worker;
use crate::support;

/// Before `main`, because the test harness starts threads there, and a worker confines itself while it has one.
#[used]
// SAFETY: the section holds pointers to functions of exactly this type.
#[unsafe(link_section = ".init_array")]
static BECOME_WORKER: extern "C" fn(i32, *const *const libc::c_char) = become_worker;

extern "C" fn become_worker(count: i32, arguments: *const *const libc::c_char) {
    if count == 0 {
        return;
    }
    // SAFETY: the C library calls initialisers with the arguments of `main`, and there is a first one.
    let name = unsafe { std::ffi::CStr::from_ptr(*arguments) };
    if name.to_bytes() == b"stockade-worker" {
        payload::main();
    }
}
