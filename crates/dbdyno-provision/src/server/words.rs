//! The words in braces of a recipe, and what they mean for one start of one server.

use super::Site;
use crate::error::{ProvisionError, Trouble};
use percent_encoding::NON_ALPHANUMERIC;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The port's number where it is only part of a name.
pub(super) const PORT_NAME: u16 = 5432;
/// The longest path that fits into the kernel's address of a socket, which ends in a zero byte.
const SOCKET_BYTES_MAX: usize = 107;

/// Words and their meaning.
pub(super) struct Words {
    known: Vec<(&'static str, String)>,
    socket: PathBuf,
}

impl Words {
    /// What words mean at this site, with this port.
    pub(super) fn of(site: &Site, port: u16) -> Words {
        let text = |path: &Path| path.display().to_string();
        let prefix = if site.recipe.own_root { String::new() } else { text(&site.prefix) };
        let known = vec![
            ("{prefix}", prefix),
            ("{data}", text(&site.data())),
            ("{run}", text(&site.run())),
            ("{tmp}", text(&site.tmp())),
            ("{port}", port.to_string()),
        ];
        let mut words = Words { known, socket: PathBuf::new() };
        words.socket = PathBuf::from(words.replace(&site.recipe.socket));
        words.known.push(("{socket}", text(&words.socket)));
        let behind = site.backend.as_deref().and_then(Path::parent);
        words.known.extend(behind.map(|directory| ("{backend}", in_url(directory))));
        words
    }

    /// A text with its words replaced. In a root of its own the prefix is `/`, and nothing before another `/`.
    pub(super) fn replace(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (word, meaning) in &self.known {
            if meaning.is_empty() {
                text = text.replace(&format!("{word}/"), "/").replace(word, "/");
            } else {
                text = text.replace(word, meaning);
            }
        }
        text
    }

    pub(super) fn all(&self, texts: &[String]) -> Vec<String> {
        texts.iter().map(|text| self.replace(text)).collect()
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.socket.clone()
    }

    /// Refuses a socket that the kernel has no room for.
    pub(super) fn check_socket(&self, site: &Site) -> Result<(), ProvisionError> {
        let bytes = self.socket.as_os_str().as_bytes().len();
        if bytes <= SOCKET_BYTES_MAX {
            return Ok(());
        }
        let text = format!(
            "the socket of {} would be {}, which has {bytes} bytes; the kernel allows {SOCKET_BYTES_MAX}: use a shorter results directory, --results DIR",
            site.name,
            self.socket.display()
        );
        Err(ProvisionError::new(Trouble::CannotWrite, text))
    }
}

/// A path as a part of a URL.
fn in_url(path: &Path) -> String {
    percent_encoding::percent_encode(path.as_os_str().as_bytes(), NON_ALPHANUMERIC).to_string()
}

/// The arguments of the server's program.
pub(super) fn server_arguments(site: &Site, words: &Words) -> Vec<String> {
    let recipe = &site.recipe;
    let listening =
        if site.with_port { &recipe.arguments_with_port } else { &recipe.arguments_without_port };
    let settings = recipe.setting_arguments(&site.settings);
    [words.all(&recipe.arguments), words.all(listening), words.all(&settings)].concat()
}

/// The arguments of a program that makes a data directory; `{settings}` becomes all that settings come to.
pub(super) fn init_arguments(site: &Site, words: &Words, arguments: &[String]) -> Vec<String> {
    let of = |argument: &String| match argument.as_str() {
        "{settings}" => words.all(&site.recipe.setting_arguments(&site.settings)),
        _ => vec![words.replace(argument)],
    };
    arguments.iter().flat_map(of).collect()
}
