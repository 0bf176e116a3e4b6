//! Tokens as a tree. The order in which tokens are looked at is that of the reference: with each look, comments move.

use super::Fault;
use super::token::{Kind, Token};
use super::tokens::Tokens;
use crate::manifest::yaml::{DEPTH, NODES};

#[derive(Debug)]
pub(super) struct Node {
    pub(super) content: Content,
    /// From 0.
    pub(super) line: u32,
    pub(super) column: usize,
}

#[derive(Debug)]
pub(super) enum Content {
    Text { text: String, plain: bool },
    Sequence(Vec<Node>),
    Mapping(Vec<(Node, Node)>),
}

/// The one document of a frontmatter; nothing where there is only white space and comments.
pub(super) fn document(yaml: &str) -> Result<Option<Node>, Fault> {
    let mut parser = Parser { tokens: Tokens::new(yaml)?, nodes: 0 };
    let mut start = parser.tokens.take()?;
    start.give_comments(parser.tokens.peek()?)?;
    if parser.tokens.next_is(|kind| *kind == Kind::StreamEnd)? {
        return Ok(None);
    }
    parser.tokens.peek()?;
    let root = parser.node(After::Nothing, 0)?;
    parser.tokens.peek()?;
    if parser.tokens.next_is(|kind| *kind == Kind::DocumentEnd)? {
        parser.tokens.take()?;
    }
    if !parser.tokens.next_is(|kind| *kind == Kind::StreamEnd)? {
        let line = parser.tokens.peek()?.line;
        return Err(Fault::new("yaml-invalid", "a wrong indentation, or a second document", line));
    }
    Ok(Some(root))
}

/// What a node stands behind: a list may have the indentation of the key before it.
#[derive(Clone, Copy, PartialEq)]
enum After {
    Key,
    Nothing,
}

struct Parser {
    tokens: Tokens,
    nodes: usize,
}

impl Parser {
    fn node(&mut self, after: After, depth: usize) -> Result<Node, Fault> {
        // Alias, anchor and tag are looked for first.
        for _ in 0..3 {
            self.tokens.peek()?;
        }
        let (line, column) = {
            let token = self.tokens.peek()?;
            (token.line, token.column)
        };
        self.count(depth, line)?;
        if after == After::Key && self.tokens.next_is(|kind| *kind == Kind::Entry)? {
            if let Some(comments) = &mut self.tokens.peek()?.comments {
                comments.after = false;
            }
            self.tokens.peek()?;
            let content = self.indentless_sequence(depth)?;
            return Ok(Node { content, line, column });
        }
        if self.tokens.next_is(|kind| matches!(kind, Kind::Scalar { .. }))? {
            let Kind::Scalar { text, plain } = self.tokens.take()?.kind else { return Err(unexpected(line)) };
            return Ok(Node { content: Content::Text { text, plain }, line, column });
        }
        // Two kinds of flow collection.
        for _ in 0..2 {
            self.tokens.peek()?;
        }
        if self.tokens.next_is(|kind| *kind == Kind::SequenceStart)? {
            self.tokens.peek()?;
            let token = self.tokens.peek()?;
            if token.comments.is_some_and(|comments| comments.after && !comments.before) {
                token.comments = None;
            }
            return Ok(Node { content: self.sequence(depth)?, line, column });
        }
        if self.tokens.next_is(|kind| *kind == Kind::MappingStart)? {
            self.tokens.peek()?;
            self.tokens.peek()?;
            return Ok(Node { content: self.mapping(depth)?, line, column });
        }
        Err(unexpected(self.tokens.peek()?.line))
    }

