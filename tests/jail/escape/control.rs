//! The suite can fail: with both layers off the very same attacks read the canary. A suite that passes here, too,
//! would prove nothing elsewhere.

use super::attack::Attack;

fn assert_escapes(attack: Attack) {
    let escapes = attack.escapes_with("checks,landlock");
    assert!(!escapes.is_empty(), "the attack does not work even without a jail");
    let has = |what: &str| escapes.iter().any(|escape| escape.contains(what));
    assert!(has("read-file"), "no read was seen to escape: {escapes:#?}");
}

#[test]
fn without_both_layers_climbing_reads_the_canary() {
    assert_escapes(Attack::on(["../outside/secret.txt"]));
}

#[test]
fn without_both_layers_an_absolute_path_reads_the_canary() {
    assert_escapes(Attack::on(["{outside}/secret.txt"]));
}

#[test]
fn without_both_layers_a_link_reads_the_canary() {
    assert_escapes(Attack::on(["link"]).planted(|ground| ground.link("link", ground.secret())));
}

#[test]
fn without_both_layers_a_link_on_the_way_reads_the_canary() {
    assert_escapes(Attack::on(["link/secret.txt"]).planted(|ground| ground.link("link", &ground.outside)));
}

#[test]
fn without_both_layers_a_magic_link_reads_the_canary() {
    let attack = Attack::on(["link{outside}/secret.txt"]);
    assert_escapes(attack.planted(|ground| ground.link("link", "/proc/self/root")));
}

#[test]
fn without_both_layers_the_canaries_are_listed() {
    for name in ["../outside", "link"] {
        let attack = Attack::on([name]).planted(|ground| ground.link("link", &ground.outside));
        let escapes = attack.escapes_with("checks,landlock");
        assert!(escapes.iter().any(|escape| escape.contains("list-folder")), "{escapes:#?}");
    }
}

#[test]
fn without_both_layers_the_canaries_are_searched() {
    let attack = Attack::on(["link"]).planted(|ground| ground.link("link", &ground.outside));
    let escapes = attack.escapes_with("checks,landlock");
    assert!(escapes.iter().any(|escape| escape.contains("coder::search")), "{escapes:#?}");
}
