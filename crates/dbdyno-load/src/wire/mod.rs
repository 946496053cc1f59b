//! Servers that are spoken to over sockets: what every wire driver shares.
//!
//! A driver brings a [`Session`]: the conversation of one connection, made of pure functions over buffers. Around it are
//! [`stream`] (a socket, plain or encrypted), [`connection`] (both together, and how to open another one) and
//! [`event_loop`], which keeps many connections busy from one thread, with one of two event queues of the kernel.

pub mod connection;
mod epoll;
pub mod event_loop;
mod lane_state;
pub mod mongodb;
pub mod mysql;
mod queue;
mod reconnect;
pub mod stream;
mod uring;

use crate::outcome::Outcome;
use dbdyno_workload::Request;

/// Whether the kernel has io_uring, new enough, and lets this process use it. Without it, epoll does the same for more.
pub fn has_io_uring() -> bool {
    uring::Uring::new(1).is_ok()
}

/// One connection's conversation, from after the login to the end. It never touches the socket: requests become bytes,
/// bytes become outcomes, and whoever owns the socket moves them. Must not allocate once it is warm.
pub trait Session: Send {
    /// Appends to `out` what must be sent to make a request. Up to `ClientOptions::pipeline` requests may be under way;
    /// the server answers them in order.
    fn encode(&mut self, request: &Request, out: &mut Vec<u8>);

    /// Takes in bytes from the server, calls `ended` for each request that has ended, in the order in which they were
    /// made, and appends to `out` what must be sent now (a transaction's next statement). Returns how many bytes it is
    /// done with; the rest is passed again, with more behind it.
    ///
    /// # Errors
    /// When the server sends what the protocol does not know, or says that it closes the connection. What is under way
    /// is then unknown.
    fn decode(
        &mut self,
        bytes: &[u8],
        out: &mut Vec<u8>,
        ended: &mut impl FnMut(Outcome),
    ) -> Result<usize, Broken>;
}

/// Why a connection cannot go on, in the server's words or ours.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Broken {
    /// One sentence.
    pub message: String,
    /// The server's own number for it, 0 if there is none.
    pub code: i32,
}
