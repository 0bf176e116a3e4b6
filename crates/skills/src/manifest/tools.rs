//! `allowed-tools`: a list, or one text with commas or spaces between the tools.

use super::Problem;
use super::yaml::{Content, Node};

/// One entry a tool. What stands in brackets belongs to its tool: `Bash(git add:*)`.
pub(super) fn allowed_tools(node: &Node, warnings: &mut Vec<Problem>) -> Vec<String> {
    match &node.content {
        Content::Text(text) => split(text),
        Content::Sequence(entries) => {
            let mut tools = Vec::new();
            for entry in entries {
                match entry.text() {
                    Some(tool) if tool.trim().is_empty() => {}
                    Some(tool) => tools.push(tool.trim().to_owned()),
                    None => warnings.push(not_tools(entry.line)),
                }
            }
            tools
        }
        Content::Mapping(_) => {
            warnings.push(not_tools(node.line));
            Vec::new()
        }
    }
}

fn split(text: &str) -> Vec<String> {
    let mut tools = Vec::new();
    let mut tool = String::new();
    let mut depth = 0_usize;
    for character in text.chars() {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 && (character == ',' || character.is_whitespace()) {
            if !tool.is_empty() {
                tools.push(std::mem::take(&mut tool));
            }
        } else {
            tool.push(character);
        }
    }
    // A bracket that does not close: the rest is one tool, and matches nothing.
    let tool = tool.trim();
    if !tool.is_empty() {
        tools.push(tool.to_owned());
    }
    tools
}

fn not_tools(line: u32) -> Problem {
    let message = "`allowed-tools` must be text or a list of texts; what is not was left out".to_owned();
    Problem::warning("allowed-tools-not-text", message, Some(line))
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn commas_spaces_and_brackets() {
        assert_eq!(split("Read, Write,Edit"), ["Read", "Write", "Edit"]);
        assert_eq!(split("Bash(git add:*) Bash(jq:*) Read"), ["Bash(git add:*)", "Bash(jq:*)", "Read"]);
        assert_eq!(split("Bash(a, b (c) d), Read"), ["Bash(a, b (c) d)", "Read"]);
        assert_eq!(split("*"), ["*"]);
        assert_eq!(split(" ,, "), Vec::<String>::new());
        assert_eq!(split("Bash(never closed, Read"), ["Bash(never closed, Read"]);
        assert_eq!(split("a) b"), ["a)", "b"]);
    }
}
