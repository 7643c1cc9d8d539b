//! `coder::search` and `coder::find` with the real binaries, through the socket. What has to be found is what ripgrep, fd
//! and git say, or what a file was made of.
#![allow(clippy::unwrap_used, reason = "the files are the tests' own; what cannot be made or read is a failed test")]

use crate::support;

mod bounds;
mod corpus;
mod denied;
mod differences;
mod differential;
mod find;
mod ignore;
mod nested_roots;
mod options;
mod query;

mod ripgrep;
