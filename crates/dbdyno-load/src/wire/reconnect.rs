//! Opens lost connections again on a thread of its own, so that the event loop never blocks on a server that is away.
//!
//! The thread is started when the first connection is lost, tries until the server is back, and ends once the loop has
//! dropped its [`Reconnector`], at the latest when the attempt that it is in has timed out.

use super::connection::{Link, Open};
use super::{Session, stream};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

const _: () = assert!(stream::OPENING_TIMEOUT.as_secs() <= 10, "the helper thread must end soon");
/// Wait after a first attempt that failed; each further one doubles it.
const BACK_OFF_FIRST: Duration = Duration::from_millis(10);
/// Longest wait between attempts.
const BACK_OFF_MAX: Duration = Duration::from_secs(1);

/// A lost connection: the number of its lane, and how to open it.
type Lost<S> = (usize, Arc<dyn Open<S>>);

/// The event loop's side of the helper thread.
pub(super) struct Reconnector<S> {
    lost: Sender<Lost<S>>,
    ready: Receiver<(usize, Link<S>)>,
    bell: Arc<OwnedFd>,
}

impl<S: Session + 'static> Reconnector<S> {
    /// Starts the thread.
    pub fn start() -> io::Result<Self> {
        // SAFETY: no pointers are passed; the result is checked before it is owned.
        let bell = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if bell < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel just gave us this descriptor, and nobody else has it.
        let bell = Arc::new(unsafe { OwnedFd::from_raw_fd(bell) });
        let (lost, lost_here) = mpsc::channel();
        let (ready_here, ready) = mpsc::channel();
        let helper = Helper { lost: lost_here, ready: ready_here, bell: bell.clone() };
        std::thread::Builder::new().name("reconnect".to_owned()).spawn(move || helper.run())?;
        Ok(Reconnector { lost, ready, bell })
    }

    /// Asks for a connection for a lane.
    pub fn ask(&self, number: usize, opener: Arc<dyn Open<S>>) {
        // The helper listens as long as this side lives, so that there is always somebody to take it.
        let _ = self.lost.send((number, opener));
    }

    /// Becomes readable when a connection is ready.
    pub fn bell(&self) -> RawFd {
        self.bell.as_raw_fd()
    }

    /// A connection that is ready, if there is one.
    pub fn take(&self) -> Option<(usize, Link<S>)> {
        let mut rung = 0u64;
        // SAFETY: eight bytes of `rung` are writable. That nothing was rung is no error: another call took it.
        unsafe { libc::read(self.bell.as_raw_fd(), (&raw mut rung).cast(), 8) };
        self.ready.try_recv().ok()
    }
}

/// The helper thread's side.
struct Helper<S> {
    lost: Receiver<Lost<S>>,
    ready: Sender<(usize, Link<S>)>,
    bell: Arc<OwnedFd>,
}

impl<S: Session> Helper<S> {
    fn run(self) {
        let mut open: Vec<Lost<S>> = Vec::new();
        // All lanes ask the same server: one that fails says enough about the others.
        let mut back_off = Duration::ZERO;
        loop {
            let asked = match open.is_empty() {
                true => self.lost.recv().map_err(|_| RecvTimeoutError::Disconnected),
                false => self.lost.recv_timeout(back_off),
            };
            match asked {
                Ok(lost) => {
                    open.push(lost);
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {}
            }
            let Some((number, opener)) = open.pop() else { continue };
            match Link::open(&*opener) {
                Ok(link) => {
                    back_off = Duration::ZERO;
                    if self.ready.send((number, link)).is_err() {
                        return;
                    }
                    self.ring();
                }
                Err(_) => {
                    back_off = (back_off * 2).clamp(BACK_OFF_FIRST, BACK_OFF_MAX);
                    open.push((number, opener));
                }
            }
        }
    }

    fn ring(&self) {
        let one = 1u64;
        // SAFETY: eight bytes of `one` are readable. A full counter cannot happen: one per connection.
        unsafe { libc::write(self.bell.as_raw_fd(), (&raw const one).cast(), 8) };
    }
}
