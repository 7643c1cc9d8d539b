//! Whatever a client calls a path: what is located lies below a root by the supervisor's own rules.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stockade::internals::path::{AccessTimes, Hardlinks, Mode, RawPath, Root, RootTable, Symlinks, is_normalised};

fuzz_target!(|input: (&[u8], Option<&[u8]>)| {
    let (path, base_dir) = input;
    let roots = RootTable::new(vec![root("/srv/project"), root("/srv/project/nested"), root("/data")]);
    let base_dir = base_dir.map(|base| RawPath::bytes(base.to_vec()));
    if let Ok(located) = roots.locate(&RawPath::bytes(path.to_vec()), base_dir.as_ref()) {
        assert!(is_normalised(located.rel()), "what the worker locates, the supervisor accepts");
        let whole = roots.absolute(&located);
        assert!(whole.starts_with(&roots.root(&located).path));
        assert!(whole.components().all(|part| !matches!(part, std::path::Component::ParentDir)));
    }
});

fn root(path: &str) -> Root {
    Root {
        path: path.into(),
        mode: Mode::Rw,
        symlinks: Symlinks::Refuse,
        cross_mounts: false,
        hardlinks: Hardlinks::Allow,
        access_times: AccessTimes::OwnerOnly,
    }
}
