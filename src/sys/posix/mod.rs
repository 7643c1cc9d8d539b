//! What macOS does with the means that every Unix has: no O_PATH, no message sockets, no handles on processes.
//! Linux runs the tests of it, so that only what is macOS's own stays unexecuted there.

pub mod change;
pub mod children;
pub mod entries;
pub mod framed;
pub mod fs;
pub mod program;
pub mod wake;
