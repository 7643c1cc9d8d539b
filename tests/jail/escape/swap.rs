//! Somebody else in the root, who renames while the service looks: the attacker of the races.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};

use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::{attack::INSIDE, support::canary::SECRET};

/// Content of the folder that takes the place of the one that was swapped away.
pub const ALSO_INSIDE: &str = "also inside\n";

/// What is swapped with what. Every variant serves the file `place/d/secret.txt`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Swap {
    /// The folder and a link to the canaries change places.
    FolderAndLink,
    /// The file and a link to the canary change places.
    FileAndLink,
    /// The folder leaves the root; while it is outside, its file is a secret.
    OutAndBack,
    /// The folder and one from outside change places; while it is outside, its file is a secret.
    FolderAndOutsideFolder,
}

/// Where the attacker works: `place` in the root, `elsewhere` beside it, the canaries in `outside`.
pub struct Attacker {
    swap: Swap,
    place: PathBuf,
    elsewhere: PathBuf,
}

fn exchange(one: &Path, other: &Path) {
    renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).unwrap();
}

impl Attacker {
    pub fn plant(swap: Swap, root: &Path) -> Self {
        let dir = root.parent().unwrap();
        let (place, elsewhere) = (root.join("place"), dir.join("elsewhere"));
        fs::create_dir_all(place.join("d")).unwrap();
        fs::write(place.join("d/secret.txt"), INSIDE).unwrap();
        fs::create_dir_all(elsewhere.join("e")).unwrap();
        fs::write(elsewhere.join("e/secret.txt"), ALSO_INSIDE).unwrap();
        fs::write(elsewhere.join("loot"), SECRET).unwrap();
        match swap {
            Swap::FolderAndLink => std::os::unix::fs::symlink(dir.join("outside"), place.join("link")).unwrap(),
            Swap::FileAndLink => {
                std::os::unix::fs::symlink(dir.join("outside/secret.txt"), place.join("link")).unwrap()
            }
            Swap::OutAndBack | Swap::FolderAndOutsideFolder => {}
        }
        Self { swap, place, elsewhere }
    }

    /// From what a client may see to what it may not.
    pub fn away(&self) {
        let folder = self.place.join("d");
        match self.swap {
            Swap::FolderAndLink => exchange(&folder, &self.place.join("link")),
            Swap::FileAndLink => exchange(&folder.join("secret.txt"), &self.place.join("link")),
            Swap::OutAndBack => {
                fs::rename(&folder, self.elsewhere.join("d")).unwrap();
                exchange(&self.elsewhere.join("d/secret.txt"), &self.elsewhere.join("loot"));
            }
            Swap::FolderAndOutsideFolder => {
                exchange(&folder, &self.elsewhere.join("e"));
                exchange(&self.elsewhere.join("e/secret.txt"), &self.elsewhere.join("loot"));
            }
        }
    }

    /// And back: the secret leaves the folder before the folder comes home, so inside it never was one.
    pub fn back(&self) {
        let folder = self.place.join("d");
        match self.swap {
            Swap::FolderAndLink | Swap::FileAndLink => self.away(),
            Swap::OutAndBack => {
                exchange(&self.elsewhere.join("d/secret.txt"), &self.elsewhere.join("loot"));
                fs::rename(self.elsewhere.join("d"), &folder).unwrap();
            }
            Swap::FolderAndOutsideFolder => {
                exchange(&self.elsewhere.join("e/secret.txt"), &self.elsewhere.join("loot"));
                exchange(&folder, &self.elsewhere.join("e"));
            }
        }
    }

    /// Swaps as fast as it can until told to stop; ends where it began.
    pub fn storm(&self, stop: &AtomicBool, swaps: &AtomicU64) {
        while !stop.load(Ordering::Relaxed) {
            self.away();
            self.back();
            swaps.fetch_add(1, Ordering::Relaxed);
        }
    }
}
