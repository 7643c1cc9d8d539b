//! The command line, its terminal output and completions, and the MCP server.

mod cli;
mod cli_change;
mod cli_contract;
mod mcp;
mod shells;
#[path = "../support/mod.rs"]
mod support;
mod terminal;
