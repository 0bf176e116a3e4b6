//! Replacing several texts at once in a stream: leftmost first, longest first, the same wherever the chunks end.
//!
//! Only the end of a chunk that may be the beginning of a searched text is held back, so that a stream of events is not
//! delayed.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use memchr::memmem::{Finder, find};

/// What is searched, and what takes its place. Deliberately without `Debug`: these are secrets.
pub(crate) struct Replacer(Vec<Pair>);

struct Pair {
    finder: Finder<'static>,
    replacement: Box<[u8]>,
}

impl Pair {
    fn pattern(&self) -> &[u8] {
        self.finder.needle()
    }
}

impl Replacer {
    /// Of two pairs with the same pattern the first one counts; empty patterns are left out.
    pub(super) fn new(pairs: impl IntoIterator<Item = (Vec<u8>, Vec<u8>)>) -> Self {
        let mut kept: Vec<Pair> = Vec::new();
        for (pattern, replacement) in pairs {
            if !pattern.is_empty() && kept.iter().all(|pair| pair.pattern() != pattern) {
                let finder = Finder::new(&pattern).into_owned();
                kept.push(Pair { finder, replacement: replacement.into() });
            }
        }
        // Of matches at one place the first is taken: the longest.
        kept.sort_by_key(|pair| std::cmp::Reverse(pair.pattern().len()));
        Self(kept)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Is any of the patterns in here, whatever the case of its letters?
    pub(super) fn is_in_any_case(&self, text: &[u8]) -> bool {
        let text = text.to_ascii_lowercase();
        self.0.iter().any(|pair| find(&text, &pair.pattern().to_ascii_lowercase()).is_some())
    }

    /// The text with everything replaced; `None` if there was nothing to replace.
    pub(super) fn replace(&self, text: &[u8]) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        let done = self.replace_into(text, text.len(), &mut out);
        if done == 0 {
            return None;
        }
        out.extend_from_slice(&text[done..]);
        Some(out)
    }

    /// Replace matches that begin before `limit`; how much of the text is dealt with: up to the end of the last match.
    fn replace_into(&self, text: &[u8], limit: usize, out: &mut Vec<u8>) -> usize {
        let search = |pair: &Pair, from: usize| pair.finder.find(&text[from..]).map(|at| at + from);
        let mut next: Vec<Option<usize>> = self.0.iter().map(|pair| search(pair, 0)).collect();
        let mut done = 0;
        loop {
            for (place, pair) in next.iter_mut().zip(&self.0) {
                if place.is_some_and(|at| at < done) {
                    *place = search(pair, done);
                }
            }
            // The smallest index among equals is the longest pattern.
            let first = next.iter().enumerate().filter_map(|(index, at)| Some(((*at)?, index))).min();
            let Some((at, index)) = first.filter(|(at, _)| *at < limit) else { return done };
            out.extend_from_slice(&text[done..at]);
            out.extend_from_slice(&self.0[index].replacement);
            done = at + self.0[index].pattern().len();
        }
    }

    /// Where a match may have begun that the end of the text cuts off.
    fn cut_off(&self, text: &[u8]) -> Option<usize> {
        let begins = |pair: &Pair| {
            let pattern = pair.pattern();
            let start = text.len().saturating_sub(pattern.len() - 1);
            let mut places = memchr::memchr_iter(pattern[0], &text[start..]);
            places.find(|at| pattern.starts_with(&text[start + at..])).map(|at| start + at)
        };
        self.0.iter().filter_map(begins).min()
    }
}

/// A stream on its way through a replacer.
pub(crate) struct Streaming {
    replacer: Arc<Replacer>,
    held: BytesMut,
    /// So many bytes of what is held were let go already, and are kept to know what they begin.
    released: usize,
}

impl Streaming {
    /// So few bytes of a value may be let go: most have a beginning that everybody knows.
    const HARMLESS: usize = 3;

    pub(super) fn new(replacer: Arc<Replacer>) -> Self {
        Self { replacer, held: BytesMut::new(), released: 0 }
    }

