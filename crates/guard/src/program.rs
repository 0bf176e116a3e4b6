//! What to run in a session, as it travels from the keeper to a shim.

use std::ffi::{CString, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use crate::wire::number;

/// The one order that a shim takes, with the command's stdio.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToShim {
    /// Run this.
    Program(Vec<u8>),
    /// What to run is in a file, which comes before the stdio.
    Elsewhere,
}

/// What to run in a session, as it travels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    pub argv: Vec<CString>,
    pub environment: Vec<CString>,
    /// Where a name without a slash is looked up.
    pub path: OsString,
    pub directory: PathBuf,
    /// Rows and columns of a terminal of its own.
    pub terminal: Option<(u16, u16)>,
}

impl ToShim {
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Program(program) => [b"p", &program[..]].concat(),
            Self::Elsewhere => vec![b'e'],
        }
    }

    pub fn decode(bytes: &[u8]) -> Option<Self> {
        match bytes.split_first()? {
            (b'p', program) => Some(Self::Program(program.to_vec())),
            (b'e', []) => Some(Self::Elsewhere),
            _ => None,
        }
    }
}

/// Strings behind each other, each with its length before it.
struct Strings(Vec<u8>);

impl Strings {
    fn add(&mut self, text: &[u8]) {
        self.0.extend((text.len() as u32).to_le_bytes());
        self.0.extend(text);
    }

    fn add_all(&mut self, texts: &[CString]) {
        self.0.extend((texts.len() as u32).to_le_bytes());
        for text in texts {
            self.add(text.as_bytes());
        }
    }
}

/// The same, taken apart.
struct Parts<'a>(&'a [u8]);

impl<'a> Parts<'a> {
    fn count(&mut self) -> Option<usize> {
        let (count, rest) = self.0.split_at_checked(4)?;
        self.0 = rest;
        usize::try_from(number(count)?).ok()
    }

    fn next(&mut self) -> Option<&'a [u8]> {
        let length = self.count()?;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(text)
    }

    fn strings(&mut self) -> Option<Vec<CString>> {
        let count = self.count()?;
        // Each takes four bytes at least: a count can't make room for more than there is.
        let mut strings = Vec::with_capacity(count.min(self.0.len() / 4));
        for _ in 0..count {
            strings.push(CString::new(self.next()?).ok()?);
        }
        Some(strings)
    }
}

impl Program {
    pub fn encode(&self) -> Vec<u8> {
        let mut strings = Strings(Vec::new());
        strings.add_all(&self.argv);
        strings.add_all(&self.environment);
        strings.add(self.path.as_bytes());
        strings.add(self.directory.as_os_str().as_bytes());
        let mut bytes = strings.0;
        if let Some((rows, columns)) = self.terminal {
            bytes.extend(rows.to_le_bytes());
            bytes.extend(columns.to_le_bytes());
        }
        bytes
    }

    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut parts = Parts(bytes);
        let argv = parts.strings()?;
        let environment = parts.strings()?;
        let path = OsString::from_vec(parts.next()?.to_vec());
        let directory = PathBuf::from(OsString::from_vec(parts.next()?.to_vec()));
        let terminal = match *parts.0 {
            [] => None,
            [a, b, c, d] => Some((u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d]))),
            _ => return None,
        };
        Some(Self { argv, environment, path, directory, terminal })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(terminal: Option<(u16, u16)>) -> Program {
        let text = |text: &str| CString::new(text).unwrap();
        Program {
            argv: vec![text("sh"), text("")],
            environment: vec![text("A=b\nc")],
            path: "/bin:/usr/bin".into(),
            directory: OsString::from_vec(b"/work\xff".to_vec()).into(),
            terminal,
        }
    }

    #[test]
    fn a_program_survives_the_wire_and_no_cut_one_is_taken() {
        for program in [program(None), program(Some((24, 80)))] {
            let bytes = program.encode();
            assert_eq!(Program::decode(&bytes), Some(program.clone()));
            for length in
                (0..bytes.len()).filter(|length| program.terminal.is_none() || *length != bytes.len() - 4)
            {
                assert_eq!(Program::decode(&bytes[..length]), None, "cut at {length}");
            }
        }
    }

    #[test]
    fn a_count_of_strings_that_are_not_there_takes_no_memory() {
        assert_eq!(Program::decode(&[0xff, 0xff, 0xff, 0x7f]), None);
    }

    #[test]
    fn an_order_survives_the_wire_and_nothing_else_is_one() {
        for order in [ToShim::Program(vec![1, 2, 3]), ToShim::Program(Vec::new()), ToShim::Elsewhere] {
            assert_eq!(ToShim::decode(&order.encode()), Some(order));
        }
        for bytes in [&b""[..], b"x", b"e1"] {
            assert_eq!(ToShim::decode(bytes), None);
        }
    }
}
