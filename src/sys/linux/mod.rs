//! Linux: descriptors that can only be looked at, one call for a whole walk, message sockets, handles on processes.

pub mod change;
pub mod entries;
pub mod fs;
pub mod hangups;
pub mod process;
pub mod program;
pub mod raw;
pub mod socket;
pub mod wake;
