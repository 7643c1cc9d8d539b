//! stockade: a file service whose jail is held by the kernel.
//!
//! Three kinds of process share this library; the modules say which one runs them.
//!
//! | modules | run in | may trust |
//! |---|---|---|
//! | `supervisor` `resolve` `confine` | `stockaded` | the validated policy |
//! | `worker` `ops` `jail` `text` | `stockade-worker`, confined | nothing; assumed hostile |
//! | `frontends` | `stockade` | nothing of ours; an ordinary client |
//! | `terms` `edits` `wire` `path` `policy` `broker` `sys` | several | their own header says |
//!
//! `tests/source/architecture.rs` holds the import directions.

#[cfg(all(feature = "weakened", not(debug_assertions)))]
compile_error!(
    "`weakened` switches off layers of the jail; it exists for tests and never compiles into a release build"
);

#[cfg(all(feature = "posix", not(debug_assertions)))]
compile_error!(
    "`posix` does without what the jail is made of; it exists for tests and never compiles into a release build"
);

pub mod broker;
pub mod confine;
mod edits;
#[cfg(feature = "frontends")]
pub mod frontends;
pub mod jail;
pub mod ops;
pub mod path;
#[cfg(feature = "policy")]
pub mod policy;
pub mod resolve;
#[cfg(feature = "supervisor")]
pub mod supervisor;
pub mod sys;
pub mod terms;
pub mod text;
pub mod wire;
pub mod worker;

/// Supervisor, worker and clients of one build carry the same version; a supervisor refuses a worker of another.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
