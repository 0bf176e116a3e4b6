//! `ringfence completions`

use clap::CommandFactory;
use clap_complete::{Shell as Generator, generate};

use crate::args::{Cli, CompletionsArgs, Shell};
use crate::failure::Failure;
use crate::output;

pub(crate) fn completions(args: CompletionsArgs) -> Result<i32, Failure> {
    let shell = match args.shell {
        Shell::Bash => Generator::Bash,
        Shell::Zsh => Generator::Zsh,
        Shell::Fish => Generator::Fish,
    };
    let mut script = Vec::new();
    generate(shell, &mut Cli::command(), "ringfence", &mut script);
    output::raw(&script);
    Ok(0)
}
