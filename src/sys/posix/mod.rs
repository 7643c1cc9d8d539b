//! What macOS does with calls that every Unix has: no O_PATH, no message sockets, no pidfds, no files without a name. The
//! tests run this code on Linux: its unit tests by themselves, and the whole service in a build with the cargo feature
//! `posix`. So only code that is specific to macOS is never executed by tests.

pub mod change;
pub mod channel;
pub mod children;
pub mod entries;
pub mod fs;
pub mod program;
pub mod wake;
