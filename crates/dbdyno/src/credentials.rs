//! Servers that the user names by URL, and their passwords, which stay out of plans, records, messages and arguments
//! of other processes: a password is taken out of the URL before anything is planned.

use crate::exit_code;
use crate::failure::Failure;
use crate::job::server::ServerOrder;
use dbdyno_plan::ServerRecipe;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;
use url::Url;

/// A kind of server that can be named by URL.
struct Kind {
    scheme: &'static str,
    /// The family of its engine file.
    family: &'static str,
    /// Where it listens unless the URL says otherwise.
    port: u16,
}

const KINDS: &[Kind] = &[
    Kind { scheme: "postgres", family: "postgres", port: 5432 },
    Kind { scheme: "postgresql", family: "postgres", port: 5432 },
    Kind { scheme: "mysql", family: "mysql", port: 3306 },
    Kind { scheme: MONGODB, family: "mongodb", port: 27_017 },
];

/// The scheme of servers that may want no login at all.
const MONGODB: &str = "mongodb";

/// What URLs look like, for messages.
const FORMS: &str =
    "write postgres://USER@HOST:PORT, mysql://USER@HOST:PORT or mongodb://USER@HOST:PORT";

/// Where a password is looked for that is in no URL.
pub const PASSWORD_VARIABLE: &str = "DBDYNO_PASSWORD";

/// Passwords taken out of URLs, by engine name, for the lifetime of this process.
static PASSWORDS: Mutex<BTreeMap<String, String>> = Mutex::new(BTreeMap::new());

/// Overwrites passwords in this process's own arguments, which every user of the host can read in the process list.
/// Call it before anything else is done, when the arguments have been copied.
pub fn hide_arguments() {
    let Ok(stat) = std::fs::read_to_string("/proc/self/stat") else { return };
    // Fields 48 and 49 of proc_pid_stat(5); the name in field 2 may hold spaces, so they are counted from its end.
    let fields: Vec<&str> =
        stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let address = |field: usize| fields.get(field - 3).and_then(|text| text.parse::<usize>().ok());
    let (Some(start), Some(end)) = (address(48), address(49)) else { return };
    if start == 0 || end <= start {
        return;
    }
    // SAFETY: the kernel says that the arguments of this process lie from `start` to `end`; they are writable memory
    // of its stack, nobody else refers to them mutably, and the standard library copies what it hands out.
    let arguments = unsafe { std::slice::from_raw_parts_mut(start as *mut u8, end - start) };
    for argument in arguments.split_mut(|&byte| byte == 0) {
        for range in passwords_in(argument) {
            argument[range].fill(b'*');
        }
    }
}

/// Where passwords of URLs lie in a text: between the `:` after a user name and the last `@` of its address.
fn passwords_in(text: &[u8]) -> Vec<std::ops::Range<usize>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(scheme) = text[at..].windows(3).position(|three| three == b"://") {
        let begin = at + scheme + 3;
        let length = text[begin..].iter().position(|byte| b"/?,".contains(byte));
        let end = length.map_or(text.len(), |length| begin + length);
        let address = &text[begin..end];
        let user_end = address.iter().position(|&byte| byte == b':');
        let login_end = address.iter().rposition(|&byte| byte == b'@');
        if let (Some(colon), Some(sign)) = (user_end, login_end)
            && colon < sign
        {
            found.push(begin + colon + 1..begin + sign);
        }
        at = end;
    }
    found
}

/// A server that runs already.
pub struct NamedServer {
    socket: Option<PathBuf>,
    host_and_port: Option<(String, u16)>,
    user: String,
    password: Option<String>,
    encrypted: bool,
    trusted: Option<PathBuf>,
}

fn wrong(message: String) -> Failure {
    Failure::new(exit_code::WRONG_INPUT, message)
}

