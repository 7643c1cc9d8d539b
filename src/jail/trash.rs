//! Deleted things that can come back: `.stockade/UID/trash/ID/item`, and beside it `about`, which says where it was.
//! The names of the folders carry time and size, so that the oldest can be dropped without opening any.

use std::{
    ops::ControlFlow,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStringExt,
    },
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};

use super::{
    Call, Claim, Dir, DryRun, File, Jail, Located, Seen,
    journal::{Bytes, Id},
    private, refusal,
    remove::{EntryRule, open_folder},
    rename::rename_to_free,
    subtree::{self, Visitor},
    workspace::Spot,
};
use crate::{
    broker::{Intent, Refusal},
    path::{JailPath, Mode, RawPath},
    sys::{
        Errno,
        change::{self, Taken},
        fs::{self, Beneath, Kind, OFlags, Stat},
    },
    wire::{Code, Error, Result},
};

const TRASH: &[u8] = b"trash";
const ITEM: &[u8] = b"item";
const ABOUT: &[u8] = b"about";
/// A path of the greatest length in base64, and a few numbers.
const MAX_ABOUT_BYTES: usize = 16 << 10;
/// Things in the trash of one root; beyond it, too, the oldest is dropped.
const MOST_ITEMS: usize = 10_000;

/// What is known about a thing in the trash.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct About {
    /// Below the root.
    path: Bytes,
    item: Id,
}

/// A thing that can be restored.
#[derive(Debug)]
pub struct Trashed {
    pub id: String,
    /// Where it was.
    pub path: JailPath,
    pub kind: Kind,
    pub size_bytes: u64,
    /// Whole seconds since 1970.
    pub deleted_at: i64,
}

/// Its place in the trash, prepared. Gone with this value unless something was put there.
#[derive(Debug)]
pub struct Bin {
    pub(super) spot: Spot,
    trash: OwnedFd,
    id: String,
    max_bytes: u64,
    is_used: bool,
}

/// `time-size-chance`, all in hex, the time in milliseconds.
struct Name {
    time_ms: u64,
    size_bytes: u64,
}

impl Name {
    fn parse(id: &[u8]) -> Option<Self> {
        let mut parts = std::str::from_utf8(id).ok()?.split('-');
        let mut number = || u64::from_str_radix(parts.next()?, 16).ok();
        let (time_ms, size_bytes) = (number()?, number()?);
        (parts.next()?.len() == 32 && parts.next().is_none()).then_some(Self { time_ms, size_bytes })
    }
}

impl Claim {
    /// A place in the trash for what lies here. C210 where the policy has none, C213 for what is too large for it.
    pub fn bin(&self, jail: &Jail, call: &Call) -> Result<Bin> {
        let (stat, size_bytes) = self.check_bin(jail, call)?;
        self.prepare_bin(jail, call, &stat, size_bytes).map_err(|errno| {
            Error::io(&self.name.sent, format!("the trash cannot be used: {}", std::io::Error::from(errno)))
        })
    }

    /// The checks of `bin` alone: what lies here, and its bytes with all it holds.
    pub(super) fn check_bin(&self, jail: &Jail, call: &Call) -> Result<(Stat, u64)> {
        let policy = &jail.settings.trash;
        if !policy.enabled {
            return Err(Error::bad_input("trash: switched off by the policy; delete without it"));
        }
        let stat = self.stat().ok_or_else(|| Error::not_found(&self.name.sent))?;
        let size_bytes = self.total_size(jail, call, stat)?;
        if size_bytes > policy.max_bytes {
            let text = format!(
                "{}: {size_bytes} bytes, the trash holds {}; delete it with trash=false",
                self.name.sent, policy.max_bytes
            );
            return Err(Error::new(Code::C213, text));
        }
        Ok((*stat, size_bytes))
    }

