//! Asking for a secret on a terminal, without echo.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

const INTERRUPT: u8 = 3;
const END: u8 = 4;
const BACKSPACE: u8 = 8;
const KILL_LINE: u8 = 21;
const DELETE: u8 = 127;

/// The terminal as it was, put back whatever happens here.
struct Quiet<'a, T: AsFd> {
    terminal: &'a T,
    before: Termios,
}

impl<'a, T: AsFd> Quiet<'a, T> {
    /// Signals are read as characters too: one that ended us would leave the terminal without echo.
    fn new(terminal: &'a T) -> io::Result<Self> {
        let before = tcgetattr(terminal)?;
        let mut quiet = before.clone();
        quiet.local_modes -= LocalModes::ECHO | LocalModes::ECHONL | LocalModes::ICANON | LocalModes::ISIG;
        tcsetattr(terminal, OptionalActions::Flush, &quiet)?;
        Ok(Self { terminal, before })
    }
}

impl<T: AsFd> Drop for Quiet<'_, T> {
    fn drop(&mut self) {
        let _ = tcsetattr(self.terminal, OptionalActions::Flush, &self.before);
    }
}

/// Print `question` on stderr and read one line from `terminal` into `into`, which must not grow. How many bytes;
/// `None` if the person gave up.
pub(crate) fn ask<T: AsFd + Read>(
    terminal: &mut T,
    question: &str,
    into: &mut [u8],
) -> io::Result<Option<usize>> {
    let descriptor = terminal.as_fd().try_clone_to_owned()?;
    let quiet = Quiet::new(&descriptor)?;
    let _ = write!(io::stderr(), "{question}");
    let answer = read_line(terminal, into);
    let _ = writeln!(io::stderr());
    drop(quiet);
    answer
}

fn read_line(from: &mut impl Read, into: &mut [u8]) -> io::Result<Option<usize>> {
    let mut length = 0;
    let mut byte = [0];
    loop {
        match from.read(&mut byte) {
            Ok(0) => return Ok((length > 0).then_some(length)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
            Ok(_) => {}
        }
        match byte[0] {
            b'\n' | b'\r' => return Ok(Some(length)),
            INTERRUPT => return Ok(None),
            END if length == 0 => return Ok(None),
            END => return Ok(Some(length)),
            KILL_LINE => length = 0,
            BACKSPACE | DELETE => {
                // A character of several bytes goes whole.
                while length > 0 {
                    length -= 1;
                    if into[length] & 0xc0 != 0x80 {
                        break;
                    }
                }
            }
            typed => {
                *into.get_mut(length).ok_or_else(|| io::Error::other("it is longer than 64 KiB"))? = typed;
                length += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(keys: &[u8]) -> Option<String> {
        let mut into = [0; 8];
        let length = read_line(&mut &*keys, &mut into).unwrap()?;
        Some(String::from_utf8(into[..length].to_vec()).unwrap())
    }

    #[test]
    fn keys() {
        assert_eq!(typed(b"abc\n").as_deref(), Some("abc"));
        assert_eq!(typed(b"abx\x7fc\r").as_deref(), Some("abc"));
        assert_eq!(typed("é\x7f\x7fab\n".as_bytes()).as_deref(), Some("ab"));
        assert_eq!(typed(b"wrong\x15ok\n").as_deref(), Some("ok"));
        assert_eq!(typed(b"ab\x03"), None);
        assert_eq!(typed(b"\x04"), None);
        assert!(read_line(&mut &b"123456789\n"[..], &mut [0; 8]).is_err());
    }
}
