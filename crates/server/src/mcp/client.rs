//! What is known of the clients: how much of an answer each lets its model see.

/// How large one answer may be, as JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AnswerLimit {
    pub(super) bytes: usize,
    pub(super) lines: usize,
}

/// For a client that nobody has looked at.
const OTHERS: AnswerLimit = AnswerLimit { bytes: 30_000, lines: 2_000 };

/// By the beginning of the name that a client gives itself. What is longer they cut, or save where their model has to look
/// for it: we cut before, and say where the rest is.
const KNOWN: &[(&str, AnswerLimit)] = &[
    // Over 50,000 characters it saves the answer to a file.
    ("claude", AnswerLimit { bytes: 45_000, lines: 5_000 }),
    // Keeps some 12 kB, the head and the tail.
    ("codex", AnswerLimit { bytes: 10_000, lines: 1_000 }),
    // 8,000 characters of the head and 32,000 of the tail.
    ("gemini", AnswerLimit { bytes: 36_000, lines: 5_000 }),
    // 2,000 lines or 50 kB.
    ("opencode", AnswerLimit { bytes: 45_000, lines: 1_900 }),
];

pub(super) fn answer_limit(client: Option<&str>) -> AnswerLimit {
    let Some(client) = client else { return OTHERS };
    let client = client.to_ascii_lowercase();
    KNOWN.iter().find(|(name, _)| client.starts_with(name)).map_or(OTHERS, |(_, limit)| *limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_known_by_how_their_names_begin() {
        assert_eq!(answer_limit(Some("codex-mcp-client")).bytes, 10_000);
        assert_eq!(answer_limit(Some("Claude-Code")).bytes, 45_000);
        assert_eq!(answer_limit(Some("someone")), OTHERS);
        assert_eq!(answer_limit(None), OTHERS);
    }
}
