//! The machine that a run happens on: what it is, what a step cost on it, and what would spoil a measurement.
//!
//! Linux only; everything is read from /proc, /sys and system calls at the moment of asking, and what the kernel
//! does not say is `None` or carries its reason, never a guess. This crate prints nothing and writes no record.
//! Start with [`facts`] (once per run), then [`probe`] (at step boundaries) and [`doctor`] (verdicts on the facts).

pub mod block_device;
pub mod cgroup;
pub mod clock;
pub mod copy;
pub mod device_profile;
pub mod doctor;
mod error;
pub mod facts;
mod kernel_text;
pub mod mount;
pub mod probe;
pub mod process_tree;

pub use error::HostError;
