//! Memory: slabs of device memory and of pinned host memory, and pages of device memory behind reserved addresses. Each
//! page is a handle of its own, since the pool maps any page next to any other.

use std::collections::HashMap;
use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

use cudarc::driver::sys;
use memmap2::MmapMut;
use smallvec::SmallVec;

use super::driver::{Attribute, Context};
use crate::engine::{MapError, Span, Tier, view_addresses};

type Mapped<T> = Result<T, MapError>;

/// Calls a function of the driver and says which failed.
macro_rules! call {
    ($name:ident($($argument:expr),* $(,)?)) => {
        sys::$name($($argument),*).result().map_err(|error| {
            let reason = format!("{}: {:?}", stringify!($name), error.0);
            match error.0 {
                sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY => MapError::Exhausted(reason),
                _ => MapError::Other(reason),
            }
        })
    };
}

/// Memory of one allocation.
#[derive(Debug)]
pub(super) struct Slab {
    context: Arc<Context>,
    span: Span,
    /// Host memory that is not pinned.
    pageable: Option<MmapMut>,
}

impl Drop for Slab {
    fn drop(&mut self) {
        if self.pageable.is_some() {
            return;
        }
        let _ = self.context.enter();
        // SAFETY: the driver gave the memory, and whoever unmaps says that no work uses it.
        let _ = unsafe {
            match self.span.tier {
                Tier::Device | Tier::Peer => sys::cuMemFree_v2(self.span.address),
                Tier::Host | Tier::Disk => {
                    sys::cuMemFreeHost(ptr::with_exposed_provenance_mut(self.span.address as usize))
                }
            }
        };
    }
}

impl Slab {
    /// Host memory is pinned, so that copies run beside the program.
    pub fn new(context: &Arc<Context>, tier: Tier, bytes: usize) -> Mapped<Self> {
        context.enter()?;
        let room_bytes = bytes.max(1);
        let mut address = 0;
        let mut start: *mut c_void = ptr::null_mut();
        // SAFETY: the context is current, and both are written before they are read.
        unsafe {
            match tier {
                Tier::Device | Tier::Peer => call!(cuMemAlloc_v2(&mut address, room_bytes))?,
                Tier::Host | Tier::Disk => {
                    call!(cuMemHostAlloc(&mut start, room_bytes, sys::CU_MEMHOSTALLOC_PORTABLE))?;
                    address = start.expose_provenance() as u64;
                }
            }
        }
        Ok(Slab { context: context.clone(), span: Span { tier, address, bytes }, pageable: None })
    }

    /// Host memory of the system, which the driver knows nothing of.
    pub fn pageable(context: &Arc<Context>, bytes: usize) -> Mapped<Self> {
        let mut memory = MmapMut::map_anon(bytes.max(1))?;
        let address = memory.as_mut_ptr().expose_provenance() as u64;
        let span = Span { tier: Tier::Host, address, bytes };
        Ok(Slab { context: context.clone(), span, pageable: Some(memory) })
    }

    pub fn span(&self) -> Span {
        self.span
    }
}

/// Physical pages, and the reserved addresses that they are behind.
#[derive(Debug)]
pub(super) struct Pages {
    context: Arc<Context>,
    page_bytes: usize,
    existing: HashMap<u32, Page>,
    /// Which page is behind an address.
    behind: HashMap<u64, u32>,
    reserved: Vec<Span>,
}

/// A physical page, and the addresses it is mapped at.
#[derive(Debug)]
struct Page {
    handle: sys::CUmemGenericAllocationHandle,
    addresses: SmallVec<[u64; 2]>,
}

