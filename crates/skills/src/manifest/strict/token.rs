//! What tokens there are.
//!
//! Comments are tokens too. They change nothing in a value, but the reference attaches them to other tokens, and gives
//! up where two meet; whether a file is valid depends on that. So each token knows whether a comment stands before or
//! after it.

use super::Fault;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    StreamStart,
    StreamEnd,
    DocumentEnd,
    SequenceStart,
    MappingStart,
    BlockEnd,
    Entry,
    Key,
    Value,
    Scalar { text: String, plain: bool },
    Comment,
}

/// The comments of a token.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Comments {
    pub(super) before: bool,
    pub(super) after: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Token {
    pub(super) kind: Kind,
    /// From 0.
    pub(super) line: u32,
    pub(super) column: usize,
    pub(super) end_line: u32,
    pub(super) comments: Option<Comments>,
}

impl Token {
    /// Hand the comments of this token to another.
    pub(super) fn give_comments(&mut self, to: &mut Token) -> Result<(), Fault> {
        if to.kind == Kind::StreamEnd {
            return Ok(());
        }
        let Some(mine) = self.comments.take() else { return Ok(()) };
        let theirs = to.comments.get_or_insert_default();
        if mine.after && theirs.after || mine.before && theirs.before {
            return Err(comments_meet(to.line));
        }
        theirs.after |= mine.after;
        theirs.before |= mine.before;
        Ok(())
    }

    pub(super) fn comment_before(&mut self) -> Result<(), Fault> {
        let comments = self.comments.get_or_insert_default();
        if comments.before {
            return Err(comments_meet(self.line));
        }
        comments.before = true;
        Ok(())
    }

    pub(super) fn comment_after(&mut self) {
        self.comments.get_or_insert_default().after = true;
    }
}

fn comments_meet(line: u32) -> Fault {
    Fault::new("yaml-invalid", "comments meet here in a way that the reference can't read", line)
}
