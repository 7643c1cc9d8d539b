//! The command line: an ordinary, untrusted client. Everything is in `frontends::cli`.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    stockade::stockade()
}
