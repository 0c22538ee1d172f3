//! What users are told: by `Debug`, by errors and where these are said to come from, and by the log.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, Once};

use burn::backend::Autodiff;
use burn::tensor::quantization::{QuantScheme, QuantStore};
use burn::tensor::{Int, Tensor, TensorData};
use burn_backend::ops::FloatTensorOps;
use burn_overcommit::op::{Dtype, Op, Reduce, Scalar, Shape, Unary};
use burn_overcommit::{Config, Error, Overcommit, OvercommitDevice, Policy, SimProfile, configure, stats};
use burn_overcommit::{Reads, dry_run, runtime};

type Inner = Overcommit<f32, i32>;

fn device(index: u16, config: Config) -> OvercommitDevice {
    let device = OvercommitDevice::Host(index);
    configure(&device, config).unwrap();
    device
}

#[test]
fn a_tensor_is_one_line() {
    let device = device(10, Config::new());
    let x = Tensor::<Inner, 2>::from_floats([[1.0, 2.0, 3.0]], &device);
    let primitive = x.clone().into_primitive().tensor();
    let text = format!("{primitive:?}");
    assert!(text.starts_with("Tensor(host:10, [1, 3], f32, storage "), "{text}");
    assert_eq!(format!("{primitive:#?}"), text, "in either format");
    assert_eq!(
        format!("{:?}", x.clone().exp().into_primitive().tensor()),
        "Tensor(host:10, [1, 3], f32, not made yet)"
    );

    let x = Tensor::<Autodiff<Inner>, 2>::from_inner(x).require_grad();
    let tracked = x.exp();
    let scheme = QuantScheme::default().with_store(QuantStore::Native);
    let quantized = Tensor::<Inner, 2>::ones([4, 8], &device).quantize_dynamic(&scheme);
    let indices = Tensor::<Inner, 1, Int>::from_ints([1, 2], &device);
    for text in [format!("{tracked:?}"), format!("{quantized:?}"), format!("{indices:?}")] {
        assert!(
            text.len() < 1500 && text.contains("Tensor(host:10, ") && !text.contains("Runtime"),
            "{text}"
        );
        assert!(!text.contains('\n'), "{text}");
    }
}

/// Fills tensors that are all kept until one has no room; how many there were, and why no more.
fn filled(index: u16, config: Config) -> (usize, Option<Error>) {
    const TENSORS: usize = 40;
    let device = device(index, config.policy(Policy::TensorCache));
    let mut kept = Vec::new();
    while kept.len() < TENSORS {
        let count = 256 + 64 * kept.len();
        let (shape, value) = (Shape::new(&[count]), Scalar::from(1.0));
        match runtime::create(&device, Op::Fill { shape, dtype: Dtype::F32, value }) {
            Ok(tensor) => kept.push(tensor),
            Err(error) => return (kept.len(), Some(error)),
        }
    }
    (TENSORS, None)
}

#[test]
fn the_advice_where_the_host_tier_is_full_is_enough_for_what_failed() {
    let (budget_bytes, limit_bytes) = (32 << 10, 256);
    for follows_limit in [true, false] {
        let (mut budget_bytes, mut limit_bytes) = (budget_bytes, limit_bytes);
        let mut furthest = 0;
        loop {
            let config = Config::new().budget_bytes(budget_bytes).host_limit_bytes(limit_bytes);
            let (made, error) = filled(20, config);
            assert!(
                made >= furthest,
                "{made} tensors were made, and {furthest} before the advice was followed"
            );
            let Some(error) = error else { break };
            let text = error.to_string();
            let Error::HostTierFull { least_limit_bytes, least_budget_bytes, .. } = error else {
                panic!("{text}")
            };
            let least_budget_bytes = least_budget_bytes.expect("an op's storages need not leave");
            assert!(least_limit_bytes > limit_bytes && least_budget_bytes > budget_bytes, "{text}");
            let parts = [
                "OVERCOMMIT_HOST_LIMIT",
                "Config::budget",
                "Config::offload(false)",
                "Stats::peak_host_bytes",
            ];
            for part in parts {
                assert!(text.contains(part), "no \"{part}\" in: {text}");
            }
            for bytes in [least_limit_bytes, least_budget_bytes] {
                assert!(text.contains(&format!("at least {bytes}")), "{text}");
            }
            if follows_limit {
                limit_bytes = least_limit_bytes
            } else {
                budget_bytes = least_budget_bytes
            }
            furthest = made + 1;
        }
    }
}