    fn sequence(&mut self, depth: usize) -> Result<Content, Fault> {
        self.tokens.take()?;
        let mut entries = Vec::new();
        while self.tokens.next_is(|kind| *kind == Kind::Entry)? {
            let token = self.take_with_comments_given()?;
            let empty = self.tokens.next_is(|kind| matches!(kind, Kind::Entry | Kind::BlockEnd))?;
            entries.push(if empty { self.empty(&token)? } else { self.node(After::Nothing, depth + 1)? });
        }
        if !self.tokens.next_is(|kind| *kind == Kind::BlockEnd)? {
            return Err(unexpected(self.tokens.peek()?.line));
        }
        self.tokens.take()?;
        Ok(Content::Sequence(entries))
    }

    fn indentless_sequence(&mut self, depth: usize) -> Result<Content, Fault> {
        let mut entries = Vec::new();
        while self.tokens.next_is(|kind| *kind == Kind::Entry)? {
            let token = self.take_with_comments_given()?;
            let empty = self
                .tokens
                .next_is(|kind| matches!(kind, Kind::Entry | Kind::Key | Kind::Value | Kind::BlockEnd))?;
            entries.push(if empty { self.empty(&token)? } else { self.node(After::Nothing, depth + 1)? });
        }
        self.tokens.peek()?;
        Ok(Content::Sequence(entries))
    }

    fn mapping(&mut self, depth: usize) -> Result<Content, Fault> {
        self.tokens.take()?;
        let mut entries = Vec::new();
        loop {
            let key = if self.tokens.next_is(|kind| *kind == Kind::Key)? {
                let token = self.take_with_comments_given()?;
                if self.entry_is_over()? { self.empty(&token)? } else { self.node(After::Key, depth + 1)? }
            } else if self.tokens.next_is(|kind| *kind == Kind::Value)? {
                let token = self.tokens.peek()?.clone();
                self.empty(&token)?
            } else if self.tokens.next_is(|kind| *kind == Kind::BlockEnd)? {
                self.take_with_comments_given()?;
                return Ok(Content::Mapping(entries));
            } else {
                return Err(unexpected(self.tokens.peek()?.line));
            };
            let value = self.value(depth)?;
            entries.push((key, value));
        }
    }

    fn value(&mut self, depth: usize) -> Result<Node, Fault> {
        if !self.tokens.next_is(|kind| *kind == Kind::Value)? {
            let token = self.tokens.peek()?.clone();
            return self.empty(&token);
        }
        let mut token = self.tokens.take()?;
        if self.tokens.next_is(|kind| *kind == Kind::Value)?
            || !self.tokens.next_is(|kind| *kind == Kind::Key)?
        {
            token.give_comments(self.tokens.peek()?)?;
        }
        if !self.entry_is_over()? {
            return self.node(After::Key, depth + 1);
        }
        if token.comments.is_none()
            && let Some(comments) = &mut self.tokens.peek()?.comments
        {
            comments.after = false;
        }
        self.empty(&token)
    }

    fn entry_is_over(&mut self) -> Result<bool, Fault> {
        self.tokens.next_is(|kind| matches!(kind, Kind::Key | Kind::Value | Kind::BlockEnd))
    }

    fn take_with_comments_given(&mut self) -> Result<Token, Fault> {
        let mut token = self.tokens.take()?;
        token.give_comments(self.tokens.peek()?)?;
        Ok(token)
    }

    fn empty(&mut self, before: &Token) -> Result<Node, Fault> {
        self.count(0, before.line)?;
        let content = Content::Text { text: String::new(), plain: true };
        Ok(Node { content, line: before.line, column: before.column })
    }

    fn count(&mut self, depth: usize, line: u32) -> Result<(), Fault> {
        self.nodes += 1;
        if depth > DEPTH {
            return Err(Fault::new("yaml-too-deep", &format!("more than {DEPTH} levels deep"), line));
        }
        if self.nodes > NODES {
            return Err(Fault::new("yaml-too-many", &format!("more than {NODES} keys and values"), line));
        }
        Ok(())
    }
}

fn unexpected(line: u32) -> Fault {
    Fault::new("yaml-invalid", "wrong indentation, or something that can't stand here", line)
}
