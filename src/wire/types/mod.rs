//! Runs in the worker and in clients. Pure: the request and response of every function, one file each.
//! Doc comments here are what an agent reads: schemars turns them into the schema's descriptions.
//!
//! In requests `null` and a missing field are the same, so every field is an `Option`; defaults belong to the
//! handler, because most come from the policy.

pub mod find;
pub mod info;
pub mod list_folder;
pub mod read_file;
pub mod search;
pub mod stat;
pub mod tree;

pub use find::Find;
pub use info::Info;
pub use list_folder::ListFolder;
pub use read_file::ReadFile;
pub use search::Search;
pub use stat::Stat;
pub use tree::Tree;
