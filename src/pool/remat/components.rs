//! Components: sets of evicted storages that depend on each other, with the sums of their costs.
//!
//! This is the equivalence-class approximation of the evicted neighbourhood of Kirisame et al., *Dynamic Tensor
//! Rematerialization*, ICLR 2021, section 4.1 and appendix C.2. An eviction unites the sets of its neighbours. When a storage has
//! its bytes again, its cost is subtracted from its set, but the set is not split.

use super::table::Table;

/// Identifies an evicted storage in the sets.
pub type Member = u32;

/// Union-find (Galler and Fischer, CACM 1964) whose nodes are removed once nothing refers to them.
#[derive(Debug, Default)]
pub struct Components {
    nodes: Table<Node>,
}

#[derive(Debug)]
struct Node {
    parent: Option<Member>,
    /// The number of its children, and one more while its storage is evicted.
    references: u32,
    /// The cost of its storage.
    own_ns: u64,
    /// At a root, the cost of the whole set.
    cost_ns: u64,
}

impl Components {
    /// The root of a member's set.
    pub fn root(&self, member: Member) -> Member {
        let mut at = member;
        while let Some(parent) = self.nodes[at].parent {
            at = parent;
        }
        at
    }

    /// The sum of the costs of a set.
    pub fn cost_ns(&self, root: Member) -> u64 {
        self.nodes[root].cost_ns
    }

    /// Adds an evicted storage and unites the sets of its neighbours.
    pub fn join(&mut self, cost_ns: u64, neighbours: impl IntoIterator<Item = Member>) -> Member {
        let member = self.nodes.insert(Node { parent: None, references: 1, own_ns: cost_ns, cost_ns });
        for neighbour in neighbours {
            let (a, b) = (self.root(member), self.root(neighbour));
            if a != b {
                // The root with fewer references becomes the child, so that paths stay short.
                let (root, below) =
                    if self.nodes[a].references > self.nodes[b].references { (a, b) } else { (b, a) };
                self.nodes[below].parent = Some(root);
                self.nodes[root].references += 1;
                self.nodes[root].cost_ns += self.nodes[below].cost_ns;
            }
        }
        member
    }

    /// Removes a storage that has bytes again or whose record goes.
    pub fn leave(&mut self, member: Member) {
        let root = self.root(member);
        self.nodes[root].cost_ns -= self.nodes[member].own_ns;
        let mut left = Some(member);
        while let Some(at) = left {
            self.nodes[at].references -= 1;
            left = if self.nodes[at].references == 0 { self.nodes.remove(at).parent } else { None };
        }
    }

    /// The number of nodes.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.nodes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_costs_as_much_as_its_members() {
        let mut components = Components::default();
        let a = components.join(1, []);
        let b = components.join(10, []);
        assert_ne!(components.root(a), components.root(b));
        let c = components.join(100, [a, b]);
        let cost_ns = |components: &Components, member| components.cost_ns(components.root(member));
        assert_eq!([a, b, c].map(|member| cost_ns(&components, member)), [111; 3]);
        // Its cost is subtracted, and the others stay in one set.
        components.leave(c);
        assert_eq!([a, b].map(|member| cost_ns(&components, member)), [11; 2]);
        assert_eq!(components.root(a), components.root(b));
    }

    #[test]
    fn no_node_remains_when_all_members_left() {
        let mut components = Components::default();
        for round in 0..100 {
            let mut members: Vec<Member> = Vec::new();
            for at in 0..10 {
                let neighbours = members.iter().copied().filter(|member| (member + at) % 3 == round % 3);
                let neighbours: Vec<Member> = neighbours.collect();
                members.push(components.join(1, neighbours));
            }
            members.into_iter().rev().for_each(|member| components.leave(member));
        }
        assert_eq!(components.len(), 0);
    }
}
