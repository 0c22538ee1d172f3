//! The kernels that lay an image out as a column matrix and add one back, and those that convolve few channels without
//! one: `kernels/conv.cu`.

use std::sync::LazyLock;

use super::kernels::{self, Kernel};

/// Mirrors `ColumnsArgs` in `kernels/conv.cu`, field by field.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct ColumnsArgs<T> {
    pub image: *mut T,
    pub columns: *mut T,
    pub plane: *mut T,
    pub weights: *mut T,
    pub weight_step: i64,
    /// Of channel, z, y and x.
    pub strides: [i64; 4],
    pub size: [i64; 3],
    pub kernel: [i64; 3],
    pub stride: [i64; 3],
    pub padding: [i64; 3],
    pub dilation: [i64; 3],
    /// First row of the column matrix, and the one after the last.
    pub rows: [i64; 2],
    pub out_begin: i64,
    pub out_rows: i64,
    /// Height and width of an output plane.
    pub out: [i64; 2],
    pub pitch: i64,
}

/// The kernels for one element type and the processor this runs on.
///
/// # Safety
/// Of every method: the image is readable, and in `col2im` and `depthwise_input` writable and contiguous along x,
/// wherever its windows and strides reach; `columns` and `weights` are readable or writable, as the method says, for the
/// rows at their steps, and `plane` is writable for the area that the band's windows cover. They do not overlap.
#[derive(Clone, Copy)]
pub(super) struct ColumnKernels {
    im2col: Kernel,
    col2im: Kernel,
    depthwise: Kernel,
    depthwise_input: Kernel,
    depthwise_weight: Kernel,
}

macro_rules! methods {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// See [`ColumnKernels`]; `T` is the element type that these kernels are for.
        pub unsafe fn $name<T>(&self, args: &ColumnsArgs<T>) {
            // SAFETY: the caller upholds what the kernel reads and writes; the arguments outlive the call.
            unsafe { self.$name.run_alone(args) }
        }
    )*};
}

impl ColumnKernels {
    methods! {
        /// Writes rows of the column matrix.
        im2col
        /// Adds rows of the column matrix to the image.
        col2im
        /// Adds the image's channels, weighted, to `columns`.
        depthwise
        /// Adds `columns`, weighted, to the image's channels.
        depthwise_input
        /// Adds the products of the image's channels and `columns` to `weights`.
        depthwise_weight
    }

    /// # Panics
    /// If the kernels were built from another source than this file mirrors.
    fn find<T>(dtype: &str) -> Self {
        let find = |name: &str| {
            let kernel = kernels::find(&format!("{name}_{dtype}"));
            assert!(kernel.takes::<ColumnsArgs<T>>(), "{name} takes other arguments than this file mirrors");
            kernel
        };
        ColumnKernels {
            im2col: find("im2col"),
            col2im: find("col2im"),
            depthwise: find("depthwise"),
            depthwise_input: find("depthwise_input"),
            depthwise_weight: find("depthwise_weight"),
        }
    }
}

/// The floats that products and convolutions are computed in.
pub(super) trait Real: Copy + Send + Sync + 'static {
    const ZERO: Self;
    const ONE: Self;

    /// The kernels of `kernels/conv.cu` for this type.
    fn columns() -> &'static ColumnKernels;
}

macro_rules! real {
    ($($type:ident)*) => {$(
        impl Real for $type {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;

            fn columns() -> &'static ColumnKernels {
                static KERNELS: LazyLock<ColumnKernels> =
                    LazyLock::new(|| ColumnKernels::find::<$type>(stringify!($type)));
                &KERNELS
            }
        }
    )*};
}
real!(f32 f64);
