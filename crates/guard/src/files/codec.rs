//! Numbers and byte strings on the wire: little-endian, strings with a 32-bit length before them.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

#[derive(Debug, Default)]
pub(super) struct Writer(Vec<u8>);

impl Writer {
    pub(super) fn tagged(tag: u8) -> Self {
        Self(vec![tag])
    }

    pub(super) fn u8(mut self, value: u8) -> Self {
        self.0.push(value);
        self
    }

    pub(super) fn u32(mut self, value: u32) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    pub(super) fn u64(mut self, value: u64) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    pub(super) fn i64(self, value: i64) -> Self {
        self.u64(value as u64)
    }

    pub(super) fn text(mut self, text: &OsStr) -> Self {
        self = self.u32(u32::try_from(text.len()).unwrap_or(u32::MAX));
        self.0.extend(text.as_bytes());
        self
    }

    pub(super) fn done(self) -> Vec<u8> {
        self.0
    }
}

/// What is left of a message; every method takes from its front, or says `None` where it is too short.
#[derive(Debug)]
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (value, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*value)
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.take::<1>().map(|[value]| value)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    pub(super) fn i64(&mut self) -> Option<i64> {
        self.take().map(i64::from_le_bytes)
    }

    pub(super) fn text(&mut self) -> Option<OsString> {
        let length = self.u32()? as usize;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(OsString::from_vec(text.to_vec()))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
