//! Decides which connection gets the next worker. Runs in the event loop, for peers that `accept` has admitted.
//! Trusts: the uid, which the kernel reports. Does not trust: how many connections a uid makes and how soon it closes them.
//! Never lets one uid delay another by more than the start of the workers that are being started for it.

use std::{cell::RefCell, collections::VecDeque, rc::Rc};

use tokio::sync::oneshot;

/// Workers that are started at the same time for connections of one uid: about as many as the event loop can keep busy.
const MAX_STARTS_PER_UID: usize = 4;
/// Workers that are started at the same time for all uids together.
const MAX_STARTS: usize = 16;
/// Connections of one uid that may wait for a worker. Each holds a descriptor.
const MAX_WAITING_PER_UID: usize = 128;
/// Connections of all uids together that may wait for a worker.
const MAX_WAITING: usize = 1024;

/// Connections that wait for a worker, by uid. The uids take turns.
#[derive(Debug, Clone, Default)]
pub struct Turns(Rc<RefCell<TurnQueue>>);

#[derive(Debug, Default)]
struct TurnQueue {
    /// Uids that wait or have a turn. The first one that may start a worker gets the next turn.
    users: VecDeque<UidTurns>,
    waiting: usize,
    starting: usize,
}

#[derive(Debug)]
struct UidTurns {
    uid: u32,
    /// A closed sender belongs to a connection that hung up.
    waiting: VecDeque<oneshot::Sender<Turn>>,
    starting: usize,
}

/// Permission to take a worker. The next connection gets its turn when this is dropped.
#[derive(Debug)]
pub struct Turn {
    uid: u32,
    turns: Turns,
}

/// The error for too many waiting connections.
#[derive(Debug)]
pub struct TurnQueueFull;

impl Turns {
    /// Adds a connection to the queue. The receiver gets its turn, or is closed if another uid displaces the connection.
    pub fn request_turn(&self, uid: u32) -> Result<oneshot::Receiver<Turn>, TurnQueueFull> {
        let (sender, turn) = oneshot::channel();
        // Dropped at the end of the function, after the borrow has ended.
        let _displaced = self.0.borrow_mut().push(uid, sender)?;
        self.grant_turns();
        Ok(turn)
    }

    /// Gives turns to the connections that may have one now.
    fn grant_turns(&self) {
        loop {
            let Some((uid, sender)) = self.0.borrow_mut().take_next() else { return };
            // If the receiver is gone, `send` returns the turn, and dropping it ends it.
            let _ = sender.send(Turn { uid, turns: self.clone() });
        }
    }
}

impl Turn {
    /// True if more connections of this uid wait. It should then leave the last warm worker to another uid.
    pub fn has_more_waiting(&self) -> bool {
        let queue = self.turns.0.borrow();
        queue.users.iter().any(|user| user.uid == self.uid && !user.waiting.is_empty())
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.turns.0.borrow_mut().end_turn(self.uid);
        self.turns.grant_turns();
    }
}

impl TurnQueue {
    /// Adds a connection. Where all queues together are full, the newest connection of the uid with the most of them is
    /// displaced, unless it is this uid itself.
    fn push(
        &mut self,
        uid: u32,
        sender: oneshot::Sender<Turn>,
    ) -> Result<Option<oneshot::Sender<Turn>>, TurnQueueFull> {
        let at = self.users.iter().position(|user| user.uid == uid);
        let own = at.map_or(0, |at| self.users[at].waiting.len());
        let mut displaced = None;
        if own >= MAX_WAITING_PER_UID || self.waiting >= MAX_WAITING {
            self.remove_closed();
            let own = at.map_or(0, |at| self.users[at].waiting.len());
            if own >= MAX_WAITING_PER_UID {
                return Err(TurnQueueFull);
            }
            if self.waiting >= MAX_WAITING {
                let most = self.users.iter_mut().max_by_key(|user| user.waiting.len());
                displaced = most.filter(|most| most.waiting.len() > own + 1).ok_or(TurnQueueFull)?.waiting.pop_back();
                self.waiting -= 1;
            }
        }
        let at = at.unwrap_or_else(|| {
            self.users.push_back(UidTurns { uid, waiting: VecDeque::new(), starting: 0 });
            self.users.len() - 1
        });
        self.users[at].waiting.push_back(sender);
        self.waiting += 1;
        Ok(displaced)
    }

    fn remove_closed(&mut self) {
        for user in &mut self.users {
            user.waiting.retain(|sender| !sender.is_closed());
        }
        self.waiting = self.users.iter().map(|user| user.waiting.len()).sum();
    }

    /// Takes the connection whose turn it is and moves its uid to the end of the queue.
    fn take_next(&mut self) -> Option<(u32, oneshot::Sender<Turn>)> {
        while self.starting < MAX_STARTS {
            let may_start = |user: &UidTurns| user.starting < MAX_STARTS_PER_UID && !user.waiting.is_empty();
            let at = self.users.iter().position(may_start)?;
            let mut user = self.users.remove(at)?;
            let mut open = None;
            while let Some(sender) = user.waiting.pop_front() {
                self.waiting -= 1;
                if !sender.is_closed() {
                    open = Some(sender);
                    break;
                }
            }
            let uid = user.uid;
            user.starting += usize::from(open.is_some());
            if user.starting > 0 {
                self.users.push_back(user);
            }
            if let Some(sender) = open {
                self.starting += 1;
                return Some((uid, sender));
            }
        }
        None
    }

