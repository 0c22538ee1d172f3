//! Settings from the environment. Only one test here touches it, in a process of its own.

use burn_overcommit::{Config, OvercommitDevice, VARIABLES, configure, stats};

fn set(name: &str, value: &str) {
    // SAFETY: this is the process's only test, and nothing it has started reads the environment.
    unsafe { std::env::set_var(name, value) };
}

#[test]
fn the_environment_sets_what_configure_does_not() {
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
    ] {
        let before = std::env::var(name).unwrap();
        set(name, value);
        let text = configure(&device, Config::new()).unwrap_err().to_string();
        assert!(text.starts_with(name) && text.contains(value) && text.contains("expected"), "{text}");
        set(name, &before);
    }

    // The default device is decided once, and a bad name never stops a program.
    set("OVERCOMMIT_DEVICE", "toaster");
    assert_eq!(OvercommitDevice::default(), device);
}

/// README.md shows the table that the program has.
#[test]
fn the_readme_lists_the_variables() {
    let readme = include_str!("../README.md");
    for (_, name, _, _) in VARIABLES {
        assert!(readme.contains(&format!("`{name}`")), "{name} is not in README.md");
    }
}
