//! Which source file imports which. An import is a `use`, or a path that begins with `crate`, `self` or `super`; it is
//! followed through re-exports to the file that defines the item. Modules inside a file that are for tests are left out.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};

/// The segments of a path. Those of a module begin with the name of its crate.
type Segments = Vec<String>;

/// One file imports from another.
pub struct Import {
    pub from: PathBuf,
    pub line: usize,
    /// As it is written, one of a group.
    pub path: String,
    pub to: PathBuf,
    /// Whether it is a `pub use`.
    pub is_reexport: bool,
}

struct Module {
    file: PathBuf,
    /// The names that its `use` declarations give, and the paths that they stand for.
    names: BTreeMap<String, Segments>,
}

/// The modules of some crates.
pub struct Sources<'a> {
    /// The text of a file, if there is such a file.
    read: &'a dyn Fn(&Path) -> Option<String>,
    modules: BTreeMap<Segments, Module>,
    /// Imports before they are followed: module, line, path, and whether it is a `pub use`.
    found: Vec<(Segments, usize, Segments, bool)>,
}

fn word(token: &TokenTree) -> Option<String> {
    if let TokenTree::Ident(ident) = token { Some(ident.to_string()) } else { None }
}

fn is(token: &TokenTree, punctuation: char) -> bool {
    matches!(token, TokenTree::Punct(found) if found.as_char() == punctuation)
}

/// The path that some tokens begin with.
fn path(mut tokens: &[TokenTree]) -> Segments {
    let mut path = Segments::new();
    while let Some(segment) = tokens.first().and_then(word) {
        path.push(segment);
        tokens = match tokens {
            [_, colon, _, rest @ ..] if is(colon, ':') => rest,
            _ => break,
        };
    }
    path
}

/// The names that the tree of a `use` gives, `*` among them, and the paths that they stand for.
fn leaves(tree: &[TokenTree], prefix: &[String]) -> Vec<(String, Segments)> {
    let mut path = prefix.to_vec();
    let mut name = None;
    for token in tree {
        match (token, word(token)) {
            (TokenTree::Group(group), _) => {
                let tokens: Vec<TokenTree> = group.stream().into_iter().collect();
                return tokens.split(|token| is(token, ',')).flat_map(|tree| leaves(tree, &path)).collect();
            }
            (_, Some(word)) if word == "as" => name = Some(word),
            (_, Some(word)) if name.is_some() => name = Some(word),
            (_, Some(word)) => path.push(word),
            _ if is(token, '*') => path.push("*".into()),
            _ => {}
        }
    }
    path.retain(|segment| segment != "self");
    let name = name.or(path.last().cloned()).filter(|_| !tree.is_empty());
    name.map(|name| (name, path)).into_iter().collect()
}

impl<'a> Sources<'a> {
    pub fn new(read: &'a dyn Fn(&Path) -> Option<String>) -> Self {
        Sources { read, modules: BTreeMap::new(), found: Vec::new() }
    }

    /// Adds a crate by its name and its main file.
    pub fn add(&mut self, name: &str, file: &str) {
        self.file(vec![name.into()], file.into(), Path::new(file).parent().expect("a file is in a folder"));
    }

    /// Reads a file; the files of its modules are in `folder`.
    fn file(&mut self, module: Segments, file: PathBuf, folder: &Path) {
        let text = (self.read)(&file).unwrap_or_else(|| panic!("there is no {}", file.display()));
        let tokens = text.parse().unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        self.modules.insert(module.clone(), Module { file: file.clone(), names: BTreeMap::new() });
        self.items(tokens, &module, &file, folder);
    }