    /// What can be sent on now; may be empty.
    pub(crate) fn push(&mut self, chunk: Bytes) -> Bytes {
        let text = if self.held.is_empty() {
            chunk
        } else {
            self.held.extend_from_slice(&chunk);
            std::mem::take(&mut self.held).freeze()
        };
        let mut out = Vec::new();
        let mut done = 0;
        let safe = loop {
            let rest = &text[done..];
            let safe = self.replacer.cut_off(rest).unwrap_or(rest.len());
            let replaced = self.replacer.replace_into(rest, safe, &mut out);
            let start = done;
            done += replaced;
            if replaced <= safe {
                break start + safe;
            }
            // A match ended behind the place where another one may have begun: look at what is left once more.
        };
        self.held = BytesMut::from(&text[safe..]);
        let known = self.released.min(safe);
        self.released -= known;
        if done == 0 {
            return text.slice(known..safe);
        }
        out.extend_from_slice(&text[done..safe]);
        let mut out = Bytes::from(out);
        out.split_off(known.min(out.len()))
    }

    /// Is it worth to wait a moment and then `release`?
    pub(crate) fn holds_little(&self) -> bool {
        self.released < self.held.len() && self.held.len() <= Self::HARMLESS
    }

    /// Nothing more came: let the few bytes go that are held back, so that a message which happens to end like a value
    /// begins is not kept until the next one. They are not forgotten: what would complete them is still replaced.
    pub(crate) fn release(&mut self) -> Bytes {
        if !self.holds_little() {
            return Bytes::new();
        }
        let out = Bytes::copy_from_slice(&self.held[self.released..]);
        self.released = self.held.len();
        out
    }