/// The size of pages that a device can map, a multiple of `least_bytes`; nothing if it cannot.
pub(super) fn page_bytes(context: &Context, least_bytes: usize) -> Option<usize> {
    let supported = Attribute::CU_DEVICE_ATTRIBUTE_VIRTUAL_ADDRESS_MANAGEMENT_SUPPORTED;
    if context.device().attribute(supported).ok()? == 0 {
        return None;
    }
    let mut granularity_bytes = 0;
    let option = sys::CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_MINIMUM;
    // SAFETY: the properties are whole, and `granularity_bytes` is a size.
    unsafe {
        call!(cuMemGetAllocationGranularity(
            &mut granularity_bytes,
            &properties(context.device().raw()),
            option
        ))
        .ok()?;
    }
    (granularity_bytes > 0).then(|| least_bytes.next_multiple_of(granularity_bytes))
}

fn location(device: i32) -> sys::CUmemLocation {
    sys::CUmemLocation { type_: sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE, id: device }
}

/// Of memory of the device.
fn properties(device: i32) -> sys::CUmemAllocationProp {
    sys::CUmemAllocationProp {
        type_: sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
        requestedHandleTypes: sys::CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE,
        location: location(device),
        win32HandleMetaData: ptr::null_mut(),
        allocFlags: sys::CUmemAllocationProp_st__bindgen_ty_1 {
            compressionType: 0,
            gpuDirectRDMACapable: 0,
            usage: 0,
            reserved: [0; 4],
        },
    }
}

impl Pages {
    pub fn new(context: &Arc<Context>, page_bytes: usize) -> Self {
        let (existing, behind, reserved) = Default::default();
        Pages { context: context.clone(), page_bytes, existing, behind, reserved }
    }

    pub fn reserve(&mut self, bytes: usize) -> Mapped<Span> {
        self.context.enter()?;
        let mut address = 0;
        // SAFETY: new addresses, which the driver picks, touch nothing that exists.
        unsafe { call!(cuMemAddressReserve(&mut address, bytes, self.page_bytes, 0, 0)) }?;
        let span = Span { tier: Tier::Device, address, bytes };
        self.reserved.push(span);
        Ok(span)
    }

    /// Maps a first page, and reserves addresses as the pool does for a budget of the whole device. Returns the bytes of addresses for
    /// views, if the driver reserves fewer than that.
    ///
    /// # Errors
    /// The call that failed, if there can be no pages, or fewer addresses than one view may take.
    pub fn probe(context: &Arc<Context>, page_bytes: usize, device_bytes: usize) -> Mapped<Option<usize>> {
        let mut pages = Pages::new(context, page_bytes);
        let limit = (device_bytes / page_bytes).max(1);
        let own = pages.reserve(limit * page_bytes)?;
        // SAFETY: the first page of addresses that were just reserved.
        unsafe { pages.map(Span { bytes: page_bytes, ..own }, &[0]) }?;
        let wanted = view_addresses(limit);
        let mut count = wanted;
        loop {
            match pages.reserve(count * page_bytes) {
                Ok(_) => return Ok((count < wanted).then_some(count * page_bytes)),
                Err(error) if count / 2 < limit => return Err(error),
                Err(_) => count /= 2,
            }
        }
    }

    /// How many of these there are not yet.
    pub fn missing(&self, physical: &[u32]) -> usize {
        physical.iter().filter(|page| !self.existing.contains_key(page)).count()
    }

    /// Puts pages behind addresses, in place of what was there. After an error nothing is there, and pages that did not
    /// exist before do not either.
    ///
    /// # Safety
    /// The span lies in reserved addresses, as long as the pages together, and no work uses it.
    pub unsafe fn map(&mut self, at: Span, physical: &[u32]) -> Mapped<()> {
        self.context.enter()?;
        let new: Vec<u32> =
            physical.iter().copied().filter(|page| !self.existing.contains_key(page)).collect();
        let addresses: Vec<u64> =
            (0..physical.len()).map(|place| at.address + (place * self.page_bytes) as u64).collect();
        let mapped = self.unmap(&addresses).and_then(|()| {
            new.iter().try_for_each(|&page| self.create(page))?;
            addresses.iter().zip(physical).try_for_each(|(&address, &page)| self.put(address, page))?;
            self.allow(at)
        });
        if mapped.is_err() {
            let _ = self.unmap(&addresses);
            self.release(&new);
        }
        mapped
    }