/// Checks a URL, keeps its password for later under the engine's name, and returns the URL without it.
///
/// # Errors
/// If it is no URL of a server that dbdyno speaks to. The message does not repeat the URL, which may hold a password.
pub fn take_password(engine: &str, text: &str) -> Result<Url, Failure> {
    let mut url = Url::parse(text)
        .map_err(|error| wrong(format!("--engine {engine}: this is no URL: {error}; {FORMS}")))?;
    kind_of(engine, &url)?;
    if let Some(password) = url.password() {
        let mut passwords = PASSWORDS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        passwords.insert(engine.to_owned(), decoded(password));
    }
    let _ = url.set_password(None);
    if !matches!(url.path(), "" | "/" | "/dbdyno") {
        let path = url.path().trim_start_matches('/').to_owned();
        return Err(wrong(format!(
            "--engine {engine}: dbdyno uses a database named dbdyno and touches no other: leave /{path} out of the URL"
        )));
    }
    Ok(url)
}

/// The kind of server that a URL names.
fn kind_of(engine: &str, url: &Url) -> Result<&'static Kind, Failure> {
    let scheme = url.scheme();
    KINDS.iter().find(|kind| kind.scheme == scheme).ok_or_else(|| {
        wrong(format!(
            "--engine {engine}: {scheme}: is no kind of server that dbdyno speaks to: {FORMS}"
        ))
    })
}

/// The family of engine files for the server that a URL names.
///
/// # Errors
/// If dbdyno does not speak to its kind.
pub fn family_of(engine: &str, url: &Url) -> Result<&'static str, Failure> {
    Ok(kind_of(engine, url)?.family)
}

/// The server that a URL without a password means, with the password that was taken out of it, or else the one in the
/// file of `password_file=`, or in the environment.
///
/// # Errors
/// If the URL's options make no sense, or the password file cannot be read.
pub fn named_server(engine: &str, text: &str) -> Result<NamedServer, Failure> {
    let url = take_password(engine, text)?;
    let kind = kind_of(engine, &url)?;
    let mut named = NamedServer {
        socket: None,
        host_and_port: None,
        user: decoded(url.username()),
        password: None,
        encrypted: false,
        trusted: None,
    };
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']).to_owned();
    let is_loopback = ["", "localhost", "127.0.0.1", "::1"].contains(&host.as_str());
    named.encrypted = !is_loopback;
    let mut password_file = None;
    for (key, value) in url.query_pairs() {
        match (key.as_ref(), value.as_ref()) {
            ("socket", path) => named.socket = Some(PathBuf::from(path)),
            ("sslmode", "disable") | ("tls", "false") => named.encrypted = false,
            ("sslmode", "verify-full") | ("tls", "true") => named.encrypted = true,
            ("sslrootcert" | "tlsCAFile", file) => named.trusted = Some(PathBuf::from(file)),
            ("password_file", file) => password_file = Some(PathBuf::from(file)),
            ("authSource", "admin") => {}
            (key @ ("sslmode" | "tls" | "authSource"), other) => {
                let possible = match key {
                    "sslmode" => "write disable or verify-full",
                    "tls" => "write true or false",
                    _ => "MongoDB's users are looked for in admin; make one there",
                };
                return Err(wrong(format!(
                    "--engine {engine}: {key}={other} is not possible: {possible}"
                )));
            }
            (other, _) => {
                return Err(wrong(format!(
                    "--engine {engine}: the URL has an unknown option {other}; known: socket, sslmode or tls, \
                     sslrootcert or tlsCAFile, authSource, password_file"
                )));
            }
        }
    }
    if named.socket.is_none() {
        if host.is_empty() {
            return Err(wrong(format!("--engine {engine}: the URL names no host and no socket=")));
        }
        named.host_and_port = Some((host, url.port().unwrap_or(kind.port)));
    }
    let taken = PASSWORDS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if named.user.is_empty() {
        // A password in the environment is then meant for another server.
        return match kind.scheme {
            MONGODB if !taken.contains_key(engine) => Ok(named),
            _ => Err(wrong(format!("--engine {engine}: the URL names no user"))),
        };
    }
    named.password = match (taken.get(engine), password_file) {
        (Some(password), _) => Some(password.clone()),
        (None, Some(file)) => {
            let text = std::fs::read_to_string(&file).map_err(|error| {
                wrong(format!("--engine {engine}: password_file {}: {error}", file.display()))
            })?;
            Some(text.trim_end_matches(['\r', '\n']).to_owned())
        }
        (None, None) => std::env::var(PASSWORD_VARIABLE).ok(),
    };
    Ok(named)
}

