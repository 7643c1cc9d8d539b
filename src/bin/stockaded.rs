//! The supervisor. See `stockade::supervisor`.

fn main() -> std::process::ExitCode {
    stockade::supervisor::main(std::env::args_os())
}
