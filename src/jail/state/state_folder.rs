//! Finds and makes the service's own state at the top of a root: the folder `.stockade-` and 16 random hex digits.
//!
//! Runs in a worker. Trusts no folder by its name, because a repository can contain any name. A state folder is ours if it
//! belongs to our uid with mode 0700, lies on the root's file system, and holds a file `identity` with the folder's own inode
//! number, which no archive, checkout or copy can know. Never uses, writes or removes any other folder.
//!
//! Several folders may be ours, for example when two workers made one at the same moment. Recovery and the trash then use all of
//! them; new state goes to the first by name. Earlier versions kept their state in `.stockade/UID`: it is still read, and nothing
//! new goes there.

use std::{
    ops::ControlFlow,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};

use super::workspace::retry_while_taken;
use crate::{
    broker::Intent,
    jail::{Call, Dir, Jail, JailFile, Located},
    path::{JailPath, PRIVATE_DIGITS, PRIVATE_FOLDER, PRIVATE_WORK, is_private_name},
    sys::{
        Errno, change,
        fs::{self, FileKind, OFlags, OpenRules},
    },
};

/// Makes git ignore the whole state folder.
const IGNORE_FILE: (&[u8], &[u8]) = (b".gitignore", b"*\n");
const IDENTITY_FILE: &[u8] = b"identity";
/// Larger than any valid identity file.
const MAX_IDENTITY_BYTES: usize = 256;
/// Folder in the state that holds deleted files and folders until they are restored.
pub(in crate::jail) const TRASH_FOLDER: &[u8] = b"trash";
/// Access for this user alone.
const FOLDER_MODE: u32 = 0o700;
pub(in crate::jail) const FILE_MODE: u32 = 0o600;
/// Attempts to make a folder that another process keeps removing.
const TRIES: usize = 8;
/// How long to wait for another worker that makes a state folder. After that we make a second one, which does no harm.
const LOCK_WAIT: Duration = Duration::from_secs(1);
const RETRY_INTERVAL: Duration = Duration::from_millis(10);

/// Content of the file `identity`.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StateIdentity {
    version: u32,
    uid: u32,
    /// Inode number of the folder. The device number is left out, because it can change with every mount.
    ino: u64,
}

impl StateIdentity {
    fn of(folder: &fs::FileStat) -> Self {
        Self { version: 1, uid: folder.uid, ino: folder.ino }
    }
}

/// Names of the state folders of one root that this worker found or made. A cache, so that it lists the root's top only once.
#[derive(Debug, Default)]
pub(in crate::jail) struct KnownStateFolders(Mutex<Vec<Vec<u8>>>);

impl KnownStateFolders {
    /// Whether this worker has neither found nor made any.
    pub(in crate::jail) fn is_empty(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}

/// The top of a root, where state folders lie.
#[derive(Debug)]
pub(in crate::jail) struct RootTop {
    dir: Arc<OwnedFd>,
    path: JailPath,
    uid: u32,
    open_rules: OpenRules,
}

impl RootTop {
    pub(in crate::jail) fn of(jail: &Jail, call: &Call, root: u16) -> Result<Self, Errno> {
        let path = jail.roots.check(root, b"").map_err(|_| Errno::INVAL)?;
        let how = jail.open_rules(&path);
        let top = Located::new(jail, path.clone(), "").map_err(|_| Errno::AGAIN)?;
        let parent = jail.ask_afresh(call, &top, Intent::Look).map_err(|_| Errno::AGAIN)?;
        Ok(Self { dir: parent.dir, path, uid: jail.settings.uid, open_rules: how })
    }

    /// Opens the state folder for new state, and makes it if there is none. `Ok(None)` if this root cannot have one.
    pub(in crate::jail) fn open_state(&self, call: &Call, known: &KnownStateFolders) -> Result<Option<OwnedFd>, Errno> {
        let mut known = known.0.lock().unwrap_or_else(PoisonError::into_inner);
        let first = known.first().and_then(|name| self.open(name).ok()?);
        if let Some(own) = first.filter(|own| self.is_usable(own.as_fd())) {
            return Ok(Some(own));
        }
        let listing = self.open_listing()?;
        if let Some(own) = self.open_first_usable(&listing, call, &mut known)? {
            return Ok(Some(own));
        }
        // One worker at a time, so that workers that start together share one folder.
        wait_for_lock(listing.fd());
        if let Some(own) = self.open_first_usable(&listing, call, &mut known)? {
            return Ok(Some(own));
        }
        for _ in 0..TRIES {
            match self.make() {
                // Another process removes what we make.
                Err(Errno::NOENT) => {}
                Ok(Some((name, own))) => {
                    known.insert(0, name);
                    return Ok(Some(own));
                }
                other => return other.map(|_| None),
            }
        }
        Err(Errno::AGAIN)
    }

