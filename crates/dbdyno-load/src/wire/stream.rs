//! A socket to a server: Unix or TCP, plain or encrypted, blocking at first and non-blocking in the event loop.

use crate::server::{Address, Tls};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// A server that does not answer within this time while a connection is opened is not there.
pub const OPENING_TIMEOUT: Duration = Duration::from_secs(10);

/// A connected socket.
pub struct Stream {
    socket: Socket,
    tls: Option<Box<ClientConnection>>,
}

enum Socket {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Stream {
    /// Connects, blocking, without encryption. Reads and writes time out after [`OPENING_TIMEOUT`] until
    /// [`Stream::set_nonblocking`] is called.
    ///
    /// # Errors
    /// The system's.
    pub fn connect(address: &Address) -> io::Result<Stream> {
        let socket = match address {
            Address::Unix(path) => {
                let socket = UnixStream::connect(path)?;
                socket.set_read_timeout(Some(OPENING_TIMEOUT))?;
                socket.set_write_timeout(Some(OPENING_TIMEOUT))?;
                Socket::Unix(socket)
            }
            Address::Tcp { host, port } => {
                let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
                let mut connected = None;
                for address in (host.as_str(), *port).to_socket_addrs()? {
                    match TcpStream::connect_timeout(&address, OPENING_TIMEOUT) {
                        Ok(socket) => {
                            connected = Some(socket);
                            break;
                        }
                        Err(error) => last = error,
                    }
                }
                let socket = connected.ok_or(last)?;
                // A request is one small write that must leave at once.
                socket.set_nodelay(true)?;
                socket.set_read_timeout(Some(OPENING_TIMEOUT))?;
                socket.set_write_timeout(Some(OPENING_TIMEOUT))?;
                Socket::Tcp(socket)
            }
        };
        Ok(Stream { socket, tls: None })
    }

    /// Encrypts what follows, if that is wanted, and checks the server's certificate against `host`. Blocking.
    ///
    /// # Errors
    /// If the certificate is not trusted or not the host's, or trusted certificates cannot be read.
    pub fn encrypt(&mut self, tls: &Tls, host: &str) -> io::Result<()> {
        let Tls::Verified { trusted } = tls else { return Ok(()) };
        let invalid = |error: &dyn std::fmt::Display| {
            io::Error::new(io::ErrorKind::InvalidData, error.to_string())
        };
        let roots = match trusted {
            Some(file) => roots_from_file(file)?,
            None => roots_of_host(),
        };
        let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        let name = ServerName::try_from(host.to_owned()).map_err(|error| invalid(&error))?;
        let mut session =
            ClientConnection::new(Arc::new(config), name).map_err(|error| invalid(&error))?;
        while session.is_handshaking() {
            session.complete_io(&mut self.socket)?;
        }
        self.tls = Some(Box::new(session));
        Ok(())
    }

    /// Whether bytes are encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }

    /// From here on reads and writes may take as long as they need: the connection is open, and statements are slow.
    ///
    /// # Errors
    /// The system's.
    pub fn wait_without_limit(&self) -> io::Result<()> {
        match &self.socket {
            Socket::Unix(socket) => {
                socket.set_read_timeout(None)?;
                socket.set_write_timeout(None)
            }
            Socket::Tcp(socket) => {
                socket.set_read_timeout(None)?;
                socket.set_write_timeout(None)
            }
        }
    }

    /// From here on calls return `WouldBlock` instead of waiting.
    ///
    /// # Errors
    /// The system's.
    pub fn set_nonblocking(&self) -> io::Result<()> {
        match &self.socket {
            Socket::Unix(socket) => socket.set_nonblocking(true),
            Socket::Tcp(socket) => socket.set_nonblocking(true),
        }
    }
}

fn roots_from_file(file: &Path) -> io::Result<RootCertStore> {
    let at = |error: &dyn std::fmt::Display| {
        io::Error::new(io::ErrorKind::InvalidData, format!("{}: {error}", file.display()))
    };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(file).map_err(|error| at(&error))? {
        let certificate = certificate.map_err(|error| at(&error))?;
        roots.add(certificate).map_err(|error| at(&error))?;
    }
    if roots.is_empty() {
        return Err(at(&"there is no certificate in this file"));
    }
    Ok(roots)
}

fn roots_of_host() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    // Single certificates of the host that cannot be read only make fewer servers trusted.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}

impl AsRawFd for Stream {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

impl AsRawFd for Socket {
    #[inline]
    fn as_raw_fd(&self) -> RawFd {
        match self {
            Socket::Unix(socket) => socket.as_raw_fd(),
            Socket::Tcp(socket) => socket.as_raw_fd(),
        }
    }
}

// Calls made for sockets, and not those for any file, which the kernel takes longer for.
impl Read for Socket {
    #[inline]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // SAFETY: the buffer can be written for its whole length during the call.
        let read =
            unsafe { libc::recv(self.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), 0) };
        usize::try_from(read).map_err(|_| io::Error::last_os_error())
    }
}

impl Write for Socket {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // SAFETY: the bytes can be read for their whole length during the call. A peer that is gone is an error here
        // and no signal.
        let written = unsafe {
            libc::send(self.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), libc::MSG_NOSIGNAL)
        };
        usize::try_from(written).map_err(|_| io::Error::last_os_error())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else { return self.socket.read(buffer) };
        loop {
            match tls.reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return done,
            }
            if tls.read_tls(&mut self.socket)? == 0 {
                return Ok(0);
            }
            tls.process_new_packets()
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else { return self.socket.write(bytes) };
        let taken = tls.writer().write(bytes)?;
        // What the socket does not take now stays with the session and goes first next time.
        match tls.write_tls(&mut self.socket) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(taken),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        let Some(tls) = &mut self.tls else { return Ok(()) };
        while tls.wants_write() {
            tls.write_tls(&mut self.socket)?;
        }
        Ok(())
    }
}
