//! The supervisor. Everything is in `supervisor`.

fn main() -> std::process::ExitCode {
    stockade::stockaded(std::env::args_os())
}
