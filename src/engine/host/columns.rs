//! The kernels that lay an image out as a column matrix and add one back: `kernels/conv.cu`.

use std::ffi::{CStr, c_char, c_void};
use std::sync::OnceLock;

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

/// A kernel's entry point: arguments, blocks there are, first block to run, block after the last.
type Run = unsafe extern "C" fn(*const c_void, u32, u32, u32);

/// The two kernels, for the processor this runs on.
#[derive(Clone, Copy, Debug)]
pub(super) struct ColumnKernels {
    im2col: Run,
    col2im: Run,
}

impl ColumnKernels {
    /// Writes rows of the column matrix.
    ///
    /// # Safety
    /// The image is readable wherever its windows and strides reach; `columns` is writable for the rows at their
    /// pitch, `plane` for the area that the band's windows cover. They do not overlap.
    pub unsafe fn im2col(&self, args: &ColumnsArgs) {
        // SAFETY: the caller upholds what the kernel reads and writes; the arguments outlive the call.
        unsafe { (self.im2col)(std::ptr::from_ref(args).cast(), 1, 0, 1) }
    }

    /// Adds rows of the column matrix to the image.
    ///
    /// # Safety
    /// As for [`im2col`](Self::im2col) with image and columns exchanged; the image is contiguous along x.
    pub unsafe fn col2im(&self, args: &ColumnsArgs) {
        // SAFETY: the caller upholds what the kernel reads and writes; the arguments outlive the call.
        unsafe { (self.col2im)(std::ptr::from_ref(args).cast(), 1, 0, 1) }
    }
}

/// Mirrors `Entry` in `kernels/simt.cuh`.
#[repr(C)]
struct Entry {
    name: *const c_char,
    run: Run,
    args_bytes: u64,
    args_align: u64,
}

unsafe extern "C" {
    fn overcommit_kernels_conv_base(count: *mut u64) -> *const Entry;
    #[cfg(target_arch = "x86_64")]
    fn overcommit_kernels_conv_v3(count: *mut u64) -> *const Entry;
}

fn entries() -> &'static [Entry] {
    let mut count = 0;
    #[cfg(target_arch = "x86_64")]
    let wide = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
    #[cfg(not(target_arch = "x86_64"))]
    let wide = false;
    // SAFETY: build.rs compiled these functions; they return a table that static initialisers filled and nothing
    // changes, so it lives and stays as long as the program.
    unsafe {
        let table = match wide {
            #[cfg(target_arch = "x86_64")]
            true => overcommit_kernels_conv_v3(&mut count),
            _ => overcommit_kernels_conv_base(&mut count),
        };
        std::slice::from_raw_parts(table, count as usize)
    }
}

/// The kernels for this processor.
///
/// # Panics
/// If the kernels were built from another source than this file mirrors.
pub(super) fn column_kernels() -> &'static ColumnKernels {
    static KERNELS: OnceLock<ColumnKernels> = OnceLock::new();
    KERNELS.get_or_init(|| {
        let find = |name: &CStr| {
            let entry = entries()
                .iter()
                // SAFETY: names are string literals of the kernels' source.
                .find(|entry| unsafe { CStr::from_ptr(entry.name) } == name)
                .unwrap_or_else(|| panic!("no kernel {name:?}"));
            assert_eq!(
                entry.args_bytes as usize,
                size_of::<ColumnsArgs>(),
                "arguments of {name:?}"
            );
            assert_eq!(
                entry.args_align as usize,
                align_of::<ColumnsArgs>(),
                "arguments of {name:?}"
            );
            entry.run
        };
        ColumnKernels {
            im2col: find(c"im2col_f32"),
            col2im: find(c"col2im_f32"),
        }
    })
}
