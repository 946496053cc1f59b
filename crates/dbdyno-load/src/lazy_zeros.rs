//! Zeroed counters that take memory only where they were touched.
//!
//! The C library's zeroed allocation clears what it reuses, and so touches all of it; fresh pages from the kernel are
//! zero without being there. With a thousand threads that is the difference between 30 and 300 megabytes.

use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};

/// A slice of counters in pages of its own.
pub struct LazyZeros {
    first: NonNull<u32>,
    length: usize,
}

// SAFETY: the pages belong to this value alone and are reached through it only, like a boxed slice.
unsafe impl Send for LazyZeros {}

impl LazyZeros {
    /// `length` zeros, at least one.
    ///
    /// # Panics
    /// If the kernel has no address space left, like any allocation.
    pub fn new(length: usize) -> Self {
        let bytes = length.max(1) * size_of::<u32>();
        // SAFETY: an anonymous private mapping of a positive length, placed by the kernel, shares nothing.
        let pages = unsafe {
            libc::mmap(
                ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        assert!(pages != libc::MAP_FAILED, "no memory for {length} counters");
        let first = NonNull::new(pages.cast()).expect("the kernel maps nothing at zero");
        LazyZeros { first, length }
    }
}

impl Deref for LazyZeros {
    type Target = [u32];

    #[inline]
    fn deref(&self) -> &[u32] {
        // SAFETY: the mapping holds `length` initialised (zero) counters and lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.length) }
    }
}

impl DerefMut for LazyZeros {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u32] {
        // SAFETY: as in `deref`, and `&mut self` makes it the only access.
        unsafe { std::slice::from_raw_parts_mut(self.first.as_ptr(), self.length) }
    }
}

impl Drop for LazyZeros {
    fn drop(&mut self) {
        let bytes = self.length.max(1) * size_of::<u32>();
        // SAFETY: the mapping was made in `new` with this length and is not used afterwards.
        unsafe { libc::munmap(self.first.as_ptr().cast(), bytes) };
    }
}
