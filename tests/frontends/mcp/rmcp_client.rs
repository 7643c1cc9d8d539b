//! `rmcp` as a client: an independent reader of every message, with its own types for all of them. Lists and calls every tool.

use std::{collections::BTreeSet, os::fd::OwnedFd, os::unix::net::UnixStream as StdStream};

use rmcp::{
    ServiceExt,
    model::{CallToolRequestParams, ReadResourceRequestParams},
};
use tokio::net::UnixStream;

use super::{
    host::{Place, command},
    support::{Value, json},
};

/// One good call of each tool, in an order in which each finds what it needs.
fn calls() -> Vec<(&'static str, Value)> {
    vec![
        ("info", json!({})),
        ("create", json!({"path": "a.txt", "content": "one\ntwo\n"})),
        ("read", json!({"path": "a.txt"})),
        ("edit", json!({"path": "a.txt", "old": "two", "new": "three"})),
        ("search", json!({"query": "three"})),
        ("find", json!({"paths": ["*.txt"]})),
        ("list", json!({})),
        ("tree", json!({})),
        ("copy", json!({"from": "a.txt", "to": "b.txt"})),
        ("move", json!({"from": "b.txt", "to": "c.txt"})),
        ("delete", json!({"path": "c.txt", "trash": true})),
        ("restore", json!({"list": true})),
    ]
}

#[test]
fn rmcp_lists_and_calls_every_tool() {
    for structured in [false, true] {
        let place = Place::new();
        let (ours, theirs) = StdStream::pair().unwrap();
        let mut command = command(&["--root", place.root.to_str().unwrap()]);
        if structured {
            command.arg("--structured");
        }
        let stdout = OwnedFd::from(theirs.try_clone().unwrap());
        let mut child = command.stdin(OwnedFd::from(theirs)).stdout(stdout).spawn().unwrap();
        drop(command);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            ours.set_nonblocking(true).unwrap();
            let client = ().serve(UnixStream::from_std(ours).unwrap()).await.unwrap();
            assert_eq!(client.peer_info().unwrap().server_info.as_ref().unwrap().name, "stockade");
            let tools = client.list_all_tools().await.unwrap();
            let listed: BTreeSet<String> = tools.iter().map(|tool| tool.name.to_string()).collect();
            assert_eq!(listed, calls().iter().map(|(name, _)| (*name).to_owned()).collect());
            for (name, arguments) in calls() {
                let arguments = arguments.as_object().unwrap().clone();
                let call = CallToolRequestParams::new(name).with_arguments(arguments);
                let result = client.call_tool(call).await.unwrap();
                assert_ne!(result.is_error, Some(true), "{name}: {result:?}");
                assert_eq!(result.structured_content.is_some(), structured, "{name}");
                assert_eq!(result.content.len(), 1, "{name}");
            }
            let resources = client.list_all_resources().await.unwrap();
            let file = resources.iter().find(|resource| resource.uri.ends_with("/a.txt")).unwrap();
            client.read_resource(ReadResourceRequestParams::new(file.uri.clone())).await.unwrap();
            client.cancel().await.unwrap();
        });
        drop(runtime);
        assert!(child.wait().unwrap().success());
    }
}
