//! What an operator or a service manager does to the service: hands it a socket, hears of it, reloads it.
#![allow(clippy::unwrap_used, reason = "a test that unwraps fails where it should")]

mod activation;
mod notify;
mod reload;
