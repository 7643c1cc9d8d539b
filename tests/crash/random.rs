//! Kills at moments that nobody chose.
