//! The files that are read and listed, in a directory of their own that goes with the value.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
};

pub const SMALL_FILE: &str = "src/small.rs";
pub const SMALL_BYTES: usize = 1024;
pub const LISTED: &str = "listed";
pub const LISTED_ENTRIES: usize = 1000;
pub const BATCH_PATHS: usize = 100;
pub const LARGE_FILE: &str = "src/large.rs";
pub const LARGE_BYTES: usize = 100 << 10;
/// 100 folders of 100 files.
pub const DEEP: &str = "deep";
pub const DEEP_FILES: usize = 10_000;
pub const EDITED: &str = "src/edited.rs";
/// Line 1,000 before and after an edit.
pub const EDITED_LINES: [&str; 2] = ["let before = 1;", "let after = 2;"];

pub struct Tree {
    dir: PathBuf,
}

impl Tree {
    pub fn plant() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("stockade-bench-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let dir = std::env::temp_dir().join(name);
        let tree = Self { dir };
        let root = tree.root();
        fs::create_dir_all(root.join("src")).unwrap();
        // Sockets lie here, too: the daemon refuses a folder that is open to others.
        fs::set_permissions(tree.dir(), fs::Permissions::from_mode(0o700)).unwrap();
        fs::create_dir(root.join(LISTED)).unwrap();
        fs::write(root.join(SMALL_FILE), source(SMALL_BYTES)).unwrap();
        for entry in 0..LISTED_ENTRIES {
            fs::write(root.join(LISTED).join(format!("entry-{entry:04}.rs")), b"fn main() {}\n").unwrap();
        }
        fs::create_dir(root.join("one")).unwrap();
        for file in 0..BATCH_PATHS {
            fs::write(root.join(format!("one/file-{file}.rs")), source(SMALL_BYTES)).unwrap();
            fs::create_dir_all(root.join(format!("many/dir-{file}"))).unwrap();
            fs::write(root.join(format!("many/dir-{file}/file.rs")), source(SMALL_BYTES)).unwrap();
        }
        tree
    }

    /// What only a comparison of tasks needs.
    pub fn plant_tasks(&self) {
        let root = self.root();
        fs::write(root.join(LARGE_FILE), source(LARGE_BYTES)).unwrap();
        for file in 0..DEEP_FILES {
            let folder = root.join(DEEP).join(format!("folder-{:02}", file / 100));
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join(format!("leaf-{file:04}.rs")), b"fn main() {}\n").unwrap();
        }
        let line = |number| match number {
            1000 => format!("\t{}\n", EDITED_LINES[0]),
            _ => format!("\tlet line_{number} = \"some words of text\";\n"),
        };
        fs::write(root.join(EDITED), (1..=2000).map(line).collect::<String>()).unwrap();
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub fn root(&self) -> PathBuf {
        self.dir.join("root")
    }
}

pub fn text(bytes: usize) -> String {
    String::from_utf8(source(bytes)).expect("it is ASCII")
}

/// Text as sources have it: lines of some forty bytes, a quote and a tab here and there.
fn source(bytes: usize) -> Vec<u8> {
    let mut text = Vec::with_capacity(bytes + 64);
    for number in 0.. {
        if text.len() >= bytes {
            break;
        }
        text.extend_from_slice(format!("\tlet line_{number} = \"some words of text\";\n").as_bytes());
    }
    text.truncate(bytes - 1);
    text.push(b'\n');
    text
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}
