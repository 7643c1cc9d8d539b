//! Links inside the root: somebody planted them, the client only names them.

use super::attack::{Attack, Ground, INSIDE, claims};

fn chain(ground: &Ground, name: &str, length: usize, end: impl AsRef<std::path::Path>) {
    for link in 1..length {
        ground.link(&format!("{name}{link}"), format!("{name}{}", link + 1));
    }
    ground.link(&format!("{name}{length}"), end);
}

claims! {
    a_link_to_an_outside_file_is_refused: Attack::on([
        "absolute", "relative", "sub/relative", "through-root", "{root}/absolute",
    ]).planted(|ground| {
        ground.folder("sub");
        ground.link("absolute", ground.secret());
        ground.link("relative", "../outside/secret.txt");
        ground.link("sub/relative", "../../outside/secret.txt");
        ground.link("through-root", ground.root.join("../outside/secret.txt"));
    }).answers(&["C215"]);

    a_link_to_an_outside_folder_is_refused_as_leaf_and_on_the_way: Attack::on([
        "absolute", "absolute/", "absolute/.", "absolute/secret.txt", "absolute/deep/er/secret.txt",
        "relative", "relative/secret.txt", "sub/up/outside/secret.txt", "slash/etc/passwd", "slash",
    ]).planted(|ground| {
        ground.folder("sub");
        ground.link("absolute", &ground.outside);
        ground.link("relative", "../outside");
        ground.link("sub/up", "../..");
        ground.link("slash", "/");
    }).answers(&["C215"]);

    // Collapsed before the disk is asked, so the link is not even on the way.
    climbing_back_through_a_link_stays_lexical: Attack::on(["link/../inside.txt", "link/deep/../../inside.txt"])
        .planted(|ground| ground.link("link", &ground.outside))
        .answer_reads(&["ok"]).answer_lists(&["C210"]);

    a_missing_name_behind_a_link_is_refused_like_the_link: Attack::on(["link/no-such-name", "link/no/such/name"])
        .planted(|ground| ground.link("link", &ground.outside)).answers(&["C215"]);

    a_chain_of_fifty_links_is_refused: Attack::on(["file1", "file49", "folder1/secret.txt", "folder1"])
        .planted(|ground| {
            chain(ground, "file", 50, ground.secret());
            chain(ground, "folder", 50, &ground.outside);
        }).answers(&["C215"]);

    a_chain_that_a_kernel_would_follow_is_refused: Attack::on(["file1", "folder1/secret.txt", "folder1"])
        .planted(|ground| {
            chain(ground, "file", 10, ground.secret());
            chain(ground, "folder", 10, &ground.outside);
        }).answers(&["C215"]);

    a_loop_of_links_is_refused: Attack::on(["self", "self/x", "ping", "ping/x", "here/here/here/inside.txt"])
        .planted(|ground| {
            ground.link("self", "self");
            ground.link("ping", "pong");
            ground.link("pong", "ping");
            ground.link("here", ".");
        }).answers(&["C215"]).stays_inside();

    a_dangling_link_is_refused: Attack::on(["absolute", "relative", "empty-name", "absolute/x", "long"])
        .planted(|ground| {
            ground.link("absolute", ground.outside.join("not-yet"));
            ground.link("relative", "../outside/not-yet");
            ground.link("empty-name", "../outside/./");
            ground.link("long", "x/".repeat(2000));
        }).answers(&["C215"]);

    a_link_that_stays_inside_is_refused_all_the_same: Attack::on([
        "file", "absolute", "folder", "folder/file.txt", "dot", "dot/inside.txt", "sub/up/inside.txt",
    ]).planted(|ground| {
        ground.file("sub/file.txt", INSIDE);
        ground.link("file", "inside.txt");
        ground.link("absolute", ground.root.join("inside.txt"));
        ground.link("folder", "sub");
        ground.link("dot", ".");
        ground.link("sub/up", "..");
    }).answers(&["C215"]).stays_inside();

    magic_links_are_refused: Attack::on([
        "fd0", "fd1", "fd2", "exe", "environ", "maps", "cwd/etc/passwd", "root/etc/passwd",
        "root{outside}/secret.txt", "root", "init/etc/passwd", "fds", "fds/0", "thread/exe", "proc/self/environ",
        "mem", "stdin",
    ]).planted(|ground| {
        for fd in 0..3 {
            ground.link(&format!("fd{fd}"), format!("/proc/self/fd/{fd}"));
        }
        for (name, target) in [
            ("exe", "/proc/self/exe"), ("environ", "/proc/self/environ"), ("maps", "/proc/self/maps"),
            ("cwd", "/proc/self/cwd"), ("root", "/proc/self/root"), ("init", "/proc/1/root"),
            ("fds", "/proc/self/fd"), ("thread", "/proc/thread-self"), ("proc", "/proc"),
            ("mem", "/proc/self/mem"), ("stdin", "/dev/stdin"),
        ] {
            ground.link(name, target);
        }
    }).answers(&["C215"]);

    // Which descriptor a number means at that moment is chance; if it means anything, it is a folder of the root.
    magic_links_to_descriptors_of_the_moment_are_refused: Attack::on([
        "fd3", "fd4", "fd5", "fd6", "fd4/inside.txt", "fd5/inside.txt", "fd5/../outside/secret.txt",
    ]).planted(|ground| {
        for fd in 3..7 {
            ground.link(&format!("fd{fd}"), format!("/proc/self/fd/{fd}"));
        }
    }).answers(&["C215", "C211", "C216"]).stays_inside();
}
