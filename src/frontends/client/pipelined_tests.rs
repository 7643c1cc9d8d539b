use std::io::{BufRead, BufReader, Write};

use super::*;

fn on_runtime<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

/// A service on another thread: for each line it reads, the lines to write; it hangs up after `None`.
fn service(
    mut answer: impl FnMut(&str) -> Option<String> + Send + 'static,
) -> (UnixStream, std::thread::JoinHandle<Vec<String>>) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let served = std::thread::spawn(move || {
        let mut heard = Vec::new();
        for line in BufReader::new(theirs.try_clone().unwrap()).lines() {
            let Ok(line) = line else { break };
            let answered = answer(&line);
            heard.push(line);
            match answered {
                Some(answer) => (&theirs).write_all(answer.as_bytes()).unwrap(),
                None => break,
            }
        }
        heard
    });
    (ours, served)
}

fn id_of(line: &str) -> u64 {
    serde_json::from_str::<serde_json::Value>(line).unwrap()["id"].as_u64().unwrap()
}

#[test]
fn replies_find_their_calls_in_any_order() {
    let mut held = Vec::new();
    let (stream, _service) = service(move |line| {
        held.push(id_of(line));
        // All together once the last is here, backwards.
        (held.len() == 3)
            .then(|| held.drain(..).rev().map(|id| format!("{{\"id\":{id},\"result\":{id}}}\n")).collect())
            .or(Some(String::new()))
    });
    on_runtime(async {
        let pipeline = Pipeline::new(stream, Arc::default()).unwrap();
        let call = || async { pipeline.call("m", "{}", None, None).await.unwrap().get().to_owned() };
        assert_eq!(tokio::join!(call(), call(), call()), ("1".into(), "2".into(), "3".into()));
    });
}