#[test]
fn no_budget_is_advised_for_what_passes_through_the_host_tier() {
    let device = device(21, Config::new().host_limit("256"));
    let write = || runtime::write(&device, &[0; 4096], Dtype::F32, Shape::new(&[1024]));
    let text = write().unwrap_err().to_string();
    assert!(
        text.contains("write needs 4096 bytes of it") && text.contains("to at least 4096 bytes"),
        "{text}"
    );
    assert!(!text.contains("budget") && !text.contains(" 0 B"), "{text}");
    assert_eq!(stats(&device).unwrap().counters.out_of_memory, 1);
    let x =
        runtime::create(&device, Op::Fill { shape: Shape::new(&[80]), dtype: Dtype::F32, value: 1.0.into() });
    let text = runtime::read(x.unwrap()).unwrap_err().to_string();
    assert!(text.contains("read needs 320 bytes of it") && text.contains("to at least 512 bytes"), "{text}");
    assert_eq!(stats(&device).unwrap().counters.out_of_memory, 2);

    configure(&device, Config::new().host_limit_bytes(4096)).unwrap();
    write().unwrap();
}

#[test]
fn a_host_limit_of_nothing_offloads_nothing_and_lets_the_program_write_and_read() {
    let config = Config::new().budget("256 KiB").host_limit("0").page_mapping(false).fusion(false);
    let device = device(23, config);
    let write = || runtime::write(&device, &[0; 60 << 10], Dtype::F32, Shape::new(&[15 << 10])).unwrap();
    let kept = [(); 4].map(|()| write());
    for tensor in &kept {
        let sum = runtime::run(Op::Reduce { kind: Reduce::Sum, axis: 0 }, [tensor.clone()]).unwrap();
        assert_eq!(runtime::read(sum).unwrap(), [0; 4]);
    }
    // The op works in place: all that is missing is memory for what it reads.
    let text = runtime::run(Op::Unary(Unary::Neg), [write()]).unwrap_err().to_string();
    for part in ["neg: 60.0 KiB more of device memory", "Config::host_limit above 0"] {
        assert!(text.contains(part), "no \"{part}\" in: {text}");
    }
    assert_eq!(stats(&device).unwrap().counters.evictions, 0);
}

#[test]
fn what_waits_and_finds_no_memory_is_counted_when_the_program_asks_for_it() {
    let config =
        Config::new().budget("16 KiB").host_limit("0").policy(Policy::TensorCache).page_mapping(false);
    let device = device(22, config);
    let full = |value| Tensor::<Inner, 1>::full([1024], value, &device);
    let kept = [1.0, 2.0, 3.0].map(full);
    // Of what there is, one more fits, and two are wanted.
    let (one, two) = (kept[0].clone().exp(), kept[0].clone().log());
    assert_eq!(stats(&device).unwrap().counters.out_of_memory, 0, "it was not asked for");
    let refused = catch_unwind(AssertUnwindSafe(|| kept[1].clone().sum()));
    assert!(refused.is_err(), "there is room for all");
    let counters = || stats(&device).unwrap().counters.out_of_memory;
    assert_eq!((counters(), counters()), (1, 1));
    drop((one, two));
}

/// Where panics of this thread were said to be.
fn location_of(panics: impl FnOnce()) -> String {
    thread_local! {
        static LOCATION: RefCell<String> = const { RefCell::new(String::new()) };
    }
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let told = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            told(info);
            let file = info.location().map(|location| location.file().to_string());
            LOCATION.with_borrow_mut(|place| *place = file.unwrap_or_default());
        }));
    });
    catch_unwind(AssertUnwindSafe(panics)).unwrap_err();
    LOCATION.with_borrow(String::clone)
}