impl NamedServer {
    /// How to speak to it.
    pub fn order(&self, recipe: &ServerRecipe) -> ServerOrder {
        ServerOrder {
            socket: self.socket.clone(),
            host_and_port: self.host_and_port.clone(),
            user: self.user.clone(),
            password: self.password.clone(),
            encrypted: self.encrypted && self.socket.is_none(),
            trusted: self.trusted.clone(),
            version_query: recipe.version_query.clone(),
            settings_query: recipe.settings_query.clone(),
            log_syncs_query: recipe.log_syncs_query.clone(),
            // The other databases of a server are its user's: nothing is checkpointed or vacuumed for our sake but ours.
            settle: recipe
                .settle
                .iter()
                .filter(|step| step.statement.contains("{table}"))
                .cloned()
                .collect(),
            is_named: true,
            processes: Vec::new(),
            backend: None,
        }
    }
}

fn decoded(text: &str) -> String {
    percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The password leaves the URL, and is found again under the engine's name.
    #[test]
    fn a_password_is_taken_out_of_its_url() {
        let url = take_password("mine", "postgres://me:s%40cret@db.example:5433/").expect("a URL");
        assert_eq!(url.as_str(), "postgres://me@db.example:5433/");
        let named = named_server("mine", url.as_str()).expect("a server");
        assert_eq!(named.password.as_deref(), Some("s@cret"));
        assert_eq!(named.host_and_port, Some(("db.example".to_owned(), 5433)));
        assert!(named.encrypted, "a host that is not this one is spoken to encrypted");
    }

    /// MongoDB's URLs have its own port and options, and need no user, whose password is then nobody's.
    #[test]
    fn mongodb_is_named_as_its_users_do() {
        let named = |text: &str| named_server("its", text).expect("a server");
        let whole = named("mongodb://me@db.example/?tls=false&authSource=admin");
        assert_eq!(whole.host_and_port, Some(("db.example".to_owned(), 27_017)));
        assert!(!whole.encrypted);
        assert!(named("mongodb://localhost:27018/?tls=true&tlsCAFile=/ca.pem").encrypted);
        let open = named("mongodb://localhost");
        assert_eq!((open.user.as_str(), open.password, open.encrypted), ("", None, false));
    }

    /// Passwords in arguments are found, and nothing else is taken for one.
    #[test]
    fn passwords_in_arguments_are_found() {
        let check = |text: &str, expected: &[&str]| {
            let found = passwords_in(text.as_bytes()).into_iter();
            let found: Vec<&str> = found.map(|range| &text[range]).collect();
            assert_eq!(found, expected, "{text}");
        };
        check("a=url:postgres://me:s3cret@host:5432/?x=y", &["s3cret"]);
        check("url:mysql://me:p@ss@h,url:mysql://me:other@h", &["p@ss", "other"]);
        check("url:mysql://me@host:3306/", &[]);
        check("--set", &[]);
    }

    /// What makes no sense is refused, and no message repeats the password.
    #[test]
    fn wrong_urls_are_refused_without_repeating_them() {
        for text in [
            "not a url with s3cret",
            "oracle://me:s3cret@host",
            "mysql://me:s3cret@host/production",
            "mysql://me:s3cret@host/?sslmode=maybe",
            "mysql://:s3cret@host/",
            "mysql://me:s3cret@/",
            "mysql://me:s3cret@host/?frobnicate=1",
            "mongodb://me:s3cret@host/?tls=maybe",
            "mongodb://me:s3cret@host/?authSource=shop",
            "mongodb://me:s3cret@host/shop",
            "mongodb+srv://me:s3cret@host/",
            "mongodb://:s3cret@host/",
        ] {
            let refused = named_server("mine", text).err().expect("is refused");
            assert!(!refused.message.contains("s3cret"), "{}", refused.message);
            assert_eq!(refused.code, exit_code::WRONG_INPUT);
        }
    }
}
