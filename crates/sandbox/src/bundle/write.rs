//! A bundle on disk: `config.json`, the root with a place for every mount, and the small files.

use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};

use super::{FILES, OciBundle, RootEntry};
use crate::refusal::Refusal;

/// Write it into a directory that is not there yet, or is empty.
pub fn write_bundle(bundle: &OciBundle, directory: &Path) -> Result<(), Refusal> {
    let failed =
        |error: &io::Error| Refusal::step("write the bundle", directory.display().to_string(), error);
    match fs::read_dir(directory).map(|mut entries| entries.next().is_none()) {
        Ok(true) => {}
        Ok(false) => {
            return Err(Refusal::bad(
                format!("{} is not empty", directory.display()),
                "name a directory that is not there yet, or an empty one",
            ));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            make_directory(directory, 0o755).map_err(|error| failed(&error))?;
        }
        Err(error) => return Err(failed(&error)),
    }
    lay_out(bundle, directory).map_err(|error| failed(&error))
}

fn lay_out(bundle: &OciBundle, directory: &Path) -> io::Result<()> {
    let root = directory.join("rootfs");
    make_directory(&root, 0o755)?;
    let mut made = vec![root.clone()];
    for entry in &bundle.root {
        place(&root, entry, &mut made)?;
    }
    // The id that is root in the bundle's namespace: it may find its own root.
    for path in &made {
        if rustix::process::geteuid().is_root() {
            lchown(path, Some(bundle.owner.0), Some(bundle.owner.1))?;
        }
    }
    let files = directory.join(FILES);
    make_directory(&files, 0o755)?;
    for (name, text) in &bundle.files {
        write_file(&files.join(name), text)?;
    }
    let text = format!("{:#}\n", bundle.config);
    write_file(&directory.join("config.json"), &text)
}

fn place(root: &Path, entry: &RootEntry, made: &mut Vec<PathBuf>) -> io::Result<()> {
    let inside = |path: &Path| root.join(path.strip_prefix("/").unwrap_or(path));
    let mut parents = |path: &Path| -> io::Result<()> {
        let mut missing: Vec<PathBuf> = Vec::new();
        let mut parent = path.parent();
        while let Some(directory) = parent.filter(|directory| directory.symlink_metadata().is_err()) {
            missing.push(directory.to_path_buf());
            parent = directory.parent();
        }
        for directory in missing.into_iter().rev() {
            make_directory(&directory, 0o755)?;
            made.push(directory);
        }
        Ok(())
    };
    let path = match entry {
        RootEntry::Directory { path, mode } => {
            let path = inside(path);
            parents(&path)?;
            make_directory(&path, *mode)?;
            path
        }
        RootEntry::File { path } => {
            let path = inside(path);
            parents(&path)?;
            write_file(&path, "")?;
            path
        }
        RootEntry::Symlink { path, to } => {
            let path = inside(path);
            parents(&path)?;
            symlink(to, &path)?;
            path
        }
    };
    made.push(path);
    Ok(())
}

/// With this mode, whatever the umask is.
fn make_directory(path: &Path, mode: u32) -> io::Result<()> {
    match DirBuilder::new().mode(mode).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {}
        made => made?,
    }
    fs::set_permissions(path, Permissions::from_mode(mode))
}

fn write_file(path: &Path, text: &str) -> io::Result<()> {
    OpenOptions::new().write(true).create_new(true).mode(0o644).open(path)?.write_all(text.as_bytes())?;
    fs::set_permissions(path, Permissions::from_mode(0o644))
}
