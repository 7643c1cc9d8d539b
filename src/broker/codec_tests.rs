use proptest::prelude::*;

use super::*;
use crate::broker::{Caller, Effect, OutcomeKind, OutcomePaths};

fn asked() -> impl Strategy<Value = ChannelQuestion> {
    let intent = prop::sample::select(vec![Intent::Read, Intent::Write, Intent::Create, Intent::Look, Intent::Edit]);
    (
        any::<u64>(),
        any::<u8>(),
        any::<u32>(),
        any::<bool>(),
        any::<u16>(),
        intent,
        prop::collection::vec(any::<u8>(), 0..200),
    )
        .prop_map(|(call, function, deadline_ms, takes_leases, root, intent, path)| ChannelQuestion {
            call: CallId(call),
            function,
            deadline_ms,
            takes_leases,
            question: Question { root, path, intent },
        })
}

#[test]
fn questions_are_encoded_the_same_from_where_they_lie() {
    let deadline = std::time::Instant::now();
    let caller = Caller { takes_leases: false, ..Caller::new(CallId(7), 3, deadline) };
    let questions = ["a/b", ""].map(|path| Question { root: 1, path: path.into(), intent: Intent::Look });
    let encoded = encode_questions(9, questions.iter().map(|question| (caller, question)));
    let asked = questions.map(|question| ChannelQuestion {
        call: caller.call,
        function: 3,
        deadline_ms: 0,
        takes_leases: false,
        question,
    });
    assert_eq!(ToSupervisor::decode(&encoded), Ok(ToSupervisor::Resolve { id: 9, questions: asked.into() }));
}

fn outcome() -> impl Strategy<Value = EntryOutcome> {
    let path = || prop::collection::vec(any::<u8>(), 0..200);
    let word = || prop::option::of("[ -~é]{0,60}");
    let became = prop_oneof![
        Just(OutcomeKind::Changed),
        Just(OutcomeKind::Unchanged),
        Just(OutcomeKind::DryRun),
        (prop::sample::select(Code::ALL.to_vec()), any::<bool>())
            .prop_map(|(code, denied)| OutcomeKind::Refused { code, denied }),
    ];
    let names = (path(), prop::option::of(path())).prop_map(|(path, to)| OutcomePaths { path, to });
    let effect = (any::<Option<u64>>(), any::<Option<u64>>(), word(), word(), word()).prop_map(
        |(bytes, entries, etag_before, etag_after, trash_id)| Effect {
            bytes,
            entries,
            etag_before,
            etag_after,
            trash_id,
        },
    );
    (became, names, effect).prop_map(|(became, names, effect)| EntryOutcome { kind: became, paths: names, effect })
}

fn to_supervisor() -> impl Strategy<Value = ToSupervisor> {
    prop_oneof![
        ("[a-z0-9.]{0,20}", prop::collection::vec(any::<(u8, i32)>(), 0..20))
            .prop_map(|(version, escape_results)| ToSupervisor::Ready { version, escape_results }),
        "[ -~]{0,400}".prop_map(|reason| ToSupervisor::Failed { reason }),
        (any::<u32>(), prop::collection::vec(asked(), 1..=MAX_QUESTIONS))
            .prop_map(|(id, questions)| ToSupervisor::Resolve { id, questions }),
        prop::collection::vec(any::<u64>(), 0..=MAX_QUESTIONS).prop_map(|leases| ToSupervisor::Release { leases }),
        any::<(u32, u32, u32)>().prop_map(|(nonce, overdue, next_ms)| ToSupervisor::Pong { nonce, overdue, next_ms }),
        (any::<u8>(), prop::sample::select(REPORTABLE_CODES.to_vec()), prop::collection::vec(any::<u8>(), 0..200))
            .prop_map(|(function, code, path)| ToSupervisor::Refused { function, code, path }),
        (any::<u16>(), prop::collection::vec(any::<u8>(), 0..200), "[ -~]{0,400}")
            .prop_map(|(root, path, reason)| ToSupervisor::Unsettled { root, path, reason }),
        Just(ToSupervisor::Settled),
        Just(ToSupervisor::Reserve),
        Just(ToSupervisor::Unreserve),
        (any::<u8>(), prop::collection::vec(outcome(), 0..=MAX_OUTCOMES))
            .prop_map(|(function, outcomes)| ToSupervisor::Outcomes { function, outcomes }),
    ]
}

