//! The service under a real systemd: it is started by a connection, restarted, watched, reloaded and stopped.
//! Needs root and namespaces; each test has a machine of its own.
#![allow(clippy::unwrap_used, reason = "a test that unwraps fails where it should")]

use crate::support;

mod machine;
mod package;
mod service;
mod units;
