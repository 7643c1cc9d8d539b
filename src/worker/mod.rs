//! Runs as `stockade-worker`, confined and assumed hostile: it reads what clients send. Serves one connection and ends.
//! Trusts: its set-up. Does not trust: the client, names on disk. Asks the supervisor for every directory it opens
//! beneath; has no other way to reach one.

mod connection;
mod dispatch;
#[cfg(test)]
mod model_tests;
mod outbox;
mod reader;
mod scheduler;
mod sentinel;
mod start;
mod threads;

/// The primitives of `threads`. `model_tests` puts those of `shuttle` in their place.
mod sync {
    pub(super) use std::sync::{
        Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    };
}

pub use start::main;
