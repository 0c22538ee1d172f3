//! Keeps the architecture: what each module may import, that no files import each other in a circle, and where unsafe
//! code may be.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use crate::imports::{Import, Sources, circles};
use proc_macro2::{TokenStream, TokenTree};

/// Every module of `src/`, and the modules that its files import. A module imports only modules below its own line.
const MODULES: &[(&str, &str)] = &[
    ("tests", "backend runtime planner policy stats config device schedule liveness engine disk_cache op"),
    ("bin", "autodiff backend serve report replay runtime stats config device trace engine"),
    ("serve", "runtime stats config device"),
    ("metrics", "runtime error device engine"),
    ("autodiff", "backend functions runtime device module op"),
    ("backend", "face functions runtime device op"),
    ("face", "functions runtime device op"),
    ("functions", "runtime error device op"),
    ("report", "replay trace engine"),
    ("replay", "dry_run runtime planner stats config error device module trace schedule engine op"),
    ("dry_run", "runtime stats config error device engine"),
    (
        "runtime",
        "planner fusion pool policy stats config error device module trace schedule engine disk_cache op",
    ),
    ("fusion", "pool error module engine op"),
    ("planner", "pool policy config error device schedule liveness engine op"),
    ("pool", "policy stats config error device module trace schedule liveness codec engine messages op"),
    ("policy", "config schedule liveness codec op"),
    ("stats", "device engine"),
    ("config", "error device engine messages op"),
    ("error", "config device engine op"),
    ("device", "config error engine messages"),
    ("trace", "engine messages op"),
    ("schedule", "engine op"),
    ("liveness", "op"),
    ("codec", "op"),
    ("engine", "disk_cache messages op"),
    ("disk_cache", ""),
    ("messages", ""),
    ("module", ""),
    ("op", ""),
];

/// These may import each other, as long as their files are in no circle: errors name devices and variables, the default
/// device and a budget that is a part of memory may fail.
const TOGETHER: [&str; 3] = ["device", "error", "config"];

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

fn read(file: &Path) -> Option<String> {
    fs::read_to_string(source().join(file)).ok()
}

/// The files of the library and of the program `overcommit`.
fn sources() -> Sources<'static> {
    let mut sources = Sources::new(&read);
    sources.add("burn_overcommit", "lib.rs");
    sources.add("overcommit", "bin/overcommit/main.rs");
    sources
}

/// Every file of a folder of `src/`.
fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(source().join(folder)).expect("the folder is there");
    let paths = entries.map(|entry| folder.join(entry.expect("it is readable").file_name()));
    let nested = |path: PathBuf| if source().join(&path).is_dir() { rust_files(&path) } else { vec![path] };
    paths
        .flat_map(nested)
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .collect()
}

/// The module of `src/` that a file belongs to: the folder or the file there.
fn module(file: &Path) -> String {
    let first = file.iter().next().expect("a file has a name");
    Path::new(first).with_extension("").display().to_string()
}

fn written(imports: &[&Import]) -> String {
    imports.iter().fold(String::new(), |mut text, Import { from, line, path, to, .. }| {
        let _ = write!(text, "\n  src/{}:{line}: {path}  (in src/{})", from.display(), to.display());
        text
    })
}

#[test]
fn each_module_imports_what_is_listed_for_it() {
    let sources = sources();
    let files = rust_files(Path::new(""));
    let unread: Vec<&PathBuf> =
        files.iter().filter(|file| !sources.files().contains(file.as_path())).collect();
    assert!(unread.is_empty(), "no module declares {unread:?}");
    let listed: BTreeSet<String> = MODULES.iter().map(|(module, _)| module.to_string()).collect();
    let there: BTreeSet<String> =
        files.iter().map(|file| module(file)).filter(|module| module != "lib").collect();
    assert_eq!(listed, there, "MODULES is a list of the modules of src/");
    let mut used: BTreeMap<(String, String), Vec<&Import>> = BTreeMap::new();
    let imports = sources.imports();
    // Macros that are exported belong to the root, whichever file has them.
    let root = Path::new("lib.rs");
    for import in imports.iter().filter(|import| import.from != root && import.to != root) {
        used.entry((module(&import.from), module(&import.to))).or_default().push(import);
    }
    used.retain(|(from, to), _| from != to);
    for (place, (from, allowed)) in MODULES.iter().enumerate() {
        for to in allowed.split_whitespace() {
            let is_below = MODULES[place + 1..].iter().any(|(below, _)| *below == to)
                || (TOGETHER.contains(from) && TOGETHER.contains(&to));
            assert!(is_below, "`{from}` may import `{to}`, which is not listed below it");
            let is_used = used.remove(&(from.to_string(), to.to_string())).is_some();
            assert!(is_used, "`{from}` does not import `{to}`: shorten its line of MODULES");
        }
    }
    if let Some(((from, to), imports)) = used.first_key_value() {
        panic!("`{from}` may not import `{to}`:{}", written(&imports[..imports.len().min(5)]));
    }
}

