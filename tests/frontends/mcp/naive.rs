//! A file server as most are: it trusts names, opens what it finds, and means well. Every fault of its like is in it, so that
//! the tests of `faults` are seen to fail.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    time::Duration,
};

use super::{
    faults::Files,
    host::Said,
    support::{Value, json},
};

/// As many calls as it can work on; the others wait.
const THREADS: usize = 2;

type Call = (u64, String, Value);

pub struct Naive {
    calls: Sender<Call>,
    answers: Receiver<(u64, Said)>,
    early: HashMap<u64, Said>,
    last: u64,
    /// Ends what would go on for ever.
    over: Arc<AtomicBool>,
}

impl Naive {
    pub fn serve(root: &Path) -> Self {
        let (calls, taken) = channel::<Call>();
        let (done, answers) = channel();
        let taken = Arc::new(Mutex::new(taken));
        let over = Arc::new(AtomicBool::new(false));
        for _ in 0..THREADS {
            let (taken, done, root, over) = (taken.clone(), done.clone(), root.to_owned(), over.clone());
            std::thread::spawn(move || {
                loop {
                    let call = taken.lock().unwrap().recv();
                    let Ok((id, tool, arguments)) = call else { return };
                    let outcome = answer(&root, &tool, &arguments, &over);
                    let is_error = outcome.is_err();
                    let text = outcome.unwrap_or_else(|error| error);
                    let _ = done.send((id, Said { text, is_error, structured: None }));
                }
            });
        }
        Self { calls, answers, early: HashMap::new(), last: 0, over }
    }
}

impl Drop for Naive {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

impl Files for Naive {
    fn ask(&mut self, tool: &str, arguments: Value) -> u64 {
        self.last += 1;
        self.calls.send((self.last, tool.to_owned(), arguments)).unwrap();
        self.last
    }

    fn answer(&mut self, id: u64, within: Duration) -> Option<Said> {
        if let Some(said) = self.early.remove(&id) {
            return Some(said);
        }
        loop {
            match self.answers.recv_timeout(within) {
                Ok((other, said)) if other == id => return Some(said),
                Ok((other, said)) => drop(self.early.insert(other, said)),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return None,
            }
        }
    }

    fn pids(&self) -> Vec<u32> {
        Vec::new()
    }
}

fn answer(root: &Path, tool: &str, arguments: &Value, over: &AtomicBool) -> Result<String, String> {
    let text = |name: &str| arguments[name].as_str().unwrap_or_default();
    let place = |name: &str| root.join(text(name));
    let words = |error: std::io::Error| error.to_string();
    match tool {
        "read" => Ok(String::from_utf8_lossy(&fs::read(place("path")).map_err(words)?).into_owned()),
        "list" | "tree" | "search" => list(&place("path")),
        "find" => Ok(find(root, arguments["paths"][0].as_str().unwrap(), over)),
        "create" => fs::write(place("path"), text("content")).map(|()| "written".into()).map_err(words),
        "move" => fs::rename(place("from"), place("to")).map(|()| "moved".into()).map_err(words),
        "edit" => {
            let bytes = fs::read(place("path")).map_err(words)?;
            let body = String::from_utf8_lossy(&bytes).replace("\r\n", "\n");
            let body = body.trim_start_matches('\u{feff}').replacen(text("old"), text("new"), 1);
            let path = place("path");
            fs::remove_file(&path).map_err(words)?;
            fs::write(path, body.lines().map(|line| format!("{line}\n")).collect::<String>()).map_err(words)?;
            Ok("edited".into())
        }
        _ => Ok(json!(null).to_string()),
    }
}

/// To say how large each is, it opens each.
fn list(folder: &Path) -> Result<String, String> {
    let mut text = String::new();
    for entry in fs::read_dir(folder).map_err(|error| error.to_string())? {
        let path: PathBuf = entry.unwrap().path();
        let size = fs::File::open(&path).and_then(|file| file.metadata()).map(|facts| facts.len());
        text.push_str(&format!("{} {size:?}\n", path.display()));
    }
    Ok(text)
}

/// Every combination of the braces, one after the other.
fn find(root: &Path, glob: &str, over: &AtomicBool) -> String {
    let pairs = glob.matches("{a,b}").count() as u32;
    let names: Vec<String> =
        fs::read_dir(root).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    let mut found = Vec::new();
    for combination in 0..1u64 << pairs {
        let name: String = (0..pairs).map(|at| if combination >> at & 1 == 1 { 'b' } else { 'a' }).collect();
        if names.contains(&name) {
            found.push(name);
        }
        if over.load(Ordering::Relaxed) {
            break;
        }
    }
    found.join("\n")
}
