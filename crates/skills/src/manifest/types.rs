//! A frontmatter as JSON with the types of YAML 1.2 (the core schema), for those who compare it with what their own reader
//! makes of the file: the Skills extension of MCP has a host refuse a skill where the two differ.
//!
//! `name` and `description` are text whatever they look like: that is what both specifications say of them.

use std::rc::Rc;

use serde_json::{Map, Number, Value};

use super::yaml::{Content, Key, Node};

const ALWAYS_TEXT: [&str; 2] = ["name", "description"];

pub(super) fn typed_mapping(entries: &[(Key, Rc<Node>)]) -> Map<String, Value> {
    let value = |key: &str, node: &Node| match ALWAYS_TEXT.contains(&key) {
        true => node.to_json(),
        false => typed(node),
    };
    entries.iter().map(|(key, node)| (key.text.clone(), value(&key.text, node))).collect()
}

fn typed(node: &Node) -> Value {
    match &node.content {
        Content::Text(text) if node.plain => scalar(text),
        Content::Text(text) => Value::String(text.clone()),
        Content::Sequence(entries) => entries.iter().map(|entry| typed(entry)).collect(),
        Content::Mapping(entries) => {
            let entries = entries.iter().map(|(key, value)| (key.text.clone(), typed(value)));
            Value::Object(entries.collect())
        }
    }
}

/// What JSON has no form for (infinity, a number that is too large) stays text.
fn scalar(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" => return Value::Bool(true),
        "false" | "False" | "FALSE" => return Value::Bool(false),
        _ => {}
    }
    number(text).map_or_else(|| Value::String(text.to_owned()), Value::Number)
}

fn number(text: &str) -> Option<Number> {
    if let Some(digits) = text.strip_prefix("0o") {
        return radix(digits, 8);
    }
    if let Some(digits) = text.strip_prefix("0x") {
        return radix(digits, 16);
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent.strip_prefix(['-', '+']).unwrap_or(exponent))),
        None => (unsigned, None),
    };
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let is_number = digits(whole)
        && digits(part)
        && !(whole.is_empty() && part.is_empty())
        && exponent.is_none_or(|exponent| !exponent.is_empty() && digits(exponent));
    if !is_number {
        return None;
    }
    if mantissa.contains('.') || exponent.is_some() {
        return Number::from_f64(text.parse().ok()?);
    }
    text.parse::<i64>().map(Number::from).or_else(|_| text.parse::<u64>().map(Number::from)).ok()
}

fn radix(digits: &str, radix: u32) -> Option<Number> {
    let plain = digits.bytes().all(|byte| byte.is_ascii_alphanumeric());
    u64::from_str_radix(digits, radix).ok().filter(|_| plain).map(Number::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn plain_scalars_have_the_types_of_yaml() {
        for (text, value) in [
            ("", json!(null)),
            ("~", json!(null)),
            ("null", json!(null)),
            ("True", json!(true)),
            ("false", json!(false)),
            // As YAML 1.2 has it: these are words.
            ("yes", json!("yes")),
            ("off", json!("off")),
            ("tRUE", json!("tRUE")),
            ("1", json!(1)),
            ("-7", json!(-7)),
            ("+7", json!(7)),
            ("007", json!(7)),
            ("0o17", json!(15)),
            ("0xfF", json!(255)),
            ("18446744073709551615", json!(18_446_744_073_709_551_615_u64)),
            ("99999999999999999999", json!("99999999999999999999")),
            ("1.10", json!(1.1)),
            ("1.", json!(1.0)),
            (".5", json!(0.5)),
            ("-1e3", json!(-1000.0)),
            ("1e999", json!("1e999")),
            (".inf", json!(".inf")),
            (".nan", json!(".nan")),
            ("1.2.3", json!("1.2.3")),
            ("1_000", json!("1_000")),
            ("0x", json!("0x")),
            ("0x+1", json!("0x+1")),
            ("-", json!("-")),
            (".", json!(".")),
            ("1e", json!("1e")),
            ("2026-07-28", json!("2026-07-28")),
            ("MIT", json!("MIT")),
        ] {
            assert_eq!(scalar(text), value, "{text:?}");
        }
    }
}
