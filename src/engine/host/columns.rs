//! The kernels that lay an image out as a column matrix and add one back: `kernels/conv.cu`.

use std::sync::LazyLock;

use super::kernels::{self, Kernel};

/// Mirrors `ColumnsArgs` in `kernels/conv.cu`, field by field.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct ColumnsArgs {
    pub image: *mut f32,
    pub columns: *mut f32,
    pub plane: *mut f32,
    /// Of channel, y and x.
    pub strides: [i64; 3],
    pub size: [i64; 2],
    pub kernel: [i64; 2],
    pub stride: [i64; 2],
    pub padding: [i64; 2],
    pub dilation: [i64; 2],
    /// First row of the column matrix, and the one after the last.
    pub rows: [i64; 2],
    pub out_begin: i64,
    pub out_rows: i64,
    pub out_width: i64,
    pub pitch: i64,
}

/// The two kernels, for the processor this runs on.
#[derive(Clone, Copy)]
pub(super) struct ColumnKernels {
    im2col: Kernel,
    col2im: Kernel,
}

impl ColumnKernels {
    /// Writes rows of the column matrix.
    ///
    /// # Safety
    /// The image is readable wherever its windows and strides reach; `columns` is writable for the rows at their
    /// pitch, `plane` for the area that the band's windows cover. They do not overlap.
    pub unsafe fn im2col(&self, args: &ColumnsArgs) {
        // SAFETY: the caller upholds what the kernel reads and writes; the arguments outlive the call.
        unsafe { self.im2col.run_alone(args) }
    }

    /// Adds rows of the column matrix to the image.
    ///
    /// # Safety
    /// As for [`im2col`](Self::im2col) with image and columns exchanged; the image is contiguous along x.
    pub unsafe fn col2im(&self, args: &ColumnsArgs) {
        // SAFETY: the caller upholds what the kernel reads and writes; the arguments outlive the call.
        unsafe { self.col2im.run_alone(args) }
    }
}

/// The kernels for this processor.
///
/// # Panics
/// If the kernels were built from another source than this file mirrors.
pub(super) fn column_kernels() -> &'static ColumnKernels {
    static KERNELS: LazyLock<ColumnKernels> = LazyLock::new(|| {
        let find = |name: &str| {
            let kernel = kernels::find(name);
            assert!(kernel.takes::<ColumnsArgs>(), "{name} takes other arguments than this file mirrors");
            kernel
        };
        ColumnKernels { im2col: find("im2col_f32"), col2im: find("col2im_f32") }
    });
    &KERNELS
}
