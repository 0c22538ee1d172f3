//! A session of a client that has the token of `overcommit serve`: operations of Burn's wire format, whatever shapes and tensors they
//! name. Burn's interpreter may panic, since its server ends the session then; this crate refuses, and reads and writes its own memory.

#![no_main]

use std::panic::PanicHookInfo;
use std::task::{Context, Waker};

use burn_overcommit::runtime::{self, assert_invariants};
use burn_overcommit::{Config, Error, LaneMode, OvercommitDevice, Planning, configure};
use burn_overcommit_022_backend::{Member, Overcommit};
use burn_overcommit_fuzz::session::{Task, seeds};
use burn_overcommit_fuzz::{json, let_refusals_pass, unless_refused};
use burn_router::TensorInterpreter;
use libfuzzer_sys::{fuzz_mutator, fuzz_target};

const DEVICE: OvercommitDevice = OvercommitDevice::Host(0);

/// How the panics begin that nobody writes on purpose.
const ACCIDENTS: [&str; 9] = [
    "index out of bounds",
    "attempt to ",
    "called `",
    "range ",
    "slice index",
    "assertion ",
    "internal error",
    "already ",
    "no entry",
];

/// Whether a panic refuses something, or is not this crate's.
fn is_meant(info: &PanicHookInfo) -> bool {
    let is_ours = info.location().is_some_and(|location| {
        !location.file().contains("/registry/") && !location.file().starts_with("/rustc/")
    });
    let text = info.payload_as_str().unwrap_or_default();
    !is_ours || !ACCIDENTS.iter().any(|accident| text.starts_with(accident))
}

fuzz_target!(
    init: {
        let_refusals_pass(is_meant);
        let config = Config::new().budget_bytes(1 << 20).host_limit_bytes(1 << 20).planning(Planning::Off);
        // For who makes the corpus anew.
        if let Some(folder) = std::env::var_os("SEEDS") {
            for (name, tasks) in seeds() {
                let text = serde_json::to_vec(&tasks).expect("they are data");
                std::fs::write(std::path::Path::new(&folder).join(name), text).expect("the folder can be written");
            }
        }
        configure(&DEVICE, config.lanes(LaneMode::Deferred { seed: 1 })).expect("a device");
    },
    |data: &[u8]| {
        let Ok(tasks) = serde_json::from_slice::<Vec<Task>>(data) else { return };
        let mut session = TensorInterpreter::<Overcommit>::new(Member(DEVICE));
        for task in tasks.into_iter().take(32) {
            // A session ends with its first panic.
            if unless_refused(|| run(&mut session, task)).is_none() {
                break;
            }
        }
        drop(session);
        assert!(!matches!(runtime::sync(&DEVICE), Err(Error::Panicked { .. })), "a panic under the lock");
        assert_invariants(&DEVICE).expect("a device");
    }
);

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    json::mutate(data, size, max_size, seed)
});

fn run(session: &mut TensorInterpreter<Overcommit>, task: Task) {
    match task {
        Task::Tensor(id, data) => session.register_tensor_data_id(id, data),
        Task::Operation(operation) => session.register_op(operation),
        Task::Alias(new, from) => session.register_alias(new, from),
        // Deferred lanes run when they are waited for, so that nothing is pending.
        Task::Read(tensor) => {
            let _ = session.read_tensor_async(tensor).as_mut().poll(&mut Context::from_waker(Waker::noop()));
        }
    }
}
