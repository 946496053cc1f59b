//! Loopback ports: one that is free now, and whose a listening socket is. All asked of the kernel and not by connecting,
//! which a server would log.

use crate::error::{ProvisionError, Trouble};
use std::fs;
use std::net::{Ipv4Addr, TcpListener};

/// A port that nobody has now. Somebody else may take it before the server does.
pub(super) fn free() -> Result<u16, ProvisionError> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|listener| listener.local_addr())
        .map(|address| address.port())
        .map_err(|error| {
            let text =
                format!("cannot get a port on 127.0.0.1: {error}; is the loopback interface up?");
            ProvisionError::new(Trouble::HostLacks, text)
        })
}

/// The sockets that listen on this port of 127.0.0.1 or of all addresses, whoever's they are.
pub(super) fn listeners(port: u16) -> Vec<String> {
    let table = fs::read_to_string("/proc/net/tcp").unwrap_or_default();
    let places = [format!("0100007F:{port:04X}"), format!("00000000:{port:04X}")];
    let socket = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [_, local, _, state, ..] = fields[..] else { return None };
        // 0A is the state of a socket that listens.
        let is_it = state == "0A" && places.iter().any(|place| place == local);
        fields.get(9).filter(|_| is_it).map(|inode| format!("socket:[{inode}]"))
    };
    table.lines().filter_map(socket).collect()
}

/// What a process has open, by the kernel's names; sockets are among them.
pub(super) fn sockets_of(pid: u32) -> impl Iterator<Item = String> {
    let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    open.filter_map(|entry| Some(fs::read_link(entry.path()).ok()?.to_str()?.to_owned()))
}
