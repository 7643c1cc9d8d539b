//! Runs in the worker, from exec to the first frame: confines the process, proves it with escape attempts, and waits for the
//! connection. Trusts the set-up, which only the supervisor can have sent. Never reads a client's byte before it is confined.

use std::{
    os::fd::{AsFd, OwnedFd},
    process::ExitCode,
    sync::{Arc, Barrier, Condvar, Mutex, PoisonError},
    time::{Duration, Instant},
};

use super::{connection::WorkerConnection, scheduler::Role, sentinel};
use crate::{
    VERSION,
    broker::{
        CallId, Caller, Channel, ControlMessage,
        codec::{MAX_REASON_BYTES, ToSupervisor, ToWorker},
        setup::Setup,
    },
    confine::{self, ConfineError, escape},
    jail::{Call, Jail, UnsettledName},
    path::Mode,
    sys::{
        Errno, process, raw,
        socket::{self, WaitMode},
        wake::WakeDescriptor,
    },
};

/// A set-up carries the whole policy of a profile.
const MAX_SETUP_BYTES: usize = 192 << 10;
/// Enough, because requests nest at most 64 levels and no code recurses over the disk.
const STACK_BYTES: usize = 1 << 20;
/// Deadline of a recovery. Undoing takes milliseconds; removing deleted folders may take long, and the next recovery continues.
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(60);

/// Ends with 0 after an orderly connection. If the worker cannot confine itself, it reports the failed step to the
/// supervisor, which logs it.
pub fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failed) => {
            let mut reason = failed.to_string();
            reason.truncate(reason.floor_char_boundary(MAX_REASON_BYTES));
            let message = ToSupervisor::Failed { reason }.encode();
            // If the message cannot be sent, the end of the channel still shows that the start failed.
            let _ = socket::send(std::io::stdin().as_fd(), &message, &[], WaitMode::Now);
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), ConfineError> {
    process::close_from(3).map_err(|errno| ConfineError::StepFailed("close_range", errno))?;
    let wake = WakeDescriptor::new().map_err(|errno| ConfineError::StepFailed("eventfd", errno))?;
    raw::limit_malloc_arenas();
    raw::ignore_file_size_signal();
    let uid = process::effective_uid();
    let supervisor = bind_to_parent()?;
    let stdin = std::io::stdin();
    let (setup, roots) = receive_setup(stdin.as_fd())?;
    #[cfg(feature = "weakened")]
    crate::sys::weakened::set(setup.weakened);
    confine::confine_worker_before_threads(&setup, &roots)?;
    let gate = start_threads(setup.threads)?;
    let probes = prove_confinement(&setup, roots, supervisor)?;
    let ready = ToSupervisor::Ready { version: VERSION.into(), escape_results: probes };
    socket::send(stdin.as_fd(), &ready.encode(), &[], WaitMode::Block)
        .map_err(|errno| ConfineError::StepFailed("ready", errno))?;
    let order = receive_task(stdin.as_fd());
    #[cfg(feature = "weakened")]
    crate::sys::fault::plan(&setup.fault, matches!(order, Some(WorkerTask::Recover { .. })));
    match order {
        Some(WorkerTask::Serve(stream)) => serve(setup, uid, stream, wake, &gate),
        Some(WorkerTask::Recover { waits_for_journals: waits }) => recover(setup, uid, waits),
        // The supervisor ended before it had a client for this worker.
        None => {}
    }
    Ok(())
}

/// Makes the kernel kill this process when the supervisor ends, and checks that the parent is the process that made the channel.
fn bind_to_parent() -> Result<i32, ConfineError> {
    process::die_with_parent().map_err(|errno| ConfineError::StepFailed("parent-death signal", errno))?;
    let maker = socket::peer_cred(std::io::stdin()).map_err(|errno| ConfineError::StepFailed("channel", errno))?;
    if process::parent_pid() == Some(maker.pid) { Ok(maker.pid) } else { Err(ConfineError::WrongParent) }
}

fn receive_setup(channel: std::os::fd::BorrowedFd<'_>) -> Result<(Setup, Vec<OwnedFd>), ConfineError> {
    let mut buffer = vec![0; MAX_SETUP_BYTES];
    let received = socket::receive(channel, &mut buffer, WaitMode::Block)
        .map_err(|errno| ConfineError::StepFailed("set-up", errno))?;
    let bad = || ConfineError::StepFailed("set-up", Errno::INVAL);
    let Ok(ToWorker::Setup { json }) = ToWorker::decode(&buffer[..received.len]) else { return Err(bad()) };
    let setup: Setup = serde_json::from_slice(&json).map_err(|_| bad())?;
    let directories = received.fds.iter().all(|fd| process::is_path_directory(fd.as_fd()));
    if received.fds.len() != setup.roots.len() || !directories { Err(bad()) } else { Ok((setup, received.fds)) }
}

