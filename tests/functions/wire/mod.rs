//! The wire as a client meets it: frames, envelopes, calls that run side by side, and clients that mean no good.
//! Every byte goes through the real supervisor and a real, confined worker.
#![allow(clippy::unwrap_used, reason = "a test that unwraps fails where it should")]

mod begun;
mod calls;
mod envelope;
mod framing;
mod hostile;
mod pressure;
