//! Files that come with a request, written to a workspace whose content is hostile: through no link, and never outside.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::{Component, Path};

use rustix::fs::{Mode, OFlags, ResolveFlags, fchmod, mkdirat, open, openat2};
use rustix::io::Errno;

use super::order::FileOrder;
use crate::error::{ErrorCode, ServiceError};

/// Nothing of a path may lead elsewhere.
const BENEATH: ResolveFlags =
    ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);

pub(super) fn write(workspace: &Path, files: &[FileOrder]) -> Result<(), ServiceError> {
    if files.is_empty() {
        return Ok(());
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let top = open(workspace, flags, Mode::empty())
        .map_err(|error| ServiceError::state("open", workspace, &error.into()))?;
    files.iter().try_for_each(|file| write_one(&top, file))
}

fn refused(path: &str, why: impl std::fmt::Display) -> ServiceError {
    ServiceError::new(
        ErrorCode::BadRequest,
        format!("cannot write the file `{}`: {why}", path.escape_debug()),
        "give paths relative to the workspace, through no link, such as `data/input.txt`",
    )
}

fn write_one(top: &OwnedFd, file: &FileOrder) -> Result<(), ServiceError> {
    let path = Path::new(&file.path);
    let plain = path.components().all(|part| matches!(part, Component::Normal(_)));
    let (Some(name), true) = (path.file_name().filter(|_| !file.path.ends_with('/')), plain) else {
        return Err(refused(&file.path, "it is no path of a file below the workspace"));
    };
    let problem = |error: Errno| match error {
        Errno::LOOP | Errno::XDEV => refused(&file.path, "a link is in its way"),
        error => refused(&file.path, error),
    };
    let mut made = std::path::PathBuf::new();
    for part in path.parent().into_iter().flat_map(Path::components) {
        let parent = directory(top, &made).map_err(problem)?;
        match mkdirat(&parent, part.as_os_str(), Mode::from_raw_mode(0o755)) {
            Err(error) if error != Errno::EXIST => return Err(problem(error)),
            _ => made.push(part),
        }
    }
    let parent = directory(top, &made).map_err(problem)?;
    let flags = OFlags::WRONLY
        | OFlags::CREATE
        | OFlags::TRUNC
        | OFlags::NOFOLLOW
        | OFlags::CLOEXEC
        | OFlags::NONBLOCK;
    let mode = Mode::from_raw_mode(0o600);
    let fd = openat2(&parent, Path::new(name), flags, mode, BENEATH).map_err(problem)?;
    let mut open = File::from(fd);
    if !open.metadata().is_ok_and(|facts| facts.is_file()) {
        return Err(refused(&file.path, "something that is no file has that name"));
    }
    open.write_all(&file.content).map_err(|error| refused(&file.path, error))?;
    fchmod(&open, Mode::from_raw_mode(file.mode & 0o777)).map_err(problem)
}

fn directory(top: &OwnedFd, path: &Path) -> Result<OwnedFd, Errno> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    openat2(top, path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty(), BENEATH)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, symlink};

    fn file(path: &str) -> FileOrder {
        FileOrder { path: path.into(), content: b"x".to_vec(), mode: 0o755 }
    }

    #[test]
    fn written_below_the_workspace_with_its_mode() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), &[file("a"), file("deep/er/b"), file("a")]).unwrap();
        assert_eq!(std::fs::read(root.path().join("deep/er/b")).unwrap(), b"x");
        assert_eq!(std::fs::metadata(root.path().join("a")).unwrap().mode() & 0o7777, 0o755);
    }

    #[test]
    fn nothing_leads_outside() {
        let root = tempfile::tempdir().unwrap();
        let (inside, outside) = (root.path().join("in"), root.path().join("out"));
        std::fs::create_dir(&inside).unwrap();
        std::fs::create_dir(&outside).unwrap();
        symlink(&outside, inside.join("link")).unwrap();
        symlink(outside.join("file"), inside.join("name")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            inside.join("pipe"),
            rustix::fs::FileType::Fifo,
            Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        for path in [
            "../out/x",
            "/tmp/x",
            "link/x",
            "name",
            "pipe",
            "",
            ".",
            "..",
            "a/../../out/x",
            "a/",
            "link",
            "a\0b",
        ] {
            assert!(write(&inside, &[file(path)]).is_err(), "{path:?}");
        }
        assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
    }
}
