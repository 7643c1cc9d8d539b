//! Runs in the worker: keeps deleted files and folders that can be restored, as `trash/ID/item` in the service's state (see
//! `private`). The file `about` beside an item holds its old path and its inode number. The ID contains time and size.
//!
//! Trusts no entry by its name: if `about` does not name the inode of `item`, the entry was planted or is incomplete. Such an entry
//! is never listed, restored, counted or dropped.

use std::{
    collections::HashSet,
    ops::ControlFlow,
    os::{
        fd::{AsFd, OwnedFd},
        unix::ffi::OsStringExt,
    },
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};

use super::{
    journal::{InodeId, NameBytes, NameLocation},
    state_folder::{self, RootTop, TRASH_FOLDER},
    workspace::TemporaryName,
};
use crate::{
    broker::{Intent, Refusal},
    jail::{
        Call, ChangePlan, Claim, Dir, EntryStat, Jail, JailFile, Located, Planning,
        change::check::EntryRule,
        change::claim::stat_in,
        change::remove::open_folder,
        refusal,
        walk::{self, WholeTreeVisitor},
    },
    path::{JailPath, Mode, RawPath},
    sys::{
        Errno, change,
        fs::{self, FileKind, FileStat},
    },
    wire::{Code, Error, Result},
};

const ITEM: &[u8] = b"item";
const ABOUT_FILE: &[u8] = b"about";
/// Enough for the longest path in base64, and a few numbers.
const MAX_ABOUT_BYTES: usize = 16 << 10;

/// The content of the file `about`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct AboutFile {
    /// The old path, below the root.
    path: NameBytes,
    item: InodeId,
}

/// An item that can be restored.
#[derive(Debug)]
pub struct TrashedItem {
    pub id: String,
    /// Where it was.
    pub path: JailPath,
    pub kind: FileKind,
    pub size_bytes: u64,
    /// Whole seconds since 1970.
    pub deleted_at: i64,
}

/// An item in the trash whose old name was claimed.
#[derive(Debug)]
pub struct RestorableItem {
    /// Where it was.
    pub claim: Claim,
    pub trashed: TrashedItem,
    trash: RootTrash,
    item_name: TemporaryName,
    item: FileStat,
}

impl RestorableItem {
    /// Plans to move the item back. What lies at its old name is replaced.
    pub fn plan(self, planning: &mut Planning) -> ChangePlan {
        planning.restore(&self.claim, (self.trash, &self.trashed.id), (self.item_name, &self.item))
    }
}

/// A prepared slot in the trash. Dropping it removes the slot, unless an item was put there.
#[derive(Debug)]
pub struct TrashSlot {
    pub(in crate::jail) item_name: TemporaryName,
    /// The state folder, and the trash in it.
    state_folder: OwnedFd,
    trash: OwnedFd,
    id: String,
    content: TrashContent,
    is_used: bool,
}

/// A file or folder that is to be moved into the trash.
#[derive(Debug, Clone, Copy)]
pub(in crate::jail) struct TrashContent {
    stat: FileStat,
    /// With everything that a folder holds.
    size_bytes: u64,
    /// Of a folder.
    pub(in crate::jail) entries: Option<u64>,
}

/// IDs of entries that were verified once: opening all of them for every delete would take long.
pub(in crate::jail) type VerifiedIds = HashSet<Vec<u8>>;

/// The trash of one root in one state folder.
#[derive(Debug)]
pub(in crate::jail) struct RootTrash {
    /// The state folder, and the trash in it.
    state_folder: OwnedFd,
    dir: OwnedFd,
    root: JailPath,
}

/// `time-size-chance`, all in hex, the time in milliseconds.
pub(in crate::jail) struct TrashId {
    time_ms: u64,
    pub(in crate::jail) size_bytes: u64,
}

impl TrashId {
    fn parse(id: &[u8]) -> Option<Self> {
        let mut parts = std::str::from_utf8(id).ok()?.split('-');
        let mut number = || u64::from_str_radix(parts.next()?, 16).ok();
        let (time_ms, size_bytes) = (number()?, number()?);
        (parts.next()?.len() == 32 && parts.next().is_none()).then_some(Self { time_ms, size_bytes })
    }
}

impl Claim {
    /// Prepares a slot for what has this name. C210 if the policy has no trash, C213 if the entry is too large for it.
    pub fn prepare_trash_slot(&self, jail: &Jail, call: &Call) -> Result<TrashSlot> {
        let content = self.check_trashable(jail, call)?;
        self.make_trash_slot(jail, call, content).map_err(|errno| {
            Error::io(&self.name.sent, format!("the trash cannot be used: {}", std::io::Error::from(errno)))
        })
    }

