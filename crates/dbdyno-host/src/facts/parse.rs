//! Pure parsers of the texts that facts come from: cpuinfo, CPU lists, load average.

use crate::kernel_text::field;
use std::collections::BTreeSet;

/// The model name of the first core. ARM kernels give numbers instead, which are kept as they are.
pub(super) fn cpu_model(cpuinfo: &str) -> Option<String> {
    if let Some(name) = field(cpuinfo, "model name") {
        return Some(name.to_string());
    }
    let implementer = field(cpuinfo, "CPU implementer")?;
    let part = field(cpuinfo, "CPU part")?;
    Some(format!("implementer {implementer}, part {part}"))
}

/// Number of different packages, where the kernel tells them.
pub(super) fn sockets(cpuinfo: &str) -> Option<u64> {
    let packages: BTreeSet<&str> = cpuinfo
        .lines()
        .filter_map(|line| line.split_once(':'))
        .filter(|(name, _)| name.trim_end() == "physical id")
        .map(|(_, package)| package.trim())
        .collect();
    (!packages.is_empty()).then_some(packages.len() as u64)
}

/// Whether the x86 flag that hypervisors set is there; only x86 has a line of `flags`.
pub(super) fn hypervisor(cpuinfo: &str) -> Option<bool> {
    let flags = field(cpuinfo, "flags")?;
    Some(flags.split(' ').any(|flag| flag == "hypervisor"))
}

/// How many CPUs a list such as `0-3,8,10-11` names.
pub(super) fn cpu_list_len(list: &str) -> Option<u64> {
    let mut count = 0;
    for range in list.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
        count += last.checked_sub(first)? + 1;
    }
    Some(count)
}

/// The three means at the start of /proc/loadavg.
pub(super) fn load_average(text: &str) -> Option<[f64; 3]> {
    let mut numbers = text.split_whitespace().map(str::parse);
    let mut next = || numbers.next()?.ok();
    Some([next()?, next()?, next()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    const X86: &str = "\
processor\t: 0
model name\t: Example CPU @ 2.50GHz
physical id\t: 0
flags\t\t: fpu vme hypervisor lahf_lm

processor\t: 1
model name\t: Example CPU @ 2.50GHz
physical id\t: 1
flags\t\t: fpu vme hypervisor lahf_lm
";
    const ARM: &str = "\
processor\t: 0
BogoMIPS\t: 243.75
Features\t: fp asimd
CPU implementer\t: 0x41
CPU part\t: 0xd0c
";

    #[test]
    fn reads_the_processor() {
        // Shows both architectures, and that what is not told stays unknown.
        assert_eq!(cpu_model(X86).as_deref(), Some("Example CPU @ 2.50GHz"));
        assert_eq!((sockets(X86), hypervisor(X86)), (Some(2), Some(true)));
        assert_eq!(hypervisor("flags : fpu vme\n"), Some(false));
        assert_eq!(cpu_model(ARM).as_deref(), Some("implementer 0x41, part 0xd0c"));
        assert_eq!((sockets(ARM), hypervisor(ARM)), (None, None));
        assert_eq!(cpu_model(""), None);
    }

    #[test]
    fn reads_lists_and_load() {
        // Shows ranges, single numbers, and texts of another form.
        let check = |list, expected| assert_eq!(cpu_list_len(list), expected, "{list:?}");
        check("0-3,8,10-11\n", Some(7));
        check("0", Some(1));
        check("", None);
        check("3-1", None);
        assert_eq!(load_average("0.15 1.03 12.01 2/86 4518\n"), Some([0.15, 1.03, 12.01]));
        assert_eq!(load_average("0.15 1.03"), None);
    }
}
