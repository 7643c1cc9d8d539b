//! What macOS does with the means that every Unix has: no O_PATH, no message sockets, no handles on processes, no files
//! without a name. On Linux the tests run it: by themselves, and in a build (cargo feature `posix`) whose whole service
//! does without these, too. So only what is macOS's own stays unexecuted.

pub mod change;
pub mod channel;
pub mod children;
pub mod entries;
pub mod fs;
pub mod program;
pub mod wake;
