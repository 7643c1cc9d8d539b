//! The confined worker; only a supervisor starts it. See `stockade::worker`.

fn main() -> std::process::ExitCode {
    stockade::worker::main()
}
