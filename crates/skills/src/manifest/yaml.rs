//! YAML as a tree of text, with the line of each part and budgets for what a hostile file can cost.
//!
//! The events of `saphyr-parser` rather than `serde-saphyr`: a value must keep its text (`1.10` is not a number here),
//! every key needs its line, and the budgets must hold while it is read. Every scalar is text, whatever type YAML would
//! give it; tags are overlooked.

use std::collections::HashMap;
use std::rc::Rc;

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span, StrInput};
use serde_json::{Map, Value};

/// How deep collections may nest. The reference gives up at some 200.
pub(super) const DEPTH: usize = 100;
/// How many keys and values there may be, those behind aliases counted each time.
pub(super) const NODES: usize = 20_000;
/// How much text there may be, counted the same way.
const TEXT_BYTES: usize = 1 << 20;

#[derive(Debug)]
pub(super) struct Node {
    pub(super) content: Content,
    /// Of the file, from 1.
    pub(super) line: u32,
    /// A scalar without quotes or a tag: YAML may take it for a number.
    pub(super) plain: bool,
}

#[derive(Debug)]
pub(super) enum Content {
    Text(String),
    Sequence(Vec<Rc<Node>>),
    Mapping(Vec<(Key, Rc<Node>)>),
}

#[derive(Debug)]
pub(super) struct Key {
    pub(super) text: String,
    pub(super) line: u32,
}

/// Why it can't be read.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) code: &'static str,
    pub(super) message: String,
    pub(super) line: u32,
}

impl Node {
    pub(super) fn text(&self) -> Option<&str> {
        match &self.content {
            Content::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Of keys that are there twice the last counts.
    pub(super) fn to_json(&self) -> Value {
        match &self.content {
            Content::Text(text) => Value::String(text.clone()),
            Content::Sequence(entries) => entries.iter().map(|entry| entry.to_json()).collect(),
            Content::Mapping(entries) => Value::Object(mapping_to_json(entries)),
        }
    }
}

pub(super) fn mapping_to_json(entries: &[(Key, Rc<Node>)]) -> Map<String, Value> {
    entries.iter().map(|(key, value)| (key.text.clone(), value.to_json())).collect()
}

/// The one document of a text; nothing where there is only white space and comments. `line` says which line of the file
/// a line of the text (from 0) is.
pub(super) fn read(yaml: &str, line: impl Fn(usize) -> u32) -> Result<Option<Rc<Node>>, Fault> {
    let mut builder =
        Builder { parser: Parser::new_from_str(yaml), line, anchors: HashMap::new(), spent: Cost::default() };
    builder.document()
}

/// What a node costs when it is written out.
#[derive(Clone, Copy, Default)]
struct Cost {
    nodes: usize,
    bytes: usize,
}

impl Cost {
    fn add(&mut self, other: Self) {
        self.nodes = self.nodes.saturating_add(other.nodes);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

struct Builder<'a, Line> {
    parser: Parser<'a, StrInput<'a>>,
    line: Line,
    /// Whole nodes only: a node that contains itself is not here yet.
    anchors: HashMap<usize, (Rc<Node>, Cost)>,
    spent: Cost,
}

impl<'a, Line: Fn(usize) -> u32> Builder<'a, Line> {
    fn document(&mut self) -> Result<Option<Rc<Node>>, Fault> {
        let mut root = None;
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::StreamEnd => return Ok(root),
                Event::Nothing | Event::StreamStart | Event::DocumentEnd => {}
                Event::DocumentStart(_) if root.is_some() => {
                    return Err(self.fault("yaml-invalid", "a second document".into(), &span));
                }
                Event::DocumentStart(_) => {}
                event => root = Some(self.node(event, &span, 0)?),
            }
        }
    }

    fn next(&mut self) -> Result<(Event<'a>, Span), Fault> {
        match self.parser.next_event() {
            Some(Ok(next)) => Ok(next),
            Some(Err(error)) => Err(self.scan_fault(&error)),
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }

    fn node(&mut self, event: Event<'a>, span: &Span, depth: usize) -> Result<Rc<Node>, Fault> {
        if depth > DEPTH {
            return Err(self.fault("yaml-too-deep", format!("more than {DEPTH} levels deep"), span));
        }
        let line = (self.line)(span.start.line().saturating_sub(1));
        let before = self.spent;
        let plain = matches!(&event, Event::Scalar(_, ScalarStyle::Plain, _, None));
        let (content, anchor) = match event {
            Event::Alias(anchor) => {
                let Some((node, cost)) = self.anchors.get(&anchor) else {
                    return Err(self.fault("yaml-alias", "an alias in what it stands for".into(), span));
                };
                let (node, cost) = (Rc::clone(node), *cost);
                self.spend(cost, span)?;
                return Ok(node);
            }
            Event::Scalar(text, _, anchor, _) => {
                self.spend(Cost { nodes: 1, bytes: text.len() }, span)?;
                (Content::Text(text.into_owned()), anchor)
            }
            Event::SequenceStart(anchor, _) => {
                self.spend(Cost { nodes: 1, bytes: 0 }, span)?;
                (self.sequence(depth)?, anchor)
            }
            Event::MappingStart(anchor, _) => {
                self.spend(Cost { nodes: 1, bytes: 0 }, span)?;
                (self.mapping(depth)?, anchor)
            }
            _ => return Err(self.fault("yaml-invalid", "the frontmatter ends too early".into(), span)),
        };
        let node = Rc::new(Node { content, line, plain });
        if anchor > 0 {
            let cost =
                Cost { nodes: self.spent.nodes - before.nodes, bytes: self.spent.bytes - before.bytes };
            self.anchors.insert(anchor, (Rc::clone(&node), cost));
        }
        Ok(node)
    }

    fn sequence(&mut self, depth: usize) -> Result<Content, Fault> {
        let mut entries = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(Content::Sequence(entries)),
                (event, span) => entries.push(self.node(event, &span, depth + 1)?),
            }
        }
    }

