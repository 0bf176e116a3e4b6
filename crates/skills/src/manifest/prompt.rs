//! The `<available_skills>` block for an agent's system prompt. A person who reads it sees all that a model does.

use super::characters::{Sight, sight};

/// A skill as an agent sees it before it reads more.
#[derive(Clone, Copy, Debug)]
pub struct PromptEntry<'a> {
    pub name: &'a str,
    pub description: &'a str,
    /// The path of its SKILL.md, as the agent can read it.
    pub location: &'a str,
}

/// As `skills-ref to-prompt` writes it, but that the location is escaped, too, and that nothing in it is unseen.
pub fn prompt_block(entries: &[PromptEntry<'_>]) -> String {
    let mut block = String::from("<available_skills>\n");
    for entry in entries {
        block.push_str("<skill>\n");
        for (element, text) in
            [("name", entry.name), ("description", entry.description), ("location", entry.location)]
        {
            block.push_str(&format!("<{element}>\n"));
            escape(text, &mut block);
            block.push_str(&format!("\n</{element}>\n"));
        }
        block.push_str("</skill>\n");
    }
    block.push_str("</available_skills>");
    block
}

/// Nothing that is written can end its element or begin another, and nothing is there that is not shown.
fn escape(text: &str, into: &mut String) {
    for character in text.chars() {
        match character {
            '&' => into.push_str("&amp;"),
            '<' => into.push_str("&lt;"),
            '>' => into.push_str("&gt;"),
            '"' => into.push_str("&quot;"),
            '\'' => into.push_str("&#x27;"),
            _ => match sight(character) {
                Sight::Shown => into.push(character),
                Sight::Shaping => {}
                Sight::Unseen => into.extend(character.escape_unicode()),
            },
        }
    }
}
