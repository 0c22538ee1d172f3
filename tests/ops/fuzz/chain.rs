//! Chains of views, copies and ops of integers, step by step beside plain arrays.

use burn::tensor::backend::Backend;
use burn::tensor::ops::IntTensorOps;
use burn::tensor::{BoolStore, Shape, Slice, TensorData, try_read_sync};
use proptest::prelude::*;

use super::array::Array;
use super::{Ours, devices};
use burn_overcommit::OvercommitDevice;

type Tensor = <Ours as burn::tensor::backend::BackendTypes>::IntTensorPrimitive;

/// No step makes more elements than this.
const MOST_ELEMENTS: usize = 3000;
const MOST_RANK: usize = 6;

/// A kind of step and numbers that choose its details; what they mean depends on the shape they meet.
#[derive(Clone, Debug)]
struct Step {
    kind: u8,
    choices: [usize; 4],
}

fn step() -> impl Strategy<Value = Step> {
    (0..KINDS.len() as u8, any::<[u16; 4]>())
        .prop_map(|(kind, choices)| Step { kind, choices: choices.map(usize::from) })
}

type Apply = fn(&mut Pair, [usize; 4]) -> Option<()>;

/// Every kind of step. One that makes no sense for a shape does nothing.
const KINDS: [Apply; 17] = [
    reshape,
    permute,
    flip,
    expand,
    slice,
    slice,
    narrow,
    windows,
    slice_assign,
    cat,
    repeat,
    select,
    gather,
    add_self,
    reduce,
    mask,
    matmul,
];

/// A tensor and what it should hold.
struct Pair {
    device: OvercommitDevice,
    tensor: Option<Tensor>,
    array: Array,
}

impl Pair {
    fn new(sizes: &[usize], device: OvercommitDevice) -> Self {
        let array = Array::new(sizes, 3);
        Pair { device, tensor: Some(upload(&array, &device)), array }
    }

    fn sizes(&self) -> Vec<usize> {
        self.array.sizes.clone()
    }

    /// An axis, where there is one.
    fn axis(&self, choice: usize) -> Option<usize> {
        (!self.array.sizes.is_empty()).then(|| choice % self.array.sizes.len())
    }

    fn set(&mut self, tensor: impl FnOnce(Tensor) -> Tensor, array: Array) -> Option<()> {
        self.tensor = self.tensor.take().map(tensor);
        self.array = array;
        Some(())
    }
}

fn upload(array: &Array, device: &OvercommitDevice) -> Tensor {
    Ours::int_from_data(TensorData::new(array.elements.clone(), array.sizes.clone()), device)
}

fn reshape(pair: &mut Pair, [a, b, ..]: [usize; 4]) -> Option<()> {
    // Divisors of what is left, one after another.
    let mut left: usize = pair.array.elements.len();
    if left == 0 {
        return None;
    }
    let mut sizes = Vec::new();
    for k in 0..a % MOST_RANK {
        let divisors: Vec<usize> = (1..=left).filter(|size| left.is_multiple_of(*size)).collect();
        let size = divisors[(b >> k) % divisors.len()];
        sizes.push(size);
        left /= size;
    }
    sizes.push(left);
    let array = Array { sizes: sizes.clone(), elements: pair.array.elements.clone() };
    pair.set(|x| Ours::int_reshape(x, Shape::from(sizes)), array)
}

fn permute(pair: &mut Pair, [a, ..]: [usize; 4]) -> Option<()> {
    let rank = pair.sizes().len();
    let mut rest: Vec<usize> = (0..rank).collect();
    let axes: Vec<usize> = (0..rank).map(|k| rest.remove((a >> k) % rest.len())).collect();
    let sizes: Vec<usize> = axes.iter().map(|&axis| pair.array.sizes[axis]).collect();
    let array = pair.array.moved(&sizes, |index| {
        let made = index.clone();
        axes.iter().zip(made).for_each(|(&axis, i)| index[axis] = i);
    });
    pair.set(|x| Ours::int_permute(x, &axes), array)
}

fn flip(pair: &mut Pair, [a, ..]: [usize; 4]) -> Option<()> {
    let sizes = pair.sizes();
    let axes: Vec<usize> = (0..sizes.len()).filter(|axis| a >> axis & 1 == 1).collect();
    let array = pair
        .array
        .moved(&sizes, |index| axes.iter().for_each(|&axis| index[axis] = sizes[axis] - 1 - index[axis]));
    pair.set(|x| Ours::int_flip(x, &axes), array)
}

fn expand(pair: &mut Pair, [a, b, c, _]: [usize; 4]) -> Option<()> {
    let old = pair.sizes();
    let mut sizes: Vec<usize> = old.iter().map(|&size| if size == 1 { 1 + a % 4 } else { size }).collect();
    if b % 2 == 0 && sizes.len() < MOST_RANK {
        sizes.insert(0, c % 4);
    }
    let added = sizes.len() - old.len();
    if sizes.iter().product::<usize>() > MOST_ELEMENTS {
        return None;
    }
    let array = pair.array.moved(&sizes, |index| {
        index.drain(..added);
        (index.iter_mut().zip(&old)).filter(|(_, size)| **size == 1).for_each(|(i, _)| *i = 0);
    });
    pair.set(|x| Ours::int_expand(x, Shape::from(sizes)), array)
}

