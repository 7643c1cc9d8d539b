//! `coder::tree`: a folder and what is below it, level by level, up to the depth, the limit or the budget.
//!
//! `visit` decides which folders the walk lists, `budget` keeps the reply within its bytes, `hint` writes the notes for what
//! was left out.

mod budget;
mod hint;
mod visit;

use super::{
    Handler, folder,
    names::{decode_path, encode_path},
    near::explain_missing,
};
use crate::{
    broker::{Intent, Question},
    jail::{Call, Jail, Located, walk::RulesAbove},
    path::{JailPath, RawPath},
    wire::{
        Result,
        types::tree::{Tree, TreeNode, TreeRequest, TreeResponse},
    },
};
use budget::{TreeBudget, json_len};
use hint::Hints;
use visit::{TreeOptions, TreeVisitor};

impl Handler for Tree {
    fn questions(jail: &Jail, request: &TreeRequest) -> Vec<Question> {
        let top = sent_folder(request).ok().and_then(|(name, base_dir)| jail.locate_early(&name, base_dir.as_ref()));
        top.iter().map(|top| top.question(Intent::Read)).collect()
    }

    fn run(jail: &Jail, call: &mut Call, request: TreeRequest) -> Result<TreeResponse> {
        let (sent, base_dir) = sent_folder(&request)?;
        let opened = jail.locate(call, &sent, base_dir.as_ref()).and_then(|top| {
            let entry = jail.open(call, &top, Intent::Read)?;
            Ok((top, entry))
        });
        let (top, entry) = opened.map_err(|error| explain_missing(jail, call, &sent, base_dir.as_ref(), error))?;
        let (path, path_bytes) = encode_path(jail, &top.path);
        let (name, name_bytes) = root_name(jail, &top);
        let stat = *entry.stat();
        let root = TreeNode {
            name,
            name_bytes,
            kind: folder::wire_kind(stat.kind),
            size: stat.size_bytes,
            mtime: stat.mtime,
            non_accessible: false,
            mount_point: false,
            children: None,
            truncated: None,
        };
        let obeys_ignore_files = request.gitignore == Some(true);
        // The longest number that the reply may have to hold.
        let mut response =
            TreeResponse { path, path_bytes, root, ignored: if obeys_ignore_files { u64::MAX } else { 0 } };
        let budget = TreeBudget::new(call.limits.tree_response_budget_bytes, json_len(&response));
        let dir = entry.open_dir(jail, call)?;
        let options = options(jail, call, &request, dir.path());
        let hints = Hints::new(&sent, &call.limits, options.max_depth);
        let above = if obeys_ignore_files { RulesAbove::read(jail, call, dir.path())? } else { RulesAbove::default() };
        let visitor = TreeVisitor::new(jail, call, options, hints);
        (response.root, response.ignored) = visitor.run(&dir, above, budget, response.root)?;
        Ok(response)
    }
}

fn sent_folder(request: &TreeRequest) -> Result<(RawPath, Option<RawPath>)> {
    let name = decode_path(request.path.as_deref(), request.path_bytes.as_deref())?;
    Ok((name.unwrap_or_else(|| RawPath::text(".")), request.base_dir.as_deref().map(RawPath::text)))
}

fn options(jail: &Jail, call: &Call, request: &TreeRequest, top: &JailPath) -> TreeOptions {
    let limits = &call.limits;
    TreeOptions {
        max_depth: request.max_depth.unwrap_or(limits.tree_default_depth).min(limits.tree_max_depth),
        per_folder_limit: request.per_folder_limit.unwrap_or(limits.tree_per_folder_limit).max(1).into(),
        // A caller that names an excluded folder wants to see it.
        obeys_ignore_files: request.gitignore == Some(true),
        excludes: request.use_default_excludes != Some(false) && !jail.excludes().has_folder(top),
    }
}

/// The last name of the canonical path; `.` for the root of the file system.
fn root_name(jail: &Jail, top: &Located) -> (String, Option<String>) {
    use std::os::unix::ffi::OsStrExt;
    let path = jail.roots().absolute(&top.path);
    super::names::encode_name(path.file_name().map_or(b".", OsStrExt::as_bytes))
}

#[cfg(test)]
mod bound_tests;
#[cfg(test)]
mod ignore_tests;
#[cfg(test)]
mod tests;
