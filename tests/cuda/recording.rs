//! A process that is recorded, whose driver ends with it.

use burn::tensor::Tensor;
use burn_overcommit::trace::Recording;
use burn_overcommit::{Config, Overcommit, OvercommitDevice, configure};
use burn_overcommit_standin::folder;

use support::process::{child, is_child};

#[test]
fn the_trace_is_written_before_the_driver_ends() {
    if is_child() {
        let device = OvercommitDevice::Cuda(0);
        configure(&device, Config::new().cuda_libraries(folder())).expect("the stand-in is there");
        Tensor::<Overcommit, 1>::ones([1000], &device).exp().into_data();
        return;
    }
    let temporary = tempfile::tempdir().expect("there is a folder for temporary files");
    let path = temporary.path().join("trace.jsonl");
    let child = child(module_path!(), "the_trace_is_written_before_the_driver_ends")
        .env("OVERCOMMIT_TRACE", &path)
        .output()
        .expect("it runs once more");
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stderr));
    let recording = Recording::open(&path).expect("the trace was written");
    assert!(recording.header.device.starts_with("cuda:0"), "{:?}", recording.header);
}