/// A slice of each axis: range, step and the indices it names.
fn slices(sizes: &[usize], [a, b, c, _]: [usize; 4]) -> Vec<(Slice, Vec<usize>)> {
    let slice = |(axis, &size): (usize, &usize)| {
        let start = (a >> axis) % (size + 1);
        let end = start + (b >> axis) % (size - start + 1);
        let step: isize = [1, 2, 3, -1, -2, -3, 1][(c >> axis) % 7];
        let range = start..end;
        let named = if step > 0 {
            range.step_by(step as usize).collect()
        } else {
            range.rev().step_by(step.unsigned_abs()).collect()
        };
        (Slice::new(start as isize, Some(end as isize), step), named)
    };
    sizes.iter().enumerate().map(slice).collect()
}

fn slice(pair: &mut Pair, choices: [usize; 4]) -> Option<()> {
    let (slices, named): (Vec<_>, Vec<_>) = slices(&pair.sizes(), choices).into_iter().unzip();
    let sizes: Vec<usize> = named.iter().map(Vec::len).collect();
    let array =
        pair.array.moved(&sizes, |index| index.iter_mut().zip(&named).for_each(|(i, named)| *i = named[*i]));
    pair.set(|x| Ours::int_slice(x, &slices), array)
}

fn narrow(pair: &mut Pair, [a, b, c, _]: [usize; 4]) -> Option<()> {
    let axis = pair.axis(a)?;
    let mut sizes = pair.sizes();
    let start = b % (sizes[axis] + 1);
    let count = c % (sizes[axis] - start + 1);
    sizes[axis] = count;
    let array = pair.array.moved(&sizes, |index| index[axis] += start);
    let mut slices = vec![Slice::full(); sizes.len()];
    slices[axis] = Slice::from(start..start + count);
    pair.set(|x| Ours::int_slice(x, &slices), array)
}

fn windows(pair: &mut Pair, [a, b, c, _]: [usize; 4]) -> Option<()> {
    let axis = pair.axis(a)?;
    let mut sizes = pair.sizes();
    if sizes.len() == MOST_RANK || sizes[axis] == 0 {
        return None;
    }
    let (size, step) = (1 + b % sizes[axis], 1 + c % 3);
    sizes[axis] = (sizes[axis] - size) / step + 1;
    sizes.push(size);
    if sizes.iter().product::<usize>() > MOST_ELEMENTS {
        return None;
    }
    let array = pair.array.moved(&sizes, |index| {
        let within = index.pop().unwrap_or(0);
        index[axis] = index[axis] * step + within;
    });
    pair.set(|x| Ours::int_unfold(x, axis, size, step), array)
}

fn slice_assign(pair: &mut Pair, choices: [usize; 4]) -> Option<()> {
    let (slices, named): (Vec<_>, Vec<_>) = slices(&pair.sizes(), choices).into_iter().unzip();
    let value = Array::new(&named.iter().map(Vec::len).collect::<Vec<_>>(), 11);
    let array =
        pair.array.assigned(&value, |index| index.iter().zip(&named).map(|(&i, named)| named[i]).collect());
    let value = upload(&value, &pair.device);
    pair.set(|x| Ours::int_slice_assign(x, &slices, value), array)
}

fn cat(pair: &mut Pair, [a, b, ..]: [usize; 4]) -> Option<()> {
    let axis = pair.axis(a)?;
    let mut sizes = pair.sizes();
    let (first, second) = (sizes[axis], b % 4);
    sizes[axis] = second;
    let other = Array::new(&sizes, 5);
    sizes[axis] = first + second;
    if sizes.iter().product::<usize>() > MOST_ELEMENTS {
        return None;
    }
    let array = Array::from_index(&sizes, |index| {
        let mut inside = index.to_vec();
        if index[axis] < first {
            return pair.array.at(index);
        }
        inside[axis] -= first;
        other.at(&inside)
    });
    let other = upload(&other, &pair.device);
    pair.set(|x| Ours::int_cat(vec![x, other], axis), array)
}

fn repeat(pair: &mut Pair, [a, b, ..]: [usize; 4]) -> Option<()> {
    let axis = pair.axis(a)?;
    let (mut sizes, times) = (pair.sizes(), 1 + b % 3);
    let size = sizes[axis];
    sizes[axis] *= times;
    if sizes.iter().product::<usize>() > MOST_ELEMENTS {
        return None;
    }
    let array = pair.array.moved(&sizes, |index| index[axis] %= size);
    pair.set(|x| Ours::int_repeat_dim(x, axis, times), array)
}

