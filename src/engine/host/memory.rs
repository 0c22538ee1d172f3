//! Anonymous memory for spans. Under a fuzzer it is on the heap, where AddressSanitizer notices accesses beyond it.

#[cfg(not(fuzzing))]
pub use memmap2::MmapMut as Memory;

#[cfg(fuzzing)]
pub use heap::Memory;

#[cfg(fuzzing)]
mod heap {
    use std::alloc::{Layout, alloc, dealloc};
    use std::io;

    use crate::engine::ALIGN_BYTES;

    /// Memory on the heap that is not written yet.
    #[derive(Debug)]
    pub struct Memory {
        start: *mut u8,
        layout: Layout,
    }

    // SAFETY: nothing else frees the memory, and this type gives out its address alone.
    unsafe impl Send for Memory {}

    impl Memory {
        /// Memory of so many bytes, of which there is at least one.
        ///
        /// # Errors
        /// The allocator has no such memory.
        pub fn map_anon(bytes: usize) -> io::Result<Self> {
            let layout = Layout::from_size_align(bytes, ALIGN_BYTES).map_err(io::Error::other)?;
            // SAFETY: the layout is not empty.
            let start = unsafe { alloc(layout) };
            if start.is_null() {
                Err(io::ErrorKind::OutOfMemory.into())
            } else {
                Ok(Memory { start, layout })
            }
        }

        /// The address of the first byte.
        pub fn as_ptr(&self) -> *const u8 {
            self.start
        }
    }

    impl Drop for Memory {
        fn drop(&mut self) {
            // SAFETY: `map_anon` allocated it with this layout.
            unsafe { dealloc(self.start, self.layout) }
        }
    }
}
