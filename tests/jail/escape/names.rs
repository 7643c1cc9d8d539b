//! Paths and names: what a client can write into a request, without any help on disk.

use super::{
    attack::{Attack, INSIDE, claims},
    support::{Build, TestJail, canary::SECRET, json},
};

claims! {
    climbing_out_is_refused: Attack::on([
        "../outside/secret.txt", "a/../../outside/secret.txt", "a/b/../../../outside/secret.txt",
        "./../outside/secret.txt", "..//outside//secret.txt", "..", "../", "a/../..", "../outside", "../outside/.",
        "../root/../outside/secret.txt", "../../../../../../../../etc/passwd", "inside.txt/../../outside/secret.txt",
    ]).answers(&["C215"]);

    climbing_out_and_back_is_refused: Attack::on(["../root/inside.txt", "a/../../root/inside.txt", "../root"])
        .answers(&["C215"]).stays_inside();

    dots_that_stay_inside_vanish: Attack::on([
        "./inside.txt", "a/../inside.txt", ".//./inside.txt", "no/such/../../inside.txt", "inside.txt/",
        "inside.txt/.", "inside.txt/../inside.txt",
    ]).answer_reads(&["ok"]).answer_lists(&["C210"]).stays_inside();

    an_absolute_path_outside_is_refused: Attack::on([
        "{outside}/secret.txt", "//{outside}/secret.txt", "/{outside}/./secret.txt", "{outside}", "/etc/passwd",
        "/proc/self/environ", "/proc/self/exe", "/proc/1/environ", "/dev/zero", "/etc", "/..", "/../..",
        "{root}/..", "{root}/../outside/secret.txt", "{root}/a/../../outside/secret.txt",
    ]).answers(&["C215"]);

    the_file_system_root_is_refused: Attack::on(["/", "//", "/.", "///"]).answers(&["C215"]).stays_inside();

    a_sibling_that_shares_the_roots_beginning_is_outside: Attack::on([
        "{root}-evil/secret.txt", "{root}-evil", "{root}evil", "{root}-evil/../root-evil/secret.txt",
        "../root-evil/secret.txt", "{root}/../root-evil/secret.txt",
    ]).planted(|ground| {
        std::fs::create_dir(ground.dir.join("root-evil")).unwrap();
        std::fs::write(ground.dir.join("root-evil/secret.txt"), SECRET).unwrap();
    }).answers(&["C215"]);

    an_absolute_path_inside_is_served: Attack::on([
        "{root}/inside.txt", "{root}//inside.txt", "{root}/../root/inside.txt", "/..{root}/inside.txt",
    ]).answer_reads(&["ok"]).answer_lists(&["C210"]).stays_inside();

    the_root_itself_is_a_folder: Attack::on(["", ".", "./", "{root}", "{root}/", "a/.."])
        .answer_reads(&["C210"]).answer_lists(&["ok"]).stays_inside();

    a_nul_byte_is_refused: Attack::on([
        "inside.txt\0", "inside\0.txt", "\0", "\0inside.txt", "../outside/secret.txt\0.md", "inside.txt\0/../../outside",
        "{root}/inside.txt\0", "/etc/passwd\0",
    ]).answers(&["C210"]);

    a_nul_byte_in_bytes_is_refused: Attack::on([&b"inside.txt\0"[..], b"\0", b"\xff\0"]).answers(&["C210"]);

    encoded_climbs_are_plain_names: Attack::on([
        "%2e%2e/outside/secret.txt", "..%2foutside%2fsecret.txt", "%2e%2e%2foutside%2fsecret.txt",
        "%252e%252e/outside/secret.txt", "..\\outside\\secret.txt", "..\\..\\..\\etc\\passwd",
        "..%5coutside%5csecret.txt", "..;/outside/secret.txt", ".. /outside/secret.txt", ".../outside/secret.txt",
        "\u{ff0e}\u{ff0e}/outside/secret.txt", "..\u{2215}outside\u{2215}secret.txt", "..\u{ff0f}outside",
        "~/secret.txt", "~root/.ssh", "$HOME/.ssh", "`id`", "file://{outside}/secret.txt", "&#46;&#46;/outside",
        "\u{202e}../outside", "..\u{200b}/outside/secret.txt",
    ]).answers(&["C211"]);

    overlong_utf8_is_a_plain_name: Attack::on([
        &b"\xc0\xae\xc0\xae/outside/secret.txt"[..], b"\xe0\x80\xae\xe0\x80\xae/outside/secret.txt",
        b"..\xc0\xafoutside\xc0\xafsecret.txt", b"\xf0\x80\x80\xae\xf0\x80\x80\xae/outside", b"\xff", b"\xfe/\xff",
    ]).answers(&["C211"]);

    climbing_in_bytes_is_refused: Attack::on([
        &b"../outside/secret.txt"[..], b"\xff/../../outside/secret.txt", b"/etc/passwd", b"\xff/../..",
    ]).answers(&["C215"]);

    a_name_of_255_bytes_is_served: Attack::on([format!("{:a<255}", "")])
        .planted(|ground| { ground.file(format!("{:a<255}", ""), INSIDE); })
        .answer_reads(&["ok"]).answer_lists(&["C210"]);

    a_name_of_256_bytes_is_refused: Attack::on([
        format!("{:a<256}", ""), format!("a/{:b<256}/c", ""), format!("{{root}}/{:a<4000}", ""), "é".repeat(128),
    ]).answers(&["C210"]);

    a_path_of_4096_bytes_is_looked_for: Attack::on(["a/".repeat(2048), format!("{}a", "b/".repeat(2047))])
        .answers(&["C211"]);

    a_longer_path_is_refused: Attack::on([
        format!("{}a", "a/".repeat(2048)), "a/".repeat(10_000), "../".repeat(10_000), "./".repeat(10_000),
        "/".repeat(10_000), "x".repeat(100_000),
    ]).answers(&["C210"]);

    climbing_a_thousand_times_is_refused: Attack::on(["../".repeat(1365), format!("a{}", "/..".repeat(1000))])
        .answers(&["C215"]).stays_inside();

    a_thousand_detours_end_where_they_should: Attack::on([
        format!("{}inside.txt", "x/../".repeat(800)), format!("{}inside.txt", "./".repeat(2000)),
    ]).answer_reads(&["ok"]).answer_lists(&["C210"]).stays_inside();

    patterns_and_options_match_nothing: Attack::on([
        "*", "*.txt", "inside.*", "?nside.txt", "[i]nside.txt", "{inside,x}.txt", "**/inside.txt", "-rf", "--help",
        "-", "--", "inside.txt;id", "inside.txt|id", "$(id)", "\"inside.txt\"", "'inside.txt'", "inside.txt ",
        " inside.txt", "inside.txt\n", "inside.txt.", "INSIDE.TXT",
    ]).answers(&["C211"]);

    device_names_of_other_systems_match_nothing: Attack::on([
        "CON", "NUL", "AUX", "COM1", "LPT1.txt", "inside.txt:stream", "inside.txt::$DATA", "C:/x", "C:\\x",
        "\\\\?\\C:\\x", "COM\u{b9}", "inside~1.txt",
    ]).answers(&["C211"]);
}

