//! Runs in the worker and in clients. Pure: the request and response of every function, one file each.
//! Doc comments here are what an agent reads: schemars turns them into the schema's descriptions.
//!
//! In requests `null` and a missing field are the same, so every field is an `Option`; defaults belong to the
//! handler, because most come from the policy.

pub mod create_file;
pub mod delete_file;
pub mod info;
pub mod list_folder;
pub mod mkdir;
pub mod read_file;
pub mod relocate;
pub mod restore;
pub mod stat;
pub mod tree;
pub mod update_file;

pub use create_file::CreateFile;
pub use delete_file::DeleteFile;
pub use info::Info;
pub use list_folder::ListFolder;
pub use mkdir::Mkdir;
pub use read_file::ReadFile;
pub use relocate::{Copy, Move};
pub use restore::Restore;
pub use stat::Stat;
pub use tree::Tree;
pub use update_file::UpdateFile;