    fn items(&mut self, tokens: TokenStream, module: &Segments, file: &Path, folder: &Path) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut rest = &tokens[..];
        let (mut is_public, mut is_test) = (false, false);
        while let [token, after @ ..] = rest {
            let begin = std::mem::replace(&mut rest, after);
            match (token, word(token).as_deref(), after) {
                (_, None, [TokenTree::Group(attribute), after @ ..]) if is(token, '#') => {
                    is_test |= attribute.to_string().contains("test");
                    rest = after;
                    continue;
                }
                (_, Some("pub"), _) => {
                    is_public = true;
                    rest = if let [TokenTree::Group(_scope), after @ ..] = after { after } else { after };
                    continue;
                }
                // Not `impl Trait + use<'a>`.
                (_, Some("use"), [next, ..]) if !is(next, '<') => {
                    let end = after.iter().position(|token| is(token, ';')).unwrap_or(after.len());
                    for (name, path) in leaves(&after[..end], &[]) {
                        self.found.push((module.clone(), token.span().start().line, path.clone(), is_public));
                        self.modules.get_mut(module).expect("it is read").names.insert(name, path);
                    }
                    rest = &after[end..];
                }
                (_, Some("mod"), [name, body, after @ ..]) if word(name).is_some() => {
                    let module = [&module[..], &path(std::slice::from_ref(name))].concat();
                    let folder = folder.join(name.to_string());
                    let (plain, nested) = (folder.with_extension("rs"), folder.join("mod.rs"));
                    match body {
                        TokenTree::Group(_) if is_test => {}
                        TokenTree::Group(body) => {
                            let inside = Module { file: file.into(), names: BTreeMap::new() };
                            self.modules.insert(module.clone(), inside);
                            self.items(body.stream(), &module, file, &folder);
                        }
                        _ if (self.read)(&plain).is_some() => self.file(module, plain, &folder),
                        _ => self.file(module, nested, &folder),
                    }
                    rest = after;
                }
                (_, Some("crate" | "self" | "super"), [next, ..]) if is(next, ':') => {
                    let path = path(begin);
                    rest = &after[after.len().min(3 * path.len() - 1)..];
                    self.found.push((module.clone(), token.span().start().line, path, false));
                }
                (TokenTree::Group(group), ..) => self.items(group.stream(), module, file, folder),
                _ => {}
            }
            (is_public, is_test) = (false, false);
        }
    }

    /// The module that defines what a path in the module `from` names, after so many re-exports at the most. Of another
    /// crate's item that is the last module before it.
    fn resolve(&self, from: &[String], path: &[String], steps: usize) -> &Module {
        let (mut at, mut rest) = match path[0].as_str() {
            "crate" => (&from[..1], &path[1..]),
            _ if self.modules.contains_key(&path[..1]) => path.split_at(1),
            _ => (from, path),
        };
        let mut child;
        while let [name, after @ ..] = rest {
            child = [at, &rest[..1]].concat();
            match name.as_str() {
                "super" => at = &at[..at.len() - 1],
                "self" => {}
                _ if self.modules.contains_key(&child) => at = self.modules.get_key_value(&child).unwrap().0,
                _ => match self.modules[at].names.get(name) {
                    Some(meant) if steps > 0 => {
                        return self.resolve(at, &[&meant[..], after].concat(), steps - 1);
                    }
                    _ => break,
                },
            }
            rest = after;
        }
        &self.modules[at]
    }

    pub fn files(&self) -> BTreeSet<&Path> {
        self.modules.values().map(|module| module.file.as_path()).collect()
    }

    /// Every import of one file by another.
    pub fn imports(&self) -> Vec<Import> {
        let import = |(module, line, path, is_reexport): &(Segments, usize, Segments, bool)| {
            let (from, to) = (self.modules[module].file.clone(), self.resolve(module, path, 16).file.clone());
            Import { from, line: *line, path: path.join("::"), to, is_reexport: *is_reexport }
        };
        self.found.iter().map(import).filter(|import| import.from != import.to).collect()
    }
}

/// The shortest circles of imports, one for each set of files; re-exports do not count.
pub fn circles(imports: &[Import]) -> Vec<Vec<&Import>> {
    let mut by_file: BTreeMap<&Path, Vec<&Import>> = BTreeMap::new();
    for import in imports.iter().filter(|import| !import.is_reexport) {
        by_file.entry(&import.from).or_default().push(import);
    }
    let mut circles: BTreeMap<BTreeSet<&Path>, Vec<&Import>> = BTreeMap::new();
    for &start in by_file.keys() {
        let mut came_by: BTreeMap<&Path, &Import> = BTreeMap::new();
        let mut queue = VecDeque::from([start]);
        while let Some(file) = queue.pop_front() {
            for import in by_file.get(file).into_iter().flatten() {
                came_by.entry(&import.to).or_insert_with(|| {
                    queue.push_back(&import.to);
                    import
                });
            }
        }
        let Some(mut last) = came_by.get(start) else { continue };
        let mut circle = VecDeque::from([*last]);
        while last.from != start {
            last = &came_by[last.from.as_path()];
            circle.push_front(last);
        }
        let files = circle.iter().map(|import| import.from.as_path()).collect();
        circles.entry(files).or_insert(circle.into());
    }
    circles.into_values().collect()
}
