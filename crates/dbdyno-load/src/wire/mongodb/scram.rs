//! SCRAM-SHA-256 from the client's side (RFC 5802 and 7677): both sides prove that they know the password, and nobody
//! says it. The `postgres-protocol` crate's cannot be used here: it leaves the user's name out of what is signed.

use super::Fault;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::{digest, hmac, pbkdf2};
use std::num::NonZeroU32;

/// The GS2 header of a client that does not bind the channel, and the same in base64.
const GS2_HEADER: &str = "n,,";
const GS2_HEADER_BASE64: &str = "biws";
/// Fewer iterations than MongoDB's drivers accept would be a server that wants to guess the password.
const ITERATIONS_MIN: u32 = 4096;
/// More iterations would take minutes.
const ITERATIONS_MAX: u32 = 10_000_000;
const KEY_BYTES: usize = digest::SHA256_OUTPUT_LEN;

/// One login.
pub struct Scram {
    password: String,
    nonce: String,
    /// What the client said first, without the header.
    first: String,
    /// What the server must say last, once that is known.
    signature: Option<Vec<u8>>,
}

impl Scram {
    /// A login with a nonce that nobody can foresee.
    ///
    /// # Errors
    /// If the password has characters that no password may have.
    pub fn new(user: &str, password: &str, nonce: &str) -> Result<Self, Fault> {
        let password = stringprep::saslprep(password)
            .map_err(|_| Fault::new("the password has characters that SCRAM does not allow"))?;
        let user = user.replace('=', "=3D").replace(',', "=2C");
        Ok(Scram {
            password: password.into_owned(),
            nonce: nonce.to_owned(),
            first: format!("n={user},r={nonce}"),
            signature: None,
        })
    }

    /// The first message.
    pub fn first(&self) -> String {
        format!("{GS2_HEADER}{}", self.first)
    }

    /// The second message, which answers the server's first.
    ///
    /// # Errors
    /// If the server's message is not one that a server would send.
    pub fn answer(&mut self, server: &str) -> Result<String, Fault> {
        let strange = || Fault::new("SCRAM: the server's challenge cannot be read");
        let mut fields = server.split(',');
        let mut field = |name: &str| fields.next()?.strip_prefix(name);
        let (nonce, salt, iterations) =
            (|| Some((field("r=")?, field("s=")?, field("i=")?)))().ok_or_else(strange)?;
        let salt = STANDARD.decode(salt).map_err(|_| strange())?;
        let iterations: u32 = iterations.parse().map_err(|_| strange())?;
        if !nonce.starts_with(&self.nonce) || nonce.len() == self.nonce.len() {
            return Err(Fault::new("SCRAM: the server answers another login than ours"));
        }
        let iterations = NonZeroU32::new(iterations)
            .filter(|number| (ITERATIONS_MIN..=ITERATIONS_MAX).contains(&number.get()))
            .ok_or_else(|| Fault::new(format!("SCRAM: the server wants {iterations} rounds")))?;
        let mut salted = [0; KEY_BYTES];
        let password = self.password.as_bytes();
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, iterations, &salt, password, &mut salted);
        let without_proof = format!("c={GS2_HEADER_BASE64},r={nonce}");
        let signed = format!("{},{server},{without_proof}", self.first);
        let client_key = sign(&salted, b"Client Key");
        let stored_key = digest::digest(&digest::SHA256, &client_key);
        let signature = sign(stored_key.as_ref(), signed.as_bytes());
        let proof: Vec<u8> =
            client_key.iter().zip(&signature).map(|(key, bit)| key ^ bit).collect();
        self.signature = Some(sign(&sign(&salted, b"Server Key"), signed.as_bytes()));
        Ok(format!("{without_proof},p={}", STANDARD.encode(proof)))
    }

    /// Checks the server's last message: it knows the password too.
    ///
    /// # Errors
    /// If it does not.
    pub fn finish(&self, server: &str) -> Result<(), Fault> {
        let said = server.split(',').next().and_then(|field| field.strip_prefix("v="));
        let said = said.and_then(|said| STANDARD.decode(said).ok());
        if said.is_some() && said == self.signature {
            return Ok(());
        }
        Err(Fault::new("SCRAM: the server could not prove that it knows the password"))
    }
}

fn sign(key: &[u8], message: &[u8]) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), message).as_ref().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONCE: &str = "rOprNGfwEbeRWgbNEkqO";
    const CHALLENGE: &str = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
        s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";

    fn scram() -> Scram {
        Scram::new("user", "pencil", NONCE).expect("a plain password")
    }

    /// The example of RFC 7677, section 3.
    #[test]
    fn the_standards_example_holds() {
        let mut scram = scram();
        assert_eq!(scram.first(), "n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
        assert_eq!(
            scram.answer(CHALLENGE).expect("answers"),
            "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
             p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
        );
        scram.finish("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=").expect("is the server");
        assert!(scram.finish("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G5=").is_err());
        assert!(scram.finish("e=other-error").is_err());
    }

    /// Names are written as the standard wants, and what no server says is refused.
    #[test]
    fn strange_servers_are_refused() {
        let named = Scram::new("a=b,c", "x", "n").expect("a plain password");
        assert_eq!(named.first(), "n,,n=a=3Db=2Cc,r=n");
        let wrong = [
            "",
            "r=other,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
            "r=rOprNGfwEbeRWgbNEkqO,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
            "r=rOprNGfwEbeRWgbNEkqOx,s=?,i=4096",
            "r=rOprNGfwEbeRWgbNEkqOx,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=1",
            "r=rOprNGfwEbeRWgbNEkqOx,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4000000000",
        ];
        for challenge in wrong {
            assert!(scram().answer(challenge).is_err(), "{challenge}");
        }
        assert!(scram().finish("v=").is_err(), "nothing was signed yet");
    }
}
