//! Runs in every frontend: where the supervisor is, or how to start one for this command alone.
//! Trusts: its own installation folder, never PATH: a `stockaded` planted there would hold no jail.

use std::{
    env,
    ffi::{OsStr, OsString},
    io,
    os::{fd::OwnedFd, unix::net::UnixStream},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
};

const SYSTEM_SOCKET: &str = "/run/stockade/stockade.sock";
const SOCKET_NAME: &str = "stockade.sock";

/// The service that calls go to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// The first of these sockets that answers.
    Sockets(Vec<PathBuf>),
    /// A private supervisor for one command, with these arguments.
    Private(Vec<OsString>),
}

impl Endpoint {
    /// Chooses by the options; without any, by the environment, else the system's socket.
    pub fn choose(socket: Option<&Path>, private: Vec<OsString>, env: impl Fn(&str) -> Option<OsString>) -> Self {
        if !private.is_empty() {
            return Self::Private(private);
        }
        let set = |name: &str| env(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        if let Some(named) = socket.map(Path::to_owned).or_else(|| set("STOCKADE_SOCKET")) {
            return Self::Sockets(vec![named]);
        }
        let own = set("XDG_RUNTIME_DIR").map(|dir| dir.join(SOCKET_NAME));
        Self::Sockets(own.into_iter().chain([SYSTEM_SOCKET.into()]).collect())
    }

    pub fn open(&self) -> Result<ServiceConnection, Unreachable> {
        match self {
            Self::Sockets(candidates) => Ok(ServiceConnection { stream: connect_first(candidates)?, supervisor: None }),
            Self::Private(arguments) => start_private(&find_supervisor()?, arguments),
        }
    }
}

/// An open stream, and the supervisor behind it if it is a private one.
#[derive(Debug)]
pub struct ServiceConnection {
    pub stream: UnixStream,
    pub supervisor: Option<PrivateSupervisor>,
}

/// A private supervisor, which serves only this process and ends with its connection.
#[derive(Debug)]
pub struct PrivateSupervisor(Child);

impl PrivateSupervisor {
    /// Call this after the connection is dropped; until then the supervisor does not end.
    pub fn wait(mut self) -> io::Result<ExitStatus> {
        self.0.wait()
    }
}

/// No service can be reached, explained for the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreachable {
    pub message: String,
    pub hint: &'static str,
}

fn connect_first(candidates: &[PathBuf]) -> Result<UnixStream, Unreachable> {
    let mut refusals = Vec::with_capacity(candidates.len());
    for candidate in candidates {
        match UnixStream::connect(candidate) {
            Ok(stream) => return Ok(stream),
            Err(error) => refusals.push(format!("{}: {error}", candidate.display())),
        }
    }
    Err(Unreachable {
        message: format!("cannot connect to {}", refusals.join("; ")),
        hint: "start a service with `stockade serve --root DIR`, or add `--root DIR` to serve this one command",
    })
}

fn start_private(program: &Path, arguments: &[OsString]) -> Result<ServiceConnection, Unreachable> {
    let failed = |error: io::Error| Unreachable {
        message: format!("cannot start {}: {error}", program.display()),
        hint: "check the installation of stockaded",
    };
    let (stream, theirs) = UnixStream::pair().map_err(failed)?;
    // The supervisor does not get standard output, because results are piped into other programs.
    let child = Command::new(program)
        .arg("--inetd")
        .args(arguments)
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::null())
        .spawn()
        .map_err(failed)?;
    Ok(ServiceConnection { stream, supervisor: Some(PrivateSupervisor(child)) })
}

/// Finds `stockaded` in the folder of this executable, or in the `libexec` of the same prefix.
pub fn find_supervisor() -> Result<PathBuf, Unreachable> {
    let own = env::current_exe().map_err(|error| Unreachable {
        message: format!("cannot tell where this program is installed: {error}"),
        hint: "is /proc mounted?",
    })?;
    let candidates = supervisor_candidates(own.parent().unwrap_or(Path::new("/")));
    candidates.iter().find(|path| path.is_file()).cloned().ok_or_else(|| Unreachable {
        message: format!(
            "stockaded is missing: looked for {} and {}",
            candidates[0].display(),
            candidates[1].display()
        ),
        hint: "install stockaded beside stockade, or connect to a running service with --socket",
    })
}