    fn create(&mut self, page: u32) -> Mapped<()> {
        let mut handle = 0;
        let properties = properties(self.context.device().raw());
        // SAFETY: the context is current; the size is a multiple of the granularity.
        unsafe { call!(cuMemCreate(&mut handle, self.page_bytes, &properties, 0)) }?;
        self.existing.insert(page, Page { handle, addresses: SmallVec::new() });
        Ok(())
    }

    fn put(&mut self, address: u64, page: u32) -> Mapped<()> {
        let of = self.existing.get_mut(&page).ok_or("a page that does not exist")?;
        // SAFETY: the address is reserved, and nothing is behind it.
        unsafe { call!(cuMemMap(address, self.page_bytes, 0, of.handle, 0)) }?;
        of.addresses.push(address);
        self.behind.insert(address, page);
        Ok(())
    }

    fn allow(&self, at: Span) -> Mapped<()> {
        let access = sys::CUmemAccessDesc {
            location: location(self.context.device().raw()),
            flags: sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        };
        // SAFETY: pages are behind the whole span.
        unsafe { call!(cuMemSetAccess(at.address, at.bytes, &access, 1)) }
    }

    /// Takes away what is behind addresses, where there is something: neighbours in one call, each of which takes the driver tens of
    /// microseconds. Tries all, and gives the first error.
    fn unmap(&mut self, addresses: &[u64]) -> Mapped<()> {
        let page_bytes = self.page_bytes as u64;
        let there: Vec<u64> =
            addresses.iter().copied().filter(|address| self.behind.contains_key(address)).collect();
        let mut unmapped = Ok(());
        for neighbours in there.chunk_by(|&address, &next| next == address + page_bytes) {
            let bytes = neighbours.len() * self.page_bytes;
            // SAFETY: pages were mapped there, each as a whole, and the callers say that no work uses them.
            let gone = unsafe { call!(cuMemUnmap(neighbours[0], bytes)) };
            if gone.is_ok() {
                neighbours.iter().for_each(|&address| self.forget(address));
            }
            unmapped = unmapped.and(gone);
        }
        unmapped
    }

    /// Nothing is behind an address any more.
    fn forget(&mut self, address: u64) {
        let page = self.behind.remove(&address);
        if let Some(page) = page.and_then(|page| self.existing.get_mut(&page)) {
            page.addresses.retain(|other| *other != address);
        }
    }

    /// Gives pages back to the driver, from wherever they are; how many there were. No work uses them.
    pub fn release(&mut self, physical: &[u32]) -> usize {
        if self.context.enter().is_err() {
            return 0;
        }
        let mut released = 0;
        for page in physical {
            let Some(of) = self.existing.get(page) else { continue };
            let addresses = of.addresses.clone();
            // One by one: neighbours need not be of one range.
            addresses.iter().for_each(|&address| drop(self.unmap(&[address])));
            if let Some(page) = self.existing.remove(page) {
                // SAFETY: the handle is given back once.
                let _ = unsafe { sys::cuMemRelease(page.handle) };
                released += 1;
            }
        }
        released
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        let all: Vec<u32> = self.existing.keys().copied().collect();
        // A failed call is tried again, since reserved addresses are freed only where nothing is mapped.
        for _ in 0..2 {
            self.release(&all);
        }
        let left: Vec<u64> = self.behind.keys().copied().collect();
        left.iter().for_each(|&address| drop(self.unmap(&[address])));
        for span in &self.reserved {
            // SAFETY: nothing is behind the addresses, and nobody has them any more.
            let _ = unsafe { sys::cuMemAddressFree(span.address, span.bytes) };
        }
    }
}