fn select(pair: &mut Pair, [a, b, c, _]: [usize; 4]) -> Option<()> {
    let axis = pair.axis(a)?;
    let mut sizes = pair.sizes();
    let size = sizes[axis];
    if size == 0 {
        return None;
    }
    let rows: Vec<usize> = (0..b % 6).map(|k| (c >> k) % size).collect();
    sizes[axis] = rows.len();
    if sizes.iter().product::<usize>() > MOST_ELEMENTS {
        return None;
    }
    let array = pair.array.moved(&sizes, |index| index[axis] = rows[index[axis]]);
    let rows = Array { sizes: vec![rows.len()], elements: rows.iter().map(|&row| row as i32).collect() };
    let rows = upload(&rows, &pair.device);
    pair.set(|x| Ours::int_select(x, axis, rows), array)
}

fn gather(pair: &mut Pair, [a, b, c, _]: [usize; 4]) -> Option<()> {
    let axis = pair.axis(a)?;
    let mut sizes = pair.sizes();
    let size = sizes[axis];
    if size == 0 {
        return None;
    }
    sizes[axis] = b % 5;
    if sizes.iter().product::<usize>() > MOST_ELEMENTS {
        return None;
    }
    let rows = Array::new(&sizes, c as i32).map(|value| value.rem_euclid(size as i32));
    let array = pair.array.moved(&sizes, |index| index[axis] = rows.at(index) as usize);
    let rows = upload(&rows, &pair.device);
    pair.set(|x| Ours::int_gather(axis, x, rows), array)
}

/// A sum with itself reversed, so that the operands have different strides.
fn add_self(pair: &mut Pair, [a, ..]: [usize; 4]) -> Option<()> {
    let axis = pair.axis(a)?;
    let sizes = pair.sizes();
    let turned = pair.array.moved(&sizes, |index| index[axis] = sizes[axis] - 1 - index[axis]);
    let array = Array::from_index(&sizes, |index| pair.array.at(index).wrapping_add(turned.at(index)));
    pair.set(|x| Ours::int_add(x.clone(), Ours::int_flip(x, &[axis])), array)
}

fn reduce(pair: &mut Pair, [a, b, ..]: [usize; 4]) -> Option<()> {
    let axis = pair.axis(a)?;
    if b % 2 == 0 {
        let array = pair.array.folded(axis, 0, i32::wrapping_add);
        return pair.set(|x| Ours::int_sum_dim(x, axis), array);
    }
    if pair.array.sizes[axis] == 0 {
        return None;
    }
    let array = pair.array.folded(axis, i32::MIN, i32::max);
    pair.set(|x| Ours::int_max_dim(x, axis), array)
}

fn mask(pair: &mut Pair, [a, ..]: [usize; 4]) -> Option<()> {
    let limit = a as i32 % 100;
    let array = pair.array.map(|x| if x > limit { -x } else { x });
    pair.set(
        |x| {
            let mask = Ours::int_greater_elem(x.clone(), limit.into(), BoolStore::Native);
            Ours::int_mask_where(x.clone(), mask, Ours::int_neg(x))
        },
        array,
    )
}

/// The product with its own transpose, of the last two dimensions.
fn matmul(pair: &mut Pair, _: [usize; 4]) -> Option<()> {
    let old = pair.sizes();
    let [.., rows, inner] = old[..] else { return None };
    let rank = old.len();
    let mut sizes = old.clone();
    sizes[rank - 1] = rows;
    if sizes.iter().product::<usize>() > MOST_ELEMENTS {
        return None;
    }
    let array = Array::from_index(&sizes, |index| {
        let (lead, [i, j]) = (&index[..rank - 2], [index[rank - 2], index[rank - 1]]);
        let element = |row: usize, k: usize| pair.array.at(&[lead, &[row, k]].concat());
        (0..inner).fold(0i32, |sum, k| sum.wrapping_add(element(i, k).wrapping_mul(element(j, k))))
    });
    pair.set(|x| Ours::int_matmul(x.clone(), Ours::int_swap_dims(x, rank - 2, rank - 1)), array)
}

proptest! {
    #[test]
    fn views_and_ops_agree_with_plain_arrays(
        sizes in prop::collection::vec(0usize..6, 0..5),
        steps in prop::collection::vec(step(), 1..12),
    ) {
        for device in devices() {
            let mut pair = Pair::new(&sizes, device);
            for step in &steps {
                let _ = KINDS[usize::from(step.kind)](&mut pair, step.choices);
            }
            let tensor = pair.tensor.take().expect("every step leaves a tensor");
            let data = try_read_sync(Ours::int_into_data(tensor)).expect("read at once").expect("the tensor is readable");
            prop_assert_eq!(data.shape.to_vec(), pair.array.sizes);
            prop_assert_eq!(data.to_vec::<i32>().expect("32-bit integers"), pair.array.elements);
            Ours::sync(&device).expect("nothing failed");
        }
    }
}
