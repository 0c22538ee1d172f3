//! How long ops wait for copies.

use hashbrown::HashMap;

use super::{Lane, Mark, Ran};

/// How long ops waited for copies, by what was copied meanwhile: on the lane of the copy that an op waited for, and, while that
/// lane was idle, on the other. `copies` says what each copy is of.
pub fn waits<T: Copy>(ran: &[Ran], copies: &[(Mark, T)]) -> Vec<(T, u64)> {
    let copied: HashMap<Mark, T> = copies.iter().copied().collect();
    let on = |lane| ran.iter().filter(move |piece| piece.mark.lane == lane);
    let lanes = [Lane::Fetch, Lane::Offload].map(|lane| on(lane).copied().collect::<Vec<Ran>>());
    let mut waits = Vec::new();
    let mut end_ns = on(Lane::Compute).next().map_or(0, |first| first.begin_ns);
    for op in on(Lane::Compute) {
        let mut left_ns = op.begin_ns.saturating_sub(end_ns);
        let ends_then = |lane: &[Ran]| lane.binary_search_by_key(&op.begin_ns, |piece| piece.end_ns).is_ok();
        let first = usize::from(!ends_then(&lanes[0]));
        for lane in [&lanes[first], &lanes[1 - first]] {
            let from = lane.partition_point(|piece| piece.end_ns <= end_ns);
            let meanwhile = lane[from..].iter().take_while(|piece| piece.begin_ns < op.begin_ns);
            for piece in meanwhile {
                let begin_ns = piece.begin_ns.max(end_ns);
                let ns = left_ns.min(piece.end_ns.min(op.begin_ns).saturating_sub(begin_ns));
                left_ns -= ns;
                waits.extend(copied.get(&piece.mark).filter(|_| ns > 0).map(|&copied| (copied, ns)));
            }
        }
        end_ns = op.end_ns;
    }
    waits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_op_waits_for_all_that_is_copied_meanwhile() {
        let ran = |lane, sequence, begin_ns, end_ns| Ran { mark: Mark { lane, sequence }, begin_ns, end_ns };
        let pieces = [
            ran(Lane::Compute, 1, 0, 10),
            ran(Lane::Fetch, 1, 5, 14),
            ran(Lane::Fetch, 2, 14, 20),
            ran(Lane::Offload, 1, 0, 30),
            ran(Lane::Compute, 2, 20, 25),
            // While the fetch lane is idle, the op waits for the copy to the host.
            ran(Lane::Fetch, 3, 30, 32),
            ran(Lane::Compute, 3, 32, 40),
        ];
        let copies = [(Lane::Fetch, 1, 7), (Lane::Fetch, 2, 8), (Lane::Offload, 1, 9), (Lane::Fetch, 3, 6)];
        let copies = copies.map(|(lane, sequence, copied)| (Mark { lane, sequence }, copied));
        assert_eq!(waits(&pieces, &copies), [(7, 4), (8, 6), (6, 2), (9, 5)]);
    }

    #[test]
    fn a_copy_that_ends_before_it_begins_is_not_waited_for() {
        let ran = |lane, begin_ns, end_ns| Ran { mark: Mark { lane, sequence: 1 }, begin_ns, end_ns };
        let pieces = [ran(Lane::Compute, 0, 10), ran(Lane::Fetch, 25, 15), ran(Lane::Compute, 30, 40)];
        assert_eq!(waits(&pieces, &[(Mark { lane: Lane::Fetch, sequence: 1 }, 7)]), []);
    }
}
