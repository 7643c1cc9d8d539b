//! What is being done when the kill comes, and every state that may be found afterwards.

use std::{collections::BTreeMap, fs, os::unix::fs::PermissionsExt, path::Path};

use crate::support::{Value, json, state::is_state};

/// Name below the root → mode, and content of a file.
pub type Snapshot = BTreeMap<String, (u32, Option<Vec<u8>>)>;

pub struct Scenario {
    pub name: &'static str,
    pub function: &'static str,
    pub params: fn() -> Value,
    /// What lies there before.
    pub plant: fn(&Path),
    /// The same change by other means.
    pub apply: fn(&Path),
    /// States on the way that are no harm: folders that were made for a file that did not come.
    pub on_the_way: &'static [fn(&Path)],
}

/// More than a block.
pub fn content(letter: char) -> String {
    letter.to_string().repeat(20_000)
}

fn write(root: &Path, name: &str, content: &str) {
    fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
    fs::write(root.join(name), content).unwrap();
}

fn old_tree(root: &Path) {
    write(root, "old", &content('o'));
    fs::set_permissions(root.join("old"), fs::Permissions::from_mode(0o750)).unwrap();
    write(root, "tree/a", "a");
    write(root, "tree/deep/b", "b");
    write(root, "tree/deep/er/c", "c");
    write(root, "other", "other");
}

