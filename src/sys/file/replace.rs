//! Runs in `stockade mcp install`, as the user: replaces one configuration file of another program, whole or not at all.
//! Trusts: the folder that the user or the environment names. Does not trust what lies below it: no name there may be a link, so
//! that a repository cannot lead the write elsewhere. Must never follow a link or overwrite a file that changed after it was read.

use std::{
    ffi::{OsStr, OsString},
    fmt,
    fs::File,
    io::{self, Write},
    os::fd::{AsFd, OwnedFd},
    path::{Component, Path, PathBuf},
};

use rustix::fs::{self, AtFlags, Mode, OFlags, Stat};

use super::{super::change::random_name, read_bounded};

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
const BACKUP: &str = ".before-stockade";
/// Backups of one file that are kept beside it; with more, the user has to decide.
const MAX_BACKUPS: u32 = 100;

/// Why a file stays as it is.
#[derive(Debug)]
pub enum Refused {
    Link(PathBuf),
    NotRegular(PathBuf),
    /// It belongs to another user.
    Foreign(PathBuf),
    /// It changed after it was read.
    Changed(PathBuf),
    Io(PathBuf, io::Error),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Link(path) => write!(f, "{}: is a symbolic link", path.display()),
            Self::NotRegular(path) => write!(f, "{}: is not a regular file", path.display()),
            Self::Foreign(path) => write!(f, "{}: belongs to another user", path.display()),
            Self::Changed(path) => write!(f, "{}: another program changed it meanwhile", path.display()),
            Self::Io(path, error) => write!(f, "{}: {error}", path.display()),
        }
    }
}

/// A file that may be replaced, or its place.
#[derive(Debug)]
pub struct Replacement {
    /// The deepest folder that is there.
    folder: OwnedFd,
    /// Folders that have to be made.
    missing: Vec<OsString>,
    name: OsString,
    path: PathBuf,
    found: Option<(Stat, Vec<u8>)>,
}

impl Replacement {
    /// The file `below` the folder `base`. Links are followed in `base` alone.
    pub fn open(base: &Path, below: &Path, max_bytes: u64) -> Result<Self, Refused> {
        let path = base.join(below);
        let names: Option<Vec<&OsStr>> =
            below.components().map(|part| if let Component::Normal(name) = part { Some(name) } else { None }).collect();
        let Some((name, folders)) = names.as_ref().and_then(|names| names.split_last()) else {
            return Err(Refused::NotRegular(path));
        };
        let io = |path: &Path, error: rustix::io::Errno| Refused::Io(path.into(), error.into());
        let mut at = base.to_owned();
        let mut folder = fs::open(base, FOLDER, Mode::empty()).map_err(|errno| io(base, errno))?;
        let mut missing = Vec::new();
        for name in folders {
            at.push(name);
            if !missing.is_empty() {
                missing.push(name.to_os_string());
                continue;
            }
            match fs::openat(&folder, *name, FOLDER | OFlags::NOFOLLOW, Mode::empty()) {
                Ok(opened) => folder = opened,
                Err(rustix::io::Errno::NOENT) => missing.push(name.to_os_string()),
                Err(_) if is_link(&folder, name) => return Err(Refused::Link(at)),
                Err(errno) => return Err(io(&at, errno)),
            }
        }
        let found = if missing.is_empty() { read(&folder, name, &path, max_bytes)? } else { None };
        Ok(Self { folder, missing, name: name.to_os_string(), path, found })
    }

    /// Empty if there is no file yet.
    pub fn content(&self) -> &[u8] {
        self.found.as_ref().map_or(&[], |(_, bytes)| bytes)
    }

    pub fn exists(&self) -> bool {
        self.found.is_some()
    }

    /// Gives the name to a new file with these bytes. The old file keeps its content under the name that is returned.
    pub fn write(mut self, bytes: &[u8]) -> Result<Option<PathBuf>, Refused> {
        self.make_folders()?;
        let new =
            OsString::from(format!(".{}.{}", self.name.display(), random_name().map_err(|errno| self.io(errno))?));
        let written = self.write_new(&new, bytes).and_then(|()| self.exchange(&new));
        if written.is_err() {
            let _ = fs::unlinkat(&self.folder, &new, AtFlags::empty());
        }
        let backup = written?;
        // Some file systems have nothing to sync about a folder.
        let _ = fs::fsync(&self.folder);
        Ok(backup)
    }

