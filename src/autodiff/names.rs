//! The names of the modules of a model, by its parameters.

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::Tensor;

use super::{SavesLess, primitive};
use crate::module::ModuleId;

/// Names the modules of a model by the paths of its fields, such as `blocks.3.attention`: an op that reads a parameter belongs to
/// the module that has it. A recording then states modules of a model that does not name its own by [`module`](fn@crate::module),
/// tells parameters, gradients and the optimizer's state apart, and the error of an op that finds no memory says where the op is.
/// Nothing that is computed depends on it.
///
/// An optimizer makes new parameters, so call it at the beginning of each step. Parameters that are still to be drawn, at their
/// first use, are left out.
///
/// ```
/// use burn::nn::{Linear, LinearConfig};
/// use burn::tensor::Tensor;
/// use burn_overcommit::trace::Event;
/// use burn_overcommit::{Config, Overcommit, OvercommitDevice, configure, name_modules, recording};
///
/// let device = OvercommitDevice::Host(0);
/// configure(&device, Config::new().record())?;
/// let layers: Vec<Linear<Overcommit>> = (0..3).map(|_| LinearConfig::new(8, 8).init(&device)).collect();
/// for _ in 0..2 {
///     name_modules(&layers);
///     let x = Tensor::<Overcommit, 2>::ones([4, 8], &device);
///     layers.iter().fold(x, |x, layer| layer.forward(x)).into_data();
/// }
/// let of = |event: &Event| matches!(event, Event::Op(op) if op.module.as_deref() == Some("2"));
/// assert!(recording(&device)?.events.iter().any(of));
/// # Ok::<(), burn_overcommit::Error>(())
/// ```
pub fn name_modules<B: SavesLess>(model: &impl Module<B>) {
    model.visit(&mut Names::default());
}

/// The names of the fields that the visitor is in, each with its container, such as `Struct:Linear`.
#[derive(Default)]
struct Names(Vec<(String, String)>);

impl Names {
    /// The path of the module that has the parameter. The root, which has no name, goes by its type.
    fn module(&self) -> Option<ModuleId> {
        let ((_, container), modules) = self.0.split_last()?;
        let names: Vec<&str> = modules.iter().map(|(name, _)| name.as_str()).collect();
        let root = container.split_once(':').map_or(container.as_str(), |(_, name)| name);
        Some(ModuleId::of(&if names.is_empty() { root.into() } else { names.join(".") }))
    }
}

impl<B: SavesLess> ModuleVisitor<B> for Names {
    fn visit_float<const D: usize>(&mut self, parameter: &Param<Tensor<B, D>>) {
        if let Some(module) = self.module()
            && parameter.is_initialized()
        {
            B::plain(&primitive(parameter.val())).belongs_to(module);
        }
    }

    fn enter_module(&mut self, name: &str, container: &str) {
        self.0.push((name.into(), container.into()));
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.0.pop();
    }
}
