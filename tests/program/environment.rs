//! Settings from the environment, each in a process of its own.

use burn::tensor::backend::Backend;
use burn::tensor::{DType, Tensor};
use burn_overcommit::{Config, Overcommit, OvercommitDevice, VARIABLES, configure, stats};

use crate::process::{child, is_alone, is_child};

fn set(name: &str, value: &str) {
    // SAFETY: this process has no other test, and reads its environment only through std, which locks it.
    unsafe { std::env::set_var(name, value) };
}

#[test]
fn the_environment_sets_what_configure_does_not() {
    if !is_alone(module_path!(), "the_environment_sets_what_configure_does_not") {
        return;
    }
    let device = OvercommitDevice::Host(9);
    for (name, value) in [
        ("OVERCOMMIT_DEVICE", "host:9"),
        ("OVERCOMMIT_BUDGET", "3 MiB"),
        ("OVERCOMMIT_HOST_LIMIT", "5 MiB"),
        ("OVERCOMMIT_POLICY", "tensor-cache"),
        ("OVERCOMMIT_EXACTNESS", "exact"),
        ("OVERCOMMIT_LOG", "debug"),
        ("OVERCOMMIT_PAGE_MAPPING", "true"),
    ] {
        assert!(VARIABLES.iter().any(|row| row.1 == name), "{name} is not in the table");
        set(name, value);
    }
    assert_eq!(OvercommitDevice::default(), device);
    // Whole pages.
    assert_eq!(stats(&device).unwrap().budget_bytes, 2 << 20);
    set("OVERCOMMIT_PAGE_MAPPING", "false");
    configure(&device, Config::new()).unwrap();
    let limits = |stats: burn_overcommit::Stats| (stats.budget_bytes, stats.host_limit_bytes);
    assert_eq!(limits(stats(&device).unwrap()), (3 << 20, 5 << 20));
    configure(&device, Config::new().budget("1 MiB")).unwrap();
    assert_eq!(limits(stats(&device).unwrap()), (1 << 20, 5 << 20));

    for (name, value) in [
        ("OVERCOMMIT_POLICY", "best"),
        ("OVERCOMMIT_LOG", "loud"),
        ("OVERCOMMIT_EXACTNESS", "no"),
        ("OVERCOMMIT_PAGE_MAPPING", "maybe"),
        ("OVERCOMMIT_BUDGET", "101%"),
        ("OVERCOMMIT_BUDGET", "999 TiB"),
        ("OVERCOMMIT_HOST_LIMIT", "lots"),
    ] {
        let before = std::env::var(name).unwrap();
        set(name, value);
        let text = configure(&device, Config::new()).unwrap_err().to_string();
        assert!(text.starts_with(name) && text.contains(value) && text.contains("expected"), "{text}");
        set(name, &before);
    }

    // What is set in the program is not laid at the environment's door.
    let text = configure(&device, Config::new().budget("999 TiB")).unwrap_err().to_string();
    assert!(text.starts_with("Config::budget: ") && !text.contains("OVERCOMMIT"), "{text}");

    // The default device is decided once.
    set("OVERCOMMIT_DEVICE", "toaster");
    assert_eq!(OvercommitDevice::default(), device);
}

#[test]
fn a_misspelt_device_is_refused_with_those_that_there_are() {
    if is_child() {
        // Neither this nor what Burn's test-suite asks before `main` may fail.
        let device = OvercommitDevice::default();
        let _ = Overcommit::<f32, i32>::dtype_usage(&device, DType::F32);
        println!("configure: {}", configure(&device, Config::new()).unwrap_err());
        let _ = Tensor::<Overcommit, 1>::ones([1], &device);
        return;
    }
    for (name, expected) in [
        ("cdua:0", "expected cuda:N, host:N or sim:KEY such as sim:h200"),
        ("cuda:x", "expected cuda:N, host:N or sim:KEY such as sim:h200"),
        ("sim:h2000", "expected one of sim:k40c, "),
    ] {
        let child = child(module_path!(), "a_misspelt_device_is_refused_with_those_that_there_are")
            .env("OVERCOMMIT_DEVICE", name)
            .output()
            .unwrap();
        assert!(!child.status.success(), "{name}");
        let expected = format!("OVERCOMMIT_DEVICE: \"{name}\" was given; {expected}");
        let (told, panicked) =
            (String::from_utf8_lossy(&child.stdout), String::from_utf8_lossy(&child.stderr));
        assert!(told.contains(&format!("configure: {expected}")), "{told}");
        assert!(panicked.contains(&expected), "{panicked}");
    }
}

#[test]
fn a_misspelt_variable_is_refused_with_the_nearest() {
    if is_child() {
        println!("configure: {}", configure(&OvercommitDevice::Host(9), Config::new()).unwrap_err());
        return;
    }
    let test = "a_misspelt_variable_is_refused_with_the_nearest";
    let child = child(module_path!(), test).env("OVERCOMMIT_BUGDET", "1").output().unwrap();
    let told = String::from_utf8(child.stdout).unwrap();
    assert!(told.contains("configure: OVERCOMMIT_BUGDET: ") && told.contains("OVERCOMMIT_BUDGET"), "{told}");
}

#[test]
fn without_a_logger_messages_go_to_standard_error_once_each() {
    if is_child() {
        OvercommitDevice::default();
        for _ in 0..2 {
            configure(&OvercommitDevice::Host(9), Config::new().budget("1KB")).unwrap();
        }
        return;
    }
    let test = "without_a_logger_messages_go_to_standard_error_once_each";
    let told = |level: &str| {
        let child =
            child(module_path!(), test).env_remove("OVERCOMMIT_DEVICE").env("OVERCOMMIT_LOG", level).output();
        String::from_utf8(child.unwrap().stderr).unwrap()
    };
    let text = told("");
    for part in ["is the default device", "Config::budget: \"1KB\" is rounded down to 768 bytes"] {
        assert_eq!(text.matches(part).count(), 1, "{part}: {text}");
    }
    assert!(!told("off").contains("burn-overcommit: "));
    assert!(told("info").contains("policy auto"), "details of the device");
}
