use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE, BASE64_URL_SAFE_NO_PAD};
use proptest::prelude::*;
use serde_json::json;

use super::*;

const SECRET: &str = "p\u{e4}ss\"w/ord+\\ %\n\u{1f511}end";

fn clean(text: &str) -> String {
    Redactor::new(&[SECRET]).text(text)
}

fn percent(text: &str, all: bool) -> String {
    text.bytes()
        .map(|byte| match byte {
            _ if !all && byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
            b' ' if !all => "+".to_owned(),
            byte if all => format!("%{byte:02x}"),
            byte => format!("%{byte:02X}"),
        })
        .collect()
}

/// As a program that writes ASCII only does it.
fn ascii_json(text: &str) -> String {
    let mut escaped = String::new();
    for unit in text.encode_utf16() {
        match u8::try_from(unit) {
            Ok(byte) if byte.is_ascii_alphanumeric() => escaped.push(char::from(byte)),
            _ => escaped.push_str(&format!("\\u{unit:04X}")),
        }
    }
    escaped
}

#[test]
fn a_secret_is_found_however_it_is_written() {
    let once = Value::String(SECRET.into()).to_string();
    let twice = Value::String(once.clone()).to_string();
    let thrice = Value::String(twice.clone()).to_string();
    for written in [
        SECRET.to_owned(),
        once.trim_matches('"').to_owned(),
        twice.trim_matches(['"', '\\']).to_owned(),
        thrice.trim_matches(['"', '\\']).to_owned(),
        once.trim_matches('"').replace('/', "\\/"),
        ascii_json(SECRET),
        percent(SECRET, false),
        percent(SECRET, true),
        percent(&percent(SECRET, false), false),
        percent(&percent(&percent(SECRET, true), false), false),
        BASE64_STANDARD.encode(SECRET),
        BASE64_URL_SAFE.encode(SECRET),
        BASE64_URL_SAFE_NO_PAD.encode(SECRET),
        percent(&BASE64_STANDARD.encode(SECRET), false),
        SECRET.bytes().map(|byte| format!("{byte:02x}")).collect(),
        SECRET.bytes().map(|byte| format!("{byte:02X}")).collect(),
    ] {
        assert_eq!(clean(&written), REDACTED, "{written}");
        assert_eq!(
            clean(&format!("<{written}> and <{written}>")),
            "<[redacted]> and <[redacted]>",
            "{written}"
        );
    }
}

#[test]
fn a_secret_inside_longer_base64_is_found_at_every_alignment() {
    for before in ["", "a", "ab", "abc", "user:"] {
        for after in ["", "x", "xy", "xyz"] {
            let text = format!("basic {}", BASE64_STANDARD.encode(format!("{before}{SECRET}{after}")));
            let cleaned = clean(&text);
            assert!(cleaned.contains(REDACTED), "{text}");
            // What is left over is of what stood around it.
            assert!(cleaned.len() <= "basic ".len() + REDACTED.len() + 12, "{cleaned}");
        }
    }
}

#[test]
fn backslashes_of_the_secret_are_told_from_those_of_its_escaping() {
    for secret in ["\\\nabc", "a\\\\\"b", "\\\\\\", "x\\", "\\u00e9", "a\\n"] {
        let redactor = Redactor::new(&[secret]);
        let mut written = secret.to_owned();
        for _ in 0..4 {
            let cleaned = redactor.text(&format!("<{written}>"));
            assert_eq!(cleaned, "<[redacted]>", "{secret:?} as {written}");
            let escaped = Value::String(written).to_string();
            written = escaped[1..escaped.len() - 1].to_owned();
        }
    }
}

#[test]
fn innocent_text_stays() {
    for text in ["", "p", "make test", "päss", "cGFzcw==", "100% \\ \"x\"", "%", "%2", "\\", "\\u", "\\u00"]
    {
        assert_eq!(clean(text), text);
    }
    assert_eq!(
        redact(&json!({"a": [1, 2.5, null, true, "x"]}), &[]),
        json!({"a": [1, 2.5, null, true, "x"]})
    );
    assert_eq!(redact(&json!("anything"), &[""]), json!("anything"));
}

#[test]
fn names_numbers_and_depth_are_looked_through() {
    let value = json!({"k-hunter2": {"list": ["hunter2", ["xhunter2x"]]}, "pin": 42_424_242, "other": 7});
    assert_eq!(
        redact(&value, &["hunter2", "42424242"]),
        json!({"k-[redacted]": {"list": ["[redacted]", ["x[redacted]x"]]}, "pin": "[redacted]", "other": 7})
    );
    let two = redact(&json!({"hunter2": 1, "[redacted]": 2}), &["hunter2"]);
    assert_eq!(two.as_object().expect("fields").len(), 2);
}

#[test]
fn a_hostile_text_costs_no_more_than_its_length() {
    let redactor = Redactor::new(&["\\\\secret\\", "%%25", "+ + +"]);
    for text in ["\\", "%25", "%", "+", "\\u005c", "% +"] {
        // In time with the square of this it would not end.
        let text = text.repeat(300_000 / text.len());
        assert!(redactor.text(&text).len() <= 8 * text.len());
    }
}

#[test]
fn secrets_that_overlap_go_as_one() {
    assert_eq!(Redactor::new(&["abcdef", "defghi"]).text("xabcdefghix"), "x[redacted]x");
    assert_eq!(Redactor::new(&["abc", "abcdef"]).text("abcdef"), REDACTED);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_breaks_it_and_no_plain_secret_is_left(
        secret in "\\PC{1,8}|[%\\\\\"+ a2]{1,6}", before in "\\PC{0,12}|[%\\\\\"+ a2]{0,12}", after in "\\PC{0,12}",
    ) {
        let redactor = Redactor::new(&[&secret]);
        let cleaned = redactor.text(&format!("{before}{secret}{after}"));
        prop_assert!(cleaned.contains(REDACTED));
        let escaped = Value::String(secret.clone()).to_string();
        let cleaned = redactor.text(&format!("{before}{}{after}", &escaped[1..escaped.len() - 1]));
        prop_assert!(cleaned.contains(REDACTED));
        let cleaned = redactor.text(&percent(&secret, true));
        prop_assert_eq!(cleaned, REDACTED);
    }
}
