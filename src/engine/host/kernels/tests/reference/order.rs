//! What ops along an order mean: running sums, sorting, finding.

use super::*;

/// Puts rows of any length along `axis` back into row-major order.
fn from_rows(rows: &[Vec<f64>], shape: &Shape, axis: usize) -> Vec<f64> {
    let row_of = shape.with(axis, 1);
    let element = |index: Vec<usize>| {
        let mut first = index.clone();
        first[axis] = 0;
        rows[flat(&row_of, &first)][index[axis]]
    };
    indices(shape).map(element).collect()
}

pub fn cumulative(kind: Cumulative, axis: usize, x: &Data) -> Vec<f64> {
    let dtype = x.view.dtype;
    let step = |total: f64, x: f64| match kind {
        Cumulative::Sum => wrap(dtype, total + x),
        Cumulative::Prod => wrap(dtype, total * x),
        _ if total.is_nan() || x.is_nan() => f64::NAN,
        Cumulative::Max => total.max(x),
        Cumulative::Min => total.min(x),
    };
    let scan = |row: &Vec<f64>| {
        let mut total = None;
        let mut next = |&x: &f64| *total.insert(total.map_or(x, |total| step(total, x)));
        row.iter().map(|x| convert(next(x), dtype)).collect()
    };
    let scanned: Vec<Vec<f64>> = rows(x, axis).iter().map(scan).collect();
    from_rows(&scanned, x.view.shape(), axis)
}

/// The first elements in order, and where they were.
pub fn sort(x: &Data, axis: usize, descending: bool, count: usize) -> (Vec<f64>, Vec<f64>) {
    let places = |row: &Vec<f64>| -> Vec<usize> {
        let mut places: Vec<usize> = (0..row.len()).collect();
        // No test has a negative NaN.
        places.sort_by(
            |&a, &b| {
                if descending { row[b].total_cmp(&row[a]) } else { row[a].total_cmp(&row[b]) }
            },
        );
        places.truncate(count);
        places
    };
    let rows = rows(x, axis);
    let places: Vec<Vec<usize>> = rows.iter().map(places).collect();
    let values: Vec<Vec<f64>> =
        rows.iter().zip(&places).map(|(row, places)| places.iter().map(|&at| row[at]).collect()).collect();
    let places: Vec<Vec<f64>> =
        places.iter().map(|row| row.iter().map(|&place| place as f64).collect()).collect();
    let shape = x.view.shape().with(axis, count);
    (from_rows(&values, &shape, axis), from_rows(&places, &shape, axis))
}

pub fn argwhere(mask: &Data) -> Vec<f64> {
    let all = indices(mask.view.shape()).zip(mask.elements());
    all.filter(|(_, set)| *set != 0.0).flat_map(|(index, _)| index).map(|i| i as f64).collect()
}
