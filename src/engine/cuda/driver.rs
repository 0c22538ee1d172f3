//! The calls of CUDA's driver that the engine makes: each checked, and what they make given back when dropped.
//!
//! Every call needs the device's context to be the thread's: [`Context::enter`] sees to that, and whoever holds what a
//! context made holds the context.

use std::ffi::{CString, c_void};
use std::ptr;
use std::sync::Arc;

use cudarc::driver::DriverError;
use cudarc::driver::sys::{self, CUresult};

use crate::op::lower::check_launch;

/// What the driver did, or why not, in words.
pub(super) type Called<T> = Result<T, String>;

fn check(call: &str, result: CUresult) -> Called<()> {
    result.result().map_err(|error: DriverError| {
        let text = error.error_string().map(|text| text.to_string_lossy().into_owned()).unwrap_or_default();
        format!("{call}: {:?} ({text})", error.0)
    })
}

/// Calls a function of the driver and checks its answer.
macro_rules! call {
    ($name:ident($($argument:expr),* $(,)?)) => {
        check(stringify!($name), sys::$name($($argument),*))
    };
}

/// How many devices there are. The driver must be open.
pub(super) fn device_count() -> Called<usize> {
    let mut count = 0;
    // SAFETY: the driver is open, and `count` is an integer.
    unsafe {
        call!(cuInit(0))?;
        call!(cuDeviceGetCount(&mut count))?;
    }
    Ok(usize::try_from(count).unwrap_or(0))
}

/// The CUDA version that the driver is for: 1000 times the major and 10 times the minor number.
pub(super) fn version() -> Called<u32> {
    let mut version = 0;
    // SAFETY: the driver is open, and `version` is an integer.
    unsafe { call!(cuDriverGetVersion(&mut version)) }?;
    Ok(u32::try_from(version).unwrap_or(0))
}

/// One of the driver's devices, which can be asked about itself without a context.
#[derive(Clone, Copy, Debug)]
pub(super) struct Device(sys::CUdevice);

impl Device {
    /// By index.
    pub fn new(index: u16) -> Called<Self> {
        let mut device = 0;
        // SAFETY: the driver is open and was initialised by `device_count`; `device` is an integer.
        unsafe { call!(cuDeviceGet(&mut device, i32::from(index))) }?;
        Ok(Device(device))
    }

    pub fn attribute(self, attribute: Attribute) -> Called<i32> {
        let mut value = 0;
        // SAFETY: `value` is an integer.
        unsafe { call!(cuDeviceGetAttribute(&mut value, attribute, self.0)) }?;
        Ok(value)
    }

    pub fn name(self) -> Called<String> {
        let mut text = [0u8; 128];
        // SAFETY: the driver writes at most so many bytes, a zero at the end.
        unsafe { call!(cuDeviceGetName(text.as_mut_ptr().cast(), text.len() as i32, self.0)) }?;
        let end = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
        Ok(String::from_utf8_lossy(&text[..end]).into_owned())
    }

    /// What the driver knows it by.
    pub fn raw(self) -> sys::CUdevice {
        self.0
    }
}

/// A device's primary context.
#[derive(Debug)]
pub(super) struct Context {
    device: Device,
    handle: sys::CUcontext,
}

// SAFETY: the driver's functions may be called from any thread, and a context be current in several.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: it was retained once.
        let _ = unsafe { sys::cuDevicePrimaryCtxRelease_v2(self.device.0) };
    }
}

/// A property of a device.
pub(super) type Attribute = sys::CUdevice_attribute;

impl Context {
    pub fn new(device: Device) -> Called<Arc<Self>> {
        let mut handle = ptr::null_mut();
        // SAFETY: the device is one of the driver's, and `handle` is written before it is read.
        unsafe { call!(cuDevicePrimaryCtxRetain(&mut handle, device.0)) }?;
        let context = Context { device, handle };
        context.enter()?;
        Ok(Arc::new(context))
    }

    /// Makes it this thread's, if it is not: to ask takes far less time than to switch.
    pub fn enter(&self) -> Called<()> {
        let mut current = ptr::null_mut();
        // SAFETY: `current` is written before it is read.
        unsafe { call!(cuCtxGetCurrent(&mut current)) }?;
        if current == self.handle {
            return Ok(());
        }
        // SAFETY: the context is retained.
        unsafe { call!(cuCtxSetCurrent(self.handle)) }
    }

