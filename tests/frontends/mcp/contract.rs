//! The protocol: both revisions that are alive, what is offered, and lines that are no messages.

use super::{
    host::{Host, Place, Said, command},
    support::{Options, TestJail, Value, json},
};

const ALL: [&str; 12] =
    ["info", "read", "create", "edit", "delete", "list", "tree", "move", "copy", "restore", "find", "search"];

/// What a request of the revision without a handshake says about its sender.
fn stateless() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

#[test]
fn handshake_says_who_is_there_and_what_it_offers() {
    let place = Place::new();
    let mut host = Host::start(command(&["--root", place.root.to_str().unwrap()]));
    let hello = host.initialize(json!({}));
    assert_eq!(hello["protocolVersion"], "2025-11-25");
    assert_eq!(hello["serverInfo"]["name"], "stockade");
    assert!(hello["capabilities"]["tools"].is_object() && hello["capabilities"]["resources"].is_object());
    assert!(hello["capabilities"].get("prompts").is_none());
    assert_eq!(host.request("ping", json!({})).unwrap(), json!({}));
    assert_eq!(host.tool_names(), ALL);
}

#[test]
fn older_revisions_are_answered_in_their_own() {
    let place = Place::new();
    for version in ["2024-11-05", "2025-03-26", "2025-06-18"] {
        let mut host = Host::start(command(&["--root", place.root.to_str().unwrap()]));
        let params =
            json!({"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        assert_eq!(host.request("initialize", params).unwrap()["protocolVersion"], version);
    }
}

#[test]
fn without_a_handshake_every_request_speaks_for_itself() {
    let place = Place::new();
    place.write("a.txt", "hello\n");
    let mut host = Host::start(command(&["--root", place.root.to_str().unwrap()]));
    let found = host.request("server/discover", json!({"_meta": stateless()})).unwrap();
    let versions: Vec<&str> =
        found["supportedVersions"].as_array().unwrap().iter().map(|v| v.as_str().unwrap()).collect();
    assert!(versions.contains(&"2025-11-25") && versions.contains(&"2026-07-28"), "{versions:?}");
    let params = json!({"name": "read", "arguments": {"path": "a.txt"}, "_meta": stateless()});
    let result = host.request("tools/call", params).unwrap();
    assert_eq!(result["resultType"], "complete");
    assert!(Said::of(&result).ok().ends_with("1→hello\n"));
    let listed = host.request("tools/list", json!({"_meta": stateless()})).unwrap();
    assert_eq!(listed["tools"].as_array().unwrap().len(), ALL.len());
}

/// Nor can a host that began so become one that does not have to, in any way of writing a call.
#[test]
fn a_conversation_without_a_handshake_stays_one() {
    let place = Place::new();
    for first in ["tools/list", "prompts/list"] {
        let mut host = Host::start(command(&["--root", place.root.to_str().unwrap()]));
        let _ = host.request(first, json!({"_meta": stateless()}));
        host.notify("notifications/initialized", json!({}));
        assert_metadata_is_needed(&mut host);
        let client = json!({"name": "test", "version": "1"});
        let hello =
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client, "_meta": stateless()});
        let refused = host.request("initialize", hello).expect_err("this revision has no such method");
        assert_eq!(refused["code"], -32601, "{refused}");
        host.notify("notifications/initialized", json!({}));
        assert_metadata_is_needed(&mut host);
    }
}

fn assert_metadata_is_needed(host: &mut Host) {
    host.request("server/discover", json!({"_meta": stateless()})).unwrap();
    for more in [json!({}), json!({"unknown": 1})] {
        let mut call = json!({"name": "info", "arguments": {}});
        call.as_object_mut().unwrap().append(&mut more.as_object().unwrap().clone());
        let refused = host.request("tools/call", call).expect_err("it says nothing about itself");
        assert_eq!(refused["code"], -32602, "{refused}");
    }
}

#[test]
fn a_notification_before_the_handshake_does_no_harm() {
    let place = Place::new();
    let mut host = Host::start(command(&["--root", place.root.to_str().unwrap()]));
    host.notify("notifications/cancelled", json!({"requestId": 7}));
    host.request("tools/list", json!({})).expect_err("neither handshake nor metadata");
    host.notify("notifications/initialized", json!({}));
    assert_eq!(host.initialized().tool_names(), ALL);
}

