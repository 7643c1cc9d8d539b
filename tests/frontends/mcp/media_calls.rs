//! Files that are not text: images are shown as images, others in one line.

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};

use super::{
    host::{Host, Place},
    support::{Value, json},
};

/// A PNG file with the header of a real one and as many bytes as are asked for.
fn png(width: u32, height: u32, size: usize) -> Vec<u8> {
    let header =
        [b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".as_slice(), &width.to_be_bytes(), &height.to_be_bytes(), &[8, 6, 0, 0, 0]];
    let mut bytes = header.concat();
    bytes.resize(size.max(bytes.len()), 0xa7);
    bytes
}

fn blocks(host: &mut Host, arguments: Value) -> Vec<Value> {
    let result = host.request("tools/call", json!({"name": "read", "arguments": arguments})).unwrap();
    assert_eq!(result["isError"], false, "{result}");
    result["content"].as_array().unwrap().clone()
}

#[test]
fn images_are_shown_as_images() {
    let place = Place::new();
    let (small, large) = (png(640, 480, 5000), png(1, 2, 400 << 10));
    place.write("small.png", &small);
    place.write("large", &large);
    place.write("a.gif", [b"GIF89a".as_slice(), &[9, 0, 7, 0, 0, 0, 0, 1, 2, 0xff]].concat());
    let mut host = place.host(&[]);
    for (name, bytes, kind, mime_type) in [
        ("small.png", small, "PNG image, 640×480, 5000 bytes", "image/png"),
        ("large", large, "PNG image, 1×2, 409600 bytes", "image/png"),
        ("a.gif", std::fs::read(place.root.join("a.gif")).unwrap(), "GIF image, 9×7, 16 bytes", "image/gif"),
    ] {
        let shown = blocks(&mut host, json!({ "path": name }));
        assert_eq!(shown.len(), 2, "{name}");
        let text = shown[0]["text"].as_str().unwrap();
        assert!(text.starts_with(&format!("{name}: {kind}")) && text.lines().count() == 1, "{text}");
        assert_eq!((&shown[1]["type"], &shown[1]["mimeType"]), (&json!("image"), &json!(mime_type)));
        assert_eq!(BASE64.decode(shown[1]["data"].as_str().unwrap()).unwrap(), bytes);
    }
    let both = blocks(&mut host, json!({"paths": ["small.png", "a.gif", "missing"]}));
    assert_eq!(both.len(), 3);
    let text = blocks(&mut host, json!({"path": "small.png", "encoding": "base64"}));
    assert!(text.len() == 1 && text[0]["text"].as_str().unwrap().contains("iVBORw0KGgo"));
}

#[test]
fn a_large_image_is_one_line_with_its_size() {
    let place = Place::new();
    place.write("huge.png", png(6000, 4000, 4 << 20));
    let mut host = place.host(&[]);
    let shown = blocks(&mut host, json!({"path": "huge.png"}));
    let text = shown[0]["text"].as_str().unwrap();
    assert!(text.starts_with("huge.png: PNG image, 6000×4000, 4194304 bytes"), "{text}");
    assert!(text.contains("too large to be shown here; next: read {") && shown.len() == 1, "{text}");
    assert_eq!(text.lines().count(), 1);
}

/// Such an image is no longer than others and would be refused by the model, in every later request of the conversation, too.
#[test]
fn an_image_with_too_many_pixels_is_one_line_with_its_size() {
    let place = Place::new();
    place.write("wide.png", png(8001, 1, 0));
    place.write("limit.png", png(8000, 8000, 0));
    let mut host = place.host(&[]);
    let shown = blocks(&mut host, json!({"path": "wide.png"}));
    let text = shown[0]["text"].as_str().unwrap();
    assert!(text.contains("8001×1") && text.contains("too large to be shown here") && shown.len() == 1, "{text}");
    assert_eq!(blocks(&mut host, json!({"path": "limit.png"})).len(), 2);
}

#[test]
fn other_binary_files_are_one_line_with_the_call_for_their_bytes() {
    let place = Place::new();
    let bytes = [b"\x7fELF\x02\x01\x01\0".as_slice(), &[0; 300]].concat();
    place.write("program", &bytes);
    place.write("data", b"a\0b");
    place.write("latin.txt", b"caf\xe9\n");
    let mut host = place.host(&[]);
    for arguments in [
        json!({"path": "program"}),
        json!({"path": "program", "line_from": 1, "line_to": 2}),
        json!({"path": "program", "tail": 3}),
    ] {
        let said = host.tool("read", arguments).ok();
        assert!(said.starts_with("program: ELF program or library, 308 bytes") && said.lines().count() == 1, "{said}");
        let next = said.rsplit_once("; next: read ").unwrap().1;
        let read = host.tool("read", serde_json::from_str(next.trim()).unwrap()).ok();
        assert!(read.contains(&BASE64.encode(&bytes)), "{read}");
    }
    assert!(host.tool("read", json!({"path": "data"})).ok().starts_with("data: binary file, 3 bytes"));
    assert!(host.tool("read", json!({"path": "data", "encoding": "utf-8"})).ok().ends_with("\n1→a\0b"));
    assert!(host.tool("read", json!({"path": "latin.txt"})).ok().ends_with("\n1→caf\u{fffd}\n"));
}

#[test]
fn resources_have_the_type_of_their_content() {
    let place = Place::new();
    place.write("a.md", "# a\n");
    place.write("b.json", "{}\n");
    place.write("c.rs", "fn main() {}\n");
    place.write("wrong.txt", png(1, 1, 200 << 10));
    place.write("d.bin", [0, 1, 2]);
    let mut host = place.host(&[]);
    let mut read = |name: &str| {
        let uri = format!("file://{}/{name}", place.root.display());
        host.request("resources/read", json!({ "uri": uri })).unwrap()["contents"][0].clone()
    };
    for (name, mime_type, is_text) in [
        ("a.md", "text/markdown", true),
        ("b.json", "application/json", true),
        ("c.rs", "text/plain", true),
        ("wrong.txt", "image/png", false),
        ("d.bin", "application/octet-stream", false),
    ] {
        let content = read(name);
        assert_eq!(content["mimeType"], mime_type, "{name}");
        assert_eq!((content["text"].is_string(), content["blob"].is_string()), (is_text, !is_text), "{name}");
    }
    let listed = host.request("resources/list", json!({})).unwrap();
    let named =
        |name: &str| listed["resources"].as_array().unwrap().iter().find(|one| one["name"] == name).unwrap().clone();
    assert_eq!(named("a.md")["mimeType"], "text/markdown");
    assert!(named("c.rs").get("mimeType").is_none());
}