    fn mapping(&mut self, depth: usize) -> Result<Content, Fault> {
        let mut entries = Vec::new();
        loop {
            let key = match self.next()? {
                (Event::MappingEnd, _) => return Ok(Content::Mapping(entries)),
                (event, span) => {
                    let key = self.node(event, &span, depth + 1)?;
                    let Some(text) = key.text() else {
                        return Err(self.fault("yaml-invalid", "a key must be text".into(), &span));
                    };
                    Key { text: text.to_owned(), line: (self.line)(span.start.line().saturating_sub(1)) }
                }
            };
            let (event, span) = self.next()?;
            entries.push((key, self.node(event, &span, depth + 1)?));
        }
    }

    fn spend(&mut self, cost: Cost, span: &Span) -> Result<(), Fault> {
        self.spent.add(cost);
        if self.spent.nodes > NODES {
            return Err(self.fault("yaml-too-many", format!("more than {NODES} keys and values"), span));
        }
        if self.spent.bytes > TEXT_BYTES {
            let message = format!("more than {TEXT_BYTES} bytes of text, aliases included");
            return Err(self.fault("yaml-too-many", message, span));
        }
        Ok(())
    }

    fn fault(&self, code: &'static str, message: String, span: &Span) -> Fault {
        Fault { code, message, line: (self.line)(span.start.line().saturating_sub(1)) }
    }

    fn scan_fault(&self, error: &ScanError) -> Fault {
        let line = (self.line)(error.marker().line().saturating_sub(1));
        // The parser has a limit of its own, which it meets before it hands over the first event of a deep line.
        let code = if error.info().contains("recursion limit") { "yaml-too-deep" } else { "yaml-invalid" };
        Fault { code, message: error.info().escape_debug().to_string(), line }
    }
}