    pub fn device(&self) -> Device {
        self.device
    }

    /// Bytes of device memory that nobody has.
    pub fn free_bytes(&self) -> Called<usize> {
        self.enter()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: both are sizes.
        unsafe { call!(cuMemGetInfo_v2(&mut free, &mut total)) }?;
        Ok(free)
    }

    /// Lets this context's device reach the memory of another's, where the machine can do that; elsewhere copies go through the host.
    pub fn reach(&self, other: &Context) -> Called<()> {
        let mut can = 0;
        // SAFETY: both devices are the driver's, and `can` is an integer.
        unsafe { call!(cuDeviceCanAccessPeer(&mut can, self.device.0, other.device.0)) }?;
        if can == 0 {
            return Ok(());
        }
        self.enter()?;
        // SAFETY: both contexts are retained.
        let enabled = unsafe { sys::cuCtxEnablePeerAccess(other.handle, 0) };
        match enabled {
            CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED => Ok(()),
            result => check("cuCtxEnablePeerAccess", result),
        }
    }

    /// Waits for all work of the device.
    pub fn synchronize(&self) -> Called<()> {
        self.enter()?;
        // SAFETY: the context is current.
        unsafe { call!(cuCtxSynchronize()) }
    }
}

/// A queue of work, apart from the null stream.
#[derive(Debug)]
pub(super) struct Stream {
    context: Arc<Context>,
    handle: sys::CUstream,
}

// SAFETY: the driver takes streams from any thread; who submits in which order is the engine's to say.
unsafe impl Send for Stream {}
// SAFETY: as above.
unsafe impl Sync for Stream {}

impl Drop for Stream {
    fn drop(&mut self) {
        let _ = self.context.enter();
        // SAFETY: nobody has the stream any more; work in it goes on.
        let _ = unsafe { sys::cuStreamDestroy_v2(self.handle) };
    }
}

impl Stream {
    pub fn new(context: &Arc<Context>) -> Called<Self> {
        context.enter()?;
        let mut handle = ptr::null_mut();
        let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: the context is current.
        unsafe { call!(cuStreamCreate(&mut handle, flags)) }?;
        Ok(Stream { context: context.clone(), handle })
    }

    /// What NVIDIA's libraries know it by.
    pub fn raw(&self) -> sys::CUstream {
        self.handle
    }

    /// Copies between addresses of one space, as all are that the driver gave.
    ///
    /// # Safety
    /// As for [`Engine::copy`](crate::engine::Engine::copy).
    pub unsafe fn copy(&self, from: u64, to: u64, bytes: usize) -> Called<()> {
        // SAFETY: the caller's.
        unsafe { call!(cuMemcpyAsync(to, from, bytes, self.handle)) }
    }

    /// Launches a kernel with one argument struct, which is copied.
    ///
    /// # Safety
    /// `args` is the kernel's argument struct, and what it points to is as
    /// [`Engine::launch`](crate::engine::Engine::launch) asks.
    pub unsafe fn launch(&self, kernel: Kernel, blocks: u32, threads: u32, args: &[u8]) -> Called<()> {
        check_launch(blocks, args.len())?;
        let mut parameters = [args.as_ptr().cast_mut().cast::<c_void>()];
        let (kernel, stream, parameters) = (kernel.0, self.handle, parameters.as_mut_ptr());
        // SAFETY: the caller's; the driver reads the struct before it returns.
        unsafe {
            call!(cuLaunchKernel(kernel, blocks, 1, 1, threads, 1, 1, 0, stream, parameters, ptr::null_mut()))
        }
    }

    pub fn wait(&self, event: &Event) -> Called<()> {
        // SAFETY: both live; the driver keeps what it needs of the event.
        unsafe { call!(cuStreamWaitEvent(self.handle, event.handle, 0)) }
    }