/// Names that a shell, a glob or another system would give a meaning to are the names of their files.
#[test]
fn strange_names_are_read_as_they_are_written() {
    let names = [
        "-rf",
        "*",
        "[",
        "{a,b}",
        "?",
        "--help",
        " ",
        "a\nb",
        "$(id)",
        ";ls",
        "|id",
        "%2e%2e",
        "..a",
        "...",
        "a..",
        "\\..\\",
        "CON",
        "a:b",
        "NUL.txt",
        "a::$DATA",
        "~",
        "#",
        "\u{202e}",
        "\u{1b}[2J",
        "\"",
        "é",
        "e\u{301}",
    ];
    for build in Build::attacked() {
        let jail = TestJail::build(build);
        let mut client = jail.connect();
        for name in names {
            jail.write(name, format!("this is {name:?}"));
        }
        for name in names {
            let reply = client.call("coder::read-file", json!({"path": name})).expect(name);
            assert_eq!(reply["content"], json!(format!("this is {name:?}")), "{build:?}");
            let reply = client.call("coder::read-file", json!({"paths": [name]})).expect(name);
            assert_eq!(reply["results"][0]["content"], json!(format!("this is {name:?}")), "{build:?}");
        }
        let listed = client.call("coder::list-folder", json!({})).unwrap();
        let mut listed: Vec<_> =
            listed["entries"].as_array().unwrap().iter().map(|e| e["name"].as_str().unwrap()).collect();
        let mut expected = names.to_vec();
        listed.sort_unstable();
        expected.sort_unstable();
        assert_eq!(listed, expected, "{build:?}");
        jail.assert_intact();
    }
}

#[test]
fn a_name_that_is_not_utf8_is_read_by_its_bytes_and_by_nothing_else() {
    use base64::{Engine, engine::general_purpose::STANDARD};
    use std::os::unix::ffi::OsStrExt;
    for build in Build::attacked() {
        let jail = TestJail::build(build);
        let name = b"caf\xe9\xff.txt";
        std::fs::write(jail.root.join(std::ffi::OsStr::from_bytes(name)), INSIDE).unwrap();
        let bytes = STANDARD.encode(name);
        let reply = jail.call("coder::read-file", json!({"path_bytes": bytes})).expect("reads");
        assert_eq!(reply["content"], json!(INSIDE));
        let listed = jail.call("coder::list-folder", json!({})).unwrap();
        assert_eq!(listed["entries"][0]["name_bytes"], json!(bytes), "{build:?}");
        let lossy = listed["entries"][0]["name"].as_str().unwrap().to_owned();
        assert_eq!(jail.read(&lossy).expect_err("the lossy name is another name").code(), "C211");
        jail.assert_intact();
    }
}