    /// The end: what was held back.
    pub(crate) fn finish(&mut self) -> Bytes {
        let rest = std::mem::take(&mut self.held).freeze();
        let mut out = self.replacer.replace(&rest).map_or(rest, Bytes::from);
        out.split_off(std::mem::take(&mut self.released).min(out.len()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn replacer(pairs: &[(&str, &str)]) -> Arc<Replacer> {
        Arc::new(Replacer::new(
            pairs.iter().map(|(from, to)| (from.as_bytes().to_vec(), to.as_bytes().to_vec())),
        ))
    }

    /// Slow and plain: at each place the longest pattern that is there.
    fn reference(pairs: &[(Vec<u8>, Vec<u8>)], text: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut at = 0;
        while at < text.len() {
            let here = pairs.iter().filter(|(from, _)| !from.is_empty() && text[at..].starts_with(from));
            // `rev`: of two equal ones the first.
            match here.rev().max_by_key(|(from, _)| from.len()) {
                Some((from, to)) => {
                    out.extend_from_slice(to);
                    at += from.len();
                }
                None => {
                    out.push(text[at]);
                    at += 1;
                }
            }
        }
        out
    }

    fn streamed(replacer: &Arc<Replacer>, chunks: &[&[u8]]) -> Vec<u8> {
        let mut stream = Streaming::new(replacer.clone());
        let mut out = Vec::new();
        for chunk in chunks {
            out.extend_from_slice(&stream.push(Bytes::copy_from_slice(chunk)));
        }
        out.extend_from_slice(&stream.finish());
        out
    }

    #[test]
    fn across_borders() {
        let replacer = replacer(&[("secret", "S"), ("secretary", "boss"), ("cab", "-")]);
        for (text, expected) in [
            ("a secret b", "a S b"),
            ("secretary secretar", "boss Sar"),
            ("secresecretar", "secreSar"),
            ("cacab", "ca-"),
            ("secretcab", "S-"),
            ("", ""),
        ] {
            assert_eq!(replacer.replace(text.as_bytes()).unwrap_or(text.into()), expected.as_bytes());
            for cut in 0..=text.len() {
                let (a, b) = text.as_bytes().split_at(cut);
                assert_eq!(streamed(&replacer, &[a, b]), expected.as_bytes(), "{text} at {cut}");
            }
        }
    }

    #[test]
    fn only_what_may_be_a_beginning_is_held_back() {
        let mut stream = Streaming::new(replacer(&[("ghp_value", "x")]));
        assert_eq!(stream.push(Bytes::from("data: 1\n\n")), "data: 1\n\n");
        assert_eq!(stream.push(Bytes::from("weigh")), "wei");
        assert_eq!(stream.push(Bytes::from("t\n")), "ght\n");
    }

    #[test]
    fn a_little_is_let_go_and_not_forgotten() {
        let mut stream = Streaming::new(replacer(&[("ghp_value", "*********")]));
        assert!(!stream.holds_little());
        assert_eq!(stream.push(Bytes::from("ping")), "pin");
        assert_eq!((stream.release(), stream.release()), (Bytes::from("g"), Bytes::new()));
        assert_eq!(stream.push(Bytes::from("hp")), "");
        assert_eq!(stream.release(), "hp");
        assert_eq!(stream.push(Bytes::from("_v")), "");
        assert_eq!(stream.release(), "", "any more is not let go");
        assert_eq!(stream.push(Bytes::from("alue pin")), "****** pin");
        assert_eq!(stream.push(Bytes::from("g")), "");
        assert_eq!(stream.release(), "g");
        assert_eq!(stream.push(Bytes::from(" pong")), " pon");
        assert_eq!(stream.finish(), "g");
    }

    proptest! {
        // Few letters, so that patterns overlap, contain and prefix one another.
        #[test]
        fn the_same_as_the_reference_wherever_chunks_end(
            pairs in prop::collection::vec(("[ab]{1,5}", "[xya]{0,3}"), 1..5),
            chunks in prop::collection::vec("[abc]{0,7}", 0..12),
        ) {
            let pairs: Vec<(Vec<u8>, Vec<u8>)> = pairs.into_iter().map(|(a, b)| (a.into(), b.into())).collect();
            let replacer = Arc::new(Replacer::new(pairs.clone()));
            let text = chunks.concat();
            let expected = reference(&pairs, text.as_bytes());
            let chunks: Vec<&[u8]> = chunks.iter().map(|chunk| chunk.as_bytes()).collect();
            prop_assert_eq!(streamed(&replacer, &chunks), expected.clone());
            prop_assert_eq!(replacer.replace(text.as_bytes()).unwrap_or(text.into_bytes()), expected);
        }

        #[test]
        fn what_was_let_go_comes_once_and_lengths_stay(
            patterns in prop::collection::vec("[ab]{5,9}", 1..4),
            chunks in prop::collection::vec(("[abc]{0,7}", any::<bool>()), 0..12),
        ) {
            let covered = patterns.iter().map(|pattern| (pattern.clone().into_bytes(), vec![b'*'; pattern.len()]));
            let replacer = Arc::new(Replacer::new(covered));
            let mut stream = Streaming::new(replacer.clone());
            let mut out = Vec::new();
            for (chunk, quiet) in &chunks {
                out.extend_from_slice(&stream.push(Bytes::copy_from_slice(chunk.as_bytes())));
                if *quiet {
                    out.extend_from_slice(&stream.release());
                }
            }
            out.extend_from_slice(&stream.finish());
            let text: String = chunks.iter().map(|(chunk, _)| chunk.as_str()).collect();
            let expected = replacer.replace(text.as_bytes()).unwrap_or(text.clone().into_bytes());
            prop_assert_eq!(out.len(), text.len());
            // The same but for the first bytes of what was covered.
            for (index, (got, wanted)) in out.iter().zip(&expected).enumerate() {
                let is_early = *wanted == b'*' && *got == text.as_bytes()[index];
                prop_assert!(got == wanted || is_early, "{text}");
            }
            for pattern in &patterns {
                prop_assert!(!String::from_utf8_lossy(&out).contains(pattern.as_str()), "{text}");
            }
        }
    }
}
