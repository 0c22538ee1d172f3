use std::fmt;

use crate::op::Dtype;

/// Whether a family's kernels compute gradients of norms.
pub(super) fn is_norm_backward(family: &str) -> bool {
    family.starts_with("norm_") || family == "softmax_backward"
}

/// Which kernel: its C name is the parts joined by underscores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KernelName {
    pub(super) family: &'static str,
    pub(super) kind: &'static str,
    dtypes: [Option<Dtype>; 2],
}

impl KernelName {
    pub(super) fn new(family: &'static str, kind: &'static str, dtype: Dtype) -> Self {
        KernelName { family, kind, dtypes: [Some(dtype.stored()), None] }
    }

    pub(super) fn with(self, second: Dtype) -> Self {
        KernelName { dtypes: [self.dtypes[0], Some(second.stored())], ..self }
    }

    /// The file of `kernels/` that has it, without the ending.
    pub fn file(&self) -> &'static str {
        match self.family {
            "fill" | "arange" | "random" => "create",
            "copy" if self.dtypes[0] == self.dtypes[1] => "move",
            "copy" => "cast",
            "transpose" | "where" | "mask_fill" => "move",
            "binary_scalar" | "clamp" => "binary",
            "compare_scalar" => "compare",
            "best" => "reduce",
            "softmax" | "layer_norm" | "rms_norm" => "norm",
            family if is_norm_backward(family) => "norm_backward",
            "attention" if self.kind.contains('_') => "attention_backward",
            "gather" | "scatter" => "index",
            "argsort" => "sort",
            "count_set" => "argwhere",
            "pool" if self.kind.starts_with("max") => "pool_max",
            "pool" => "pool_average",
            "grid_sample" | "deform" => "sample",
            family => family,
        }
    }

    /// The type whose instances it is one of (`FOR` in `types.cuh`).
    pub fn instance(&self) -> Dtype {
        let dtypes = self.dtypes.iter().flatten().copied();
        // Between a type and what its sums are kept in, that is the narrower one.
        let instance = if matches!(self.family, "reduce" | "fused") {
            dtypes.min_by_key(|dtype| dtype.size_bytes())
        } else {
            dtypes.into_iter().next()
        };
        instance.expect("every kernel has a type")
    }

    /// What it does, whatever the types: its name without them.
    pub fn of_all_types(&self) -> KernelName {
        KernelName { dtypes: [None, None], ..*self }
    }

    /// The second of its types, if it has two.
    pub(super) fn second(&self) -> Option<Dtype> {
        self.dtypes[1]
    }

    /// Bytes of an element of the widest of its types.
    pub fn widest_bytes(&self) -> usize {
        self.dtypes.iter().flatten().map(|dtype| dtype.size_bytes()).max().expect("every kernel has a type")
    }
}

impl fmt::Display for KernelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.family)?;
        if !self.kind.is_empty() {
            write!(f, "_{}", self.kind)?;
        }
        self.dtypes.iter().flatten().try_for_each(|dtype| write!(f, "_{}", dtype.name()))
    }
}
