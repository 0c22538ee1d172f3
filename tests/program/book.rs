//! The book: its shell listings run, and print and draw what it shows; its listings in Rust are tested; every link in a document
//! leads somewhere.
//!
//! `BOOK=write cargo test --release --all-features --test program book` writes what listings print and draw anew.

use std::collections::BTreeSet;
use std::fs;
use std::ops::Range;
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use burn::backend::Autodiff;
use burn::tensor::{Distribution, Tensor};
use burn_overcommit::{Overcommit, OvercommitDevice, VARIABLES};

const BOOK: &str = "docs/book/src";
/// Where the book and the README link to files beside them.
const REPOSITORY: [&str; 2] = ["blob/main/", "tree/main/"];
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The documents in a folder, and in those within it.
fn documents(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let is_hidden = |name: &str| name.starts_with('.') || name == "target";
        if path.is_dir() && !path.file_name().unwrap().to_str().is_some_and(is_hidden) {
            found.extend(documents(&path));
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
    found
}

fn chapters() -> Vec<PathBuf> {
    let mut chapters = documents(&root().join(BOOK));
    chapters.retain(|path| path.file_name().unwrap() != "SUMMARY.md");
    chapters
}

/// A listing: its language, and where in the text it is.
struct Listing {
    language: String,
    place: Range<usize>,
}

fn listings(text: &str) -> Vec<Listing> {
    let (mut listings, mut open, mut at) = (Vec::new(), None, 0);
    for line in text.split_inclusive('\n') {
        let end = at + line.len();
        if let Some(language) = line.strip_prefix("```") {
            open = match open.take() {
                None => Some((language.trim().to_string(), end)),
                Some((language, begin)) => {
                    listings.push(Listing { language, place: begin..at });
                    None
                }
            };
        }
        at = end;
    }
    assert!(open.is_none(), "a listing is not closed");
    listings
}

/// Runs a listing's commands, but for those of cargo, and returns what they print.
fn run(listing: &str, folder: &Path) -> String {
    let commands: Vec<&str> = listing.lines().filter(|line| !line.starts_with("cargo ")).collect();
    let program = Path::new(env!("CARGO_BIN_EXE_overcommit")).parent().unwrap().display().to_string();
    let mut shell = Command::new("sh");
    for (_, name, ..) in VARIABLES {
        shell.env_remove(name);
    }
    let output = shell
        .args(["-euc", &commands.join("\n")])
        .current_dir(folder)
        .env("PATH", format!("{program}:{}", std::env::var("PATH").unwrap()))
        .env("OVERCOMMIT_PLAN_CACHE", "off")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{told}", commands.join("\n"));
    let printed = String::from_utf8(output.stdout).unwrap();
    printed.trim_end().lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// Runs a chapter's shell listings in an empty folder, and says what the chapter shows otherwise.
fn differences(chapter: &Path, is_written: bool) -> Vec<String> {
    let text = read(chapter);
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("target/release/train");
    fs::create_dir_all(program.parent().unwrap()).unwrap();
    let own = std::env::current_exe().unwrap();
    let script = format!("#!/bin/sh\nexec '{}' --quiet --exact book::a_program >/dev/null\n", own.display());
    // By another process: what this one has open for writing, children of its other threads may have open too, and cannot be run.
    let written = Command::new("sh")
        .args(["-c", "printf %s \"$SCRIPT\" >\"$0\" && chmod +x \"$0\""])
        .arg(&program)
        .env("SCRIPT", script)
        .status();
    assert!(written.unwrap().success());
    let (mut different, mut written, mut copied) = (Vec::new(), String::new(), 0);
    let listings = listings(&text);
    for (listing, next) in listings.iter().zip(listings.iter().skip(1).map(Some).chain([None])) {
        if listing.language != "sh" {
            continue;
        }
        let printed = run(&text[listing.place.clone()], folder.path());
        let is_output = |next: &&Listing| {
            next.language == "text" && text[listing.place.end..next.place.start].trim() == "```\n\n```text"
        };
        let Some(next) = next.filter(is_output) else { continue };
        if text[next.place.clone()] != printed {
            different.push(format!("{}: a listing prints\n{printed}", chapter.display()));
        }
        written += &text[copied..next.place.start];
        written += &printed;
        copied = next.place.end;
    }
    if is_written {
        fs::write(chapter, written + &text[copied..]).unwrap();
    }
    different.extend(other_pictures(folder.path(), is_written));
    different
}

/// The book's pictures that listings draw otherwise in this folder.
fn other_pictures(folder: &Path, is_written: bool) -> Vec<String> {
    let mut different = Vec::new();
    for picture in fs::read_dir(root().join(BOOK).join("pictures")).unwrap() {
        let picture = picture.unwrap().path();
        let drawn = folder.join(picture.file_name().unwrap());
        if !drawn.exists() || read(&drawn) == read(&picture) {
            continue;
        }
        if is_written {
            fs::copy(&drawn, &picture).unwrap();
        }
        different.push(format!("{} is drawn otherwise", picture.display()));
    }
    different
}

/// The book calls it `target/release/train`.
#[test]
fn a_program() {
    let device = OvercommitDevice::default();
    let random = || Tensor::<Autodiff<Overcommit>, 2>::random([64, 64], Distribution::Default, &device);
    for _ in 0..4 {
        let layers: Vec<_> = (0..4).map(|_| random().require_grad()).collect();
        let y = layers.iter().cloned().reduce(|x, layer| x.matmul(layer).tanh()).unwrap();
        assert!(layers[0].grad(&y.sum().backward()).is_some());
    }
}

#[test]
fn shell_listings_run_and_give_what_is_shown() {
    let is_written = std::env::var("BOOK").is_ok_and(|value| value == "write");
    let chapters = chapters();
    let different = thread::scope(|scope| {
        let runs: Vec<_> =
            chapters.iter().map(|path| scope.spawn(move || differences(path, is_written))).collect();
        runs.into_iter().flat_map(|run| run.join().expect("a listing fails")).collect::<Vec<_>>()
    });
    assert!(is_written || different.is_empty(), "{}\nBOOK=write shows it", different.join("\n"));
}

#[test]
fn listings_in_rust_are_tested() {
    // Where Burn's feature `distributed` is on, there are no other backends to test beside.
    let tested = ["src/lib.rs", "faces/distributed/empty.rs"].map(|path| read(&root().join(path))).concat();
    for chapter in chapters() {
        let has_rust = listings(&read(&chapter)).iter().any(|listing| listing.language.starts_with("rust"));
        let name = chapter.strip_prefix(root()).unwrap().display().to_string();
        assert_eq!(tested.contains(&format!("../{name}\")")), has_rust, "{name}");
    }
}

#[test]
fn every_chapter_is_in_the_summary() {
    let summary = read(&root().join(BOOK).join("SUMMARY.md"));
    let listed: BTreeSet<&str> = links(&summary).into_iter().collect();
    let chapters = chapters();
    let there: BTreeSet<&str> =
        chapters.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
    assert_eq!(listed, there);
}

/// Where the links of a text lead, those that are defined on a line of their own included.
fn links(text: &str) -> Vec<&str> {
    let defined = |line| str::split_once(line, "]: ").filter(|(label, _)| label.starts_with('['));
    let inline = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    inline.chain(text.lines().filter_map(defined).map(|(_, link)| link)).collect()
}

/// The text without its listings.
fn prose(text: &str) -> String {
    let (mut prose, mut at) = (String::new(), 0);
    for listing in listings(text) {
        prose += &text[at..listing.place.start];
        at = listing.place.end;
    }
    prose + &text[at..]
}

/// The names by which a document's headings are linked to.
fn anchors(text: &str) -> BTreeSet<String> {
    let anchor = |heading: &str| {
        let kept = heading.chars().filter(|&c| c.is_alphanumeric() || " -_".contains(c));
        kept.collect::<String>().trim().to_lowercase().replace(' ', "-")
    };
    let prose = prose(text);
    prose
        .lines()
        .filter(|line| line.starts_with('#'))
        .map(|line| anchor(line.trim_start_matches('#')))
        .collect()
}

/// Why a link of a document leads nowhere.
fn is_broken(document: &Path, link: &str) -> Option<&'static str> {
    // The book's site and docs.rs show these without the repository.
    let alone =
        ["README.md", BOOK].map(|part| root().join(part)).into_iter().find(|part| document.starts_with(part));
    let (target, anchor) = link.split_once('#').unwrap_or((link, ""));
    let beside = REPOSITORY
        .iter()
        .find_map(|part| target.strip_prefix(&format!("{}/{part}", env!("CARGO_PKG_REPOSITORY"))));
    let path = match beside {
        Some(path) => root().join(path),
        None if target.starts_with("http") => return None,
        None if target.is_empty() => document.to_path_buf(),
        None => document.parent().unwrap().join(target),
    };
    let mut whole = PathBuf::new();
    for part in path.components() {
        if part == Component::ParentDir {
            whole.pop();
        } else {
            whole.push(part);
        }
    }
    if !whole.exists() {
        return Some("there is no such file");
    }
    if beside.is_none() && alone.is_some_and(|part| !whole.starts_with(part)) {
        return Some("it is shown without the repository: link to it there");
    }
    let has_anchor = |path: &Path| anchors(&read(path)).contains(anchor);
    (!anchor.is_empty() && !has_anchor(&whole)).then_some("there is no such heading")
}

#[test]
fn links_lead_somewhere() {
    for document in documents(root()) {
        let text = prose(&read(&document));
        for link in links(&text) {
            if let Some(reason) = is_broken(&document, link) {
                panic!("{}: {link}: {reason}", document.display());
            }
        }
    }
}

/// The book shows the table that the program has.
#[test]
fn settings_lists_the_variables() {
    let settings = read(&root().join(BOOK).join("settings.md"));
    for (_, name, ..) in VARIABLES {
        assert!(settings.contains(&format!("`{name}`")), "{name}");
    }
}

#[test]
fn what_is_wrong_with_a_book_is_noticed() {
    let text = "# One & two\n\n```sh\necho [a](b.md)\n```\n\n[c](d.md#e)\n";
    assert_eq!(anchors(text).into_iter().collect::<Vec<_>>(), ["one--two"]);
    assert_eq!(links(&prose(text)), ["d.md#e"]);
    assert_eq!(links("[a] and [b][c]\n\n[a]: d.md\n[c]: e.md\n"), ["d.md", "e.md"]);
    assert_eq!(&text[listings(text)[0].place.clone()], "echo [a](b.md)\n");
    let settings = root().join(BOOK).join("settings.md");
    assert!(
        is_broken(&settings, "nowhere.md").is_some() && is_broken(&settings, "settings.md#nowhere").is_some()
    );
    assert!(
        is_broken(&settings, "../../../README.md").is_some()
            && is_broken(&settings, "settings.md#cuda").is_none()
    );
    let readme = root().join("README.md");
    assert!(is_broken(&readme, "ARCHITECTURE.md").is_some() && is_broken(&readme, "#limits").is_none());
}
