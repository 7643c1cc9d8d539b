//! The channel of macOS, run on Linux: what it promises is what SOCK_SEQPACKET gives there.

use std::{
    os::{fd::AsFd, unix::net::UnixStream},
    sync::Arc,
    time::Duration,
};

use super::*;
use crate::sys::{host, poll::receive_stream, process, socket::set_receive_timeout};

fn pair() -> (OwnedFd, OwnedFd) {
    message_pair().unwrap()
}

fn take(socket: &OwnedFd, wait: WaitMode) -> Result<(Vec<u8>, usize), Errno> {
    let mut buffer = vec![0; 200 << 10];
    let received = receive(socket.as_fd(), &mut buffer, wait)?;
    buffer.truncate(received.len);
    Ok((buffer, received.fds.len()))
}

#[test]
fn messages_keep_their_borders_and_their_descriptors() {
    let (ours, theirs) = pair();
    let folder = host::open_directory("/".as_ref()).unwrap();
    let fds = [folder.as_fd(); 3];
    for (text, count) in [("one", 0), ("two", 2), ("three", 0), ("four", 1), ("five", 3)] {
        send(ours.as_fd(), text.as_bytes(), &fds[..count], WaitMode::Now).unwrap();
    }
    for (wait, text, count) in [
        (WaitMode::Now, "one", 0),
        (WaitMode::Block, "two", 2),
        (WaitMode::Now, "three", 0),
        (WaitMode::Now, "four", 1),
        (WaitMode::Block, "five", 3),
    ] {
        assert_eq!(take(&theirs, wait), Ok((text.into(), count)));
    }
    assert_eq!(take(&theirs, WaitMode::Now), Err(Errno::AGAIN));
}

#[test]
fn descriptors_that_arrive_are_the_ones_that_were_sent_and_end_with_an_exec() {
    let (ours, theirs) = pair();
    let folder = host::open_directory(std::env::temp_dir().as_path()).unwrap();
    send(ours.as_fd(), b"x", &[folder.as_fd()], WaitMode::Block).unwrap();
    let received = receive(theirs.as_fd(), &mut [0; 8], WaitMode::Block).unwrap();
    let fd = &received.fds[0];
    assert_eq!(host::identity(fd).unwrap(), host::identity(&folder).unwrap());
    assert!(process::is_path_directory(fd.as_fd()));
    assert_eq!(rustix::io::fcntl_getfd(fd), Ok(FdFlags::CLOEXEC));
    assert_eq!(rustix::io::fcntl_getfd(&theirs), Ok(FdFlags::CLOEXEC));
}

#[test]
fn the_end_of_the_channel_is_seen_after_the_last_message() {
    let (ours, theirs) = pair();
    send(ours.as_fd(), b"last", &[], WaitMode::Now).unwrap();
    drop(ours);
    assert_eq!(take(&theirs, WaitMode::Now), Ok((b"last".to_vec(), 0)));
    assert_eq!(take(&theirs, WaitMode::Now), Ok((Vec::new(), 0)));
    assert_eq!(take(&theirs, WaitMode::Block), Ok((Vec::new(), 0)));
    assert_eq!(send(theirs.as_fd(), b"x", &[], WaitMode::Block), Err(Errno::PIPE));
}

#[test]
fn half_a_message_is_not_taken_and_holds_nobody_up() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let (ours, theirs) = (OwnedFd::from(ours), OwnedFd::from(theirs));
    set_nonblocking(&theirs, true).unwrap();
    for part in [&[5][..], &[0, 0, 0], b"hell"] {
        rustix::io::write(&ours, part).unwrap();
        assert_eq!(take(&theirs, WaitMode::Now), Err(Errno::AGAIN));
    }
    rustix::io::write(&ours, b"o").unwrap();
    assert_eq!(take(&theirs, WaitMode::Now), Ok((b"hello".to_vec(), 0)));
    rustix::io::write(&ours, &[9, 0, 0, 0, b'x']).unwrap();
    assert_eq!(take(&theirs, WaitMode::Now), Err(Errno::AGAIN));
    drop(ours);
    assert_eq!(take(&theirs, WaitMode::Now), Err(Errno::CONNRESET), "cut off in the middle");
    assert_eq!(take(&theirs, WaitMode::Block), Err(Errno::CONNRESET));
}

#[test]
fn a_socket_with_a_timeout_gives_up_and_is_none_the_worse_for_it() {
    let (ours, theirs) = pair();
    set_receive_timeout(&theirs, Some(Duration::from_millis(20))).unwrap();
    assert_eq!(take(&theirs, WaitMode::Block), Err(Errno::AGAIN));
    send(ours.as_fd(), b"late", &[], WaitMode::Now).unwrap();
    assert_eq!(take(&theirs, WaitMode::Block), Ok((b"late".to_vec(), 0)));
    set_receive_timeout(&theirs, None).unwrap();
    let sender = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(50));
        send(ours.as_fd(), b"later", &[], WaitMode::Now).unwrap();
    });
    assert_eq!(take(&theirs, WaitMode::Block), Ok((b"later".to_vec(), 0)));
    sender.join().unwrap();
}