    fn prepare_bin(
        &self,
        jail: &Jail,
        call: &Call,
        stat: &Stat,
        size_bytes: u64,
    ) -> std::result::Result<Bin, Errno> {
        let root = jail.roots.check(self.real.root(), b"").map_err(|_| Errno::INVAL)?;
        let top = Located::own(root.clone());
        let parent = jail.ask_afresh(call, &top, Intent::Look).map_err(|_| Errno::ACCESS)?;
        let uid = jail.settings.uid;
        let own = private::make(parent.dir.as_fd(), uid, self.how)?.ok_or(Errno::ACCESS)?;
        let trash = private::own_folder(own.as_fd(), TRASH, uid, self.how)?.ok_or(Errno::ACCESS)?;
        let time_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis());
        let id = format!("{time_ms:011x}-{size_bytes:x}-{}", change::random_name()?);
        let dir = private::own_folder(trash.as_fd(), id.as_bytes(), uid, self.how)?.ok_or(Errno::ACCESS)?;
        let spot = Spot { dir: Arc::new(dir), name: ITEM.to_vec(), how: self.how, root, note: None };
        let bin = Bin { spot, trash, id, max_bytes: jail.settings.trash.max_bytes, is_used: false };
        let about = About { path: self.real.rel().into(), item: Id::from(stat) };
        let file = change::create(bin.spot.dir.as_fd(), ABOUT, private::FILE_MODE, self.how)?;
        change::write_all_at(file.as_fd(), &serde_json::to_vec(&about).unwrap_or_default(), 0)?;
        if jail.settings.durable {
            change::sync(file.as_fd())?;
            change::sync_folder(bin.spot.dir.as_fd(), self.how)?;
            change::sync_folder(bin.trash.as_fd(), self.how)?;
        }
        Ok(bin)
    }

    /// Of all files in it; C211 if it holds something denied.
    fn total_size(&self, jail: &Jail, call: &Call, stat: &Stat) -> Result<u64> {
        if stat.kind != Kind::Dir {
            return Ok(stat.size_bytes);
        }
        self.check_tree(jail, call, "deleted", None)?;
        let mut sum = Sum(0);
        subtree::walk(&self.open_dir()?, call, &mut sum)?;
        Ok(sum.0)
    }

    /// Moves what lies here, which is `expect`, into its place in the trash; its id there.
    pub fn discard(&self, jail: &Jail, call: &Call, mut bin: Bin, expect: &Stat) -> Result<String> {
        call.checkpoint()?;
        let _running = jail.workspaces.begin_change();
        self.check_unchanged(jail, call, expect)?;
        let here = (self.dir(), self.leaf());
        let failed = |errno| self.change_error(jail, call, errno);
        rename_to_free(here, bin.spot.at(), self.how).map_err(failed)?;
        let is_right = bin.spot.stat().ok().flatten().is_some_and(|stat| stat.is_same_file(expect));
        let synced = if jail.settings.durable { change::sync_folder(self.dir(), self.how) } else { Ok(()) };
        if !is_right || synced.is_err() {
            if rename_to_free(bin.spot.at(), here, self.how).is_err() {
                // Better there than nowhere.
                bin.leave();
            }
            synced.map_err(failed)?;
            return Err(self.changed());
        }
        bin.keep();
        Ok(bin.id.clone())
    }

    /// Puts a thing from the trash here. What lies here is replaced, if anything does.
    fn receive(&self, jail: &Jail, call: &Call, from: &Spot, item: &Stat) -> Result<()> {
        call.checkpoint()?;
        let _running = jail.workspaces.begin_change();
        let parents = self.make_parents(jail, call)?;
        let there = (parents.dir.as_fd(), self.leaf());
        let swap = |from, to| match self.stat() {
            Some(_) => change::rename(from, to, Taken::Exchange),
            None => rename_to_free(from, to, self.how),
        };
        let done = swap(from.at(), there).and_then(|()| {
            let now = fs::hold(there.0, there.1, self.how).and_then(|held| held.stat());
            let is_right = now.is_ok_and(|now| now.is_same_file(item));
            let kept = match (is_right, jail.settings.durable) {
                (true, true) => parents.sync(),
                (true, false) => Ok(()),
                (false, _) => Err(Errno::STALE),
            };
            kept.inspect_err(|_| {
                let _ = swap(there, from.at());
            })
        });
        done.map_err(|errno| {
            parents.undo();
            self.change_error(jail, call, errno)
        })
    }
}

struct Sum(u64);

impl Visitor for Sum {
    fn entry(&mut self, dir: &Dir, _: &[u8], name: &[u8], _: Kind) -> Result<()> {
        if let Some(Seen::Entry(stat)) = dir.stat_entry(name) {
            self.0 = self.0.saturating_add(stat.size_bytes);
        }
        Ok(())
    }

    fn descends(&mut self, _: &Dir, _: &[u8], _: &[u8]) -> Result<bool> {
        Ok(true)
    }
}

impl Bin {
    pub fn id(&self) -> &str {
        &self.id
    }

    /// How it is written down.
    pub(super) fn path(&self) -> Vec<u8> {
        [TRASH, b"/", self.id.as_bytes(), b"/", ITEM].concat()
    }

