//! Greetings of real servers (MariaDB 10.11.19 and MySQL 8.0.33), and what no server should send.

use super::*;
use proptest::prelude::*;

const MARIADB: &[u8] =
    b"\x0a5.5.5-10.11.19-MariaDB-0+deb12u1\x00\x03\x00\x00\x001mR3HO6^\x00\xfe\xf7\x08\x02\x00\xff\
    \x81\x15\x00\x00\x00\x00\x00\x00\x1d\x00\x00\x00WxxsW4Og8~5,\x00mysql_native_password\x00";
const MYSQL: &[u8] = b"\x0a8.0.33\x00\x07\x00\x00\x00\x66\x7c\x16\x6e\x67\x7a\x70\x57\x00\xff\xff\xff\x02\x00\xff\xdf\x15\
    \x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x31\x63\x43\x25\x2c\x25\x1a\x6a\x05\x3f\x1e\x16\x00\
    caching_sha2_password\x00";

/// What two servers say of themselves is read: method, random bytes, and whether they can encrypt.
#[test]
fn greetings_are_read() {
    let mariadb = Greeting::parse(MARIADB).expect("is read");
    assert_eq!((mariadb.method.as_slice(), mariadb.nonce.len()), (NATIVE, NONCE));
    assert_eq!(mariadb.nonce, b"1mR3HO6^WxxsW4Og8~5,");
    assert!(!mariadb.abilities.contains(Ability::CLIENT_SSL));
    let mysql = Greeting::parse(MYSQL).expect("is read");
    assert_eq!((mysql.method.as_slice(), mysql.nonce.len()), (CACHING_SHA2, NONCE));
    assert!(mysql.abilities.contains(Ability::CLIENT_SSL | Ability::CLIENT_PLUGIN_AUTH));
    let full = Greeting::parse(b"\xff\x10\x04Too many connections").expect_err("is an error");
    assert_eq!((full.message.as_str(), full.code), ("Too many connections (error 1040)", 1040));
}

/// Methods that we do not speak are named, and so is what to do.
#[test]
fn unknown_methods_are_named() {
    for (question, name) in
        [(&b"client_ed25519\0nonce"[..], "client_ed25519"), (b"", "mysql_old_password")]
    {
        let mut login =
            Login { password: "x", is_private: true, method: NATIVE.to_vec(), nonce: vec![] };
        let fault = login.change_method(question).expect_err("is not spoken");
        assert!(fault.message.contains(name) && fault.message.contains("give the user"), "{fault}");
    }
}

/// A password is sent readable only where nobody can listen, and a key is taken only if it was asked for.
#[test]
fn passwords_are_not_shown() {
    let login = |is_private| Login {
        password: "open sesame",
        is_private,
        method: CACHING_SHA2.to_vec(),
        nonce: vec![7; NONCE],
    };
    assert_eq!(login(true).prove_fully(&[4], true), Ok(Some(b"open sesame\0".to_vec())));
    assert_eq!(login(false).prove_fully(&[4], false), Ok(Some(vec![2])));
    assert_eq!(login(false).prove_fully(&[3], false), Ok(None));
    for no_key in [&b"no key"[..], b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"]
    {
        let fault = login(false).prove_fully(no_key, false).expect_err("is no key");
        assert!(fault.message.contains("public key"), "{fault}");
    }
    assert!(login(true).prove_fully(b"a key", true).is_err());
}

proptest! {
    /// Whatever a server sends first, it is read or refused.
    #[test]
    fn any_greeting_is_survived(bytes in prop::collection::vec(any::<u8>(), 0..120), cut in 0..100usize) {
        let _ = Greeting::parse(&bytes);
        let mut greeting = MYSQL[..cut.min(MYSQL.len())].to_vec();
        let _ = Greeting::parse(&greeting);
        greeting.extend_from_slice(&bytes);
        let _ = Greeting::parse(&greeting);
    }
}
