//! The forms in which a value is written: as it is, in JSON, in HTML, in a URL or a form, in hexadecimal, and inside
//! base64.

use std::collections::HashSet;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

use super::escapes::{self, Hex};

/// How a body is written, by its media type: what is put into it has to be written the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writing {
    Plain,
    Json,
    Form,
}

impl Writing {
    pub(crate) fn of(content_type: &str) -> Self {
        let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        match essence.as_str() {
            "application/x-www-form-urlencoded" => Self::Form,
            "application/json" | "text/json" => Self::Json,
            other if other.ends_with("+json") => Self::Json,
            _ => Self::Plain,
        }
    }

    pub(super) fn write(self, value: &str) -> Vec<u8> {
        match self {
            Self::Plain => value.into(),
            Self::Json => in_json(value),
            Self::Form => in_url(value, b"-._*", Hex::Upper),
        }
    }
}

/// Every form in which a host may send a value back. The value itself comes first.
pub(super) fn echoes(value: &str) -> Vec<Vec<u8>> {
    let mut forms = vec![value.as_bytes().to_vec(), in_json(value)];
    forms.extend(escapes::in_json(value));
    forms.extend(escapes::in_html(value));
    for hex in Hex::BOTH {
        forms.push(escapes::in_hex(value, hex));
        // Unreserved characters of RFC 3986; those that `encodeURIComponent` leaves; those of a form.
        forms.extend([b"-._~".as_slice(), b"-._~!'()*", b"-._*"].map(|kept| in_url(value, kept, hex)));
        // Paths keep more than queries.
        forms.push(in_url(value, b"-._~!$&'()*+,;=:@/", hex));
    }
    for encoded in in_base64(value) {
        forms.extend(Hex::BOTH.map(|hex| in_url(&encoded, b"-._~", hex)));
        forms.push(encoded.into_bytes());
    }
    // Some writers of JSON escape every slash.
    let escaped: Vec<_> =
        forms.iter().filter(|form| form.contains(&b'/')).map(|form| escape_slashes(form)).collect();
    forms.extend(escaped);
    // Most values have nothing that is escaped. The value itself stays the first.
    let mut seen = HashSet::new();
    forms.retain(|form| seen.insert(form.clone()));
    forms
}

fn in_json(value: &str) -> Vec<u8> {
    let quoted = serde_json::to_string(value).unwrap_or_default();
    quoted.get(1..quoted.len() - 1).unwrap_or_default().into()
}

fn escape_slashes(form: &[u8]) -> Vec<u8> {
    form.iter()
        .flat_map(|byte| if *byte == b'/' { b"\\/".as_slice() } else { std::slice::from_ref(byte) })
        .copied()
        .collect()
}

/// A blank is a plus sign where `~` is encoded, which is the rule for forms.
fn in_url(value: &str, kept: &[u8], hex: Hex) -> Vec<u8> {
    let is_form = !kept.contains(&b'~');
    let mut out = Vec::with_capacity(value.len() * 3);
    for byte in value.bytes() {
        match byte {
            b' ' if is_form => out.push(b'+'),
            _ if byte.is_ascii_alphanumeric() || kept.contains(&byte) => out.push(byte),
            _ => {
                out.push(b'%');
                out.extend_from_slice(hex.write(byte.into(), 2).as_bytes());
            }
        }
    }
    out
}

