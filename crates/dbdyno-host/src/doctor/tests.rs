//! Tests of the checks on made-up facts.

use super::*;
use crate::block_device::{BlockDevice, DeviceNumber};

/// A host on which every check is Ok.
fn good() -> HostFacts {
    HostFacts {
        cores_online: Some(8),
        cores_allowed: Some(8),
        memory_bytes: Some(16 << 30),
        swap_used_bytes: Some(0),
        hypervisor: Some(false),
        filesystem: Some("ext4".into()),
        disk_free_bytes: Some(100 << 30),
        data_dir_writable: Some(true),
        device: Some(BlockDevice {
            name: "sda".into(),
            number: DeviceNumber { major: 8, minor: 0 },
            read_ahead_kb: Some(128),
            scheduler: None,
            rotational: None,
        }),
        transparent_hugepages: Some("madvise".into()),
        cpu_governor: Some("performance".into()),
        load_average: Some([0.1, 4.0, 4.0]),
        cgroup_memory_limit_bytes: Some(Limit::Unlimited),
        cgroup_cpu_limit_cores: Some(Limit::At(8.0)),
        clock_source: Some("tsc".into()),
        clock_read_ns: Some(22.0),
        open_files_limit: Some(1100),
        perf_event_paranoid: Some(1),
        ..HostFacts::default()
    }
}

fn used(steal_share: Option<f64>) -> HostUse {
    HostUse {
        elapsed_ns: 1,
        busy_cpu_ns: 0,
        user_cpu_ns: 0,
        system_cpu_ns: 0,
        idle_cpu_ns: 0,
        steal_cpu_ns: 0,
        steal_share,
        context_switches: 0,
        went_back: Vec::new(),
    }
}

/// Changes one fact of the good host and expects the one check of this name to change.
fn check(name: &str, status: Status, found: &str, change: impl FnOnce(&mut HostFacts)) {
    let mut facts = good();
    change(&mut facts);
    let checks = checks(&facts, Some(&used(Some(0.0))));
    for check in &checks {
        if check.name == name {
            assert_eq!(check.status, status, "{check:?}");
            assert!(check.found.contains(found), "{check:?}");
        }
        let sentence = check.advice.ends_with('.') && !check.advice.contains("  ");
        assert_eq!(sentence, check.status != Status::Ok, "{check:?}");
    }
    assert!(checks.iter().any(|check| check.name == name), "{name}");
    assert_eq!(worst(&checks), status, "{name}: {checks:?}");
}

#[test]
fn each_fact_is_judged_by_its_own_check() {
    // Shows both sides of every limit, with all other checks Ok.
    use Status::{Advice, Ok, Stop};
    check("cores", Ok, "8 usable", |_| ());
    check("cores", Advice, "1 usable of 8 online", |facts| {
        facts.cores_allowed = Some(1);
        facts.load_average = Some([0.25, 0.0, 0.0]);
    });
    check("load_average", Ok, "2.00", |facts| facts.load_average = Some([2.0, 0.0, 0.0]));
    check("load_average", Advice, "on 8 cores", |facts| facts.load_average = Some([2.1, 0.0, 0.0]));
    check("cpu_quota", Advice, "1.50 cores", |facts| {
        facts.cgroup_cpu_limit_cores = Some(Limit::At(1.5));
    });
    check("cpu_quota", Ok, "unlimited", |facts| {
        facts.cgroup_cpu_limit_cores = Some(Limit::Unlimited);
    });
    check("cpu_governor", Advice, "powersave", |facts| {
        facts.cpu_governor = Some("performance,powersave".into());
    });
    check("cpu_governor", Advice, "unknown", |facts| facts.cpu_governor = None);
    check("cpu_governor", Ok, "none", |facts| {
        (facts.cpu_governor, facts.hypervisor) = (None, Some(true));
    });
    check("clock_source", Ok, "kvm-clock", |facts| facts.clock_source = Some("kvm-clock".into()));
    check("clock_source", Advice, "acpi_pm, 800 ns", |facts| {
        (facts.clock_source, facts.clock_read_ns) = (Some("acpi_pm".into()), Some(800.0));
    });
    check("memory_limit", Advice, "512.0 MiB", |facts| {
        facts.cgroup_memory_limit_bytes = Some(Limit::At(512 << 20));
    });
    check("memory_limit", Ok, "32.0 GiB", |facts| {
        facts.cgroup_memory_limit_bytes = Some(Limit::At(32 << 30));
    });
    check("swap", Advice, "1.0 MiB in use", |facts| facts.swap_used_bytes = Some(1 << 20));
    check("transparent_hugepages", Advice, "always", |facts| {
        facts.transparent_hugepages = Some("always".into());
    });
    check("data_directory", Stop, "not writable", |facts| facts.data_dir_writable = Some(false));
    check("data_filesystem", Advice, "in memory", |facts| facts.filesystem = Some("tmpfs".into()));
    check("data_filesystem", Advice, "no single", |facts| {
        (facts.device, facts.device_absent_reason) = (None, Some("many devices".into()));
    });
    check("disk_free", Stop, "255.0 MiB", |facts| facts.disk_free_bytes = Some(255 << 20));
    check("disk_free", Advice, "256.0 MiB", |facts| facts.disk_free_bytes = Some(256 << 20));
    check("disk_free", Ok, "2.0 GiB", |facts| facts.disk_free_bytes = Some(2 << 30));
    let read_ahead = |facts: &mut HostFacts, kb| {
        facts.device.as_mut().unwrap().read_ahead_kb = Some(kb);
    };
    check("read_ahead", Ok, "1024 KiB", |facts| read_ahead(facts, 1024));
    check("read_ahead", Advice, "8192 KiB on sda", |facts| read_ahead(facts, 8192));
    check("open_files", Advice, "1024", |facts| facts.open_files_limit = Some(1024));
    check("perf_events", Advice, "= 2", |facts| facts.perf_event_paranoid = Some(2));
}

#[test]
fn the_unknown_is_never_called_good() {
    // Shows that with no fact known no check is Ok, and none stops a run.
    let checks = checks(&HostFacts::default(), None);
    for check in &checks {
        assert_eq!(check.status, Status::Advice, "{check:?}");
    }
    assert_eq!(worst(&checks), Status::Advice);
    assert_eq!(worst(&[]), Status::Ok);
}

#[test]
fn steal_comes_from_the_interval() {
    // Shows both sides of the limit, and an interval in which no tick passed.
    let status = |share| {
        let checks = checks(&good(), Some(&used(share)));
        checks.into_iter().find(|check| check.name == "steal").unwrap().status
    };
    assert_eq!(status(Some(0.009)), Status::Ok);
    assert_eq!(status(Some(0.02)), Status::Advice);
    assert_eq!(status(None), Status::Advice);
}
