//! File types by name, as `type` and `type_not` of a search take them. Pure: a table, and the names that a selection of it matches.
//!
//! The table is written by hand from what the languages and formats themselves call their files. Its names are those that users of
//! ripgrep know, where it has one; the extension is a second name. Case matters, as it does in globs.

use super::name_globs::NameGlobs;

/// Names of a type, and the globs of its files: `*` and an ending, a beginning and `*`, or a whole name.
type FileType = (&'static [&'static str], &'static [&'static str]);

/// Sorted by the first name, which error texts show.
const FILE_TYPES: &[FileType] = &[
    (&["ada"], &["*.adb", "*.ads"]),
    (&["asciidoc", "adoc"], &["*.adoc", "*.asc", "*.asciidoc"]),
    (&["asm"], &["*.asm", "*.s", "*.S"]),
    (&["astro"], &["*.astro"]),
    (&["awk"], &["*.awk"]),
    (&["bat", "batch"], &["*.bat", "*.cmd"]),
    (&["bazel", "bzl"], &["*.bazel", "*.bzl", "BUILD", "WORKSPACE"]),
    (&["c"], &["*.c", "*.h"]),
    (&["clojure", "clj"], &["*.clj", "*.cljc", "*.cljs", "*.cljx"]),
    (&["cmake"], &["*.cmake", "CMakeLists.txt"]),
    (&["coffeescript", "coffee"], &["*.coffee"]),
    (&["config", "conf"], &["*.cfg", "*.conf", "*.config", "*.ini"]),
    (&["cpp", "cxx"], &["*.cc", "*.cpp", "*.cxx", "*.h", "*.hh", "*.hpp", "*.hxx", "*.inl"]),
    (&["crystal"], &["*.cr"]),
    (&["cs", "csharp"], &["*.cs"]),
    (&["css"], &["*.css", "*.scss"]),
    (&["csv"], &["*.csv"]),
    (&["cuda"], &["*.cu", "*.cuh"]),
    (&["cython"], &["*.pyx", "*.pxd", "*.pxi"]),
    (&["d"], &["*.d"]),
    (&["dart"], &["*.dart"]),
    (&["diff"], &["*.diff", "*.patch"]),
    (&["docker"], &["Dockerfile*", "*.dockerfile", "Containerfile*"]),
    (&["elixir", "ex"], &["*.ex", "*.exs", "*.eex", "*.heex", "*.leex"]),
    (&["elm"], &["*.elm"]),
    (&["erlang", "erl"], &["*.erl", "*.hrl"]),
    (&["fish"], &["*.fish"]),
    (&["fortran"], &["*.f", "*.F", "*.f77", "*.f90", "*.F90", "*.f95", "*.f03", "*.f08"]),
    (&["fsharp", "fs"], &["*.fs", "*.fsi", "*.fsx"]),
    (&["gleam"], &["*.gleam"]),
    (&["go"], &["*.go"]),
    (&["gradle"], &["*.gradle", "*.gradle.kts"]),
    (&["graphql", "gql"], &["*.graphql", "*.graphqls", "*.gql"]),
    (&["groovy"], &["*.groovy"]),
    (&["h"], &["*.h", "*.hh", "*.hpp"]),
    (&["haskell", "hs"], &["*.hs", "*.lhs"]),
    (&["hcl"], &["*.hcl"]),
    (&["html", "htm"], &["*.html", "*.htm", "*.ejs"]),
    (&["idris"], &["*.idr", "*.lidr"]),
    (&["ini"], &["*.ini"]),
    (&["java"], &["*.java"]),
    (&["jinja"], &["*.j2", "*.jinja", "*.jinja2"]),
    (&["jl", "julia"], &["*.jl"]),
    (&["js", "javascript"], &["*.js", "*.jsx", "*.cjs", "*.mjs", "*.vue"]),
    (&["json"], &["*.json", "composer.lock"]),
    (&["jsonl"], &["*.jsonl", "*.ndjson"]),
    (&["kotlin", "kt"], &["*.kt", "*.kts"]),
    (&["less"], &["*.less"]),
    (&["license"], &["LICENSE*", "LICENCE*", "COPYING*", "COPYRIGHT*", "NOTICE*", "UNLICENSE*"]),
    (&["lisp"], &["*.lisp", "*.lsp", "*.el", "*.cl", "*.scm"]),
    (&["lock"], &["*.lock", "package-lock.json"]),
    (&["log"], &["*.log"]),
    (&["lua"], &["*.lua"]),
    (&["m4"], &["*.m4", "*.ac"]),
    (&["make", "makefile"], &["Makefile*", "makefile*", "GNUmakefile*", "*.mk", "*.mak"]),
    (&["markdown", "md"], &["*.md", "*.markdown", "*.mdown", "*.mkdn", "*.mdx"]),
    (&["matlab"], &["*.m"]),
    (&["meson"], &["meson.build", "meson_options.txt"]),
    (&["nim"], &["*.nim", "*.nimble"]),
    (&["nix"], &["*.nix"]),
    (&["objc"], &["*.m", "*.h"]),
    (&["objcpp"], &["*.mm", "*.h"]),
    (&["ocaml", "ml"], &["*.ml", "*.mli", "*.mll", "*.mly"]),
    (&["org"], &["*.org"]),
    (&["pascal"], &["*.pas", "*.dpr", "*.lpr"]),
    (&["perl", "pl"], &["*.pl", "*.pm", "*.perl", "*.t"]),
    (&["php"], &["*.php", "*.phtml"]),
    (&["prolog"], &["*.pro", "*.prolog"]),
    (&["protobuf", "proto"], &["*.proto"]),
    (&["ps", "powershell"], &["*.ps1", "*.psd1", "*.psm1"]),
    (&["puppet"], &["*.pp"]),
    (&["purs"], &["*.purs"]),
    (&["py", "python"], &["*.py", "*.pyi"]),
    (&["r"], &["*.r", "*.R", "*.Rmd"]),
    (&["racket"], &["*.rkt"]),
    (&["readme"], &["README*", "*README"]),
    (&["rst"], &["*.rst"]),
    (&["ruby", "rb"], &["*.rb", "*.gemspec", "*.rbw", "config.ru", "Gemfile", "Rakefile", "Vagrantfile"]),
    (&["rust", "rs"], &["*.rs"]),
    (&["sass"], &["*.sass", "*.scss"]),
    (&["scala"], &["*.scala", "*.sbt"]),
    (
        &["sh", "shell", "bash"],
        &["*.sh", "*.bash", "*.csh", "*.ksh", "*.zsh", ".bash_profile", ".bashrc", ".profile", ".zshrc"],
    ),
    (&["solidity", "sol"], &["*.sol"]),
    (&["sql"], &["*.sql", "*.psql"]),
    (&["starlark"], &["*.star", "*.bzl"]),
    (&["svelte"], &["*.svelte"]),
    (&["svg"], &["*.svg"]),
    (&["swift"], &["*.swift"]),
    (&["systemd"], &["*.automount", "*.mount", "*.path", "*.service", "*.slice", "*.socket", "*.target", "*.timer"]),
    (&["tcl"], &["*.tcl"]),
    (&["terraform", "tf"], &["*.tf", "*.tfvars"]),
    (&["tex", "latex"], &["*.tex", "*.bib", "*.cls", "*.ltx", "*.sty"]),
    (&["toml"], &["*.toml", "Cargo.lock"]),
    (&["ts", "typescript"], &["*.ts", "*.tsx", "*.cts", "*.mts"]),
    (&["txt"], &["*.txt"]),
    (&["typst", "typ"], &["*.typ"]),
    (&["vb"], &["*.vb"]),
    (&["verilog"], &["*.v", "*.vh", "*.sv", "*.svh"]),
    (&["vhdl"], &["*.vhd", "*.vhdl"]),
    (&["vim"], &["*.vim", ".vimrc", "vimrc"]),
    (&["vue"], &["*.vue"]),
    (&["wgsl"], &["*.wgsl"]),
    (&["xml"], &["*.xml", "*.dtd", "*.xsd", "*.xsl", "*.xslt"]),
    (&["yaml", "yml"], &["*.yaml", "*.yml"]),
    (&["zig"], &["*.zig"]),
    (&["zsh"], &["*.zsh", ".zprofile", ".zshenv", ".zshrc"]),
];

