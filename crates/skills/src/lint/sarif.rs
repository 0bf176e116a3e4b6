//! Findings as SARIF 2.1.0, for code scanning.

use serde_json::{Value, json};

use super::finding::{Finding, Severity, visible};
use super::rules::rules;

/// One run of one tool. All rules are in it, also those without a finding.
pub fn sarif(findings: &[Finding], tool_version: &str) -> Value {
    let described: Vec<Value> = rules()
        .iter()
        .map(|rule| {
            json!({
                "id": rule.id,
                "shortDescription": { "text": rule.title },
                "fullDescription": { "text": rule.why },
                "help": { "text": rule.fix },
                "defaultConfiguration": { "level": level(rule.severity) },
                "properties": { "security-severity": score(rule.severity), "tags": ["security", "agent-skill"] },
            })
        })
        .collect();
    let results: Vec<Value> = findings.iter().map(result).collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": { "name": "ringfence", "semanticVersion": tool_version, "rules": described } },
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    })
}

fn result(finding: &Finding) -> Value {
    let mut result = json!({
        "ruleId": finding.rule,
        "level": level(finding.severity),
        "message": { "text": format!("{}. {} {}", finding.message, finding.why, finding.fix) },
        "properties": { "severity": finding.severity },
    });
    if let Some(index) = rules().iter().position(|rule| rule.id == finding.rule) {
        result["ruleIndex"] = json!(index);
    }
    // A skill as a whole has no place.
    if finding.file != "." {
        let mut place = json!({ "artifactLocation": { "uri": uri(&finding.file) } });
        if let Some(line) = finding.line {
            place["region"] = json!({ "startLine": line.max(1) });
        }
        result["locations"] =
            json!([{ "physicalLocation": place, "message": { "text": visible(&finding.file) } }]);
    }
    result
}

fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Critical | Severity::High => "error",
        Severity::Medium => "warning",
        Severity::Low | Severity::Info => "note",
    }
}

/// The scale that code scanning sorts by.
fn score(severity: Severity) -> &'static str {
    match severity {
        Severity::Critical => "9.5",
        Severity::High => "8.0",
        Severity::Medium => "5.5",
        Severity::Low => "3.0",
        Severity::Info => "0.0",
    }
}

/// A path as a relative reference: what is not plain is escaped.
fn uri(path: &str) -> String {
    let mut uri = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                uri.push(char::from(byte))
            }
            _ => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_becomes_a_reference() {
        assert_eq!(uri("scripts/a b:é.py"), "scripts/a%20b%3A%C3%A9.py");
    }
}