fn replace(root: &Path, name: &str, content: &str) {
    let mode = fs::metadata(root.join(name)).unwrap().permissions();
    fs::write(root.join(name), content).unwrap();
    fs::set_permissions(root.join(name), mode).unwrap();
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(|entry| entry.unwrap()) {
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

pub fn find(name: &str) -> &'static Scenario {
    ALL.iter().find(|scenario| scenario.name == name).unwrap()
}

pub static ALL: &[Scenario] = &[
    Scenario {
        name: "create",
        function: "coder::create-file",
        params: || json!({"files": [{"path": "new", "content": content('n')}]}),
        plant: old_tree,
        apply: |root| write(root, "new", &content('n')),
        on_the_way: &[],
    },
    Scenario {
        name: "create in new folders",
        function: "coder::create-file",
        params: || json!({"files": [{"path": "x/y/new", "content": "new"}]}),
        plant: old_tree,
        apply: |root| write(root, "x/y/new", "new"),
        on_the_way: &[
            |root| fs::create_dir(root.join("x")).unwrap(),
            |root| {
                fs::create_dir_all(root.join("x/y")).unwrap();
            },
        ],
    },
    Scenario {
        name: "replace",
        function: "coder::create-file",
        params: || json!({"files": [{"path": "old", "content": content('n'), "overwrite": true}]}),
        plant: old_tree,
        apply: |root| replace(root, "old", &content('n')),
        on_the_way: &[],
    },
    Scenario {
        name: "delete a file",
        function: "coder::delete-file",
        params: || json!({"paths": ["old"]}),
        plant: old_tree,
        apply: |root| fs::remove_file(root.join("old")).unwrap(),
        on_the_way: &[],
    },
    Scenario {
        name: "delete a folder",
        function: "coder::delete-file",
        params: || json!({"paths": ["tree"], "recursive": true}),
        plant: old_tree,
        apply: |root| fs::remove_dir_all(root.join("tree")).unwrap(),
        on_the_way: &[],
    },
    Scenario {
        name: "delete into the trash",
        function: "coder::delete-file",
        params: || json!({"paths": ["tree"], "recursive": true, "trash": true}),
        plant: old_tree,
        apply: |root| fs::remove_dir_all(root.join("tree")).unwrap(),
        on_the_way: &[],
    },
    Scenario {
        name: "move",
        function: "coder::move",
        params: || json!({"files": [{"from": "old", "to": "new"}]}),
        plant: old_tree,
        apply: |root| fs::rename(root.join("old"), root.join("new")).unwrap(),
        on_the_way: &[],
    },
    Scenario {
        name: "make a folder",
        function: "coder::mkdir",
        params: || json!({"paths": ["new"]}),
        plant: old_tree,
        apply: |root| fs::create_dir(root.join("new")).unwrap(),
        on_the_way: &[],
    },
    Scenario {
        name: "move onto another",
        function: "coder::move",
        params: || json!({"files": [{"from": "old", "to": "other", "overwrite": true}]}),
        plant: old_tree,
        apply: |root| fs::rename(root.join("old"), root.join("other")).unwrap(),
        on_the_way: &[],
    },
    Scenario {
        name: "copy a folder",
        function: "coder::copy",
        params: || json!({"files": [{"from": "tree", "to": "copy", "recursive": true}]}),
        plant: old_tree,
        apply: |root| copy(&root.join("tree"), &root.join("copy")),
        on_the_way: &[],
    },
    Scenario {
        name: "atomic create",
        function: "coder::create-file",
        params: || {
            json!({"atomic": true, "files": [
                {"path": "n/e/w", "content": "new"},
                {"path": "old", "content": content('n'), "overwrite": true},
                {"path": "n/too", "content": "new"},
            ]})
        },
        plant: old_tree,
        apply: |root| {
            write(root, "n/e/w", "new");
            replace(root, "old", &content('n'));
            write(root, "n/too", "new");
        },
        on_the_way: &[],
    },
    Scenario {
        name: "atomic move",
        function: "coder::move",
        params: || {
            json!({"atomic": true, "files": [
                {"from": "tree/deep", "to": "up/deep"},
                {"from": "old", "to": "other", "overwrite": true},
            ]})
        },
        plant: old_tree,
        apply: |root| {
            fs::create_dir(root.join("up")).unwrap();
            fs::rename(root.join("tree/deep"), root.join("up/deep")).unwrap();
            fs::rename(root.join("old"), root.join("other")).unwrap();
        },
        on_the_way: &[],
    },
    Scenario {
        name: "atomic chain of moves",
        function: "coder::move",
        params: || {
            json!({"atomic": true, "files": [
                {"from": "old", "to": "t"},
                {"from": "other", "to": "old"},
                {"from": "t", "to": "other"},
                {"from": "tree/a", "to": "a"},
                {"from": "tree", "to": "wood"},
                {"from": "a", "to": "tree/new"},
            ]})
        },
        plant: old_tree,
        apply: |root| {
            let rename = |from: &str, to: &str| fs::rename(root.join(from), root.join(to)).unwrap();
            rename("old", "t");
            rename("other", "old");
            rename("t", "other");
            rename("tree/a", "a");
            rename("tree", "wood");
            fs::create_dir(root.join("tree")).unwrap();
            rename("a", "tree/new");
        },
        on_the_way: &[],
    },
    Scenario {
        name: "atomic delete",
        function: "coder::delete-file",
        params: || json!({"atomic": true, "paths": ["tree", "old"], "recursive": true}),
        plant: old_tree,
        apply: |root| {
            fs::remove_dir_all(root.join("tree")).unwrap();
            fs::remove_file(root.join("old")).unwrap();
        },
        on_the_way: &[],
    },
];

impl Scenario {
    /// Before, after, and what is no harm in between.
    pub fn allowed(&self) -> Vec<Snapshot> {
        let states: Vec<fn(&Path)> =
            [(|_: &Path| {}) as fn(&Path), self.apply].into_iter().chain(self.on_the_way.iter().copied()).collect();
        states
            .into_iter()
            .map(|apply| {
                let dir = tempfile::tempdir().unwrap();
                (self.plant)(dir.path());
                apply(dir.path());
                snapshot(dir.path())
            })
            .collect()
    }
}

/// Everything a user sees; not our own state.
pub fn snapshot(root: &Path) -> Snapshot {
    let mut found = Snapshot::new();
    let mut open = vec![root.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap()) {
            let name = entry.path().strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            if is_state(&name) {
                continue;
            }
            let metadata = entry.metadata().unwrap();
            let content = metadata.is_file().then(|| fs::read(entry.path()).unwrap());
            if metadata.is_dir() {
                open.push(entry.path());
            }
            found.insert(name, (metadata.permissions().mode() & 0o7777, content));
        }
    }
    found
}

/// The names and sizes, for a message.
pub fn outline(snapshot: &Snapshot) -> Vec<String> {
    let line = |(name, (mode, content)): (&String, &(u32, Option<Vec<u8>>))| {
        let first = content.as_ref().and_then(|content| content.first()).map(|byte| *byte as char);
        format!("{name} {mode:o} {:?} {first:?}", content.as_ref().map(Vec::len))
    };
    snapshot.iter().map(line).collect()
}