    fn end_turn(&mut self, uid: u32) {
        let Some(at) = self.users.iter().position(|user| user.uid == uid) else { return };
        self.starting -= 1;
        self.users[at].starting -= 1;
        if self.users[at].starting == 0 && self.users[at].waiting.is_empty() {
            self.users.remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Receiver = oneshot::Receiver<Turn>;

    fn ask(turns: &Turns, uid: u32, count: usize) -> Vec<Receiver> {
        (0..count).map(|_| turns.request_turn(uid).expect("there is room")).collect()
    }

    /// The turns that were given, in order of the receivers.
    fn take(receivers: &mut Vec<Receiver>) -> Vec<Turn> {
        let turns: Vec<Turn> = receivers.iter_mut().filter_map(|one| one.try_recv().ok()).collect();
        receivers.retain(|one| !one.is_terminated());
        turns
    }

    #[test]
    fn a_uid_that_floods_leaves_turns_to_others() {
        let turns = Turns::default();
        let mut flood = ask(&turns, 1, 100);
        let first = take(&mut flood);
        assert_eq!(first.len(), MAX_STARTS_PER_UID);
        assert!(first[0].has_more_waiting());
        let mut other = ask(&turns, 2, 1);
        let turn = take(&mut other).pop().expect("at once, before the 96 that came earlier");
        assert!(!turn.has_more_waiting());
        assert!(take(&mut flood).is_empty());
    }

    #[test]
    fn uids_take_turns_when_all_starts_are_taken() {
        let turns = Turns::default();
        let mut busy: Vec<Vec<Receiver>> = (0..4).map(|uid| ask(&turns, uid, MAX_STARTS_PER_UID)).collect();
        let mut held: Vec<Turn> = busy.iter_mut().flat_map(take).collect();
        assert_eq!(held.len(), MAX_STARTS);
        let mut flood = ask(&turns, 10, 50);
        let mut others = [ask(&turns, 11, 2), ask(&turns, 12, 1)];
        let mut given: Vec<Turn> = Vec::new();
        for _ in 0..6 {
            drop(held.pop());
            given.extend(std::iter::once(&mut flood).chain(&mut others).flat_map(take));
        }
        let order: Vec<u32> = given.iter().map(|turn| turn.uid).collect();
        assert_eq!(order, [10, 11, 12, 10, 11, 10], "one each, then the rest");
    }

    #[test]
    fn a_connection_that_hung_up_takes_no_turn() {
        let turns = Turns::default();
        let mut flood = ask(&turns, 1, MAX_STARTS_PER_UID + 20);
        let held = take(&mut flood);
        let last = flood.split_off(19);
        drop(flood);
        drop(held);
        assert_eq!(take(&mut { last }).len(), 1);
        assert_eq!((turns.0.borrow().users.len(), turns.0.borrow().waiting), (0, 0), "nothing is left behind");
    }

    #[test]
    fn waiting_connections_are_bounded_for_each_uid_and_closed_ones_do_not_count() {
        let turns = Turns::default();
        let mut flood = ask(&turns, 1, MAX_STARTS_PER_UID);
        let held = take(&mut flood);
        let mut flood = ask(&turns, 1, MAX_WAITING_PER_UID);
        assert!(turns.request_turn(1).is_err());
        assert!(turns.request_turn(2).is_ok(), "the bound is of one uid");
        flood.pop();
        assert!(turns.request_turn(1).is_ok(), "the one that hung up made room");
        drop(held);
    }

    #[test]
    fn in_a_full_queue_the_uid_with_the_most_connections_makes_room() {
        let turns = Turns::default();
        let mut held = Vec::new();
        let mut waiting = Vec::new();
        for uid in 0..8 {
            let mut receivers = ask(&turns, uid, MAX_WAITING_PER_UID);
            held.extend(take(&mut receivers));
            waiting.push(receivers);
        }
        while let Ok(receiver) = turns.request_turn(7) {
            waiting[7].push(receiver);
        }
        for (uid, receivers) in (0..8).zip(&mut waiting) {
            while receivers.len() < MAX_WAITING_PER_UID
                && let Ok(receiver) = turns.request_turn(uid)
            {
                receivers.push(receiver);
            }
        }
        assert_eq!(turns.0.borrow().waiting, MAX_WAITING);
        let mut newcomer = turns.request_turn(100).expect("another uid has more than its share");
        assert!(newcomer.try_recv().is_err_and(|error| error == oneshot::error::TryRecvError::Empty));
        let closed = waiting.iter_mut().flatten().filter_map(|one| one.try_recv().err());
        let closed = closed.filter(|error| *error == oneshot::error::TryRecvError::Closed).count();
        assert_eq!((closed, turns.0.borrow().waiting), (1, MAX_WAITING));
        assert!(turns.request_turn(0).is_err(), "those with the most cannot displace one another");
    }
}
