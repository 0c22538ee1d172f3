//! Loops over the runtime: a stack of layers that is trained or evaluated, on a simulated device.

use crate::engine::sim::{Profile, Workspace};
use crate::engine::{Flops, HostTimes, Props};
use crate::op::{Binary, Dtype, Op, Shape, Unary};
#[cfg(feature = "host")]
use crate::runtime::read;
use crate::runtime::{Tensor, run, write};
use crate::{Config, OvercommitDevice, SimProfile, configure, stats};

/// Elements of a tensor.
const ELEMENTS: usize = 1 << 18;

/// Bytes of so many tensors.
pub fn bytes_of(tensors: usize) -> usize {
    4 * ELEMENTS * tensors
}

/// A device of round figures.
pub fn device(config: Config) -> OvercommitDevice {
    let props = Props {
        name: "test".to_string(),
        device_bytes: 1 << 40,
        host_bytes: 1 << 40,
        shares_memory: false,
        flops: Flops::all(1e12),
        memory_bytes_per_second: 1e9,
        offload_bytes_per_second: 1e9,
        fetch_bytes_per_second: 1e9,
        peer_bytes_per_second: None,
        overhead_ns: 0,
        page_bytes: None,
        view_bytes: None,
        host: HostTimes::default(),
        kernels: None,
    };
    let profile = Profile { key: "test".to_string(), props, workspace: Workspace::Gpu };
    let device = OvercommitDevice::Sim(SimProfile::add(profile));
    // Elementwise ops stand for layers here.
    configure(&device, config.fusion(false)).expect("a valid configuration");
    device
}

/// What the device's clock shows.
pub fn end_ns(device: &OvercommitDevice) -> u64 {
    stats(device).expect("a device that is there").times.expect("a clock").end_ns
}

pub fn upload(device: &OvercommitDevice) -> Tensor {
    let shape = Shape::new(&[ELEMENTS]);
    let values = (0..ELEMENTS).flat_map(|at| (at as f32 / ELEMENTS as f32).to_ne_bytes());
    write(device, &values.collect::<Vec<u8>>(), Dtype::F32, shape).expect("room on the host")
}

pub fn unary(op: Unary, a: &Tensor) -> Tensor {
    run(Op::Unary(op), [a.clone()]).expect("it fits")
}

fn binary(op: Binary, a: &Tensor, b: &Tensor) -> Tensor {
    run(Op::Binary(op), [a.clone(), b.clone()]).expect("it fits")
}

/// Layers of a weight each.
pub struct Layers(Vec<Tensor>);

impl Layers {
    pub fn new(device: &OvercommitDevice, count: usize) -> Self {
        Layers((0..count).map(|_| unary(Unary::Neg, &upload(device))).collect())
    }

    /// A forward, a backward pass and an update; `before_each` is called before each op.
    pub fn train(&mut self, batch: Tensor, mut before_each: impl FnMut()) {
        let mut binary = |op, a: &Tensor, b: &Tensor| {
            before_each();
            binary(op, a, b)
        };
        let mut kept = vec![batch];
        for (layer, weight) in self.0.iter().enumerate() {
            let product = binary(Binary::Mul, &kept[layer], weight);
            kept.push(unary(Unary::Tanh, &product));
        }
        let mut gradient = kept.pop().expect("the result");
        for weight in self.0.iter_mut().rev() {
            let input = kept.pop().expect("what the layer read");
            let change = binary(Binary::Mul, &gradient, &input);
            gradient = binary(Binary::Mul, &gradient, weight);
            *weight = binary(Binary::Sub, weight, &change);
        }
    }

    /// The weights' bytes, where the engine has data.
    #[cfg(feature = "host")]
    pub fn read(self) -> Vec<u8> {
        self.0.into_iter().flat_map(|weight| read(weight).expect("it can be read")).collect()
    }

    /// A forward pass: the same ops as in training.
    pub fn evaluate(&self, batch: Tensor) {
        self.0.iter().fold(batch, |x, weight| unary(Unary::Tanh, &binary(Binary::Mul, &x, weight)));
    }
}