#[test]
fn a_dropped_call_is_cancelled_and_the_next_is_served() {
    let (stream, service) = service(|line| {
        Some(match line.contains("\"second\"") {
            true => format!("{{\"id\":{},\"result\":2}}\n", id_of(line)),
            false => String::new(),
        })
    });
    on_runtime(async {
        let pipeline = Pipeline::new(stream, Arc::default()).unwrap();
        let first = pipeline.call("first", "{}", None, None);
        assert!(tokio::time::timeout(Duration::from_millis(20), first).await.is_err());
        assert_eq!(pipeline.call("second", "{}", None, None).await.unwrap().get(), "2");
        drop(pipeline);
        tokio::task::yield_now().await;
    });
    let heard = service.join().unwrap();
    assert_eq!(heard[1], r#"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":1}}"#);
    assert_eq!(heard.len(), 3, "what has its reply is not cancelled: {heard:?}");
}

#[test]
fn the_end_of_the_connection_reaches_everybody_who_waits_and_later_ones() {
    let line = "\n{\"id\":null,\"error\":{\"code\":-32000,\"message\":\"m\",\"data\":{\"code\":\"C220\",\"message\":\"late\"}}}\n";
    let (stream, _service) = service(move |_| Some(line.into()));
    on_runtime(async {
        let pipeline = Pipeline::new(stream, Arc::default()).unwrap();
        for outcome in <[CallResult; 2]>::from(tokio::join!(
            pipeline.call("a", "{}", None, None),
            pipeline.call("b", "{}", None, None)
        )) {
            assert!(matches!(outcome, Err(CallError::Remote(error)) if error.code == "C220"));
        }
        assert!(pipeline.is_ended());
        assert!(pipeline.call("c", "{}", None, None).await.is_err());
    });
    let (stream, _service) = service(|_| None);
    on_runtime(async {
        let pipeline = Pipeline::new(stream, Arc::default()).unwrap();
        assert_eq!(pipeline.call("a", "{}", None, None).await.unwrap_err(), CallError::Closed);
    });
}

#[test]
fn nothing_is_read_while_the_backlog_is_full() {
    let (stream, _service) = service(|line| Some(format!("{{\"id\":{},\"result\":1}}\n", id_of(line))));
    on_runtime(async {
        let backlog = Arc::new(Backlog::default());
        backlog.add(MAX_BACKLOG_BYTES);
        let pipeline = Pipeline::new(stream, backlog.clone()).unwrap();
        let mut call = pin!(pipeline.call("a", "{}", None, None));
        assert!(tokio::time::timeout(Duration::from_millis(50), &mut call).await.is_err());
        backlog.remove(1);
        assert!(call.await.is_ok());
    });
}

/// More than a socket holds, so that some of it is sent at once and the rest later, and nothing overtakes it.
#[test]
fn long_calls_arrive_whole_and_in_order() {
    let (stream, service) = service(|line| {
        // Longer than it takes to fill the socket.
        std::thread::sleep(Duration::from_millis(2));
        Some(format!("{{\"id\":{},\"result\":1}}\n", id_of(line)))
    });
    let long = format!("{{\"content\":\"{}\"}}", "x".repeat(1 << 20));
    on_runtime(async {
        let pipeline = Pipeline::new(stream, Arc::default()).unwrap();
        let calls = tokio::join!(
            pipeline.call("m", &long, None, None),
            pipeline.call("m", "{}", None, None),
            pipeline.call("m", &long, None, None),
            pipeline.call("m", "{}", None, None),
        );
        assert!([calls.0, calls.1, calls.2, calls.3].iter().all(Result::is_ok));
    });
    let heard = service.join().unwrap();
    assert_eq!(heard.iter().map(|line| id_of(line)).collect::<Vec<_>>(), [1, 2, 3, 4]);
    assert_eq!(heard[2].len(), heard[0].len());
}

/// Also holds for a call that is sent long after the one before, while no deadline was checked.
#[test]
fn a_call_that_nobody_answers_ends_after_its_patience() {
    let (stream, service) = service(|line| {
        Some(if line.contains("\"first\"") { "{\"id\":1,\"result\":1}\n".into() } else { String::new() })
    });
    on_runtime(async {
        let pipeline = Pipeline::new(stream, Arc::default()).unwrap();
        assert!(pipeline.call("first", "{}", None, None).await.is_ok());
        tokio::time::sleep(DEADLINE_CHECK_INTERVAL + Duration::from_millis(200)).await;
        assert!(!pipeline.0.shared.state().checks_deadlines, "an idle connection is left alone");
        let mut unanswered = Box::pin(pipeline.call("second", "{}", None, None));
        assert!(tokio::time::timeout(Duration::from_millis(20), &mut unanswered).await.is_err());
        for waiter in pipeline.0.shared.state().pending_calls.values_mut() {
            waiter.deadline = Instant::now();
        }
        let outcome = tokio::time::timeout(Duration::from_secs(20), &mut unanswered).await;
        assert_eq!(outcome.expect("it ends").unwrap_err(), CallError::TimedOut);
        tokio::task::yield_now().await;
        drop(unanswered);
        drop(pipeline);
        tokio::task::yield_now().await;
    });
    assert!(service.join().unwrap()[2].contains("$/cancelRequest"));
}

#[test]
fn the_place_of_a_dropped_call_is_kept_until_the_service_has_answered() {
    let (stream, _service) = service(|line| {
        let is_cancel = line.contains("$/cancelRequest");
        if is_cancel {
            std::thread::sleep(Duration::from_millis(50));
        }
        let error =
            "{\"id\":1,\"error\":{\"code\":-32000,\"message\":\"m\",\"data\":{\"code\":\"C220\",\"message\":\"m\"}}}\n";
        Some(if is_cancel { error.into() } else { String::new() })
    });
    on_runtime(async {
        let places = Arc::new(tokio::sync::Semaphore::new(1));
        let pipeline = Pipeline::new(stream, Arc::default()).unwrap();
        let place = places.clone().acquire_owned().await.unwrap();
        let call = pipeline.call("m", "{}", None, Some(place));
        assert!(tokio::time::timeout(Duration::from_millis(20), call).await.is_err());
        assert_eq!(places.available_permits(), 0, "the service has it open");
        let free = tokio::time::timeout(Duration::from_secs(20), places.acquire()).await;
        assert!(free.is_ok_and(|place| place.is_ok()));
        assert!(pipeline.0.shared.state().pending_calls.is_empty());
    });
}

/// Also holds while a clone of the pipeline exists.
#[test]
fn a_connection_that_was_given_up_is_closed() {
    let (stream, service) = service(|_| Some("no reply\nnor this\n".into()));
    on_runtime(async {
        let pipeline = Pipeline::new(stream, Arc::default()).unwrap();
        assert!(matches!(pipeline.call("m", "{}", None, None).await, Err(CallError::Protocol(_))));
        assert!(tokio::task::spawn_blocking(|| service.join().unwrap()).await.is_ok());
        drop(pipeline);
    });
}