/// The files of all these types. The error is the first name that no type has.
pub fn select<'n>(names: impl IntoIterator<Item = &'n str>) -> Result<NameGlobs, &'n str> {
    let mut globs: Vec<String> = Vec::new();
    for name in names {
        let found = FILE_TYPES.iter().find(|(names, _)| names.contains(&name)).ok_or(name)?;
        globs.extend(found.1.iter().map(|glob| match glob.starts_with('*') {
            true => (*glob).to_owned(),
            false => format!("**/{glob}"),
        }));
    }
    Ok(NameGlobs::new(globs.iter().map(String::as_str)))
}

/// Every name of every type.
pub fn names() -> impl Iterator<Item = &'static str> {
    FILE_TYPES.iter().flat_map(|(names, _)| names.iter().copied())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_name_means_one_type_and_the_table_is_sorted() {
        let all: Vec<&str> = names().collect();
        let unique: BTreeSet<&str> = all.iter().copied().collect();
        assert_eq!(unique.len(), all.len());
        assert!(FILE_TYPES.is_sorted_by_key(|(names, _)| names[0]));
    }

    #[test]
    fn a_name_alone_decides_about_every_glob_of_the_table() {
        for name in names() {
            assert_eq!(select([name]).unwrap().others(), [] as [&str; 0], "{name}");
        }
    }

    #[test]
    fn types_select_by_name_and_case_matters() {
        let globs = select(["rust", "make", "docker", "readme"]).unwrap();
        let has = |name: &str| globs.has_name(name.as_bytes());
        for name in
            ["a.rs", "Makefile", "Makefile.in", "rules.mk", "Dockerfile.dev", "README", "README.md", "my.README"]
        {
            assert!(has(name), "{name}");
        }
        for name in ["a.RS", "a.rs.bak", "rs", "makefiles.txt.old", "docker", "readme.md"] {
            assert_eq!(has(name), name.starts_with("makefile"), "{name}");
        }
        assert_eq!(select(["rust", "rrust"]).unwrap_err(), "rrust");
    }
}
