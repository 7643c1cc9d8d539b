//! The jail: attacks from outside of the worker, from inside of it, and the resolvers that both rely on.

mod escape;
mod hostile;
mod resolver;
#[path = "../support/mod.rs"]
mod support;