    /// The checks of `prepare_trash_slot` alone; prepares nothing.
    pub(in crate::jail) fn check_trashable(&self, jail: &Jail, call: &Call) -> Result<TrashContent> {
        let policy = &jail.settings.trash;
        if !policy.enabled {
            return Err(Error::bad_input("trash: switched off by the policy; delete without it"));
        }
        let stat = self.stat().ok_or_else(|| Error::not_found(&self.name.sent))?;
        let (size_bytes, entries) = self.total_size(jail, call, stat)?;
        if size_bytes > policy.max_bytes {
            let text = format!(
                "{}: {size_bytes} bytes, the trash holds {}; delete it with trash=false",
                self.name.sent, policy.max_bytes
            );
            return Err(Error::new(Code::TooLarge, text));
        }
        Ok(TrashContent { stat: *stat, size_bytes, entries })
    }

    fn make_trash_slot(
        &self,
        jail: &Jail,
        call: &Call,
        content: TrashContent,
    ) -> std::result::Result<TrashSlot, Errno> {
        let TrashContent { stat, size_bytes, .. } = content;
        let number = self.real_path.root();
        let root = jail.roots.check(number, b"").map_err(|_| Errno::INVAL)?;
        let uid = jail.settings.uid;
        let own = RootTop::of(jail, call, number)?.open_state(call, jail.workspaces.known_folders(number))?;
        let own = own.ok_or(Errno::ACCESS)?;
        let trash =
            state_folder::open_or_make_folder(own.as_fd(), TRASH_FOLDER, uid, self.open_rules)?.ok_or(Errno::ACCESS)?;
        let time_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis());
        let id = format!("{time_ms:011x}-{size_bytes:x}-{}", change::random_name()?);
        let dir = state_folder::open_or_make_folder(trash.as_fd(), id.as_bytes(), uid, self.open_rules)?
            .ok_or(Errno::ACCESS)?;
        let (dir, at) = (Arc::new(dir), Some(NameLocation::Own(item_path(&id)[..].into())));
        let spot = TemporaryName {
            dir,
            name: ITEM.to_vec(),
            open_rules: self.open_rules,
            root,
            journal_location: at,
            note: None,
        };
        let bin = TrashSlot { item_name: spot, state_folder: own, trash, id, content, is_used: false };
        let about = AboutFile { path: self.real_path.rel().into(), item: InodeId::from(&stat) };
        let file = change::create(bin.item_name.dir.as_fd(), ABOUT_FILE, state_folder::FILE_MODE, self.open_rules)?;
        change::write_all_at(file.as_fd(), &serde_json::to_vec(&about).unwrap_or_default(), 0)?;
        if jail.settings.durable {
            change::sync(file.as_fd())?;
            change::sync_folder(bin.item_name.dir.as_fd(), self.open_rules)?;
            change::sync_folder(bin.trash.as_fd(), self.open_rules)?;
        }
        Ok(bin)
    }

    /// The size of all files in it, and how many entries a folder holds; C211 if it holds something denied, C221 if something
    /// protected.
    fn total_size(&self, jail: &Jail, call: &Call, stat: &FileStat) -> Result<(u64, Option<u64>)> {
        if stat.kind != FileKind::Dir {
            return Ok((stat.size_bytes, None));
        }
        let entries = self.check_tree(jail, call, "deleted", None)?;
        let mut sum = SizeSum(0);
        walk::walk_whole_tree(&self.open_dir()?, call, &mut sum)?;
        Ok((sum.0, Some(entries)))
    }
}

struct SizeSum(u64);

impl WholeTreeVisitor for SizeSum {
    fn entry(&mut self, dir: &Dir, _: &[u8], name: &[u8], _: FileKind) -> Result<()> {
        if let Some(EntryStat::Entry(stat)) = dir.stat_entry(name) {
            self.0 = self.0.saturating_add(stat.size_bytes);
        }
        Ok(())
    }

    fn descends(&mut self, _: &Dir, _: &[u8], _: &[u8]) -> Result<bool> {
        Ok(true)
    }
}

impl TrashSlot {
    pub fn id(&self) -> &str {
        &self.id
    }

    /// How many entries the folder holds that is going to lie here.
    pub(in crate::jail) fn entries(&self) -> Option<u64> {
        self.content.entries
    }

    /// The state folder that it lies in.
    pub(in crate::jail) fn state_folder(&self) -> &OwnedFd {
        &self.state_folder
    }

    /// Keeps the slot, because it holds the item or may hold it.
    pub(in crate::jail) fn keep(mut self) {
        self.is_used = true;
    }
}

