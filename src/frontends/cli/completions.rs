//! `stockade completions`: completion scripts for shells, from the definitions of the arguments.

use clap_complete::{
    generate,
    shells::{Bash, Fish, Zsh},
};
use serde_json::json;

use super::{
    CommandResult,
    args::{CompletionsArgs, Shell, command},
    output::Output,
};

const NAME: &str = "stockade";

/// Works around two faults of the generated function for bash: it offers options where files are expected, and it cannot see
/// a word with a colon, because bash splits words at colons.
const BASH_WORKAROUND: &str = r#"
_stockade_word() {
    local word="${COMP_LINE:0:COMP_POINT}"
    word="${word##*[[:space:]]}"
    if [[ $word == *:* ]]; then
        _stockade "$1" "$word" "$3"
        COMPREPLY=("${COMPREPLY[@]#"${word%"${word##*:}"}"}")
    else
        _stockade "$@"
    fi
    # Whoever wants an option types its dash; otherwise bash goes on with files.
    if [[ $2 != -* && "${COMPREPLY[*]}" == -* ]]; then
        COMPREPLY=("${COMPREPLY[@]/#-*/}")
        COMPREPLY=(${COMPREPLY[@]})
    fi
}
complete -F _stockade_word -o bashdefault -o default stockade
"#;

pub(super) fn run(args: &CompletionsArgs, out: &mut Output<'_>) -> CommandResult {
    let script = script(args.shell);
    match out.json {
        true => out.write_json_line(&json!({ "script": script }).to_string())?,
        false => out.write_text(&script)?,
    }
    Ok(0)
}

fn script(shell: Shell) -> String {
    let (mut command, mut bytes) = (command(), Vec::new());
    match shell {
        Shell::Bash => generate(Bash, &mut command, NAME, &mut bytes),
        Shell::Zsh => generate(Zsh, &mut command, NAME, &mut bytes),
        Shell::Fish => generate(Fish, &mut command, NAME, &mut bytes),
    }
    let mut script = String::from_utf8_lossy(&bytes).into_owned();
    match shell {
        Shell::Bash => script.push_str(BASH_WORKAROUND),
        Shell::Fish => script.push_str(&fish_arguments(&command)),
        Shell::Zsh => {}
    }
    script
}

/// The generator for fish writes no values of arguments, only of options.
fn fish_arguments(command: &clap::Command) -> String {
    let mut text = String::new();
    for command in command.get_subcommands() {
        for argument in command.get_positionals() {
            let values: Vec<String> =
                argument.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
            if !values.is_empty() {
                text.push_str(&format!(
                    "complete -c {NAME} -n \"__fish_stockade_using_subcommand {}\" -f -a \"{}\"\n",
                    command.get_name(),
                    values.join(" ")
                ));
            }
        }
    }
    text
}
