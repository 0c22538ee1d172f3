//! Kernels by name, each unit compiled, or read from the cache, and loaded when the first of its kernels is asked for; and
//! generated kernels, by their text.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

use super::compile::{self, Source, Target, Unit};
use super::driver::{Called, Context, Kernel, Module};
use super::lanes::lock;
use crate::disk_cache::DiskCache;
use crate::messages;
use crate::op::lower::KernelName;
use crate::op::lower::generated::Generated;

/// The loaded code of a device.
#[derive(Debug)]
pub(super) struct Modules {
    context: Arc<Context>,
    target: Target,
    /// Of the compiler: part of what an image is made from.
    version: (i32, i32),
    cache: DiskCache,
    units: Mutex<HashMap<Unit, Arc<OnceLock<Module>>>>,
    kernels: Mutex<HashMap<KernelName, Kernel>>,
    /// By their text; for one that cannot be compiled, why.
    generated: Mutex<HashMap<String, Called<(Module, Kernel)>>>,
}

impl Modules {
    /// For a device of this architecture. NVRTC is open.
    pub fn new(context: &Arc<Context>, architecture: u32, cache: DiskCache) -> Called<Self> {
        Ok(Modules {
            context: context.clone(),
            target: compile::target(architecture)?,
            version: compile::version()?,
            cache,
            units: Mutex::default(),
            kernels: Mutex::default(),
            generated: Mutex::default(),
        })
    }

    /// The kernel of that name.
    pub fn kernel(&self, name: &KernelName) -> Called<Kernel> {
        if let Some(kernel) = lock(&self.kernels).get(name) {
            return Ok(*kernel);
        }
        let unit = Unit::of(name);
        let place = lock(&self.units).entry(unit).or_default().clone();
        let module = match place.get() {
            Some(module) => module,
            None => {
                let loaded = self.load(&unit.source())?;
                place.get_or_init(|| loaded)
            }
        };
        let kernel = module.kernel(&name.to_string())?;
        lock(&self.kernels).insert(*name, kernel);
        Ok(kernel)
    }

    /// The kernel of a generated text.
    pub fn generated(&self, generated: &Generated) -> Called<Kernel> {
        let Generated { name, text } = generated;
        let mut all = lock(&self.generated);
        if let Some(made) = all.get(text) {
            return made.as_ref().map(|(_, kernel)| *kernel).map_err(String::clone);
        }
        let source = Source { name: format!("{name}.cu"), text: text.clone() };
        let made = self.load(&source).and_then(|module| {
            let kernel = module.kernel(name)?;
            Ok((module, kernel))
        });
        let kernel = made.as_ref().map(|(_, kernel)| *kernel).map_err(String::clone);
        all.insert(text.clone(), made);
        kernel
    }

    fn load(&self, source: &Source) -> Called<Module> {
        let (major, minor) = self.version;
        let recipe = compile::recipe(source, self.target, self.version);
        // One that the driver refuses is made anew, like one that is damaged.
        let kept = self.cache.read(&recipe).and_then(|image| Module::load(&self.context, &image).ok());
        if let Some(module) = kept {
            return Ok(module);
        }
        let image = compile::compile(source, self.target)?.image;
        if let Err(error) = self.cache.write(&recipe, &image) {
            messages::tell(log::Level::Debug, format_args!("a compiled kernel is not kept: {error}"));
        }
        Module::load(&self.context, &image)
            .map_err(|error| format!("{error}; the kernel was made by NVRTC {major}.{minor}"))
    }
}
