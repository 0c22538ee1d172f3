//! The module that each op and each storage belongs to.

use std::collections::HashMap;

use crate::trace::Event;

/// A path with `*` in place of numbers, so that layers that are alike go by one name.
pub(super) fn of_layers(path: &str) -> String {
    let names = path.split('.').map(|name| if name.parse::<usize>().is_ok() { "*" } else { name });
    names.collect::<Vec<_>>().join(".")
}

/// The modules of a recording, as far as the program names them.
#[derive(Debug, Default)]
pub(super) struct Modules<'a> {
    /// By the number of the op's event.
    of_ops: HashMap<usize, &'a str>,
    of_storages: HashMap<u64, Owner<'a>>,
}

/// The module that made a storage.
#[derive(Clone, Copy, Debug)]
struct Owner<'a> {
    module: &'a str,
    /// Whether the op itself had a module.
    is_named: bool,
    /// The number of the op's event.
    made_at: usize,
}

impl<'a> Modules<'a> {
    /// An op without a module of its own, such as those of a backward pass and elementwise ones, counts for the one whose values it
    /// reads: values of an op that has a module if there are any, else those that were made last.
    pub fn of(events: &'a [Event]) -> Self {
        let mut modules = Modules::default();
        for (index, event) in events.iter().enumerate() {
            let Event::Op(op) = event else { continue };
            let owners = || op.inputs.iter().filter_map(|storage| modules.of_storages.get(storage));
            let inherited = || {
                let named = owners().find(|owner| owner.is_named);
                named.or_else(|| owners().max_by_key(|owner| owner.made_at)).map(|owner| owner.module)
            };
            let Some(module) = op.module.as_deref().or_else(inherited) else { continue };
            let owner = Owner { module, is_named: op.module.is_some(), made_at: index };
            modules.of_ops.insert(index, module);
            modules.of_storages.extend(op.outputs.iter().map(|made| (made.storage, owner)));
        }
        modules
    }

    /// The module of the op whose event has this number.
    pub fn of_op(&self, index: usize) -> Option<&'a str> {
        self.of_ops.get(&index).copied()
    }

    /// The module that made a storage.
    pub fn of_storage(&self, storage: u64) -> Option<&'a str> {
        self.of_storages.get(&storage).map(|owner| owner.module)
    }
}