    /// Whether something is in it nobody knows: it stays as it is.
    pub(super) fn leave(mut self) {
        self.is_used = true;
    }

    /// Something is in it now. The oldest things go, until the rest fits.
    pub(super) fn keep(&mut self) {
        self.is_used = true;
        let call = Call::tidying();
        let Some(mut ids) = list(self.trash.as_fd(), self.spot.how, &self.spot.root, &call) else { return };
        let size = |id: &[u8]| Name::parse(id).map_or(0, |name| name.size_bytes);
        let mut total: u64 = ids.iter().map(|id| size(id)).fold(0, u64::saturating_add);
        // The newest last, and never dropped for itself.
        ids.sort_unstable_by(|a, b| b.cmp(a));
        while ids.len() > 1 && (total > self.max_bytes || ids.len() > MOST_ITEMS) {
            let Some(oldest) = ids.pop() else { return };
            total = total.saturating_sub(size(&oldest));
            let _ = folder(self.trash.as_fd(), &oldest, self.spot.how, &self.spot.root)
                .map(|spot| spot.remove_own_tree(&call));
        }
    }
}

impl Drop for Bin {
    fn drop(&mut self) {
        if !self.is_used {
            let _ = change::remove_file(self.spot.dir.as_fd(), ABOUT);
            let _ = change::remove_dir(self.trash.as_fd(), self.id.as_bytes());
        }
    }
}

/// The whole folder of one thing, as something to remove.
fn folder(trash: BorrowedFd<'_>, id: &[u8], how: Beneath, root: &JailPath) -> Option<Spot> {
    let dir = fs::open_beneath(trash, b".", fs::FOLDER, how).ok()?;
    Some(Spot { dir: Arc::new(dir), name: id.to_vec(), how, root: root.clone(), note: None })
}