/// The filter forbids threads from then on, so all of them exist before it. They wait at the gate for the connection.
#[derive(Debug, Default)]
struct StartGate {
    connection: Mutex<Option<&'static WorkerConnection>>,
    opened: Condvar,
}

/// Fails unless all of them start: fewer would break the promise that short calls always find one.
fn start_threads(count: usize) -> Result<Arc<StartGate>, ConfineError> {
    let gate = Arc::<StartGate>::default();
    // Without the barrier a thread could meet the filter while it still registers itself with the kernel.
    let all_run = Arc::new(Barrier::new(count + 1));
    for role in Role::of_threads(count) {
        let (gate, all_run) = (gate.clone(), all_run.clone());
        let body = move || {
            if role == Role::Patient {
                process::lower_thread_priority();
            }
            all_run.wait();
            gate.wait().run_thread(role);
        };
        let started = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(body);
        started.map_err(|error| {
            ConfineError::StepFailed("thread", Errno::from_io_error(&error).unwrap_or(Errno::NOMEM))
        })?;
    }
    all_run.wait();
    Ok(gate)
}

impl StartGate {
    fn wait(&self) -> &'static WorkerConnection {
        let mut connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match *connection {
                Some(connection) => return connection,
                None => connection = self.opened.wait(connection).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    fn open(&self, connection: &'static WorkerConnection) {
        *self.connection.lock().unwrap_or_else(PoisonError::into_inner) = Some(connection);
        self.opened.notify_all();
    }
}

/// Makes the forbidden calls before and after the filter is installed. Closes the roots: from here on only the supervisor opens
/// folders for this process.
fn prove_confinement(
    setup: &Setup,
    roots: Vec<OwnedFd>,
    supervisor: i32,
) -> Result<Vec<(u8, escape::AttemptResult)>, ConfineError> {
    let read_only = setup.roots.iter().position(|root| root.mode == Mode::Ro);
    let descriptors = escape::worker_descriptors(&roots);
    let surroundings = escape::AttemptContext {
        read_only_root: read_only.map(|index| roots[index].as_fd()),
        supervisor,
        descriptors: &descriptors,
    };
    let mut probes = escape::run_attempts(setup, true, &surroundings);
    drop(roots);
    confine::confine_worker_threads(setup)?;
    let surroundings = escape::AttemptContext { read_only_root: None, supervisor, descriptors: &[] };
    probes.extend(escape::run_attempts(setup, false, &surroundings));
    Ok(probes)
}

/// The task of a worker.
#[derive(Debug)]
enum WorkerTask {
    Serve(OwnedFd),
    Recover { waits_for_journals: bool },
}

fn receive_task(channel: std::os::fd::BorrowedFd<'_>) -> Option<WorkerTask> {
    let mut buffer = [0; 64];
    let mut received = socket::receive(channel, &mut buffer, WaitMode::Block).ok()?;
    match (ToWorker::decode(&buffer[..received.len]), received.fds.len()) {
        (Ok(ToWorker::Connection { .. }), 1) => received.fds.pop().map(WorkerTask::Serve),
        (Ok(ToWorker::Recover { waits_for_journals: waits }), _) => {
            Some(WorkerTask::Recover { waits_for_journals: waits })
        }
        _ => None,
    }
}

/// Recovers on this thread alone; the other threads wait at the gate until the process ends.
fn recover(setup: Setup, uid: u32, waits: bool) {
    let channel = open_channel();
    let asked = channel.clone();
    channel.set_control_handler(move |control| match control {
        ControlMessage::Ping { nonce } => asked.send_pong(nonce, 0, 0),
        ControlMessage::Drain | ControlMessage::Limits(_) => {}
        ControlMessage::SupervisorGone => std::process::exit(1),
    });
    let deadline = Instant::now() + RECOVERY_TIMEOUT;
    let caller = Caller::new(CallId(0), 0, deadline);
    let call = Call::new(caller, Arc::new(setup.limits.clone()), Arc::default());
    let report = |unsettled: Vec<UnsettledName>| {
        for UnsettledName { root, path, reason } in unsettled {
            channel.report_unsettled(root, path, reason);
        }
        channel.report_settled();
    };
    Jail::from_setup(setup, uid, channel.clone()).recover(&call, waits, report);
}

fn open_channel() -> Arc<Channel> {
    // Lives as long as the process.
    let stdin: &'static std::io::Stdin = Box::leak(Box::new(std::io::stdin()));
    Arc::new(Channel::new(stdin.as_fd()))
}

fn serve(setup: Setup, uid: u32, stream: OwnedFd, wake: WakeDescriptor, gate: &StartGate) {
    // Lives as long as the process, and the process as long as the connection.
    let connection: &'static WorkerConnection =
        Box::leak(Box::new(WorkerConnection::new(setup, uid, stream, open_channel(), wake)));
    connection.listen_to_supervisor();
    gate.open(connection);
    sentinel::run_sentinel(connection);
}
