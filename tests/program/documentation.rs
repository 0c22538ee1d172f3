//! Every public module has an example in its documentation, and so has every public item of those that users call.

use std::fs;
use std::path::{Path, PathBuf};

/// Modules of the library whose items have an example each: the root, and those that users call.
const MODULES: [&str; 7] = ["lib.rs", "autodiff", "backend", "replay", "report", "runtime", "trace"];
/// What begins an item.
const KINDS: [&str; 6] = ["fn", "struct", "enum", "trait", "const", "type"];

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// The file of a module.
fn file(module: &Path) -> PathBuf {
    let folder = module.join("mod.rs");
    if folder.exists() { folder } else { module.with_extension("rs") }
}

/// A module's source without its unit tests.
fn read(module: &Path) -> String {
    let text =
        fs::read_to_string(file(module)).unwrap_or_else(|error| panic!("{}: {error}", module.display()));
    text.split("\n#[cfg(test)]\nmod tests {").next().unwrap().to_string()
}

/// Modules and names that a module makes public, but for those that it hides or deprecates.
fn public(text: &str) -> Vec<(String, Vec<String>)> {
    let mut found = Vec::new();
    for (before, rest) in text.match_indices("\npub use ").map(|(at, _)| (&text[..at], &text[at + 9..])) {
        let attribute = before.lines().last().unwrap_or_default();
        if attribute.contains("doc(hidden)") || attribute.contains("deprecated") {
            continue;
        }
        let path: String = rest.split(';').next().unwrap().split_whitespace().collect();
        let (from, names) = path.rsplit_once("::{").or_else(|| path.rsplit_once("::")).unwrap();
        let names = names.trim_end_matches('}').split(',').filter(|name| !name.is_empty());
        let from = from.trim_start_matches("crate::").trim_start_matches("self::");
        found.push((from.to_string(), names.map(String::from).collect()));
    }
    found
}

/// The line of an item in a source, and the documentation before it.
fn documentation(text: &str, name: &str) -> Option<String> {
    let begins = |line: &str| {
        // An item that a macro makes.
        if line.trim() == format!("{name} {{") {
            return true;
        }
        let after = KINDS.iter().find_map(|kind| line.strip_prefix(&format!("pub {kind} {name}")));
        after.is_some_and(|after| !after.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
    };
    let lines: Vec<&str> = text.lines().collect();
    let at = lines.iter().position(|line| begins(line))?;
    let before = lines[..at].iter().rev().map(|line| line.trim_start());
    let before = before.take_while(|line| line.starts_with("///") || line.starts_with("#["));
    Some(before.collect::<Vec<_>>().join("\n"))
}

/// The documentation of an item that a module makes public: there, or where it comes from.
fn found(module: &Path, name: &str) -> Option<String> {
    let text = read(module);
    let deeper = || {
        let (from, _) =
            public(&text).into_iter().find(|(_, names)| names.iter().any(|known| known == name))?;
        found(&from.split("::").fold(module.with_extension(""), |path, part| path.join(part)), name)
    };
    documentation(&text, name).or_else(deeper)
}

/// Whether it has an example, or names an item that does.
fn has_example(documentation: &str) -> bool {
    documentation.contains("```") || documentation.contains("for an example.")
}

#[test]
fn public_items_have_an_example() {
    let mut without = Vec::new();
    for module in MODULES {
        let path = if module == "lib.rs" { source().join("lib") } else { source().join(module) };
        let beside = if module == "lib.rs" { source() } else { path.clone() };
        let text = read(&path);
        let own = text.lines().filter_map(|line| line.strip_prefix("pub fn ")?.split(['<', '(']).next());
        without.extend(
            own.filter(|name| !has_example(&documentation(&text, name).unwrap()))
                .map(|name| format!("{module}: {name}")),
        );
        for (from, names) in public(&text).into_iter().filter(|(from, _)| !from.starts_with("burn")) {
            let from = from.split("::").fold(beside.clone(), |path, part| path.join(part));
            for name in names {
                let documentation =
                    found(&from, &name).unwrap_or_else(|| panic!("{name} is not in {}", from.display()));
                if !has_example(&documentation) {
                    without.push(format!("{module}: {name}"));
                }
            }
        }
    }
    assert!(without.is_empty(), "no example in the documentation of\n{}", without.join("\n"));
}

#[test]
fn public_modules_have_an_example() {
    let root = read(&source().join("lib"));
    let lines = root.lines().zip(root.lines().skip(1)).filter(|(before, _)| *before != "#[doc(hidden)]");
    for module in lines.filter_map(|(_, line)| line.strip_prefix("pub mod ")) {
        let text = read(&source().join(module.trim_end_matches(';')));
        let documentation =
            text.lines().take_while(|line| line.starts_with("//!")).collect::<Vec<_>>().join("\n");
        assert!(has_example(&documentation), "no example in the documentation of {module}");
    }
}

#[test]
fn documentation_belongs_to_the_item_after_it() {
    let text = "\n#[doc(hidden)]\npub use a::Hidden;\npub use a::{One, b::Two};\n/// ```\n/// x\n/// ```\npub fn one() {}\npub fn two() {}\n";
    assert_eq!(public(text)[0].1, ["One", "b::Two"]);
    assert!(
        has_example(&documentation(text, "one").unwrap())
            && !has_example(&documentation(text, "two").unwrap())
    );
    assert!(documentation(text, "tw").is_none());
}