/// The letters that the value decides, when it stands behind a multiple of three bytes, one more, two more: what comes
/// before it (`user:` in Basic authorization) and after it does not matter.
fn in_base64(value: &str) -> Vec<String> {
    let mut forms = Vec::new();
    for before in 0..3 {
        let text = [&[0; 3][..before], value.as_bytes()].concat();
        let letters = (before * 8).div_ceil(6)..text.len() * 8 / 6;
        forms.push(STANDARD_NO_PAD.encode(&text)[letters.clone()].to_owned());
        forms.push(URL_SAFE_NO_PAD.encode(&text)[letters].to_owned());
    }
    forms
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    fn has_echo(value: &str, text: &str) -> bool {
        echoes(value).iter().any(|form| text.as_bytes().windows(form.len()).any(|part| part == form))
    }

    #[test]
    fn base64_is_found_whatever_stands_around() {
        for value in ["ghp_0123456789", "pässwörd~?>x", "aaaaaaaa"] {
            for before in ["", "u", "us", "use", "user:", "x-token:"] {
                for after in ["", "!", "!!", "\n"] {
                    let text = STANDARD.encode(format!("{before}{value}{after}"));
                    assert!(has_echo(value, &text), "{before} {value} {after}: {text}");
                    assert!(has_echo(value, &text.replace('+', "-").replace('/', "_")));
                }
            }
        }
    }

    #[test]
    fn encoded_forms_are_found() {
        assert_eq!(in_json("ends with \""), br#"ends with \""#);
        let value = "a/b+c d\"e\\f=g~h*i!";
        for form in [
            value,
            r#"a/b+c d\"e\\f=g~h*i!"#,
            r#"a\/b+c d\"e\\f=g~h*i!"#,
            "a%2Fb%2Bc%20d%22e%5Cf%3Dg~h%2Ai%21",
            "a%2fb%2bc%20d%22e%5cf%3dg~h%2ai%21",
            "a%2Fb%2Bc%20d%22e%5Cf%3Dg~h*i!",
            "a%2Fb%2Bc+d%22e%5Cf%3Dg%7Eh*i%21",
            "a/b+c%20d%22e%5Cf=g~h*i!",
        ] {
            assert!(has_echo(value, form), "{form}");
        }
        assert!(!has_echo(value, "a/b+c d"));
    }

    #[test]
    fn what_writers_of_json_and_html_escape_is_found() {
        let value = r#"p<a>s&s'w"o/r+d=é😀"#;
        for form in [
            // Go.
            r#"p\u003ca\u003es\u0026s'w\"o/r+d=é😀"#,
            // Python: ASCII only.
            r#"p<a>s&s'w\"o/r+d=\u00e9\ud83d\ude00"#,
            r#"p<a>s&s'w\"o/r+d=\u00E9\uD83D\uDE00"#,
            // PHP: with its flags, slashes escaped.
            r#"p\u003Ca\u003Es\u0026s\u0027w\u0022o\/r+d=\u00e9\ud83d\ude00"#,
            // .NET.
            r#"p\u003Ca\u003Es\u0026s\u0027w\u0022o/r\u002Bd=\u00E9\uD83D\uDE00"#,
            // Gson.
            r#"p\u003ca\u003es\u0026s\u0027w\"o/r+d\u003dé😀"#,
            "p&lt;a&gt;s&amp;s'w\"o/r+d=é😀",
            "p&lt;a&gt;s&amp;s&#x27;w&quot;o/r+d=é😀",
            "p&lt;a&gt;s&amp;s&#039;w&quot;o/r+d=é😀",
            "p&lt;a&gt;s&amp;s&apos;w&quot;o/r+d=&#xE9;&#x1F600;",
            "p&lt;a&gt;s&amp;s&#39;w&#34;o/r&#43;d=é😀",
            "p&lt;a&gt;s&amp;s&#39;w&quot;o&#x2F;r+d&#x3D;&#233;&#128512;",
            "p&#60;a&#62;s&#38;s&#39;w&#34;o&#47;r&#43;d&#61;&#233;&#128512;",
            "p&#x3c;a&#x3e;s&#x26;s&#x27;w&#x22;o&#x2f;r&#x2b;d&#x3d;&#xe9;&#x1f600;",
            "703c613e7326732777226f2f722b643dc3a9f09f9880",
            "703C613E7326732777226F2F722B643DC3A9F09F9880",
        ] {
            assert!(has_echo(value, form), "{form}");
        }
        // A token has little to escape, and is searched for in few forms.
        assert!(echoes("ghp_0123456789abcdef").len() <= 12);
    }

    #[test]
    fn a_body_is_written_by_its_type() {
        let value = "a\"b c";
        for (kind, expected) in [
            ("application/json; charset=utf-8", r#"a\"b c"#),
            ("application/vnd.api+JSON", r#"a\"b c"#),
            ("application/x-www-form-urlencoded", "a%22b+c"),
            ("text/plain", value),
            ("", value),
        ] {
            assert_eq!(Writing::of(kind).write(value), expected.as_bytes(), "{kind}");
        }
    }
}
