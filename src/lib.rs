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
//! Only the three `main` functions leave the crate. `tests/source/architecture.rs` holds the import directions.

// Dead code is judged where all three programs are built; each of them alone uses a part.
#![cfg_attr(
    not(all(feature = "supervisor", feature = "frontends", not(feature = "posix"))),
    allow(dead_code, unused_imports)
)]

#[cfg(all(feature = "weakened", not(debug_assertions)))]
compile_error!(
    "`weakened` switches off layers of the jail; it exists for tests and never compiles into a release build"
);

#[cfg(all(feature = "posix", not(debug_assertions)))]
compile_error!(
    "`posix` does without what the jail is made of; it exists for tests and never compiles into a release build"
);

mod broker;
mod confine;
mod edit_distance;
#[cfg(feature = "frontends")]
mod frontends;
mod jail;
mod ops;
mod path;
#[cfg(feature = "policy")]
mod policy;
mod resolve;
#[cfg(feature = "supervisor")]
mod supervisor;
mod sys;
mod terms;
mod text;
mod wire;
mod worker;

#[cfg(feature = "frontends")]
pub use frontends::cli::main as stockade;
#[cfg(feature = "supervisor")]
pub use supervisor::main as stockaded;
pub use worker::main as stockade_worker;

/// Supervisor, worker and clients of one build carry the same version; a supervisor refuses a worker of another.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The commit of a release build, if it is known, and the target: `commit 0123456789ab, target x86_64-unknown-linux-gnu`.
#[cfg(any(feature = "supervisor", feature = "frontends"))]
const BUILD: &str = env!("STOCKADE_BUILD");

/// What the integration tests and the fuzz targets take apart. No program is built with it.
#[cfg(feature = "internals")]
pub mod internals {
    pub const VERSION: &str = crate::VERSION;

    macro_rules! open {
        ($($name:ident)*) => {
            $(pub mod $name {
                pub use crate::$name::*;
            })*
        };
    }

    open!(broker confine path resolve sys text wire);
    #[cfg(feature = "policy")]
    open!(policy);
}
