//! The event loop: one thread keeps many connections busy.

use super::Session;
use super::connection::Connection;
use crate::driver::Client;
use crate::recorder::Recorder;
use crate::worker::{Lane, Limits, WorkerEnd, work};
use dbdyno_workload::RequestStream;

/// Runs the lanes of one thread, one after the other: a stand-in until the loop is there.
pub(super) fn run<S: Session + 'static, R: RequestStream>(
    clients: &mut [Connection<S>],
    lanes: &mut [Lane<R>],
    recorder: &mut Recorder<'_>,
    limits: Limits,
) -> WorkerEnd
where
    Connection<S>: Client,
{
    let ends = clients
        .iter_mut()
        .zip(lanes)
        .map(|(client, lane)| work(client, &mut lane.stream, &mut lane.arrival, recorder, limits));
    ends.fold(WorkerEnd::default(), WorkerEnd::and)
}
