//! Basic authorization: base64 around `user:password`, where a placeholder can't be seen from outside.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// Clients differ in whether they pad; servers accept both.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// The header's value with its credentials changed; `None` if it is another scheme or nothing changes.
pub(super) fn rewrite(value: &[u8], change: impl Fn(&[u8]) -> Option<Vec<u8>>) -> Option<Vec<u8>> {
    const SCHEME: &[u8] = b"basic ";
    let (scheme, encoded) = value.split_at_checked(SCHEME.len())?;
    if !scheme.eq_ignore_ascii_case(SCHEME) {
        return None;
    }
    let credentials = change(&LENIENT.decode(encoded.trim_ascii()).ok()?)?;
    Some([scheme, LENIENT.encode(credentials).as_bytes()].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn swapped(value: &str) -> Option<String> {
        let change = |text: &[u8]| {
            let text = std::str::from_utf8(text).ok()?;
            text.contains("stand-in").then(|| text.replace("stand-in", "value").into_bytes())
        };
        rewrite(value.as_bytes(), change).map(|bytes| String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn credentials_are_decoded_changed_and_encoded() {
        let with = LENIENT.encode("user:stand-in");
        let expected = LENIENT.encode("user:value");
        assert_eq!(swapped(&format!("Basic {with}")), Some(format!("Basic {expected}")));
        assert_eq!(
            swapped(&format!("bASIC   {}", with.trim_end_matches('='))),
            Some(format!("bASIC {expected}"))
        );
        for other in
            [format!("Bearer {with}"), "Basic".into(), "Basic !".into(), "Basic dTpw".into(), String::new()]
        {
            assert_eq!(swapped(&other), None, "{other}");
        }
    }
}
