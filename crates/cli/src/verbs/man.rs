//! `ringfence man`: one page a verb.

use clap::CommandFactory;

use crate::args::{Cli, ManArgs};
use crate::failure::Failure;
use crate::output::{self, printable};

pub(crate) fn man(args: ManArgs) -> Result<i32, Failure> {
    let directory = &args.directory;
    let problem = |error: std::io::Error| {
        Failure::new(
            format!("cannot write the man pages to {}: {error}", directory.display()),
            "name a directory that you can write",
        )
    };
    std::fs::create_dir_all(directory).map_err(problem)?;
    clap_mangen::generate_to(Cli::command(), directory).map_err(problem)?;
    output::line(format!("the man pages are in {}", printable(&directory.to_string_lossy())));
    Ok(0)
}
