//! What a test leaves out is reported: a test that passes shows nothing of what it printed.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

/// One line for each, on stderr and in the file of `RINGFENCE_SKIPS`, which `./test` counts.
pub(crate) fn report_skip(what: &str) {
    eprintln!("skipped: {what}");
    let Some(path) = std::env::var_os("RINGFENCE_SKIPS") else { return };
    let written = OpenOptions::new().create(true).append(true).open(&path);
    let written = written.and_then(|mut file| file.write_all(format!("{what}\n").as_bytes()));
    written.unwrap_or_else(|error| panic!("{}: {error}", Path::new(&path).display()));
}