    /// Runs a function on a thread of the driver's, before the work that follows. It must not call the driver, nor wait for work of the
    /// device; functions of several streams may run one after the other. After a failure in the context it does not run at all.
    pub fn run_on_host<F: FnOnce() + Send + 'static>(&self, function: F) -> Called<()> {
        unsafe extern "C" fn run<F: FnOnce()>(function: *mut c_void) {
            // SAFETY: the pointer of the box below, which the driver gives back once.
            let function = unsafe { Box::from_raw(function.cast::<F>()) };
            function();
        }
        let function = Box::into_raw(Box::new(function));
        // SAFETY: the stream lives, and `run` takes such a pointer.
        unsafe {
            call!(cuLaunchHostFunc(self.handle, Some(run::<F>), function.cast()))
                .inspect_err(|_| drop(Box::from_raw(function)))
        }
    }

    /// Waits for all work in it.
    pub fn synchronize(&self) -> Called<()> {
        // SAFETY: the stream lives.
        unsafe { call!(cuStreamSynchronize(self.handle)) }
    }
}

/// A point in a stream.
#[derive(Debug)]
pub(super) struct Event {
    context: Arc<Context>,
    handle: sys::CUevent,
}

// SAFETY: as for `Stream`.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

impl Drop for Event {
    fn drop(&mut self) {
        let _ = self.context.enter();
        // SAFETY: nobody has the event any more.
        let _ = unsafe { sys::cuEventDestroy_v2(self.handle) };
    }
}

impl Event {
    /// One that notes the time, or not, which is cheaper.
    pub fn new(context: &Arc<Context>, timed: bool) -> Called<Self> {
        context.enter()?;
        let mut handle = ptr::null_mut();
        let flags = match timed {
            true => sys::CUevent_flags::CU_EVENT_DEFAULT,
            false => sys::CUevent_flags::CU_EVENT_DISABLE_TIMING,
        };
        // SAFETY: the context is current.
        unsafe { call!(cuEventCreate(&mut handle, flags as u32)) }?;
        Ok(Event { context: context.clone(), handle })
    }

    /// Makes it the end of a stream as it is now.
    pub fn record(&self, stream: &Stream) -> Called<()> {
        // SAFETY: both live.
        unsafe { call!(cuEventRecord(self.handle, stream.handle)) }
    }

    /// Whether the work before it is done. A failure is told by whoever waits.
    pub fn reached(&self) -> bool {
        // SAFETY: the event lives.
        unsafe { sys::cuEventQuery(self.handle) == CUresult::CUDA_SUCCESS }
    }

    pub fn synchronize(&self) -> Called<()> {
        // SAFETY: the event lives.
        unsafe { call!(cuEventSynchronize(self.handle)) }
    }

    /// Time from another event to this one, both timed and reached.
    pub fn ns_since(&self, earlier: &Event) -> Called<u64> {
        let mut ms = 0.0;
        // SAFETY: both live, and `ms` is a float.
        unsafe { call!(cuEventElapsedTime_v2(&mut ms, earlier.handle, self.handle)) }?;
        Ok((f64::from(ms) * 1e6).max(0.0) as u64)
    }
}

/// A kernel of a module, which lives as long as the engine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kernel(sys::CUfunction);

// SAFETY: as for `Stream`.
unsafe impl Send for Kernel {}
// SAFETY: as above.
unsafe impl Sync for Kernel {}

/// Loaded code.
#[derive(Debug)]
pub(super) struct Module {
    context: Arc<Context>,
    handle: sys::CUmodule,
}

// SAFETY: as for `Stream`.
unsafe impl Send for Module {}
// SAFETY: as above.
unsafe impl Sync for Module {}

impl Drop for Module {
    fn drop(&mut self) {
        let _ = self.context.enter();
        // SAFETY: the engine drops its modules when all work is done.
        let _ = unsafe { sys::cuModuleUnload(self.handle) };
    }
}

impl Module {
    /// Loads machine code, or intermediate code that ends with a zero.
    pub fn load(context: &Arc<Context>, image: &[u8]) -> Called<Self> {
        context.enter()?;
        let mut handle = ptr::null_mut();
        // SAFETY: images come from NVRTC, directly or through the cache, which knows a changed one; they say where they end.
        unsafe { call!(cuModuleLoadData(&mut handle, image.as_ptr().cast())) }?;
        Ok(Module { context: context.clone(), handle })
    }

    pub fn kernel(&self, name: &str) -> Called<Kernel> {
        let text = CString::new(name).map_err(|error| error.to_string())?;
        let mut function = ptr::null_mut();
        // SAFETY: the module lives, and the name ends with a zero.
        let found = unsafe { call!(cuModuleGetFunction(&mut function, self.handle, text.as_ptr())) };
        found.map_err(|error| format!("{error} for the kernel {name}"))?;
        Ok(Kernel(function))
    }
}
