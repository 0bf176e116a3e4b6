//! Why a command could not be started inside, and what would help: often it is on the host and not shown.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use ringfence_sandbox::ExecStage;

use crate::error::{ErrorCode, ServiceError};
use crate::places::Places;

const ENOENT: i32 = 2;
const EACCES: i32 = 13;

/// The reason and the next step for a command that ended before it began.
pub fn explain_not_started(
    places: &Places,
    argv: &[OsString],
    directory: &Path,
    image: Option<&str>,
    stage: ExecStage,
    errno: i32,
) -> ServiceError {
    let why = std::io::Error::from_raw_os_error(errno);
    let command = argv.first().map(PathBuf::from).unwrap_or_default();
    let name = command.display();
    match (stage, errno) {
        (ExecStage::Program, ENOENT) => ServiceError::new(
            ErrorCode::CommandNotFound,
            format!("{name}: command not found in the sandbox"),
            match image {
                Some(image) => format!("image `{image}` does not have it: build one that does, with --with"),
                None => next_step(places, &command),
            },
        ),
        (ExecStage::Program, EACCES) => ServiceError::new(
            ErrorCode::CommandNotExecutable,
            format!("{name}: permission denied in the sandbox"),
            "make it executable (chmod +x), or name its interpreter: `sh FILE`, `python3 FILE`",
        ),
        (ExecStage::Program, _) => ServiceError::new(
            ErrorCode::CommandNotExecutable,
            format!("{name}: cannot be executed in the sandbox: {why}"),
            "name a program for this machine, or a script with its interpreter",
        ),
        (ExecStage::Directory, _) => ServiceError::new(
            ErrorCode::BadDirectory,
            format!("cannot start in {} in the sandbox: {why}", directory.display()),
            "pass --cwd with a directory that the sandbox shows: /workspace always is",
        ),
        (ExecStage::Stdio, _) => ServiceError::new(
            ErrorCode::SandboxFailed,
            format!("cannot hand stdin, stdout and stderr to {name}: {why}"),
            "redirect them to files, pipes or a terminal",
        ),
    }
}

fn next_step(places: &Places, command: &Path) -> String {
    let found = if command.components().count() > 1 {
        Some(places.current.join(command)).filter(|path| is_program(path))
    } else {
        std::env::var_os("PATH").and_then(|path| {
            std::env::split_paths(&path)
                .map(|directory| directory.join(command))
                .find(|path| is_program(path))
        })
    };
    let Some(found) = found else {
        return "check the spelling, or install it: the sandbox sees what the host has".into();
    };
    if has_interpreter(&found) {
        return format!(
            "{} is a script: check that the interpreter in its first line is there, or show it with --read",
            found.display()
        );
    }
    let real = std::fs::canonicalize(&found).unwrap_or_else(|_| found.clone());
    let shown = real.parent().unwrap_or(&real);
    format!(
        "it is on this host at {}, which the policy does not show: add --read {}",
        found.display(),
        shown.display()
    )
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|facts| facts.is_file() && facts.permissions().mode() & 0o111 != 0)
}

fn has_interpreter(path: &Path) -> bool {
    use std::io::Read;
    let mut start = [0; 2];
    std::fs::File::open(path).is_ok_and(|mut file| file.read_exact(&mut start).is_ok() && start == *b"#!")
}