impl Drop for TrashSlot {
    fn drop(&mut self) {
        if !self.is_used {
            let _ = change::remove_file(self.item_name.dir.as_fd(), ABOUT_FILE);
            let _ = change::remove_dir(self.trash.as_fd(), self.id.as_bytes());
        }
    }
}

/// The path of an item below the state folder, as journals hold it.
fn item_path(id: &str) -> Vec<u8> {
    [TRASH_FOLDER, b"/", id.as_bytes(), b"/", ITEM].concat()
}

impl RootTrash {
    /// The state folder that it lies in.
    pub(in crate::jail) fn state_folder(&self) -> &OwnedFd {
        &self.state_folder
    }

    /// Gives `visit` the ID of every entry, also of those that were planted.
    pub(in crate::jail) fn for_each(
        &self,
        jail: &Jail,
        call: &Call,
        mut visit: impl FnMut(&[u8], TrashId) -> ControlFlow<()>,
    ) -> Result<()> {
        let how = jail.open_rules(&self.root);
        let fd = fs::open_to_list(self.dir.as_fd(), b".", how).map_err(|errno| refusal::io("the trash", errno))?;
        Dir::new(fd, String::new(), self.root.clone(), how).for_each(call, |entry| {
            TrashId::parse(entry.name).map_or(ControlFlow::Continue(()), |name| visit(entry.name, name))
        })
    }

    /// None for an entry that is not verifiably ours.
    pub(in crate::jail) fn look_up(&self, jail: &Jail, id: &[u8]) -> Option<(TrashedItem, TemporaryName, FileStat)> {
        let how = jail.open_rules(&self.root);
        let name = TrashId::parse(id)?;
        let dir = state_folder::open_service_folder(self.dir.as_fd(), id, jail.settings.uid, how).ok()??;
        let fd = fs::open_to_read(dir.as_fd(), ABOUT_FILE, how).ok()?;
        let stat = fs::stat(&fd).ok()?;
        let mut text = vec![0; MAX_ABOUT_BYTES];
        let len = JailFile::new(fd, stat, String::new()).read_full_at(&mut text, 0).ok()?;
        let about: AboutFile = serde_json::from_slice(&text[..len]).ok()?;
        let is_on_same_device = |item: &FileStat| fs::stat(&dir).is_ok_and(|dir| dir.dev == item.dev);
        let item = stat_in(dir.as_fd(), ITEM, how).ok()?.filter(is_on_same_device)?;
        // A process that planted the entry cannot have known the inode number.
        if !about.item.is_inode_of(&item) {
            return None;
        }
        let trashed = TrashedItem {
            id: String::from_utf8(id.to_vec()).ok()?,
            path: jail.roots.check(self.root.root(), &about.path.0).ok()?,
            kind: item.kind,
            size_bytes: name.size_bytes,
            deleted_at: (name.time_ms / 1000) as i64,
        };
        let (dir, root) = (Arc::new(dir), self.root.clone());
        let at = Some(NameLocation::Own(item_path(&trashed.id)[..].into()));
        Some((
            trashed,
            TemporaryName { dir, name: ITEM.to_vec(), open_rules: how, root, journal_location: at, note: None },
            item,
        ))
    }

    /// Removes an entry with all it holds.
    pub(in crate::jail) fn remove(&self, jail: &Jail, call: &Call, id: &[u8]) {
        let how = jail.open_rules(&self.root);
        if let Ok(dir) = fs::open_beneath(self.dir.as_fd(), b".", fs::FOLDER_FLAGS, how) {
            let root = self.root.clone();
            let (dir, name) = (Arc::new(dir), id.to_vec());
            let spot = TemporaryName { dir, name, open_rules: how, root, journal_location: None, note: None };
            let _ = spot.remove_tree(call);
        }
    }
}

impl Jail {
    /// Lists the trash of every writable root, the newest item first.
    pub fn list_trash(&self, call: &Call) -> Result<Vec<TrashedItem>> {
        let mut found = Vec::new();
        for root in self.writable_roots() {
            for trash in self.open_trashes(call, &root) {
                trash.for_each(self, call, |id, _| {
                    found.extend(trash.look_up(self, id).map(|(trashed, ..)| trashed));
                    ControlFlow::Continue(())
                })?;
            }
            call.checkpoint()?;
        }
        found.sort_unstable_by(|a, b| b.id.cmp(&a.id));
        Ok(found)
    }

