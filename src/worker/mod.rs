//! Runs as `stockade-worker`, confined and assumed hostile: it reads what clients send. Serves one connection and ends.
//! Trusts: its set-up. Does not trust: the client, names on disk. Asks the supervisor for every directory it opens
//! beneath; has no other way to reach one.

mod calls;
mod connection;
mod dispatch;
mod outbox;
mod pool;
mod reader;
mod sentinel;
mod start;

pub use start::main;
