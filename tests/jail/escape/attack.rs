//! One attack by name: what lies where, which names are asked for, what the contract says about them. Asked in every
//! way that reads, in all builds.
//!
//! The normal build, with either resolver, must answer with the contract's codes. Every build must contain: no outside data in any reply, no
//! success where the contract has none, the canaries as they were, and the service still answering.
//! In the normal build every refused access has its record in the audit.

use std::{
    fs,
    os::unix::{ffi::OsStrExt, fs::symlink},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use base64::{Engine, engine::general_purpose::STANDARD};

use super::{
    layers,
    support::{
        Build, Client, Failure, Options, TestJail, Value,
        audit::Refused,
        canary::{SECRET, holds_secret},
        in_own_mounts, json,
    },
};

/// Refusals are immediate; this is patience with a loaded machine.
const CALL_BOUND: Duration = Duration::from_secs(5);

/// Content of `inside.txt`, which every root has.
pub const INSIDE: &str = "inside\n";

/// The place of an attack, for whoever plants it.
pub struct Ground {
    pub dir: PathBuf,
    pub root: PathBuf,
    pub outside: PathBuf,
}

impl Ground {
    pub fn of(root: &Path) -> Self {
        let dir = root.parent().unwrap().to_owned();
        Self { outside: dir.join("outside"), root: root.to_owned(), dir }
    }

    pub fn secret(&self) -> PathBuf {
        self.outside.join("secret.txt")
    }

    pub fn file(&self, name: impl AsRef<[u8]>, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.root.join(std::ffi::OsStr::from_bytes(name.as_ref()));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    /// A file that must never be read, although it lies inside.
    pub fn forbidden(&self, name: impl AsRef<[u8]>) -> PathBuf {
        self.file(name, format!("{SECRET} inside\n"))
    }

    pub fn folder(&self, name: &str) -> PathBuf {
        let path = self.root.join(name);
        fs::create_dir_all(&path).unwrap();
        path
    }

    pub fn link(&self, name: &str, target: impl AsRef<Path>) {
        symlink(target, self.root.join(name)).unwrap();
    }
}

/// As a request names it. In a text `{root}` and `{outside}` stand for the real paths.
#[derive(Clone)]
pub enum Name {
    Text(String),
    Bytes(Vec<u8>),
}

impl From<&str> for Name {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for Name {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&[u8]> for Name {
    fn from(bytes: &[u8]) -> Self {
        Self::Bytes(bytes.into())
    }
}

impl Name {
    fn field(&self, ground: &Ground) -> Value {
        let bytes = self.bytes(ground);
        match self {
            Self::Text(_) => json!({"path": String::from_utf8(bytes).unwrap()}),
            Self::Bytes(_) => json!({"path_bytes": STANDARD.encode(bytes)}),
        }
    }

    fn bytes(&self, ground: &Ground) -> Vec<u8> {
        match self {
            Self::Text(text) => text
                .replace("{root}", ground.root.to_str().unwrap())
                .replace("{outside}", ground.outside.to_str().unwrap())
                .into_bytes(),
            Self::Bytes(bytes) => bytes.clone(),
        }
    }
}

/// `"ok"`, or one of the wire's codes.
pub type Answers = &'static [&'static str];

pub struct Attack {
    names: Vec<Name>,
    plant: Box<dyn Fn(&Ground)>,
    read: Answers,
    list: Answers,
    stays_inside: bool,
    policy: Option<&'static str>,
    mounts: Option<&'static str>,
    denied: bool,
}

impl Attack {
    pub fn on<N: Into<Name>>(names: impl IntoIterator<Item = N>) -> Self {
        Self {
            names: names.into_iter().map(Into::into).collect(),
            plant: Box::new(|_| {}),
            read: &[],
            list: &[],
            stays_inside: false,
            policy: None,
            mounts: None,
            denied: false,
        }
    }

    pub fn planted(mut self, plant: impl Fn(&Ground) + 'static) -> Self {
        self.plant = Box::new(plant);
        self
    }

    /// What reading and listing answer alike.
    pub fn answers(self, code: Answers) -> Self {
        self.answer_reads(code).answer_lists(code)
    }

    pub fn answer_reads(mut self, codes: Answers) -> Self {
        self.read = codes;
        self
    }

    pub fn answer_lists(mut self, codes: Answers) -> Self {
        self.list = codes;
        self
    }

    /// The names mean something inside the root: a weakened build that follows them there has not leaked.
    pub fn stays_inside(mut self) -> Self {
        self.stays_inside = true;
        self
    }

    /// C211 because of a rule, and therefore in the audit.
    pub fn denied(mut self) -> Self {
        self.denied = true;
        self.answers(&["C211"])
    }

    /// See `Options::policy`.
    pub fn policy(mut self, text: &'static str) -> Self {
        self.policy = Some(text);
        self
    }

    /// Shell commands that mount, in a mount namespace of the daemon's own; `$d` is the folder above the root.
    pub fn mounted(mut self, script: &'static str) -> Self {
        self.mounts = Some(script);
        self
    }

    pub fn hold(&self, case: &str) {
        for build in Build::attacked() {
            layers::judge(case, build, &self.run(case, build));
        }
    }

    /// Also how the suite shows that it can fail: with both layers off.
    pub fn escapes_with(&self, weakened: &str) -> Vec<String> {
        let options = Options { weakened: Some(weakened.into()), ..Options::default() };
        self.run_with("control", options, false)
    }

    fn run(&self, case: &str, build: Build) -> Vec<String> {
        let options = Options { policy: self.policy.map(Into::into), ..build.options() };
        let through = self.mounts.map_or_else(Vec::new, in_own_mounts);
        self.run_with(case, Options { through, ..options }, build.is_whole())
    }

    fn run_with(&self, case: &str, options: Options, is_whole: bool) -> Vec<String> {
        let mut jail = TestJail::with_tree(options, |root| {
            let ground = Ground::of(root);
            ground.file("inside.txt", INSIDE);
            (self.plant)(&ground);
        });
        // A hard link changes the canary it is made from.
        jail.canaries.replant();
        let ground = Ground::of(&jail.root);
        let mut client = jail.connect();
        let mut escapes = Vec::new();
        let mut refused = Refused::denied(self.denied);
        for name in &self.names {
            for (function, params) in requests(name, &ground) {
                let start = Instant::now();
                let reply = client.call(function, params.clone());
                assert!(start.elapsed() < CALL_BOUND, "{case}: {params} took {:?}", start.elapsed());
                outcomes(&reply).iter().for_each(|code| refused.expect(function, code, &name.bytes(&ground)));
                let expected = if function == READ { self.read } else { self.list };
                // Describing is neither reading nor listing: what lies there may be told, what is in it may not.
                let describes = [STAT, FIND, SEARCH].contains(&function);
                let judged = if describes { Vec::new() } else { outcomes(&reply) };
                for outcome in judged {
                    if is_whole {
                        assert!(expected.contains(&&*outcome), "{case}: {function} {params}: {reply:?}");
                    }
                    if outcome == "ok" && !self.stays_inside && !expected.contains(&"ok") {
                        escapes.push(format!("{function} {params} was answered: {reply:?}"));
                    }
                }
                if holds_secret(&reply) {
                    escapes.push(format!("{function} {params}: {reply:?}"));
                }
                if reply == Err(Failure::Closed) {
                    client = Client::connect(&jail.socket);
                }
            }
        }
        for (function, params) in [
            (LIST, json!({"path": "."})),
            (TREE, json!({"path": "."})),
            (FIND, json!({"paths": ["**"], "gitignore": false})),
            (SEARCH, json!({"query": ".", "regex": true})),
        ] {
            let around = client.call(function, params);
            // What a rule denies lies inside: only our own checks keep it.
            if holds_secret(&around) && (is_whole || !self.denied) {
                escapes.push(format!("{function} of the root: {around:?}"));
            }
        }
        if !jail.canaries.are_untouched() {
            escapes.push("a canary was touched".into());
        }
        if is_whole {
            refused.assert_audited(&jail);
        }
        client.call("coder::info", json!({})).expect("the service still answers");
        jail.call("coder::info", json!({})).expect("the service still accepts");
        escapes
    }
}

pub const READ: &str = "coder::read-file";
pub const LIST: &str = "coder::list-folder";
pub const TREE: &str = "coder::tree";
pub const STAT: &str = "coder::stat";
pub const FIND: &str = "coder::find";
pub const SEARCH: &str = "coder::search";

/// Every way to ask for one name.
fn requests(name: &Name, ground: &Ground) -> Vec<(&'static str, Value)> {
    // Where find and search read a glob or a list, they look at other names than this one.
    let is_plain = !name.bytes(ground).iter().any(|byte| b",;*?[{ ".contains(byte));
    let name = &name.field(ground);
    let with = |more: Value| {
        let mut all = name.clone();
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        all
    };
    let shapes = [
        json!({}),
        json!({"stat": true}),
        json!({"stat": true, "etag": true}),
        json!({"tail": 1}),
        json!({"encoding": "base64"}),
        json!({"byte_from": 0, "byte_to": 64}),
        json!({"line_from": 1, "line_to": 1}),
    ];
    let mut all: Vec<_> = shapes.iter().map(|shape| (READ, with(shape.clone()))).collect();
    let batch: Vec<_> = shapes.iter().map(|shape| with(shape.clone())).collect();
    all.push((READ, json!({"paths": batch})));
    all.push((LIST, name.clone()));
    all.push((LIST, with(json!({"page": 2, "page_size": 1}))));
    all.push((TREE, with(json!({"max_depth": 9, "use_default_excludes": false}))));
    all.push((STAT, json!({"paths": [name], "etag": true, "lines": true})));
    if is_plain {
        all.push((FIND, json!({"paths": [name], "gitignore": false, "use_default_excludes": false})));
        all.push((SEARCH, json!({"paths": [name], "query": ".", "regex": true, "use_default_excludes": false})));
    }
    all
}

/// One per call, or one per entry of a batch.
pub fn outcomes(reply: &Result<Value, Failure>) -> Vec<String> {
    let Ok(result) = reply else { return vec![reply.as_ref().unwrap_err().code()] };
    match result["results"].as_array() {
        None => vec!["ok".into()],
        Some(results) => results.iter().map(|one| one["error"]["code"].as_str().unwrap_or("ok").to_owned()).collect(),
    }
}

/// `claim: Attack…;` makes a test of that name.
macro_rules! claims {
    ($($(#[$meta:meta])* $claim:ident: $attack:expr;)*) => {
        $(#[test] $(#[$meta])* fn $claim() { ($attack).hold(stringify!($claim)) })*
    };
}
pub(crate) use claims;
