//! What an attempt ends with: `Ok` says what worked, `Err` why it was held or what is wrong with the attempt.

use std::fmt::Display;
use std::io;
use std::str::FromStr;

use rustix::io::Errno;

pub(crate) type Attempted = Result<String, Stop>;

pub(crate) enum Stop {
    Held(String),
    Broken(String),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::Held(error.to_string())
    }
}

impl From<Errno> for Stop {
    fn from(errno: Errno) -> Self {
        Self::Held(io::Error::from(errno).to_string())
    }
}

pub(crate) fn held<T>(why: impl Display) -> Result<T, Stop> {
    Err(Stop::Held(why.to_string()))
}

/// The argument at `index`.
pub(crate) fn word(args: &[String], index: usize) -> Result<&str, Stop> {
    args.get(index)
        .map(String::as_str)
        .ok_or_else(|| Stop::Broken(format!("argument {} is missing", index + 1)))
}

/// The argument at `index`, as a number.
pub(crate) fn number<T: FromStr>(args: &[String], index: usize) -> Result<T, Stop> {
    let text = word(args, index)?;
    text.parse().map_err(|_| Stop::Broken(format!("{text} is not a number")))
}
