//! Libraries that stand in for NVIDIA's driver, NVRTC, cuBLASLt and cuDNN on a CPU (Linux): for tests of the CUDA engine
//! where there is no GPU. What they do is said in `driver/`.

use std::ffi::c_void;
use std::path::{Path, PathBuf};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use libloading::{Library, Symbol};

/// The folder that `libcuda.so`, `libnvrtc.so`, `libcublasLt.so` and `libcudnn.so` are in.
pub fn folder() -> &'static Path {
    Path::new(env!("OUT_DIR"))
}

/// The driver, as tests change it.
#[derive(Debug)]
pub struct Driver(Library);

/// What the driver says of itself and its device.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Device memory.
    pub memory_bytes: u64,
    /// Host memory that can be pinned: WSL2 ends at 0.75 to 1 GiB.
    pub pinned_bytes: u64,
    /// Addresses that can be reserved.
    pub reserved_bytes: u64,
    /// The CUDA version that it is for, as NVIDIA's writes it: 13000.
    pub version: i32,
    /// How many devices there are.
    pub devices: i32,
    /// Whether they say that they map pages.
    pub says_pages: i32,
    /// Whether they do.
    pub maps_pages: i32,
    /// Whether they share their memory with the host.
    pub is_integrated: i32,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            memory_bytes: 4 << 30,
            pinned_bytes: u64::MAX,
            reserved_bytes: u64::MAX,
            version: 13000,
            devices: 64,
            says_pages: 1,
            maps_pages: 1,
            is_integrated: 0,
        }
    }
}

/// What the libraries beside the driver were given.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LibraryWork {
    /// How many products and convolutions.
    pub count: u64,
    /// How many of them on floats of 32 bits that may be read with fewer.
    pub reduced: u64,
    /// The largest workspace with one.
    pub workspace_bytes: u64,
}

impl Driver {
    /// The one that this process has, or will have.
    ///
    /// # Panics
    /// If it cannot be opened.
    pub fn open() -> Self {
        let path: PathBuf = folder().join("libcuda.so");
        // SAFETY: the library is this crate's own, and opening it does nothing.
        let library = unsafe { Library::new(&path) };
        Driver(library.unwrap_or_else(|error| panic!("{}: {error}", path.display())))
    }

    fn function<T>(&self, name: &str) -> Symbol<'_, T> {
        // SAFETY: each caller names a function of driver.cpp and its type.
        unsafe { self.0.get(name.as_bytes()) }.unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    fn number(&self, name: &str) -> u64 {
        // SAFETY: as declared in driver.cpp, for each of the names below.
        unsafe { self.function::<unsafe extern "C" fn() -> u64>(name)() }
    }

    /// Changes what it says from now on.
    pub fn set(&self, settings: Settings) {
        // SAFETY: as declared in driver.cpp.
        unsafe { self.function::<unsafe extern "C" fn(*const Settings) -> i32>("standin_set")(&settings) };
    }

    /// Lets the call of this number fail, from one, counted from now on; with 0, none.
    pub fn fail(&self, call: u64) {
        // SAFETY: as declared in driver.cpp.
        unsafe { self.function::<unsafe extern "C" fn(u64) -> i32>("standin_fail")(call) };
    }

    /// Calls since [`fail`](Driver::fail).
    pub fn calls(&self) -> u64 {
        self.number("standin_calls")
    }

    /// Kernels launched so far.
    pub fn launches(&self) -> u64 {
        self.number("standin_launches")
    }

    /// Device memory that is taken.
    pub fn used_bytes(&self) -> u64 {
        self.number("standin_used_bytes")
    }

    /// What cuBLASLt and cuDNN were given since this was last asked.
    pub fn library_work(&self) -> LibraryWork {
        let mut work = LibraryWork::default();
        // SAFETY: as declared in driver.cpp.
        unsafe { self.function::<unsafe extern "C" fn(*mut LibraryWork) -> i32>("standin_work")(&mut work) };
        work
    }

    /// The product of two matrices of 16 x 16 halves, `bf16` or `f16`, by the tensor cores that kernels are given.
    pub fn multiply(&self, left: &[u16; 256], right: &[u16; 256], is_bf16: bool) -> [f32; 256] {
        let mut sums = [0.0; 256];
        // SAFETY: as declared in fragments.cpp, which reads and writes as many.
        unsafe {
            type Multiply = unsafe extern "C" fn(*const u16, *const u16, *mut f32, i32);
            let multiply = self.function::<Multiply>("standin_multiply");
            multiply(left.as_ptr(), right.as_ptr(), sums.as_mut_ptr(), i32::from(is_bf16));
        }
        sums
    }

    /// Lets a stream wait for a counter, which a thread sets once it has waited for an event. NVIDIA's driver may hang if memory is
    /// pinned meanwhile, and this one does: the call holds the lock that the thread needs. A context is this thread's.
    pub fn wait_by_counter(&self, pins_meanwhile: bool) {
        type Make = unsafe extern "C" fn(*mut *mut c_void, u32) -> i32;
        type Pinned = unsafe extern "C" fn(*mut *mut c_void, usize, u32) -> i32;
        type WaitValue = unsafe extern "C" fn(*mut c_void, u64, u64, u32) -> i32;
        type Synchronize = unsafe extern "C" fn(*mut c_void) -> i32;
        let pinned = || {
            let mut start = null_mut();
            // SAFETY: as declared in driver.cpp.
            unsafe { self.function::<Pinned>("cuMemHostAlloc")(&mut start, 8, 0) };
            start
        };
        let counter = pinned();
        let (mut stream, mut event) = (null_mut(), null_mut());
        // SAFETY: as declared in driver.cpp; the counter is a word of pinned memory.
        unsafe {
            counter.cast::<u64>().write(0);
            self.function::<Make>("cuStreamCreate")(&mut stream, 0);
            self.function::<Make>("cuEventCreate")(&mut event, 0);
            self.function::<WaitValue>("cuStreamWaitValue64_v2")(stream, counter as u64, 1, 0);
        }
        let [counter, event] = [counter, event].map(|pointer| pointer as usize);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                // The other thread's call comes first.
                std::thread::sleep(Duration::from_millis(200));
                // SAFETY: as above; nobody else writes the word.
                unsafe {
                    self.function::<Synchronize>("cuEventSynchronize")(event as *mut c_void);
                    AtomicU64::from_ptr(counter as *mut u64).store(1, Ordering::SeqCst);
                }
            });
            if pins_meanwhile {
                pinned();
            }
        });
    }

    /// Streams, pieces of memory, pages, reserved addresses and objects of libraries that were not given back.
    pub fn objects(&self) -> u64 {
        self.number("standin_objects")
    }
}
