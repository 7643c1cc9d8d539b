//! The confined worker; only a supervisor starts it. Everything is in `worker`.

fn main() -> std::process::ExitCode {
    stockade::stockade_worker()
}