fn answered() -> impl Strategy<Value = ChannelAnswer> {
    prop_oneof![
        (any::<u8>(), any::<u16>(), any::<u64>(), prop::collection::vec(any::<u8>(), 0..255))
            .prop_map(|(fd, missing, lease, path)| ChannelAnswer::Parent { fd, missing, lease, path }),
        prop::sample::select(TAGGED_REFUSALS.to_vec()).prop_map(ChannelAnswer::Refused),
        any::<u32>().prop_map(|rule| ChannelAnswer::Refused(Refusal::Protected(rule))),
        any::<i32>().prop_map(|errno| ChannelAnswer::Refused(Refusal::Io(errno))),
    ]
}

fn to_worker() -> impl Strategy<Value = ToWorker> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..100).prop_map(|json| ToWorker::Setup { json }),
        any::<u64>().prop_map(|id| ToWorker::Connection { id }),
        (any::<u32>(), prop::collection::vec(answered(), 0..=MAX_QUESTIONS))
            .prop_map(|(id, answers)| ToWorker::Answers { id, answers }),
        any::<u32>().prop_map(|nonce| ToWorker::Ping { nonce }),
        Just(ToWorker::Drain),
        prop::collection::vec(any::<u8>(), 0..100).prop_map(|json| ToWorker::Limits { json }),
        any::<bool>().prop_map(|waits_for_journals| ToWorker::Recover { waits_for_journals }),
        any::<bool>().prop_map(|granted| ToWorker::Reserved { granted }),
    ]
}

proptest! {
    #[test]
    fn questions_survive_the_round_trip(message in to_supervisor()) {
        prop_assert_eq!(ToSupervisor::decode(&message.encode()), Ok(message));
    }

    #[test]
    fn answers_survive_the_round_trip(message in to_worker()) {
        prop_assert_eq!(ToWorker::decode(&message.encode()), Ok(message));
    }

    #[test]
    fn what_decodes_is_exactly_what_encodes(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        if let Ok(message) = ToSupervisor::decode(&bytes) {
            prop_assert_eq!(message.encode(), bytes);
        }
    }

    #[test]
    fn a_cut_or_longer_message_is_malformed(message in to_supervisor(), cut in 1usize..20) {
        let bytes = message.encode();
        prop_assert_eq!(ToSupervisor::decode(&bytes[..bytes.len().saturating_sub(cut)]), Err(Malformed));
        let longer = [bytes.as_slice(), &[0]].concat();
        prop_assert_eq!(ToSupervisor::decode(&longer), Err(Malformed));
    }
}

#[test]
fn a_message_without_questions_is_malformed() {
    assert_eq!(ToSupervisor::decode(&[2, 0, 0, 0, 0, 0]), Err(Malformed));
}

#[test]
fn thirty_three_outcomes_are_malformed() {
    let outcome = EntryOutcome::refused(OutcomePaths::default(), Code::BadInput, false);
    let outcomes = |count| ToSupervisor::Outcomes { function: 2, outcomes: vec![outcome.clone(); count] };
    assert!(ToSupervisor::decode(&outcomes(MAX_OUTCOMES).encode()).is_ok());
    assert_eq!(ToSupervisor::decode(&outcomes(MAX_OUTCOMES + 1).encode()), Err(Malformed));
}

#[test]
fn a_longer_etag_is_malformed() {
    let message = |len| {
        let effect = Effect { etag_after: Some("x".repeat(len)), ..Effect::default() };
        let outcome = EntryOutcome { effect, ..EntryOutcome::refused(OutcomePaths::default(), Code::BadInput, false) };
        ToSupervisor::Outcomes { function: 2, outcomes: vec![outcome] }
    };
    assert!(ToSupervisor::decode(&message(MAX_ETAG_OR_ID_BYTES).encode()).is_ok());
    assert_eq!(ToSupervisor::decode(&message(MAX_ETAG_OR_ID_BYTES + 1).encode()), Err(Malformed));
}

#[test]
fn every_code_can_be_sent() {
    for code in Code::ALL {
        let outcome = EntryOutcome::refused(OutcomePaths::default(), code, true);
        let message = ToSupervisor::Outcomes { function: 2, outcomes: vec![outcome] };
        assert_eq!(ToSupervisor::decode(&message.encode()), Ok(message));
    }
}

#[test]
fn thirty_three_questions_are_malformed() {
    let asked = ChannelQuestion {
        call: CallId(1),
        function: 0,
        deadline_ms: 1,
        takes_leases: true,
        question: Question { root: 0, path: b"a".to_vec(), intent: Intent::Read },
    };
    let message = ToSupervisor::Resolve { id: 1, questions: vec![asked; MAX_QUESTIONS + 1] };
    assert_eq!(ToSupervisor::decode(&message.encode()), Err(Malformed));
}