    fn make_folders(&mut self) -> Result<(), Refused> {
        for name in std::mem::take(&mut self.missing) {
            match fs::mkdirat(&self.folder, &name, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(rustix::io::Errno::EXIST) => {}
                Err(errno) => return Err(self.io(errno)),
            }
            self.folder = fs::openat(&self.folder, &name, FOLDER | OFlags::NOFOLLOW, Mode::empty())
                .map_err(|errno| self.io(errno))?;
        }
        Ok(())
    }

    fn write_new(&self, name: &OsStr, bytes: &[u8]) -> Result<(), Refused> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = if self.exists() { 0o600 } else { 0o666 };
        let fd = fs::openat(&self.folder, name, flags, Mode::from_raw_mode(mode)).map_err(|errno| self.io(errno))?;
        let mut file = File::from(fd);
        file.write_all(bytes).map_err(|error| Refused::Io(self.path.clone(), error))?;
        if let Some((stat, _)) = &self.found {
            fs::fchmod(&file, Mode::from_raw_mode(stat.st_mode & 0o777)).map_err(|errno| self.io(errno))?;
        }
        file.sync_all().map_err(|error| Refused::Io(self.path.clone(), error))
    }

    /// Gives the new file the name. Between the last comparison and the rename another program could still write; no call of the
    /// kernel closes that gap, and its version would be in the backup.
    fn exchange(&self, new: &OsStr) -> Result<Option<PathBuf>, Refused> {
        let now = fs::statat(&self.folder, &self.name, AtFlags::SYMLINK_NOFOLLOW);
        let Some((stat, bytes)) = &self.found else {
            return match fs::linkat(&self.folder, new, &self.folder, &self.name, AtFlags::empty()) {
                Ok(()) => {
                    fs::unlinkat(&self.folder, new, AtFlags::empty()).map(|()| None).map_err(|errno| self.io(errno))
                }
                Err(rustix::io::Errno::EXIST) => Err(Refused::Changed(self.path.clone())),
                // A file system without hard links.
                Err(_) if now.is_err() => self.rename(new).map(|()| None),
                Err(_) => Err(Refused::Changed(self.path.clone())),
            };
        };
        if !now.is_ok_and(|now| is_same(&now, stat)) {
            return Err(Refused::Changed(self.path.clone()));
        }
        let backup = self.back_up(bytes)?;
        self.rename(new)?;
        Ok(Some(backup))
    }

    fn rename(&self, new: &OsStr) -> Result<(), Refused> {
        fs::renameat(&self.folder, new, &self.folder, &self.name).map_err(|errno| self.io(errno))
    }

    /// A second name of the old file, or a copy where the file system has no hard links.
    fn back_up(&self, bytes: &[u8]) -> Result<PathBuf, Refused> {
        for number in 0..MAX_BACKUPS {
            let mut name = self.name.clone();
            name.push(BACKUP);
            if number > 0 {
                name.push(format!(".{number}"));
            }
            match fs::linkat(&self.folder, &self.name, &self.folder, &name, AtFlags::empty()) {
                Ok(()) => return Ok(self.path.with_file_name(name)),
                Err(rustix::io::Errno::EXIST) => {}
                Err(_) => return self.write_new(&name, bytes).map(|()| self.path.with_file_name(name)),
            }
        }
        let name = format!("{}{BACKUP}", self.name.display());
        let error =
            io::Error::new(io::ErrorKind::AlreadyExists, format!("{MAX_BACKUPS} backups are there; remove some"));
        Err(Refused::Io(self.path.with_file_name(name), error))
    }

    fn io(&self, errno: rustix::io::Errno) -> Refused {
        Refused::Io(self.path.clone(), errno.into())
    }
}

fn read(folder: &OwnedFd, name: &OsStr, path: &Path, max_bytes: u64) -> Result<Option<(Stat, Vec<u8>)>, Refused> {
    // A pipe must not block, and a terminal must not become ours.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let io = |error: io::Error| Refused::Io(path.into(), error);
    let fd = match fs::openat(folder, name, flags, Mode::empty()) {
        Ok(fd) => fd,
        Err(rustix::io::Errno::NOENT) => return Ok(None),
        Err(_) if is_link(folder, name) => return Err(Refused::Link(path.into())),
        Err(errno) => return Err(io(errno.into())),
    };
    let stat = fs::fstat(&fd).map_err(|errno| io(errno.into()))?;
    if !fs::FileType::from_raw_mode(stat.st_mode).is_file() {
        return Err(Refused::NotRegular(path.into()));
    }
    // The new file would belong to this user.
    if stat.st_uid != rustix::process::geteuid().as_raw() {
        return Err(Refused::Foreign(path.into()));
    }
    let bytes = read_bounded(File::from(fd), max_bytes).map_err(io)?;
    Ok(Some((stat, bytes)))
}

