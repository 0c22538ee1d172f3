//! The list of unwritten methods in the README is the list of `missing!` in the backend.

use std::collections::BTreeSet;
use std::path::Path;
use std::{fs, io};

fn sources(folder: &Path, text: &mut String) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            sources(&path, text)?;
        } else {
            text.push_str(&fs::read_to_string(path)?);
        }
    }
    Ok(())
}

/// The pieces between `open` and `close`.
fn between<'a>(text: &'a str, open: &'a str, close: &'a str) -> BTreeSet<&'a str> {
    let pieces = text.split(open).skip(1);
    pieces.filter_map(|piece| Some(piece.split_once(close)?.0)).collect()
}

#[test]
fn the_readme_lists_what_is_missing() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut code = String::new();
    sources(&root.join("src/backend"), &mut code).expect("the sources are readable");
    let missing = between(&code, "missing!(\"", "\")");
    assert!(!missing.is_empty());

    let readme = fs::read_to_string(root.join("README.md")).expect("there is a README");
    let section = between(&readme, "<!-- missing methods -->", "<!-- /missing methods -->");
    let section = section.first().expect("the README has the list's markers");
    let listed: BTreeSet<&str> = section.split('`').skip(1).step_by(2).collect();
    assert_eq!(listed, missing, "README.md (left) and src/backend (right) differ");
}
