//! The real worker, looked at from outside while it serves.

use std::{collections::BTreeMap, fs};

use crate::support::{Client, TestJail, json};

fn status(pid: u32) -> BTreeMap<String, String> {
    fs::read_to_string(format!("/proc/{pid}/status"))
        .unwrap()
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
        .collect()
}

fn descriptors(pid: u32) -> BTreeMap<u32, String> {
    let Ok(table) = fs::read_dir(format!("/proc/{pid}/fd")) else { return BTreeMap::new() };
    table
        .map(|entry| entry.unwrap())
        .filter_map(|entry| {
            let target = fs::read_link(entry.path()).ok()?;
            Some((entry.file_name().to_str()?.parse().ok()?, target.to_str()?.to_owned()))
        })
        .collect()
}

/// The one worker that holds a connection: one descriptor more than a warm one.
fn serving(jail: &TestJail, client: &mut Client) -> u32 {
    for _ in 0..200 {
        client.call("coder::info", json!({})).unwrap();
        let workers = jail.daemon.workers();
        let holding: Vec<_> = workers.iter().filter(|pid| descriptors(**pid).len() == 5).collect();
        let warm = workers.iter().filter(|pid| descriptors(**pid).len() == 4).count();
        if let ([pid], true) = (&holding[..], warm == workers.len() - 1) {
            return **pid;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("no worker holds exactly one connection: {:?}", jail.daemon.workers().map_descriptors());
}

trait MapDescriptors {
    fn map_descriptors(self) -> Vec<BTreeMap<u32, String>>;
}

impl MapDescriptors for Vec<u32> {
    fn map_descriptors(self) -> Vec<BTreeMap<u32, String>> {
        self.into_iter().map(descriptors).collect()
    }
}

#[test]
fn a_serving_worker_is_what_the_design_says() {
    let jail = TestJail::new();
    jail.write("file", "content\n");
    let mut client = jail.connect();
    client.call("coder::info", json!({})).unwrap();
    if !rustix::process::geteuid().is_root() {
        // Undumpable: its files in /proc belong to root, and not even its own user may look.
        let worker = jail.daemon.workers()[0];
        assert!(fs::read_dir(format!("/proc/{worker}/fd")).is_err());
        assert!(fs::read(format!("/proc/{worker}/environ")).is_err());
        return;
    }
    let worker = serving(&jail, &mut client);

    let table = descriptors(worker);
    assert_eq!(table.keys().copied().collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    assert!(table[&0].starts_with("socket:") && table[&4].starts_with("socket:"), "{table:?}");
    assert_eq!(table[&3], "anon_inode:[eventfd]", "its threads' bell");
    assert_eq!((table[&1].as_str(), table[&2].as_str()), ("/dev/null", "/dev/null"));
    assert_eq!(fs::read(format!("/proc/{worker}/environ")).unwrap(), b"");

    let before = status(worker);
    for (field, value) in [("NoNewPrivs", "1"), ("Seccomp", "2"), ("Seccomp_filters", "1")] {
        assert_eq!(before[field], value, "{field}");
    }
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert_eq!(before[set], "0000000000000000", "{set}");
    }
    let limits = fs::read_to_string(format!("/proc/{worker}/limits")).unwrap();
    for (name, value) in [("Max core file size", "0"), ("Max address space", "1073741824")] {
        let line = limits.lines().find(|line| line.starts_with(name)).unwrap();
        let values: Vec<_> = line[name.len()..].split_whitespace().collect();
        assert_eq!(values[..2], [value, value], "{line}");
    }

    for _ in 0..100 {
        let ids: Vec<_> = (0..32)
            .map(|_| client.send("coder::read-file", json!({"paths": ["file", "no", "../out", "file"]})))
            .collect();
        for _ in ids {
            let reply = client.line().expect("an answer");
            // A question whose answer got lost would show here as a deadline.
            assert!(reply["result"]["results"].is_array(), "{reply}");
        }
    }
    let after = status(worker);
    assert_eq!(before["Threads"], after["Threads"], "all threads were there from the start");
    assert_eq!(descriptors(worker), table, "no descriptor stays behind");
    jail.assert_intact();
}