#[test]
fn panics_are_said_to_be_where_the_backend_is_called() {
    let device = device(30, Config::new().budget("4 KiB"));
    let small = || Tensor::<Inner, 2>::ones([8, 8], &device);
    let primitive = |x: Tensor<Inner, 2>| x.into_primitive().tensor();
    let direct = [
        location_of(|| {
            drop(Inner::float_matmul(primitive(small()), primitive(Tensor::ones([4, 4], &device))))
        }),
        location_of(|| drop(Inner::float_zeros([64, 64].into(), &device, burn_backend::FloatDType::F32))),
    ];
    assert_eq!(direct, [file!(), file!()]);
    assert_eq!(location_of(|| drop(burn_overcommit::autodiff::softmax(small(), 5))), file!());
    // By way of Burn, its own line is all that can be told.
    let burns = [
        location_of(|| drop(Tensor::<Inner, 2>::ones([64, 64], &device))),
        location_of(|| {
            drop(
                Tensor::<Inner, 2>::from_data(TensorData::zeros::<f32, _>([64, 64]), &device)
                    .exp()
                    .into_data(),
            )
        }),
        location_of(|| drop(small().repeat_dim(0, 64))),
    ];
    assert!(burns.iter().all(|file| file.contains("burn-")), "{burns:?}");
}

/// Keeps what is logged.
struct Kept(Mutex<Vec<String>>);

static KEPT: Kept = Kept(Mutex::new(Vec::new()));

impl log::Log for Kept {
    fn enabled(&self, _: &log::Metadata) -> bool {
        true
    }

    fn log(&self, record: &log::Record) {
        self.0.lock().unwrap().push(format!("{}: {}", record.level(), record.args()));
    }

    fn flush(&self) {}
}

fn logged(part: &str) -> usize {
    KEPT.0.lock().unwrap().iter().filter(|line| line.contains(part)).count()
}

fn keep_logs() {
    static LOGGER: Once = Once::new();
    LOGGER.call_once(|| {
        log::set_logger(&KEPT).expect("there is no other");
        log::set_max_level(log::LevelFilter::Warn);
    });
}

#[test]
fn zeros_that_are_read_where_there_is_no_data_are_warned_of_once() {
    keep_logs();
    let profile = |key: &str| {
        let mut profile = SimProfile::named("h200").and_then(SimProfile::get).unwrap();
        profile.key = key.into();
        profile
    };
    let added = |key: &str| OvercommitDevice::Sim(SimProfile::add(profile(key)));
    let read = |device: &OvercommitDevice| drop(Tensor::<Inner, 1>::ones([4], device).into_data());
    let (told, stated) = (added("told"), added("stated"));
    configure(&stated, Config::new().reads(Reads::Zeros)).unwrap();
    read(&stated);
    assert_eq!(logged("sim:stated has no data"), 0);
    assert_eq!(logged("sim:told has no data"), 0, "nothing was read");
    read(&told);
    configure(&told, Config::new()).unwrap();
    read(&told);
    assert_eq!(logged("WARN: sim:told has no data"), 1);
    let outcome =
        dry_run(&profile("dry"), Config::new(), |device, steps| steps.for_each(|_| read(device))).unwrap();
    assert!(outcome.steps > 0);
    assert_eq!(logged("dry has no data"), 0, "a dry run is for memory alone");
}

#[test]
fn a_budget_that_is_rounded_down_is_what_is_told() {
    keep_logs();
    let device = device(31, Config::new().budget("1KB"));
    assert_eq!(stats(&device).unwrap().budget_bytes, 768);
    assert_eq!(logged("Config::budget: \"1KB\" is rounded down to 768 bytes"), 1);
    configure(&device, Config::new().budget("100 KB")).unwrap();
    assert_eq!(logged("100 KB"), 0, "it is a block at the most");
}

/// Burn's autodiff calls the backend, so that a location says nothing of the model.
#[test]
fn a_refused_op_is_said_to_be_of_its_module() {
    use burn::nn::{Linear, LinearConfig};
    use burn_overcommit::name_modules;

    type B = Autodiff<Inner>;
    let device = device(39, Config::new().budget("96 KiB"));
    let layer = |width| LinearConfig::new(width, width).with_bias(false).init(&device);
    let model: Vec<Linear<B>> = [8, 8, 96].map(layer).to_vec();
    model.iter().for_each(|layer| drop(layer.weight.val()));
    name_modules(&model);
    let refused = catch_unwind(AssertUnwindSafe(|| {
        let x = Tensor::<B, 2>::ones([96, 96], &device);
        model[2].forward(x).into_data()
    }));
    let text = refused.unwrap_err().downcast::<String>().unwrap();
    assert!(text.starts_with("out of device memory: matmul of 2 needs "), "{text}");
}
