//! Findings as they are collected: bounded for each rule, so that a flood of one can't hide another.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use super::finding::Finding;
use super::rules::{MORE_FINDINGS, Rule};

/// A rule is reported this many times in a file, and in a skill.
const IN_FILE: usize = 20;
const IN_SKILL: usize = 200;

#[derive(Default)]
pub(super) struct Report {
    findings: Vec<Finding>,
    counts: BTreeMap<&'static str, Count>,
}

#[derive(Default)]
struct Count {
    /// Files are looked at one after the other: only the last one's count is needed.
    file: String,
    in_file: usize,
    in_skill: usize,
    left_out: usize,
}

impl Report {
    pub(super) fn add(&mut self, rule: &Rule, file: &str, line: Option<u32>, message: &str) {
        let count = self.counts.entry(rule.id).or_default();
        if count.file != file {
            file.clone_into(&mut count.file);
            count.in_file = 0;
        }
        if count.in_file >= IN_FILE || count.in_skill >= IN_SKILL {
            count.left_out += 1;
            return;
        }
        count.in_file += 1;
        count.in_skill += 1;
        self.findings.push(Finding::new(rule, file, line, message));
    }

    /// Has something been said about this line already?
    pub(super) fn has(&self, rule: &Rule, file: &str, line: Option<u32>) -> bool {
        self.findings
            .iter()
            .rev()
            .take_while(|finding| finding.file == file)
            .any(|finding| finding.rule == rule.id && finding.line == line)
    }

    /// Or about one of these lines?
    pub(super) fn has_within(&self, rule: &Rule, file: &str, lines: RangeInclusive<u32>) -> bool {
        self.findings
            .iter()
            .rev()
            .take_while(|finding| finding.file == file)
            .any(|finding| finding.rule == rule.id && finding.line.is_some_and(|line| lines.contains(&line)))
    }

    pub(super) fn finish(mut self) -> Vec<Finding> {
        for (rule, count) in &self.counts {
            if count.left_out > 0 {
                let message = format!("{} more of {rule}", count.left_out);
                self.findings.push(Finding::new(&MORE_FINDINGS, ".", None, &message));
            }
        }
        self.findings.sort_by(Finding::order);
        self.findings.dedup();
        self.findings
    }
}

#[cfg(test)]
mod tests {
    use super::super::rules::{ARCHIVE, SECRET};
    use super::*;

    #[test]
    fn a_flood_of_one_rule_is_cut_and_hides_no_other() {
        let mut report = Report::default();
        for number in 0..10_000 {
            report.add(&ARCHIVE, &format!("f{}", number / 50), Some(number), "x");
        }
        report.add(&SECRET, "last", None, "y");
        let findings = report.finish();
        assert_eq!(findings.len(), IN_SKILL + 2);
        assert_eq!(findings[0].rule, "secret");
        assert!(findings.iter().any(|finding| finding.message == "9800 more of archive"));
    }
}