fn is_link(folder: impl AsFd, name: &OsStr) -> bool {
    let stat = fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW);
    stat.is_ok_and(|stat| fs::FileType::from_raw_mode(stat.st_mode).is_symlink())
}

fn is_same(one: &Stat, other: &Stat) -> bool {
    let id = |stat: &Stat| (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime, stat.st_mtime_nsec);
    id(one) == id(other)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    const MAX: u64 = 1 << 10;

    fn open(base: &Path, below: &str) -> Result<Replacement, Refused> {
        Replacement::open(base, Path::new(below), MAX)
    }

    #[test]
    fn a_new_file_gets_its_folders_and_no_backup() {
        let dir = tempfile::tempdir().unwrap();
        let file = open(dir.path(), "a/b/c.json").unwrap();
        assert!(!file.exists() && file.content().is_empty());
        assert!(!dir.path().join("a").exists(), "nothing is made before it is needed");
        assert_eq!(file.write(b"new").unwrap(), None);
        assert_eq!(std::fs::read(dir.path().join("a/b/c.json")).unwrap(), b"new");
        assert_eq!(std::fs::read_dir(dir.path().join("a/b")).unwrap().count(), 1, "no temporary file is left");
    }

    #[test]
    fn an_old_file_keeps_its_mode_and_each_version_stays_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c.json");
        std::fs::write(&path, "one").unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
        let backup = open(dir.path(), "c.json").unwrap().write(b"two").unwrap().unwrap();
        assert_eq!(backup, dir.path().join("c.json.before-stockade"));
        let next = open(dir.path(), "c.json").unwrap().write(b"three").unwrap().unwrap();
        assert_eq!(std::fs::read(&backup).unwrap(), b"one");
        assert_eq!(std::fs::read(&next).unwrap(), b"two");
        assert_eq!(std::fs::read(&path).unwrap(), b"three");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o640);
    }

    #[test]
    fn links_are_refused_wherever_they_are() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("real")).unwrap();
        std::fs::write(dir.path().join("real/f"), "x").unwrap();
        symlink("real", dir.path().join("folder")).unwrap();
        symlink("real/f", dir.path().join("file")).unwrap();
        symlink("nowhere", dir.path().join("dangling")).unwrap();
        for below in ["folder/f", "folder/new", "file", "dangling", "dangling/new"] {
            assert!(matches!(open(dir.path(), below), Err(Refused::Link(_))), "{below}");
        }
        assert!(matches!(open(dir.path(), "../x"), Err(Refused::NotRegular(_))));
        assert!(open(&dir.path().join("folder"), "f").is_ok(), "the base is the user's choice");
    }

    #[test]
    fn what_is_no_file_or_too_long_is_refused_at_once() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("folder")).unwrap();
        let pipe = dir.path().join("pipe");
        fs::mknodat(fs::CWD, &pipe, fs::FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        for below in ["folder", "pipe"] {
            assert!(matches!(open(dir.path(), below), Err(Refused::NotRegular(_))), "{below}");
        }
        std::fs::write(dir.path().join("long"), vec![0; MAX as usize + 1]).unwrap();
        assert!(matches!(open(dir.path(), "long"), Err(Refused::Io(..))));
    }

    #[test]
    fn a_file_that_changed_meanwhile_is_not_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c");
        std::fs::write(&path, "one").unwrap();
        let file = open(dir.path(), "c").unwrap();
        std::fs::write(&path, "theirs").unwrap();
        assert!(matches!(file.write(b"ours"), Err(Refused::Changed(_))));
        let new = open(dir.path(), "n").unwrap();
        std::fs::write(dir.path().join("n"), "theirs").unwrap();
        assert!(matches!(new.write(b"ours"), Err(Refused::Changed(_))));
        for name in ["c", "n"] {
            assert_eq!(std::fs::read(dir.path().join(name)).unwrap(), b"theirs");
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2, "no temporary file is left");
    }
}
