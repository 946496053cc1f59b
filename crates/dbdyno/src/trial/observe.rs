//! Samples the host at the boundaries of the measured interval, and gathers what the request loop hands over.

use super::detail::IntervalFiles;
use crate::failure::Failure;
use dbdyno_host::probe::cpu::HostSample;
use dbdyno_host::probe::disk::{DiskProbe, DiskSample};
use dbdyno_host::probe::process::{self, ProcessSample};
use dbdyno_host::probe::tree::{self, TreeMemory, TreeSample};
use dbdyno_load::clock::SECOND;
use dbdyno_load::measure::{Boundary, Observer};
use dbdyno_load::outcome::FailureClass;
use dbdyno_load::recorder::{ClassInterval, Interval, Phase};
use dbdyno_load::sync_counter;

/// Everything that is read at one boundary.
pub struct BoundarySample {
    /// This process: client and engine together.
    pub process: ProcessSample,
    /// The whole host.
    pub host: HostSample,
    /// The data directory's device, if it has one.
    pub disk: Option<DiskSample>,
    /// CPU time of the worker threads together, ns.
    pub workers_cpu_ns: u64,
    /// CPU time of the thread that samples, ns.
    pub own_cpu_ns: u64,
    /// Syncs that this process asked for.
    pub syncs: u64,
    /// The server's processes, where they can be watched.
    pub server: Option<TreeSample>,
}

/// Watches a measurement.
pub struct TrialObserver<'a> {
    disk: Option<DiskProbe>,
    /// The server's first processes; none if they cannot be watched.
    server: &'a [u32],
    /// The server's memory at the end of the measured interval.
    pub server_memory: Option<TreeMemory>,
    /// Samples at the start and the end of the measured interval.
    pub start: Option<BoundarySample>,
    /// See `start`.
    pub end: Option<BoundarySample>,
    /// What was due in the measured interval, by class.
    pub due_in_measured: Vec<ClassInterval>,
    /// Requests completed within the measured interval.
    pub completed: u64,
    /// Requests done in each whole second of it, by class.
    pub per_second: Vec<Vec<u64>>,
    /// Requests that found no room on the disk, at any time of the trial.
    pub disk_full: u64,
    /// Interval logs and series.
    pub files: IntervalFiles,
    /// The first thing that went wrong while sampling.
    pub error: Option<Failure>,
    live: &'a mut dyn FnMut(f64),
}

impl<'a> TrialObserver<'a> {
    /// For the classes of a workload; `server` are a server's first processes; `live` is told each interval's completions per second.
    pub fn new(
        disk: Option<DiskProbe>,
        server: &'a [u32],
        classes: &[&str],
        files: IntervalFiles,
        live: &'a mut dyn FnMut(f64),
    ) -> Self {
        let due_in_measured = classes.iter().map(|_| ClassInterval::default()).collect();
        TrialObserver {
            disk,
            server,
            server_memory: None,
            start: None,
            end: None,
            due_in_measured,
            completed: 0,
            per_second: vec![Vec::new(); classes.len()],
            disk_full: 0,
            files,
            error: None,
            live,
        }
    }

    fn watched(&self) -> Option<&'a [u32]> {
        (!self.server.is_empty()).then_some(self.server)
    }

    fn sample(&self, threads: &[u32]) -> Result<BoundarySample, Failure> {
        let thread_cpu = |&thread: &u32| process::thread_cpu_ns(thread);
        // CPU clocks last at the start and first at the end would be ideal; reading all of this takes about 20 us and
        // as much again per thread, and the process sample accounts for its own reading at both ends.
        let workers = threads.iter().map(thread_cpu).sum::<Result<u64, _>>()?;
        Ok(BoundarySample {
            workers_cpu_ns: workers,
            own_cpu_ns: process::thread_cpu_ns(process::current_tid())?,
            syncs: sync_counter::syncs(),
            host: HostSample::read()?,
            disk: self.disk.as_ref().map(DiskProbe::sample).transpose()?,
            process: ProcessSample::read(std::process::id())?,
            server: self.watched().map(TreeSample::read).transpose()?,
        })
    }
}

impl Observer for TrialObserver<'_> {
    fn boundary(&mut self, boundary: Boundary, threads: &[u32]) {
        let sample = match self.sample(threads) {
            Ok(sample) => Some(sample),
            Err(error) => {
                self.error.get_or_insert(error);
                None
            }
        };
        match boundary {
            Boundary::MeasureStart => self.start = sample,
            Boundary::MeasureEnd => {
                self.end = sample;
                // After the sample, because walking the maps of many processes takes a while.
                self.server_memory = self.watched().and_then(tree::memory);
            }
        }
    }

    fn interval(&mut self, interval: Interval) {
        if interval.phase != Phase::Warmup {
            for (total, class) in self.due_in_measured.iter_mut().zip(&interval.classes) {
                total.add(class);
            }
        }
        let failures = interval.classes.iter().flat_map(|class| &class.failures);
        let disk_full = failures.filter(|(failure, _)| failure.class == FailureClass::DiskFull);
        self.disk_full += disk_full.map(|(_, count)| count).sum::<u64>();
        let completed: u64 = interval.classes.iter().map(|class| class.completed).sum();
        if interval.phase == Phase::Measured {
            self.completed += completed;
            let seconds = (interval.end - interval.start) as f64 / 1e9;
            if interval.end - interval.start == SECOND {
                for (seconds, class) in self.per_second.iter_mut().zip(&interval.classes) {
                    seconds.push(class.completed);
                }
            }
            (self.live)(completed as f64 / seconds);
        }
        if let Err(error) = self.files.add(&interval) {
            self.error.get_or_insert(error);
        }
    }
}
