//! Descriptors of cuDNN's backend: objects with attributes, which are set, fixed by `finalize`, and read.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr;

use cudarc::cudnn::sys;
use cudarc::cudnn::sys::cudnnBackendNumericalNote_t as Numerical;
use cudarc::cudnn::sys::{cudnnBackendAttributeName_t as Name, cudnnBackendAttributeType_t as Type};

use crate::engine::cuda::driver::Called;
use crate::engine::cuda::library::call;

/// A type that attributes have, as the library names it.
///
/// # Safety
/// It is laid out as what the library reads and writes under that name, and any bits are a value of it.
pub(super) unsafe trait Attribute: Copy {
    const TYPE: Type;
}

/// An address in the device's memory.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(super) struct Address(pub u64);

/// What an engine says of its arithmetic: a number, since later versions of the library have more of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(super) struct Note(u32);

impl Note {
    pub const TENSOR_CORES: Note = Note(Numerical::CUDNN_NUMERICAL_NOTE_TENSOR_CORE as u32);
    pub const INPUTS_IN_FEWER_BITS: Note = Note(Numerical::CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS as u32);
    pub const SUMS_IN_FEWER_BITS: Note =
        Note(Numerical::CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION as u32);
    pub const NOT_REPEATABLE: Note = Note(Numerical::CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC as u32);
}

// SAFETY: plain numbers and pointers, under the library's names for them.
unsafe impl Attribute for i64 {
    const TYPE: Type = Type::CUDNN_TYPE_INT64;
}
// SAFETY: as above.
unsafe impl Attribute for f32 {
    const TYPE: Type = Type::CUDNN_TYPE_FLOAT;
}
// SAFETY: as above.
unsafe impl Attribute for f64 {
    const TYPE: Type = Type::CUDNN_TYPE_DOUBLE;
}
// SAFETY: as above.
unsafe impl Attribute for Address {
    const TYPE: Type = Type::CUDNN_TYPE_VOID_PTR;
}
// SAFETY: as above.
unsafe impl Attribute for Note {
    const TYPE: Type = Type::CUDNN_TYPE_NUMERICAL_NOTE;
}
// SAFETY: as above.
unsafe impl Attribute for sys::cudnnHandle_t {
    const TYPE: Type = Type::CUDNN_TYPE_HANDLE;
}

/// A descriptor, given back when it is dropped.
#[derive(Debug)]
pub(super) struct Descriptor(sys::cudnnBackendDescriptor_t);

// SAFETY: the library takes it from any thread, from one at a time; it is behind a lock.
unsafe impl Send for Descriptor {}

impl Descriptor {
    /// One of this kind, of which nothing is set.
    pub fn new(kind: sys::cudnnBackendDescriptorType_t) -> Called<Self> {
        let mut descriptor = ptr::null_mut();
        // SAFETY: the library is open, and a context is current.
        unsafe { call!(cudnnBackendCreateDescriptor(kind, &mut descriptor)) }?;
        Ok(Descriptor(descriptor))
    }

    pub fn set<T: Attribute>(&self, name: Name, values: &[T]) -> Called<()> {
        // SAFETY: there are as many values as it says, of the type it says.
        unsafe { self.set_raw(name, T::TYPE, values.len(), values.as_ptr().cast()) }
    }

    pub fn set_data_type(&self, name: Name, value: sys::cudnnDataType_t) -> Called<()> {
        // SAFETY: there is one value, of the type it says.
        unsafe { self.set_raw(name, Type::CUDNN_TYPE_DATA_TYPE, 1, (&raw const value).cast()) }
    }

    pub fn set_convolution_mode(&self, name: Name, value: sys::cudnnConvolutionMode_t) -> Called<()> {
        // SAFETY: there is one value, of the type it says.
        unsafe { self.set_raw(name, Type::CUDNN_TYPE_CONVOLUTION_MODE, 1, (&raw const value).cast()) }
    }

    pub fn set_heuristic_mode(&self, name: Name, value: sys::cudnnBackendHeurMode_t) -> Called<()> {
        // SAFETY: there is one value, of the type it says.
        unsafe { self.set_raw(name, Type::CUDNN_TYPE_HEUR_MODE, 1, (&raw const value).cast()) }
    }

    pub fn set_descriptor(&self, name: Name, value: &Descriptor) -> Called<()> {
        // SAFETY: there is one value, of the type it says, and it lives.
        unsafe { self.set_raw(name, Type::CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, (&raw const value.0).cast()) }
    }

    /// # Safety
    /// There are so many values of that type at the address.
    unsafe fn set_raw(&self, name: Name, of: Type, count: usize, at: *const c_void) -> Called<()> {
        // SAFETY: the descriptor lives, and the caller's.
        let set = unsafe { call!(cudnnBackendSetAttribute(self.0, name, of, count as i64, at)) };
        set.map_err(|error| format!("{error}, {name:?}"))
    }

    /// As it is from now on.
    pub fn finalize(self) -> Called<Self> {
        // SAFETY: the descriptor lives.
        unsafe { call!(cudnnBackendFinalize(self.0)) }?;
        Ok(self)
    }

    /// The values of an attribute, of at most `most`.
    pub fn get<T: Attribute>(&self, name: Name, most: usize) -> Called<Vec<T>> {
        let mut values = vec![MaybeUninit::<T>::zeroed(); most];
        // SAFETY: there is room for so many values of that type.
        let count = unsafe { self.get_raw(name, T::TYPE, most, values.as_mut_ptr().cast()) }?;
        // SAFETY: all were zero at first, and any bits are a value.
        Ok(values.into_iter().take(count).map(|value| unsafe { value.assume_init() }).collect())
    }

    /// How many descriptors an attribute has.
    pub fn count(&self, name: Name) -> Called<usize> {
        // SAFETY: nothing is written beside the count.
        unsafe { self.get_raw(name, Type::CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, ptr::null_mut()) }
    }

    /// Makes the first of these the descriptors of an attribute; how many there are.
    pub fn get_descriptors(&self, name: Name, to: &[Descriptor]) -> Called<usize> {
        let mut raw: Vec<_> = to.iter().map(|descriptor| descriptor.0).collect();
        // SAFETY: there are as many descriptors as it says, and all of them live.
        unsafe { self.get_raw(name, Type::CUDNN_TYPE_BACKEND_DESCRIPTOR, raw.len(), raw.as_mut_ptr().cast()) }
    }

    /// # Safety
    /// There is room for `most` values of that type at the address.
    unsafe fn get_raw(&self, name: Name, of: Type, most: usize, at: *mut c_void) -> Called<usize> {
        let mut count = 0;
        // SAFETY: the descriptor lives, and the caller's.
        let got = unsafe { call!(cudnnBackendGetAttribute(self.0, name, of, most as i64, &mut count, at)) };
        got.map_err(|error| format!("{error}, {name:?}"))?;
        Ok(usize::try_from(count).unwrap_or(0))
    }

    /// Puts a plan into the handle's stream.
    ///
    /// # Safety
    /// It is an execution plan, and the addresses of the pack are those of its tensors and of its workspace.
    pub unsafe fn execute(&self, handle: sys::cudnnHandle_t, pack: &Descriptor) -> Called<()> {
        // SAFETY: both descriptors live, and the caller's.
        unsafe { call!(cudnnBackendExecute(handle, self.0, pack.0)) }
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: it was created, and nobody uses it any more.
        let _ = unsafe { sys::cudnnBackendDestroyDescriptor(self.0) };
    }
}
