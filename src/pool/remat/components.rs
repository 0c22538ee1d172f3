//! Evicted storages that depend on each other, as sets with the sum of their costs: Kirisame et al., *Dynamic Tensor
//! Rematerialization*, ICLR 2021, section 4.1 and appendix C.2, the equivalence-class approximation of the evicted
//! neighbourhood. An eviction joins the sets around it; a storage that is there again takes its cost out of its set, which is
//! not split.

use super::table::Table;

/// Names the place of an evicted storage.
pub type Member = u32;

/// Union-find (Galler and Fischer, CACM 1964) whose places are given up once nothing names them.
#[derive(Debug, Default)]
pub struct Components {
    places: Table<Cursor>,
}

#[derive(Debug)]
struct Cursor {
    parent: Option<Member>,
    /// Places below it, and one for the storage while that is evicted.
    references: u32,
    own_ns: u64,
    /// Of the whole set, at its root.
    cost_ns: u64,
}

impl Components {
    /// The set of a member, by its root.
    pub fn root(&self, member: Member) -> Member {
        let mut at = member;
        while let Some(parent) = self.places[at].parent {
            at = parent;
        }
        at
    }

    /// The costs of a set.
    pub fn cost_ns(&self, root: Member) -> u64 {
        self.places[root].cost_ns
    }

    /// A storage was evicted, in the neighbourhood of others.
    pub fn join(&mut self, cost_ns: u64, neighbours: impl IntoIterator<Item = Member>) -> Member {
        let member = self.places.insert(Cursor { parent: None, references: 1, own_ns: cost_ns, cost_ns });
        for neighbour in neighbours {
            let (a, b) = (self.root(member), self.root(neighbour));
            if a != b {
                // The one with fewer references goes below, so that paths stay short.
                let (root, below) =
                    if self.places[a].references > self.places[b].references { (a, b) } else { (b, a) };
                self.places[below].parent = Some(root);
                self.places[root].references += 1;
                self.places[root].cost_ns += self.places[below].cost_ns;
            }
        }
        member
    }

    /// An evicted storage is there again, or forgotten.
    pub fn leave(&mut self, member: Member) {
        let root = self.root(member);
        self.places[root].cost_ns -= self.places[member].own_ns;
        let mut left = Some(member);
        while let Some(at) = left {
            self.places[at].references -= 1;
            left = if self.places[at].references == 0 { self.places.remove(at).parent } else { None };
        }
    }

    /// How many places there are.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.places.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_have_the_costs_of_their_members() {
        let mut components = Components::default();
        let a = components.join(1, []);
        let b = components.join(10, []);
        assert_ne!(components.root(a), components.root(b));
        let c = components.join(100, [a, b]);
        let cost_ns = |components: &Components, member| components.cost_ns(components.root(member));
        assert_eq!([a, b, c].map(|member| cost_ns(&components, member)), [111; 3]);
        // It takes its cost away, and the others stay together.
        components.leave(c);
        assert_eq!([a, b].map(|member| cost_ns(&components, member)), [11; 2]);
        assert_eq!(components.root(a), components.root(b));
    }

    #[test]
    fn nothing_is_left_of_those_that_left() {
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
