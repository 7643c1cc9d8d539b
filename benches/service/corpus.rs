//! The files that are searched: sources of crates and of the Linux kernel, and folders and files of growing size. Made once, kept below the
//! bench folder, and made again when what defines them changes.

use std::{
    fs::{self, File},
    io::{BufWriter, Write},
    path::{Path, PathBuf},
    process::Command,
};

use crate::install;

const MANIFEST: &str = include_str!("corpus.toml");
const KERNEL_PACKAGE: &str = "linux-source";
/// Files of one folder of a grown tree, and folders of one folder above them.
const PER_FOLDER: usize = 100;
/// One file in so many has a name and a line that is looked for.
const NEEDLE_EVERY: usize = 500;

pub struct Corpus {
    pub root: PathBuf,
    pub files: usize,
    pub megabytes: f64,
}

/// The sources of the crates that the manifest names.
pub fn crates(work: &Path) -> Result<Corpus, String> {
    let folder = work.join("corpus");
    let root = folder.join("sources");
    once(&folder, MANIFEST, || {
        let fetched = folder.join("fetched");
        fs::write(folder.join("Cargo.toml"), MANIFEST).unwrap();
        fs::write(folder.join("nothing.rs"), "").unwrap();
        install::run(
            Command::new("cargo").args(["vendor", "--quiet", "--versioned-dirs", "fetched"]).current_dir(&folder),
        )?;
        fs::create_dir_all(&root).unwrap();
        for wanted in named(MANIFEST) {
            let is_it = |name: &str| name == wanted || name.starts_with(&format!("{wanted}+"));
            let mut found = fs::read_dir(&fetched).unwrap().map(|entry| entry.unwrap());
            let found = found.find(|entry| is_it(&entry.file_name().to_string_lossy()));
            let found = found.ok_or_else(|| format!("cargo did not fetch {wanted}"))?;
            // What cargo adds is no source.
            let _ = fs::remove_file(found.path().join(".cargo-checksum.json"));
            fs::rename(found.path(), root.join(&wanted)).unwrap();
        }
        fs::remove_dir_all(&fetched).map_err(|error| error.to_string())
    })?;
    Corpus::of(&root)
}

/// The sources of the Linux kernel, as Debian's package `linux-source` has them.
pub fn kernel(work: &Path) -> Result<Corpus, String> {
    let folder = work.join("kernel");
    let root = folder.join("sources");
    once(&folder, KERNEL_PACKAGE, || {
        // The package without a version depends on the one that has the sources.
        let depends = Command::new("apt-cache").args(["depends", KERNEL_PACKAGE]).output();
        let depends = String::from_utf8(depends.map_err(|error| format!("apt-cache: {error}"))?.stdout);
        let depends = depends.unwrap_or_default();
        let versioned = depends.lines().find_map(|line| line.trim().strip_prefix("Depends: "));
        let versioned = versioned.ok_or_else(|| format!("apt-cache knows no package {KERNEL_PACKAGE}"))?;
        install::run(Command::new("apt-get").args(["download", "-q", versioned]).current_dir(&folder))?;
        // Unpacked, not installed: the machine stays as it is.
        let unpack = format!(
            "dpkg-deb --fsys-tarfile {versioned}_*.deb | tar -xO ./usr/src/{versioned}.tar.xz \
             | tar -xJ --strip-components=1 -C sources && rm {versioned}_*.deb"
        );
        fs::create_dir(&root).map_err(|error| error.to_string())?;
        install::run(Command::new("bash").args(["-o", "pipefail", "-c", &unpack]).current_dir(&folder))
    })?;
    Corpus::of(&root)
}

impl Corpus {
    fn of(root: &Path) -> Result<Self, String> {
        let (files, bytes) = measure(root);
        let root = fs::canonicalize(root).map_err(|error| error.to_string())?;
        Ok(Self { root, files, megabytes: bytes as f64 / 1e6 })
    }
}

/// `name-version` of each dependency.
fn named(manifest: &str) -> Vec<String> {
    let lines = manifest.lines().filter_map(|line| line.split_once(" = { version = \"="));
    lines.map(|(name, rest)| format!("{name}-{}", rest.split('"').next().unwrap())).collect()
}

/// A tree of `count` files of one line.
pub fn folders(work: &Path, count: usize) -> PathBuf {
    let folder = work.join(format!("folders-{count}"));
    let root = folder.join("root");
    once(&folder, "1", || {
        eprintln!("  {count} files …");
        for file in 0..count {
            let parent = root.join(format!("{:03}/{:03}", file / PER_FOLDER / PER_FOLDER, file / PER_FOLDER));
            if file % PER_FOLDER == 0 {
                fs::create_dir_all(&parent).unwrap();
            }
            let (name, line) = match file % NEEDLE_EVERY {
                0 => (format!("needle-{file}.txt"), "a needle in a haystack\n"),
                _ => (format!("file-{file}.rs"), "fn main() { println!(\"one line of text\"); }\n"),
            };
            fs::write(parent.join(name), line).unwrap();
        }
        Ok(())
    })
    .unwrap();
    root
}

/// A file of `bytes` in lines as sources have them; the last line holds a word that no other has.
pub fn sized(work: &Path, bytes: usize) -> PathBuf {
    let folder = work.join("sizes");
    let file = folder.join(format!("{bytes}.txt"));
    once(&folder.join(format!("{bytes}")), "1", || {
        let mut out = BufWriter::new(File::create(&file).map_err(|error| error.to_string())?);
        let last = b"    the needle\n";
        let mut left = bytes - last.len();
        for number in 0_u64.. {
            let line = format!("\tlet line_{number} = \"some words of text\";\n");
            if line.len() > left {
                break;
            }
            out.write_all(line.as_bytes()).unwrap();
            left -= line.len();
        }
        out.write_all(&vec![b' '; left]).unwrap();
        out.write_all(last).unwrap();
        out.flush().map_err(|error| error.to_string())
    })
    .unwrap();
    folder
}

/// Runs `make` on an empty folder unless it was run with the same definition before.
fn once(folder: &Path, definition: &str, make: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    let mark = folder.join("made-from");
    if fs::read_to_string(&mark).is_ok_and(|made| made == definition) {
        return Ok(());
    }
    let _ = fs::remove_dir_all(folder);
    fs::create_dir_all(folder).map_err(|error| error.to_string())?;
    make()?;
    fs::write(&mark, definition).map_err(|error| error.to_string())
}

fn measure(folder: &Path) -> (usize, u64) {
    let (mut files, mut bytes) = (0, 0);
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap()) {
        let kind = entry.file_type().unwrap();
        let (more_files, more_bytes) = match () {
            () if kind.is_dir() => measure(&entry.path()),
            () if kind.is_file() => (1, entry.metadata().unwrap().len()),
            () => (0, 0),
        };
        files += more_files;
        bytes += more_bytes;
    }
    (files, bytes)
}