#[test]
fn a_message_whose_rest_never_comes_is_waited_for_no_longer_than_patience_lasts() {
    let (ours, theirs) = pair();
    rustix::io::write(&ours, &[9, 0, 0, 0, b'x']).unwrap();
    assert_eq!(take(&theirs, WaitMode::Block), Err(Errno::BADMSG));
}

#[test]
fn a_message_that_is_empty_or_too_long_is_refused() {
    for (header, refused) in [([0, 0, 0, 0], Errno::BADMSG), ([9, 0, 0, 0], Errno::MSGSIZE)] {
        let (ours, theirs) = pair();
        rustix::io::write(&ours, &header).unwrap();
        rustix::io::write(&ours, b"123456789").unwrap();
        assert_eq!(receive(theirs.as_fd(), &mut [0; 8], WaitMode::Now).unwrap_err(), refused);
    }
}

#[test]
fn the_longest_message_fits_before_anybody_reads_and_a_longer_one_is_refused() {
    let (ours, theirs) = pair();
    assert_eq!(send(ours.as_fd(), &vec![7; MAX_MESSAGE + 1], &[], WaitMode::Now), Err(Errno::MSGSIZE));
    send(ours.as_fd(), &vec![7; MAX_MESSAGE], &[], WaitMode::Now).unwrap();
    assert_eq!(take(&theirs, WaitMode::Now), Ok((vec![7; MAX_MESSAGE], 0)));
}

#[test]
fn a_full_channel_is_said_at_once_and_never_leaves_half_a_message() {
    let (ours, theirs) = pair();
    let message = vec![7; MAX_MESSAGE];
    let mut whole = 0;
    let full = loop {
        match send(ours.as_fd(), &message, &[], WaitMode::Now) {
            Ok(()) => whole += 1,
            Err(errno) => break errno,
        }
    };
    assert_eq!(full, Errno::AGAIN);
    for _ in 0..whole {
        assert_eq!(take(&theirs, WaitMode::Now), Ok((message.clone(), 0)));
    }
    // The system decides whether a part was sent. If so, the channel is unusable afterwards.
    match take(&theirs, WaitMode::Now) {
        Err(Errno::CONNRESET) => assert_eq!(send(ours.as_fd(), b"x", &[], WaitMode::Now), Err(Errno::PIPE)),
        other => {
            assert_eq!((other, send(ours.as_fd(), b"x", &[], WaitMode::Now)), (Err(Errno::AGAIN), Ok(())))
        }
    }
}

#[test]
fn threads_that_share_a_channel_do_not_cut_each_other_short() {
    const SENDERS: u8 = 4;
    const EACH: usize = 50;
    let (ours, theirs) = pair();
    let ours = Arc::new(ours);
    let senders: Vec<_> = (0..SENDERS)
        .map(|number| {
            let ours = ours.clone();
            // Longer than the buffer in all, so that senders have to wait halfway.
            let message = vec![number; 50_000];
            std::thread::spawn(move || {
                for _ in 0..EACH {
                    send(ours.as_fd(), &message, &[], WaitMode::Block).unwrap();
                }
            })
        })
        .collect();
    for _ in 0..usize::from(SENDERS) * EACH {
        let (bytes, _) = take(&theirs, WaitMode::Block).unwrap();
        assert_eq!(bytes, vec![bytes[0]; 50_000]);
    }
    for sender in senders {
        sender.join().unwrap();
    }
    assert_eq!(take(&theirs, WaitMode::Now), Err(Errno::AGAIN));
}

#[test]
fn a_stream_that_is_full_takes_no_more_now_and_all_of_it_later() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let (ours, theirs) = (OwnedFd::from(ours), OwnedFd::from(theirs));
    let bytes = vec![1; 1 << 20];
    let mut sent = 0;
    let full = loop {
        match send_stream(ours.as_fd(), &bytes, WaitMode::Now) {
            Ok(more) => sent += more,
            Err(errno) => break errno,
        }
    };
    assert_eq!(full, Errno::AGAIN);
    let reader = std::thread::spawn(move || {
        let (mut buffer, mut read) = (vec![0; 64 << 10], 0);
        loop {
            wait_until(theirs.as_fd(), PollFlags::IN, None).unwrap();
            match receive_stream(theirs.as_fd(), &mut buffer) {
                Ok(0) => return read,
                more => read += more.unwrap(),
            }
        }
    });
    sent += send_stream(ours.as_fd(), &bytes, WaitMode::Block).unwrap();
    drop(ours);
    assert_eq!(reader.join().unwrap(), sent);
}
