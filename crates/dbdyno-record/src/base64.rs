//! Decoding of standard base64 with padding (RFC 4648, section 4), which interval logs carry their histograms in.
//!
//! Encoding is not here: the histogram crate does it.

/// The bytes that a text stands for, or `None` if it is not base64 with padding.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    let text = text.as_bytes();
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let padding = text.iter().rev().take_while(|&&byte| byte == b'=').count();
    if padding > 2 {
        return None;
    }
    let digits = &text[..text.len() - padding];
    let mut bytes = Vec::with_capacity(digits.len() * 3 / 4);
    for group in digits.chunks(4) {
        let mut bits: u32 = 0;
        for &digit in group {
            bits = bits << 6 | u32::from(value(digit)?);
        }
        // A short last group holds 2 digits for 1 byte or 3 digits for 2; its spare low bits must be zero.
        let spare = match group.len() {
            4 => 0,
            3 => 2,
            _ => 4,
        };
        if bits & ((1 << spare) - 1) != 0 {
            return None;
        }
        let count = group.len() - 1;
        bytes.extend_from_slice(&(bits >> spare).to_be_bytes()[4 - count..]);
    }
    Some(bytes)
}

fn value(digit: u8) -> Option<u8> {
    match digit {
        b'A'..=b'Z' => Some(digit - b'A'),
        b'a'..=b'z' => Some(digit - b'a' + 26),
        b'0'..=b'9' => Some(digit - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vectors_of_the_rfc_decode() {
        fn check(text: &str, expected: Option<&[u8]>) {
            assert_eq!(decode(text).as_deref(), expected, "{text:?}");
        }
        check("", Some(b""));
        check("Zg==", Some(b"f"));
        check("Zm8=", Some(b"fo"));
        check("Zm9v", Some(b"foo"));
        check("Zm9vYg==", Some(b"foob"));
        check("Zm9vYmE=", Some(b"fooba"));
        check("Zm9vYmFy", Some(b"foobar"));
        check("+/+/", Some(&[0xfb, 0xff, 0xbf]));
        check("Zg", None);
        check("Zh==", None);
        check("Z===", None);
        check("====", None);
        check("Zg=a", None);
        check("Zm9\n", None);
    }
}