    /// Finds an item and claims its old name, which must be free unless `overwrite`. C211 if the path, or an entry of a folder, is
    /// denied by now, C221 if protected. The caller checks whether an item of this kind may replace what lies there.
    pub fn find_trashed(
        &self,
        call: &mut Call,
        planning: &Planning,
        id: &str,
        base_dir: Option<&RawPath>,
        overwrite: bool,
    ) -> Result<RestorableItem> {
        let unknown = || {
            let next = "see what is in the trash with coder::restore {\"list\": true}";
            Error::new(Code::NotFound, format!("{id}: not found or not accessible; {next}"))
        };
        if planning.has_restored(id) {
            return Err(unknown());
        }
        let (trash, trashed, spot, item) = self.look_up_item(call, id).ok_or_else(unknown)?;
        let sent = self.roots.absolute(&trashed.path).to_string_lossy().into_owned();
        let base = self.real_base_path(call, &trashed.path, base_dir)?;
        let name = Located::new(self, trashed.path.clone(), sent);
        let name = name.map_err(|_| Error { is_denied: true, ..unknown() })?.within_base(base);
        if let Some(base_dir) = base_dir {
            self.check_below(id, &name, base_dir)?;
        }
        self.check_operand(call, &name, &name.path, Intent::Create)?;
        let answer = self.ask(call, std::slice::from_ref(&name), Intent::Create).pop();
        let answer = answer.unwrap_or(Err(Refusal::Busy));
        let claim = match planning.foreseen() {
            None => self.claim_answered(call, &name, Intent::Create, answer)?,
            Some(foreseen) => self.claim_foreseen(call, &name, Intent::Create, answer, foreseen)?,
        };
        self.check_operand(call, &name, claim.path(), Intent::Create)?;
        if trashed.kind == FileKind::Symlink {
            self.check_new_link(call, &name, claim.path())?;
        }
        if trashed.kind == FileKind::Dir {
            // Tests the item as if it lay at its old path already: what is denied there by now is not restored.
            let (dir, how) = (spot.dir.as_fd(), spot.open_rules);
            let item = open_folder(dir, &spot.name, how, &name.sent, claim.path())?;
            let rule = EntryRule { jail: self, call, name: &name, verb: "restored", to: None, is_copy: false };
            item.check_tree(rule, None)?;
        }
        if claim.stat().is_some() && !overwrite {
            return Err(refusal::exists(&name.sent));
        }
        Ok(RestorableItem { claim, trashed, trash, item_name: spot, item })
    }

    /// C218 for an item whose old path is outside `base_dir`. The caller named only an id, so the text does not reveal the path.
    fn check_below(&self, id: &str, name: &Located, base_dir: &RawPath) -> Result<()> {
        let absolute = RawPath::bytes(self.roots.absolute(&name.path).into_os_string().into_vec());
        match self.roots.locate(&absolute, Some(base_dir)) {
            Err(error) if error.code == Code::OutsideBaseDir => Err(Error::new(
                Code::OutsideBaseDir,
                format!(
                    "{id}: was deleted inside an allowed root, but outside this call's base_dir {}; \
                     coder::restore {{\"list\": true}} shows what lay below it",
                    base_dir.display()
                ),
            )),
            other => other.map(drop),
        }
    }

    pub(in crate::jail) fn writable_roots(&self) -> Vec<JailPath> {
        let roots = (0u16..).zip(self.roots.roots()).filter(|(_, root)| root.mode == Mode::Rw);
        roots.filter_map(|(index, _)| self.roots.check(index, b"").ok()).collect()
    }

    /// Opens the trash in every state folder of a root, also of earlier versions.
    fn open_trashes(&self, call: &Call, root: &JailPath) -> Vec<RootTrash> {
        let states = RootTop::of(self, call, root.root()).and_then(|top| top.open_all(call));
        self.trashes_in(states.unwrap_or_default(), root)
    }

    pub(in crate::jail) fn trashes_in(&self, states: Vec<OwnedFd>, root: &JailPath) -> Vec<RootTrash> {
        let (uid, how) = (self.settings.uid, self.open_rules(root));
        let open = |own: OwnedFd| {
            let dir = state_folder::open_service_folder(own.as_fd(), TRASH_FOLDER, uid, how).ok()??;
            Some(RootTrash { state_folder: own, dir, root: root.clone() })
        };
        states.into_iter().filter_map(open).collect()
    }

    fn look_up_item(&self, call: &Call, id: &str) -> Option<(RootTrash, TrashedItem, TemporaryName, FileStat)> {
        self.writable_roots().into_iter().flat_map(|root| self.open_trashes(call, &root)).find_map(|trash| {
            let (trashed, spot, item) = trash.look_up(self, id.as_bytes())?;
            Some((trash, trashed, spot, item))
        })
    }
}
