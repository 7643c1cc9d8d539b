//! Runs in the worker and in clients. Pure: the request and response of every function, one file each.
//! Doc comments here and the texts of `fields` are what an agent reads: schemars makes the schema's descriptions of them.
//!
//! In requests `null` and a missing field are the same, so every field is an `Option`; defaults belong to the
//! handler, because most come from the policy.

pub mod create_file;
pub mod delete_file;
mod fields;
pub mod find;
pub mod info;
pub mod list_folder;
pub mod mkdir;
pub mod move_copy;
pub mod read_file;
pub mod restore;
pub mod search;
pub mod stat;
pub mod tree;
pub mod update_file;

pub use create_file::CreateFile;
pub use delete_file::DeleteFile;
pub use find::Find;
pub use info::Info;
pub use list_folder::ListFolder;
pub use mkdir::Mkdir;
pub use move_copy::{Copy, Move};
pub use read_file::ReadFile;
pub use restore::Restore;
pub use search::Search;
pub use stat::Stat;
pub use tree::Tree;
pub use update_file::UpdateFile;