    /// The first of our state folders in which new state can be made. Its name becomes the first of `known`.
    fn open_first_usable(
        &self,
        listing: &Dir,
        call: &Call,
        known: &mut Vec<Vec<u8>>,
    ) -> Result<Option<OwnedFd>, Errno> {
        let mut ours = self.open_listed(listing, call)?;
        let usable = ours.iter().position(|(_, own)| self.is_usable(own.as_fd()));
        let first = usable.map(|at| ours.remove(at));
        let (name, own) = first.unzip();
        *known = name.into_iter().chain(ours.into_iter().map(|(name, _)| name)).collect();
        Ok(own)
    }

    /// Every state of ours, that of earlier versions last. Lists the root's top.
    pub(in crate::jail) fn open_all(&self, call: &Call) -> Result<Vec<OwnedFd>, Errno> {
        let ours = self.open_listed(&self.open_listing()?, call)?;
        Ok(ours.into_iter().map(|(_, own)| own).chain(self.open_earlier()).collect())
    }

    /// Like `open_all`, but does not list the root's top: only the state folders that this worker knows.
    pub(in crate::jail) fn open_known(&self, known: &KnownStateFolders) -> Vec<OwnedFd> {
        let known = known.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().filter_map(|name| self.open(name).ok()?).chain(self.open_earlier()).collect()
    }

    fn open_listing(&self) -> Result<Dir, Errno> {
        let fd = fs::open_to_list(self.dir.as_fd(), b".", self.open_rules)?;
        Ok(Dir::new(fd, String::new(), self.path.clone(), self.open_rules))
    }

    /// Our state folders, sorted by name. EAGAIN after the call's deadline.
    fn open_listed(&self, listing: &Dir, call: &Call) -> Result<Vec<(Vec<u8>, OwnedFd)>, Errno> {
        let mut names = Vec::new();
        let listed = listing.for_each(call, |entry| {
            let is_folder = matches!(entry.kind, FileKind::Dir | FileKind::Unknown);
            if is_folder && is_private_name(entry.name) && entry.name != PRIVATE_FOLDER.as_bytes() {
                names.push(entry.name.to_vec());
            }
            ControlFlow::Continue(())
        });
        listed.map_err(|_| Errno::AGAIN)?;
        names.sort_unstable();
        let mut ours = Vec::new();
        for name in names {
            call.checkpoint().map_err(|_| Errno::AGAIN)?;
            ours.extend(self.open(&name)?.map(|own| (name, own)));
        }
        Ok(ours)
    }

    /// Opens a state folder. `Ok(None)` if it is missing or not ours, an error if that cannot be determined now.
    fn open(&self, name: &[u8]) -> Result<Option<OwnedFd>, Errno> {
        let folder = unless_missing(open_service_folder(self.dir.as_fd(), name, self.uid, self.open_rules))?.flatten();
        let Some(folder) = folder else { return Ok(None) };
        let stat = fs::stat(&folder)?;
        let file = unless_missing(fs::open_to_read(folder.as_fd(), IDENTITY_FILE, self.open_rules))?;
        let Some(file) = file else { return Ok(None) };
        let about = fs::stat(&file)?;
        if about.kind != FileKind::File {
            return Ok(None);
        }
        let mut text = [0; MAX_IDENTITY_BYTES];
        let file = JailFile::new(file, about, String::new());
        let len = file.read_full_at(&mut text, 0).map_err(|_| Errno::IO)?;
        let identity = serde_json::from_slice::<StateIdentity>(&text[..len]).ok();
        let is_on_root = fs::stat(&*self.dir)?.dev == stat.dev;
        let is_ours = is_on_root && about.uid == self.uid && identity == Some(StateIdentity::of(&stat));
        Ok(is_ours.then_some(folder))
    }

    /// Whether new state can be made in it: its subfolders are ours as well, or do not exist yet.
    fn is_usable(&self, own: BorrowedFd<'_>) -> bool {
        let is_usable = |name| {
            let found = open_service_folder(own, name, self.uid, self.open_rules);
            matches!(found, Ok(Some(_)) | Err(Errno::NOENT))
        };
        [PRIVATE_WORK.as_bytes(), TRASH_FOLDER].into_iter().all(is_usable)
    }

    /// The state that earlier versions of stockade kept for this uid. They checked owner and mode alone.
    fn open_earlier(&self) -> Option<OwnedFd> {
        let open = |above, name: &[u8]| open_service_folder(above, name, self.uid, self.open_rules).ok()?;
        let private = open(self.dir.as_fd(), PRIVATE_FOLDER.as_bytes())?;
        open(private.as_fd(), self.uid.to_string().as_bytes())
    }