#[test]
fn a_line_that_is_no_message_is_answered_and_the_next_is_served() {
    let place = Place::new();
    let mut host = place.host(&[]);
    for (line, code) in [
        ("garbage", -32700),
        ("{\"jsonrpc\":\"2.0\",\"id\":", -32700),
        ("[]", -32600),
        ("7", -32600),
        ("{\"jsonrpc\":\"2.0\"}", -32600),
        ("{}", -32600),
    ] {
        host.send_line(line);
        let answer = host.line();
        assert_eq!(answer["error"]["code"], code, "{line}: {answer}");
        assert!(answer.get("id").is_none_or(Value::is_null));
    }
    host.send_line("{\"jsonrpc\":\"1.0\",\"id\":\"x\",\"method\":\"ping\"}");
    let answer = host.line();
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!("x"), &json!(-32600)), "{answer}");
    host.send_line("");
    host.send_line(" {\"jsonrpc\":\"2.0\",\"id\":\"y\",\"method\":\"ping\"}\r");
    assert_eq!(host.line()["id"], "y");
    assert_eq!(host.request("nonsense", json!({})).unwrap_err()["code"], -32601);
    assert_eq!(host.request("tools/call", json!({"name": 7})).unwrap_err()["code"], -32602);
    assert!(!host.tool("info", json!({})).is_error);
}

#[test]
fn a_line_without_end_is_refused_and_the_next_is_served() {
    let place = Place::new();
    let mut host = place.host(&[]);
    let block = "x".repeat(1 << 20);
    for _ in 0..66 {
        host.send_part(&block);
    }
    assert_eq!(host.line()["error"]["code"], -32600);
    assert!(crate::support::process::resident_bytes(host.pid()) < 100 << 20);
    host.send_line("still the same line");
    assert_eq!(host.request("ping", json!({})).unwrap(), json!({}));
}

#[test]
fn a_read_only_service_offers_no_tool_that_changes() {
    let place = Place::new();
    let root = format!("{}:ro", place.root.display());
    let mut host = Host::start(command(&["--root", &root])).initialized();
    assert_eq!(host.tool_names(), ["info", "read", "list", "tree", "find", "search"]);
    assert!(host.tools().iter().all(|tool| tool["annotations"]["readOnlyHint"] == true));
    assert_eq!(host.tool("create", json!({"path": "x", "content": ""})).code(), "C210");
    assert!(!place.root.join("x").exists());
}

#[test]
fn the_operator_limits_tools_further() {
    let place = Place::new();
    let mut host = place.host(&["--tools", "read,edit"]);
    assert_eq!(host.tool_names(), ["read", "edit"]);
    assert_eq!(host.tool("delete", json!({"path": "x"})).code(), "C210");
    let ran = command(&["--root", ".", "--tools", "raed"]).output().unwrap();
    assert_eq!(ran.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&ran.stderr).contains("did you mean read?"));
}

#[test]
fn hints_are_honest() {
    let place = Place::new();
    for tool in place.host(&[]).tools() {
        let name = tool["name"].as_str().unwrap();
        let hints = &tool["annotations"];
        let reads = ["info", "read", "list", "tree", "find", "search"].contains(&name);
        assert_eq!(hints["readOnlyHint"], reads, "{name}");
        assert_eq!(hints["openWorldHint"], false, "{name}");
        assert_eq!(hints["destructiveHint"], !reads, "{name} can replace or remove");
        assert_eq!(hints["idempotentHint"], !["edit", "move"].contains(&name), "{name}");
        assert!(tool["title"].is_string(), "{name}");
    }
}

#[test]
fn structured_replies_fit_their_schema_and_carry_the_text_too() {
    let place = Place::new();
    place.write("a.txt", "needle in here\n");
    let mut host = place.host(&["--structured"]);
    assert!(host.tools().iter().all(|tool| tool["outputSchema"]["type"] == "object"));
    let said = host.tool("read", json!({"path": "a.txt"}));
    assert_eq!(said.structured.unwrap()["content"], "1→needle in here\n");
    assert!(said.text.ends_with("\n1→needle in here\n"), "{}", said.text);
    let failed = host.tool("read", json!({"path": "missing"}));
    assert_eq!((failed.code(), &failed.structured), ("C211", &None));
    let refused = host.tool("create", json!({"path": "a.txt", "content": ""}));
    assert_eq!((refused.code(), &refused.structured), ("C217", &None));
    assert!(place.host(&[]).tools().iter().all(|tool| tool.get("outputSchema").is_none()));
}

#[test]
fn it_is_a_client_of_a_running_service_too() {
    let jail = TestJail::with(Options { suffix: ":ro", ..Options::default() });
    jail.write("a.txt", "x\n");
    let mut host = Host::start(command(&["--socket", jail.socket.to_str().unwrap()])).initialized();
    assert!(host.tool("read", json!({"path": "a.txt"})).ok().contains("1→x"));
    assert!(!host.tool_names().contains(&"edit".into()));
    drop(host);
    jail.assert_intact();
}

