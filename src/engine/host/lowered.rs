//! Launches whose instruction is lowered once.

use std::sync::atomic::AtomicI64;

use super::call::out_of_range;
use super::kernels::{self, Kernel};
use crate::engine::lowered::{Lowered, addresses, is_in_place};
use crate::engine::{EngineError, Launch};
use crate::op::lower::{NO_FAULT, check_launch};

/// Computes a launch on the calling thread and, where there is enough work, on rayon's. Convolutions and products are not here.
///
/// # Safety
/// As for [`Engine::launch`](crate::engine::Engine::launch), until this returns.
pub(super) unsafe fn run(launch: &Launch) -> Result<(), EngineError> {
    let (instruction, in_place) = (&*launch.instruction, is_in_place(launch));
    let error = |reason: String| EngineError::Kernel { op: instruction.op.name(), reason };
    let make = || Lowered::new(instruction, in_place, &kernels::lower, |call| kernels::lowered(&call.name));
    let kept = instruction.lowered[usize::from(in_place)].get(make);
    let lowered: &Lowered<Kernel> = kept.ok_or_else(|| error("has no kernel of its own".into()))?;
    let fault = AtomicI64::new(NO_FAULT);
    let addresses = addresses(launch, fault.as_ptr() as u64);
    for kernel in lowered.kernels() {
        let words = kernel.arguments(&addresses);
        check_launch(kernel.blocks, size_of_val(&words[..])).map_err(error)?;
        // SAFETY: lowering made the arguments for this kernel (a test compares the structs), from spans that the caller vouches
        // for, and from `fault`, which outlives the call.
        unsafe { kernels::run_blocks(&kernel.kernel, bytemuck::cast_slice(&words), kernel.blocks) };
    }
    match fault.into_inner() {
        NO_FAULT => Ok(()),
        index => Err(out_of_range(&instruction.op, &instruction.views, index)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{HostEngine, HostOptions, LaneMode};
    use super::*;
    use crate::engine::lowered::calls;
    use crate::engine::{Algorithm, Instruction};
    use crate::op::{
        Binary, Dtype, Layout, MAX_RANK, MAX_SCALARS, Op, Program, Reduce, Scalar, Shape, Source, Step,
        StepKind, Unary, View,
    };

    fn ops() -> Vec<(Op, Vec<View>)> {
        let view = |dtype, dims: &[usize]| View::contiguous(dtype, Shape::new(dims));
        let matrix = view(Dtype::F32, &[24, 40]);
        let part = View { layout: matrix.layout.slice(1, 3, 20, 1), ..matrix };
        let column = View { layout: Layout::contiguous(Shape::new(&[40])).expand(*matrix.shape()), ..matrix };
        let product = Step::new(StepKind::Binary(Binary::Mul), &[Source::Input(0), Source::Input(1)]);
        let scaled = Step::new(StepKind::Binary(Binary::Add), &[Source::Step(0), Source::Scalar(0)]);
        // Of values that look like addresses.
        let scalars = [3 << 40; MAX_SCALARS];
        let program = Program::new(&[product, scaled], &[0, 1], None);
        let row = view(Dtype::F32, &[1, 200_000]);
        vec![
            (Op::Unary(Unary::Exp), vec![matrix]),
            (Op::BinaryScalar(Binary::Add, Scalar::from(2.0)), vec![part]),
            (Op::Fused { program, scalars }, vec![matrix, column]),
            (Op::Copy { dtype: Dtype::F32 }, vec![View { layout: matrix.layout.permute(&[1, 0]), ..matrix }]),
            (Op::Reduce { kind: Reduce::Sum, axis: 1 }, vec![row]),
            (Op::Select { axis: 0 }, vec![matrix, view(Dtype::I32, &[7])]),
            (Op::SliceAssign { starts: [0; MAX_RANK], steps: [1; MAX_RANK] }, vec![matrix, part]),
        ]
    }

    #[test]
    fn at_any_addresses_it_is_what_is_lowered_there() {
        let engine =
            HostEngine::new(HostOptions { mode: LaneMode::Deferred { seed: 0 }, ..HostOptions::default() });
        for (op, views) in ops() {
            let instruction = Instruction::new(&engine, op, Algorithm::default(), &views);
            for in_place in [false, true] {
                let lowered = Lowered::new(&instruction, in_place, &kernels::lower, |call| {
                    kernels::lowered(&call.name)
                })
                .expect("it has kernels");
                let mut addresses: Vec<u64> =
                    (0..16).map(|place| 0x7f3a_0123_4000 - 0x9100 * place).collect();
                if in_place {
                    addresses[views.len()] = addresses[0];
                }
                let there = calls(&instruction, in_place, &kernels::lower, |place| addresses[place])
                    .expect("as above");
                let own = lowered.kernels().iter().map(|kernel| kernel.arguments(&addresses).to_vec());
                let expected: Vec<_> = there.iter().map(|call| call.args.words().to_vec()).collect();
                assert_eq!(own.collect::<Vec<_>>(), expected, "{op:?}");
            }
        }
    }
}