    /// Makes a state folder. A crash in between leaves a folder without a valid identity, which no worker uses.
    fn make(&self) -> Result<Option<(Vec<u8>, OwnedFd)>, Errno> {
        let made = retry_while_taken(|| {
            let name = format!("{PRIVATE_FOLDER}-{}", &change::random_name()?[..PRIVATE_DIGITS]).into_bytes();
            change::make_dir(self.dir.as_fd(), &name, FOLDER_MODE).map(|()| name)
        });
        let name = match made {
            Err(Errno::ACCESS | Errno::PERM | Errno::ROFS) => return Ok(None),
            made => made?,
        };
        let filled = self.fill(&name);
        if !matches!(filled, Ok(Some(_))) {
            self.unmake(&name);
        }
        Ok(filled?.map(|own| (name, own)))
    }

    /// Writes the files of a new state folder. `Ok(None)` if it cannot be ours, for example on a file system without owners.
    fn fill(&self, name: &[u8]) -> Result<Option<OwnedFd>, Errno> {
        let Some(folder) = open_service_folder(self.dir.as_fd(), name, self.uid, self.open_rules)? else {
            return Ok(None);
        };
        if let Ok(file) = change::create(folder.as_fd(), IGNORE_FILE.0, FILE_MODE, self.open_rules) {
            // Errors are ignored: without this file git shows the folder, and nothing else goes wrong.
            let _ = change::write_all_at(file.as_fd(), IGNORE_FILE.1, 0);
        }
        let identity = serde_json::to_vec(&StateIdentity::of(&fs::stat(&folder)?)).map_err(|_| Errno::INVAL)?;
        let file = change::create(folder.as_fd(), IDENTITY_FILE, FILE_MODE, self.open_rules)?;
        change::write_all_at(file.as_fd(), &identity, 0)?;
        // Regardless of `durability`: this happens once per root, and without it the trash could be lost in a power cut.
        change::sync(file.as_fd())?;
        change::sync_folder(folder.as_fd(), self.open_rules)?;
        change::sync_folder(self.dir.as_fd(), self.open_rules)?;
        self.open(name)
    }

    fn unmake(&self, name: &[u8]) {
        let flags = fs::FOLDER_FLAGS | OFlags::NOFOLLOW;
        if let Ok(folder) = fs::open_beneath(self.dir.as_fd(), name, flags, self.open_rules) {
            for file in [IDENTITY_FILE, IGNORE_FILE.0] {
                let _ = change::remove_file(folder.as_fd(), file);
            }
        }
        let _ = change::remove_dir(self.dir.as_fd(), name);
    }
}

/// Waits for the lock of the root's top, at most `LOCK_WAIT`. Does not wait if the file system has no locks.
fn wait_for_lock(folder: BorrowedFd<'_>) {
    let until = Instant::now() + LOCK_WAIT;
    while let Ok(false) = change::try_lock(folder) {
        if Instant::now() >= until {
            return;
        }
        std::thread::sleep(RETRY_INTERVAL);
    }
}

/// Opens a folder that only our uid may access, and makes it if it is missing. `Ok(None)` if it is not ours.
pub(in crate::jail) fn open_or_make_folder(
    above: BorrowedFd<'_>,
    name: &[u8],
    uid: u32,
    how: OpenRules,
) -> Result<Option<OwnedFd>, Errno> {
    match change::make_dir(above, name, FOLDER_MODE) {
        Ok(()) | Err(Errno::EXIST) => {}
        // The worker may not make folders here.
        Err(Errno::ACCESS | Errno::PERM | Errno::ROFS) => return Ok(None),
        Err(errno) => return Err(errno),
    }
    open_service_folder(above, name, uid, how)
}

/// Whether this errno of an open shows that the service did not make the entry, or that there is none. Other errors, such as
/// EIO or EMFILE, do not tell.
pub(in crate::jail) fn is_foreign_errno(errno: Errno) -> bool {
    let errnos = [Errno::NOENT, Errno::LOOP, Errno::NOTDIR, Errno::ISDIR, Errno::XDEV, Errno::ACCESS];
    errnos.contains(&errno) || [Errno::PERM, Errno::NXIO, Errno::NODEV].contains(&errno)
}

fn unless_missing<T>(opened: Result<T, Errno>) -> Result<Option<T>, Errno> {
    match opened {
        Err(errno) if is_foreign_errno(errno) => Ok(None),
        other => other.map(Some),
    }
}

pub(in crate::jail) fn open_service_folder(
    above: BorrowedFd<'_>,
    name: &[u8],
    uid: u32,
    how: OpenRules,
) -> Result<Option<OwnedFd>, Errno> {
    let folder = match fs::open_beneath(above, name, fs::FOLDER_FLAGS | OFlags::NOFOLLOW, how) {
        Err(errno) if errno != Errno::NOENT && is_foreign_errno(errno) => return Ok(None),
        folder => folder?,
    };
    let stat = fs::stat(&folder)?;
    let is_ours = stat.kind == FileKind::Dir && stat.uid == uid && stat.mode == FOLDER_MODE;
    Ok(is_ours.then_some(folder))
}

#[cfg(test)]
#[path = "state_folder_tests.rs"]
mod tests;