#[test]
fn files_are_resources() {
    let place = Place::new();
    place.write("a b/ü.txt", "text\n");
    place.write("z.bin", [0xff, 0x00, 0x01]);
    let mut host = place.host(&[]);
    let listed = host.request("resources/list", json!({})).unwrap();
    let uris: Vec<&str> = listed["resources"].as_array().unwrap().iter().map(|r| r["uri"].as_str().unwrap()).collect();
    let root = format!("file://{}", place.root.display());
    let (text, binary) = (format!("{root}/a%20b/%C3%BC.txt"), format!("{root}/z.bin"));
    assert!(uris.contains(&text.as_str()) && uris.contains(&binary.as_str()), "{uris:?}");
    let mut read = |uri: &str| host.request("resources/read", json!({"uri": uri}));
    assert_eq!(read(&text).unwrap()["contents"][0]["text"], "text\n");
    assert_eq!(read(&binary).unwrap()["contents"][0]["blob"], "/wAB");
    let outside = read("file:///etc/passwd").unwrap_err();
    assert_eq!((&outside["code"], &outside["data"]["code"]), (&json!(-32002), &json!("C215")));
    assert_eq!(read("http://x").unwrap_err()["code"], -32002);
    let skill = read("stockade://skill").unwrap();
    assert_eq!(skill["contents"][0]["text"], include_str!("../../../docs/skill.md"));
    let templates = host.request("resources/templates/list", json!({})).unwrap();
    assert_eq!(templates["resourceTemplates"][0]["uriTemplate"], "file://{+path}");
}

/// Files are resources as far as their tools are offered: `read` for contents, `find` for the list.
#[test]
fn resources_obey_the_choice_of_tools() {
    let place = Place::new();
    place.write("secret.txt", "hunter2\n");
    let uri = format!("file://{}/secret.txt", place.root.display());
    for (tools, reads, lists) in [
        ("list", false, false),
        ("find,search,info", false, false),
        ("read", true, false),
        ("read,list", true, false),
        ("read,find", true, true),
    ] {
        let mut host = place.host(&["--tools", tools]);
        let read = host.request("resources/read", json!({ "uri": uri }));
        assert_eq!(read.is_ok(), reads, "{tools}: {read:?}");
        if let Err(refused) = read {
            assert_eq!(refused["code"], -32002, "{refused}");
            assert!(!refused.to_string().contains("hunter2"));
        }
        let listed = host.request("resources/list", json!({})).unwrap().to_string();
        assert_eq!(listed.contains("secret.txt"), lists, "{tools}");
        assert!(listed.contains("stockade://skill"));
        let templates = host.request("resources/templates/list", json!({})).unwrap();
        assert_eq!(!templates["resourceTemplates"].as_array().unwrap().is_empty(), reads, "{tools}");
        assert!(host.request("resources/read", json!({"uri": "stockade://skill"})).is_ok());
    }
}

#[test]
fn long_lists_of_resources_come_in_pages() {
    let place = Place::new();
    (0..450).for_each(|n| drop(place.write(&format!("f{n:03}"), "")));
    let mut host = place.host(&[]);
    let (mut seen, mut cursor) = (std::collections::BTreeSet::new(), None);
    loop {
        let params = cursor.map_or(json!({}), |cursor: Value| json!({ "cursor": cursor }));
        let mut page = host.request("resources/list", params).unwrap();
        for resource in page["resources"].as_array().unwrap() {
            let uri = resource["uri"].as_str().unwrap();
            assert!(!uri.starts_with("file:") || seen.insert(uri.to_owned()), "{uri} twice");
        }
        match page.get_mut("nextCursor") {
            Some(next) => cursor = Some(next.take()),
            None => break,
        }
    }
    assert_eq!(seen.len(), 450);
}

#[test]
fn configuration_of_every_host_starts_this_very_server() {
    let place = Place::new();
    let root = place.root.to_str().unwrap();
    for (name, key) in [
        ("claude", "mcpServers"),
        ("claude-desktop", "mcpServers"),
        ("cursor", "mcpServers"),
        ("vscode", "servers"),
        ("copilot", "mcpServers"),
        ("zed", "context_servers"),
        ("gemini", "mcpServers"),
        ("opencode", "mcp"),
        ("windsurf", "mcpServers"),
        ("cline", "mcpServers"),
        ("jetbrains", "mcpServers"),
        ("json", "mcpServers"),
    ] {
        let ran = command(&["--root", root, "--print-config", name]).output().unwrap();
        let block: Value = serde_json::from_slice(&ran.stdout).unwrap();
        let entry = &block[key]["stockade"];
        let words = |list: &Value| -> Vec<String> { serde_json::from_value(list.clone()).unwrap() };
        let whole = match entry["command"].as_str() {
            Some(program) => [vec![program.to_owned()], words(&entry["args"])].concat(),
            None => words(&entry["command"]),
        };
        let mut command = std::process::Command::new(&whole[0]);
        command.args(&whole[1..]).envs([crate::support::NO_STATE]).current_dir("/");
        let mut host = Host::start(command).initialized();
        assert!(host.tool("info", json!({})).ok().contains(root), "{name}");
    }
}
