//! An array without views: every change makes new elements, as plainly as possible.

/// Integers in row-major order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Array {
    pub sizes: Vec<usize>,
    pub elements: Vec<i32>,
}

impl Array {
    /// Elements that differ from their neighbours.
    pub fn new(sizes: &[usize], seed: i32) -> Self {
        Array::from_index(sizes, |index| {
            index.iter().fold(seed, |value, &i| value.wrapping_mul(31).wrapping_add(i as i32 * 7 + 1)) % 100
        })
    }

    /// The element at each index.
    pub fn from_index(sizes: &[usize], element: impl FnMut(&[usize]) -> i32) -> Self {
        let elements = indices(sizes).iter().map(Vec::as_slice).map(element).collect();
        Array { sizes: sizes.to_vec(), elements }
    }

    pub fn at(&self, index: &[usize]) -> i32 {
        let flat = index.iter().zip(&self.sizes).fold(0, |flat, (&i, &size)| flat * size + i);
        self.elements[flat]
    }

    /// An array of `sizes` whose index `i` is this one's index `from(i)`.
    pub fn moved(&self, sizes: &[usize], mut from: impl FnMut(&mut Vec<usize>)) -> Self {
        Array::from_index(sizes, |index| {
            let mut index = index.to_vec();
            from(&mut index);
            self.at(&index)
        })
    }

    /// This array with the elements that `to` names replaced by those of `value`.
    pub fn assigned(&self, value: &Array, to: impl Fn(&[usize]) -> Vec<usize>) -> Self {
        let mut changed = self.clone();
        for index in indices(&value.sizes) {
            let to = to(&index);
            let flat = to.iter().zip(&self.sizes).fold(0, |flat, (&i, &size)| flat * size + i);
            changed.elements[flat] = value.at(&index);
        }
        changed
    }

    pub fn map(&self, f: impl Fn(i32) -> i32) -> Self {
        Array { elements: self.elements.iter().map(|&x| f(x)).collect(), ..self.clone() }
    }

    /// `axis` folded to size one.
    pub fn folded(&self, axis: usize, start: i32, f: impl Fn(i32, i32) -> i32) -> Self {
        let mut sizes = self.sizes.clone();
        sizes[axis] = 1;
        Array::from_index(&sizes, |index| {
            let mut index = index.to_vec();
            (0..self.sizes[axis]).fold(start, |total, k| {
                index[axis] = k;
                f(total, self.at(&index))
            })
        })
    }
}

/// Every index of an array of these sizes, in row-major order.
fn indices(sizes: &[usize]) -> Vec<Vec<usize>> {
    sizes.iter().fold(vec![vec![]], |heads, &size| {
        heads.iter().flat_map(|head| (0..size).map(move |i| [head.as_slice(), &[i]].concat())).collect()
    })
}