fn list(trash: BorrowedFd<'_>, how: Beneath, root: &JailPath, call: &Call) -> Option<Vec<Vec<u8>>> {
    let fd = fs::open_beneath(trash, b".", OFlags::RDONLY | OFlags::DIRECTORY, how).ok()?;
    let mut ids = Vec::new();
    let listed = Dir::new(fd, String::new(), root.clone(), how).for_each(call, |entry| {
        ids.extend(Name::parse(entry.name).map(|_| entry.name.to_vec()));
        if ids.len() < 2 * MOST_ITEMS { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    listed.ok().map(|()| ids)
}

impl Jail {
    /// What lies in the trash of every writable root, the newest first.
    pub fn trashed(&self, call: &Call) -> Result<Vec<Trashed>> {
        let mut found = Vec::new();
        for root in self.writable_roots() {
            let Some(trash) = self.open_trash(call, &root) else { continue };
            for id in list(trash.as_fd(), self.how(&root), &root, call).unwrap_or_default() {
                call.checkpoint()?;
                found.extend(self.look_up(&trash, &root, &id).map(|(trashed, ..)| trashed));
            }
        }
        found.sort_unstable_by(|a, b| b.id.cmp(&a.id));
        Ok(found)
    }

    /// Puts a thing back to where it was, which is free, or with `overwrite` is replaced; `check` says whether one kind of
    /// thing may take the place of another. C211 if the path, or an entry of a folder, is denied by now. With `dry_run` all of
    /// it is checked and nothing happens.
    pub fn restore(
        &self,
        call: &mut Call,
        id: &str,
        base_dir: Option<&RawPath>,
        overwrite: bool,
        dry_run: Option<&mut DryRun>,
        check: impl Fn(Kind, &Claim, &Call) -> Result<()>,
    ) -> Result<JailPath> {
        let unknown = || {
            let next = "see what is in the trash with coder::restore {\"list\": true}";
            Error::new(Code::C211, format!("{id}: not found or not accessible; {next}"))
        };
        if dry_run.as_ref().is_some_and(|run| run.has_restored(id)) {
            return Err(unknown());
        }
        let (trash, root, trashed, spot, item) = self.find_trashed(call, id).ok_or_else(unknown)?;
        let sent = self.roots.absolute(&trashed.path).to_string_lossy().into_owned();
        let base = self.real_base(call, &trashed.path, base_dir)?;
        let name = Located { path: trashed.path.clone(), sent, base };
        if self.denied.is_denied(&name.path) {
            return Err(unknown());
        }
        if let Some(base_dir) = base_dir {
            self.check_below(id, &name, base_dir)?;
        }
        self.check_operand(call, &name, &name.path)?;
        let answer = self.ask(call, std::slice::from_ref(&name), Intent::Create).pop();
        let answer = answer.unwrap_or(Err(Refusal::Busy));
        let claim = match &dry_run {
            None => self.claim_answered(call, &name, Intent::Create, answer)?,
            Some(run) => self.claim_foreseen(call, &name, Intent::Create, answer, run.foreseen())?,
        };
        self.check_operand(call, &name, claim.path())?;
        if trashed.kind == Kind::Dir {
            // As if it lay there already: what is denied there by now does not come back.
            let (dir, how) = (spot.dir.as_fd(), self.how(&root));
            let item = open_folder(dir, &spot.name, how, &name.sent, claim.path())?;
            item.check_tree(EntryRule { jail: self, call, name: &name, verb: "restored", to: None })?;
        }
        if claim.stat().is_some() && !overwrite {
            return Err(refusal::exists(&name.sent));
        }
        check(trashed.kind, &claim, call)?;
        if let Some(run) = dry_run {
            run.restore(&claim, id, &item);
            return Ok(trashed.path);
        }
        claim.receive(self, call, &spot, &item)?;
        // With what was replaced, if anything was.
        let _ = folder(trash.as_fd(), id.as_bytes(), self.how(&root), &root)
            .map(|spot| spot.remove_own_tree(&Call::tidying()));
        Ok(trashed.path)
    }

    /// C218 for what lay elsewhere; the caller named an id, and hears of no other path.
    fn check_below(&self, id: &str, name: &Located, base_dir: &RawPath) -> Result<()> {
        let absolute = RawPath::bytes(self.roots.absolute(&name.path).into_os_string().into_vec());
        match self.roots.locate(&absolute, Some(base_dir)) {
            Err(error) if error.code == Code::C218 => Err(Error::new(
                Code::C218,
                format!(
                    "{id}: was deleted inside an allowed root, but outside this call's base_dir {}; \
                     coder::restore {{\"list\": true}} shows what lay below it",
                    base_dir.display()
                ),
            )),
            other => other.map(drop),
        }
    }

    fn writable_roots(&self) -> Vec<JailPath> {
        let roots = (0u16..).zip(self.roots.roots()).filter(|(_, root)| root.mode == Mode::Rw);
        roots.filter_map(|(index, _)| self.roots.check(index, b"").ok()).collect()
    }

    fn open_trash(&self, call: &Call, root: &JailPath) -> Option<OwnedFd> {
        let (how, uid) = (self.how(root), self.settings.uid);
        let top = Located::own(root.clone());
        let parent = self.ask_afresh(call, &top, Intent::Look).ok()?;
        let own = private::open(parent.dir.as_fd(), uid, how).ok()??;
        private::open_own_folder(own.as_fd(), TRASH, uid, how).ok()?
    }

    fn find_trashed(&self, call: &Call, id: &str) -> Option<(OwnedFd, JailPath, Trashed, Spot, Stat)> {
        self.writable_roots().into_iter().find_map(|root| {
            let trash = self.open_trash(call, &root)?;
            let (trashed, spot, item) = self.look_up(&trash, &root, id.as_bytes())?;
            Some((trash, root, trashed, spot, item))
        })
    }

    /// Nothing for a folder that is half made, half removed, or was brought along by somebody.
    fn look_up(&self, trash: &OwnedFd, root: &JailPath, id: &[u8]) -> Option<(Trashed, Spot, Stat)> {
        let how = self.how(root);
        let name = Name::parse(id)?;
        let dir = private::open_own_folder(trash.as_fd(), id, self.settings.uid, how).ok()??;
        let fd = fs::open_beneath(dir.as_fd(), ABOUT, OFlags::RDONLY | OFlags::NOFOLLOW, how).ok()?;
        let stat = fs::stat(&fd).ok()?;
        let mut text = vec![0; MAX_ABOUT_BYTES];
        let len = File::new(fd, stat, String::new()).read_full_at(&mut text, 0).ok()?;
        let about: About = serde_json::from_slice(&text[..len]).ok()?;
        let spot = Spot { dir: Arc::new(dir), name: ITEM.to_vec(), how, root: root.clone(), note: None };
        let item = spot.stat().ok()??;
        // Nobody who planted it can have known what it would be.
        if Id::from(&item) != about.item {
            return None;
        }
        let trashed = Trashed {
            id: String::from_utf8(id.to_vec()).ok()?,
            path: self.roots.check(root.root(), &about.path.0).ok()?,
            kind: item.kind,
            size_bytes: name.size_bytes,
            deleted_at: (name.time_ms / 1000) as i64,
        };
        Some((trashed, spot, item))
    }
}