fn supervisor_candidates(folder: &Path) -> [PathBuf; 2] {
    let prefix = folder.parent().unwrap_or(folder);
    [folder.join("stockaded"), prefix.join("libexec/stockade/stockaded")]
}

/// `--root` with its related options, and `--policy`, as arguments of the supervisor.
pub fn supervisor_arguments(roots: &[OsString], policy: Option<&OsStr>, protect: Vec<String>) -> Vec<OsString> {
    let policy = policy.into_iter().flat_map(|file| ["--policy".into(), file.to_owned()]);
    let roots = roots.iter().flat_map(|root| ["--root".into(), root.clone()]);
    policy.chain(roots).chain(protect.into_iter().map(OsString::from)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(socket: Option<&str>, environment: &[(&str, &str)]) -> Endpoint {
        Endpoint::choose(socket.map(Path::new), Vec::new(), |name| {
            environment.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into())
        })
    }

    fn sockets(paths: &[&str]) -> Endpoint {
        Endpoint::Sockets(paths.iter().map(PathBuf::from).collect())
    }

    #[test]
    fn socket_option_beats_the_environment() {
        let environment = [("STOCKADE_SOCKET", "/env"), ("XDG_RUNTIME_DIR", "/run/user/7")];
        assert_eq!(chosen(Some("/option"), &environment), sockets(&["/option"]));
        assert_eq!(chosen(None, &environment), sockets(&["/env"]));
    }

    #[test]
    fn without_a_named_socket_the_user_service_is_tried_before_the_system_service() {
        assert_eq!(
            chosen(None, &[("XDG_RUNTIME_DIR", "/run/user/7")]),
            sockets(&["/run/user/7/stockade.sock", "/run/stockade/stockade.sock"])
        );
        assert_eq!(chosen(None, &[]), sockets(&["/run/stockade/stockade.sock"]));
    }

    #[test]
    fn empty_variables_count_as_unset() {
        assert_eq!(
            chosen(None, &[("STOCKADE_SOCKET", ""), ("XDG_RUNTIME_DIR", "")]),
            sockets(&["/run/stockade/stockade.sock"])
        );
    }

    #[test]
    fn roots_and_policy_ask_for_a_private_supervisor() {
        let arguments =
            supervisor_arguments(&["a:ro".into(), "b".into()], Some(OsStr::new("p.toml")), vec!["--x".into()]);
        assert_eq!(arguments, ["--policy", "p.toml", "--root", "a:ro", "--root", "b", "--x"]);
        let endpoint = Endpoint::choose(None, arguments.clone(), |_| Some("/env".into()));
        assert_eq!(endpoint, Endpoint::Private(arguments));
    }

    #[test]
    fn supervisor_is_looked_for_beside_the_program_and_in_libexec_only() {
        assert_eq!(
            supervisor_candidates(Path::new("/opt/x/bin")),
            [PathBuf::from("/opt/x/bin/stockaded"), PathBuf::from("/opt/x/libexec/stockade/stockaded")]
        );
    }

    #[test]
    fn second_socket_is_used_when_the_first_is_missing() {
        let folder = tempfile::tempdir().unwrap();
        let live = folder.path().join("live.sock");
        let _listener = std::os::unix::net::UnixListener::bind(&live).unwrap();
        let missing = folder.path().join("missing.sock");
        assert!(Endpoint::Sockets(vec![missing.clone(), live]).open().is_ok());
        let refusal = Endpoint::Sockets(vec![missing]).open().unwrap_err();
        assert!(refusal.message.contains("missing.sock"), "{}", refusal.message);
    }
}