#[test]
fn no_files_import_each_other_in_a_circle() {
    let imports = sources().imports();
    assert!(imports.len() > 1000, "hardly any imports were found: {}", imports.len());
    if let Some(circle) = circles(&imports).first() {
        panic!("files import each other in a circle:{}", written(circle));
    }
}

/// Whether there is unsafe code. The `unsafe` of an attribute is followed by none.
fn has_unsafe(tokens: TokenStream) -> bool {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let inside =
        tokens.iter().any(|token| matches!(token, TokenTree::Group(group) if has_unsafe(group.stream())));
    inside || tokens.windows(2).any(|pair| pair[0].to_string() == "unsafe")
}

/// Where ARCHITECTURE.md says that unsafe code is. No other document has such a list.
fn places_of_unsafe_code() -> Vec<PathBuf> {
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("ARCHITECTURE.md");
    let text = fs::read_to_string(document).expect("it is readable");
    let (_, sentence) = text.split_once("Unsafe code is in ").expect("the document says where");
    let list = sentence.split("of `src/` alone").next().expect("a split has a first part");
    list.split('`').skip(1).step_by(2).map(PathBuf::from).collect()
}

#[test]
fn unsafe_code_is_where_the_architecture_says() {
    let places = places_of_unsafe_code();
    let mut without: BTreeSet<&PathBuf> = places.iter().collect();
    for file in rust_files(Path::new("")) {
        if !has_unsafe(read(&file).expect("it is readable").parse().expect("it is Rust")) {
            continue;
        }
        let place = places.iter().find(|place| file.starts_with(place));
        without.remove(place.unwrap_or_else(|| panic!("unsafe code in src/{}", file.display())));
    }
    assert!(without.is_empty(), "there is no unsafe code in {without:?}");
}

#[test]
fn imports_are_followed_to_the_file_that_defines_the_item() {
    let read = |file: &Path| {
        let text = match file.to_str()? {
            "lib.rs" => "mod a; mod b; mod c; pub use a::{One, deep::Two as Three};",
            "a/mod.rs" => "pub(super) mod deep; mod odd; use odd::Four; pub struct One;",
            "a/deep.rs" => "use super::Four; pub struct Two(pub(in crate::a) u32);",
            "a/odd.rs" => "pub struct Four; fn f() -> impl Sized + use<> { crate::b::g() }",
            "b.rs" => "use crate::c::{self, h}; use std::fmt; pub fn g() { c::h(); [vec![super::Three]]; }",
            "c.rs" => {
                "pub fn h() {} mod inner { use super::super::One; } #[cfg(test)] mod tests { use crate::b; }"
            }
            _ => return None,
        };
        Some(text.to_string())
    };
    let mut sources = Sources::new(&read);
    sources.add("fixture", "lib.rs");
    let imports = sources.imports();
    let found = |is_reexport: bool| {
        let imports = imports.iter().filter(|import| import.is_reexport == is_reexport);
        let pairs = imports.map(|import| (import.from.to_str().unwrap(), import.to.to_str().unwrap()));
        pairs.collect::<BTreeSet<_>>()
    };
    let expected = [
        ("a/deep.rs", "a/odd.rs"),
        ("a/mod.rs", "a/odd.rs"),
        ("a/odd.rs", "b.rs"),
        ("b.rs", "a/deep.rs"),
        ("b.rs", "c.rs"),
        ("c.rs", "a/mod.rs"),
    ];
    assert_eq!(found(false), BTreeSet::from(expected));
    assert_eq!(found(true), BTreeSet::from([("lib.rs", "a/mod.rs"), ("lib.rs", "a/deep.rs")]));
    let circles = circles(&imports);
    let written: Vec<String> = circles.iter().map(|circle| written(circle)).collect();
    assert_eq!(circles.len(), 2, "{written:?}");
    assert!(written[0].contains("src/a/deep.rs:1: super::Four  (in src/a/odd.rs)"), "{written:?}");
}
