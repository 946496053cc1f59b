//! Pure parsers of /proc/PID/stat, io and status, whose formats the kernel's
//! Documentation/filesystems/proc.rst describes.

use super::{IoCounts, TaskSwitches};
use crate::kernel_text::field;

/// The fields of /proc/PID/stat that are used here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stat {
    /// Fields 14 and 15, clock ticks.
    pub user_ticks: u64,
    pub system_ticks: u64,
    /// Fields 16 and 17 together, clock ticks.
    pub children_ticks: u64,
    /// Field 22, clock ticks after boot.
    pub start_time_ticks: u64,
}

/// Parses /proc/PID/stat. The second field is the name in parentheses, which may itself hold spaces and
/// parentheses; none of the later fields can, so the last one in the text ends the name.
pub(crate) fn parse_stat(text: &str) -> Option<Stat> {
    let (_, after_name) = text.rsplit_once(')')?;
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    // The first field after the name is number 3.
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    // cutime and cstime are signed in the kernel.
    Some(Stat {
        user_ticks: number(14)?,
        system_ticks: number(15)?,
        children_ticks: number(16)? + number(17)?,
        start_time_ticks: number(22)?,
    })
}

pub(crate) fn io(text: &str) -> Option<IoCounts> {
    let number = |name| field(text, name)?.parse().ok();
    Some(IoCounts {
        rchar: number("rchar")?,
        wchar: number("wchar")?,
        syscr: number("syscr")?,
        syscw: number("syscw")?,
        read_bytes: number("read_bytes")?,
        write_bytes: number("write_bytes")?,
        cancelled_write_bytes: number("cancelled_write_bytes")?,
    })
}

pub(crate) fn switches(tid: u32, status: &str) -> Option<TaskSwitches> {
    let number = |name| field(status, name)?.parse().ok();
    Some(TaskSwitches {
        tid,
        voluntary: number("voluntary_ctxt_switches")?,
        involuntary: number("nonvoluntary_ctxt_switches")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_stat_with_any_name() {
        // Shows that spaces, parentheses and a fake tail in the name do not shift the fields.
        let tail = "S 1 2 3 0 -1 4194304 98 0 0 0 70 30 5 6 20 0 4 0 151959 3133440 413";
        for name in ["cat", "my server", "a) S 1 2 (b", ")", ""] {
            let stat = parse_stat(&format!("4605 ({name}) {tail}\n")).unwrap();
            let expected = Stat {
                user_ticks: 70,
                system_ticks: 30,
                children_ticks: 11,
                start_time_ticks: 151_959,
            };
            assert_eq!(stat, expected, "{name:?}");
        }
        assert_eq!(parse_stat("4605 (cat) S 1 2 3"), None);
        assert_eq!(parse_stat(""), None);
    }

    #[test]
    fn parses_io_and_switches() {
        // Shows every column of io, and that a text that lacks one is refused.
        let text = "rchar: 1\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: 5\nwrite_bytes: 6\n\
                    cancelled_write_bytes: 7\n";
        let counts = io(text).unwrap();
        assert_eq!((counts.rchar, counts.wchar, counts.syscr, counts.syscw), (1, 2, 3, 4));
        assert_eq!(
            (counts.read_bytes, counts.write_bytes, counts.cancelled_write_bytes),
            (5, 6, 7)
        );
        assert_eq!(io("rchar: 1\n"), None);
        let status = "Name:\ta\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t3\n";
        let expected = TaskSwitches { tid: 9, voluntary: 12, involuntary: 3 };
        assert_eq!(switches(9, status), Some(expected));
        assert_eq!(switches(9, "Name:\ta\n"), None);
    }
}
