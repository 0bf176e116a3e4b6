//! The frontmatter once more, as a client decodes it: an escape of YAML hides nothing.

use super::contents::{commands_in, phrases_in};
use super::hidden;
use super::report::Report;
use super::rules::Rule;
use super::text::Folded;
use crate::manifest::FieldText;

pub(super) fn check(report: &mut Report, manifest: &str, texts: &[FieldText]) {
    for field in texts {
        for (rule, message) in suspicions(&field.text) {
            // What stands there unescaped was found when the file was read.
            if !report.has_within(&rule, manifest, field.first_line..=field.last_line) {
                let message = format!("in the decoded frontmatter: {message}");
                report.add(&rule, manifest, Some(field.first_line), &message);
            }
        }
    }
}

fn suspicions(text: &str) -> Vec<(Rule, String)> {
    let mut found: Vec<_> =
        hidden::runs(text).into_iter().map(|run| (run.rule, hidden::describe(&run.characters))).collect();
    let folded = Folded::new(text, 1);
    let said = phrases_in(&folded).into_iter().chain(commands_in(text.as_bytes(), false));
    found.extend(said.map(|said| (said.rule, said.message)));
    found
}
