//! stub
use crate::HostError;
use super::process::IoCounts;
#[derive(Debug, Clone)]
pub struct TreeSample { pub at_ns: u64, pub processes: Vec<u32> }
#[derive(Debug, Clone, Copy)]
pub struct TreeMemory { pub private_bytes: u64, pub shared_bytes: u64, pub mapped_bytes: u64 }
#[derive(Debug, Clone)]
pub struct TreeUse { pub cpu_ns: u64, pub user_share: Option<f64>, pub io: Option<IoCounts> }
impl TreeSample { pub fn read(_root: u32) -> Result<Self, HostError> { unimplemented!() } pub fn cpu_ns(&self) -> u64 {0} pub fn context_switches(&self) -> u64 {0} }
impl TreeUse { pub fn context_switches(&self) -> u64 {0} }
pub fn difference(_a: &TreeSample, _b: &TreeSample) -> Result<TreeUse, HostError> { unimplemented!() }
pub fn memory(_root: u32) -> Result<TreeMemory, HostError> { unimplemented!() }
