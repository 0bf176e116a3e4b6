//! A root filesystem made of the host's own programs: those that are named, what they are linked with, what interpreters need, and
//! a few settings. The same host gives the same image.
//!
//! Invariant: only files of the system are read, that is, files of root's that everybody may read and nobody else may write, in
//! system directories: no key, no password, nothing of a user's. Nothing is executed to find out what it needs.

mod cache;
mod elf;
mod programs;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use ringfence_sandbox::snapshots::TreePath;

use self::cache::{Cached, read_cache, write_cache};
use self::elf::{Elf, Machine, read_elf};
use self::programs::{BASE, BASE_TREES, COREUTILS, LOADED_LATE, extras};
use crate::draft::{Draft, Part, open_file};
use crate::error::{During, ImageError, Result};
use crate::spool::Spool;

/// Where programs are looked for, in this order; the caller's own PATH leads to places that are not the system's.
const PROGRAMS: &[&str] = &["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];
const SYSTEM: &[&str] =
    &["usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "etc", "opt", "nix", "gnu"];
const MOST_LINKS: usize = 40;
const MOST_SHEBANGS: usize = 8;

#[derive(Debug)]
pub(crate) struct HostImage {
    pub(crate) draft: Draft,
    pub(crate) notes: Vec<String>,
}

pub(crate) fn host_image(programs: &[String], spool: &Spool) -> Result<HostImage> {
    let cache = read_cache(&fs::read("/etc/ld.so.cache").unwrap_or_default());
    let mut host = Host {
        root: PathBuf::from("/"),
        draft: Draft::default(),
        spool,
        cache,
        used: BTreeMap::new(),
        looked_at: BTreeSet::new(),
        missing: BTreeSet::new(),
    };
    for name in SYSTEM {
        // `/bin -> usr/bin` and the like.
        let path = Path::new("/").join(name);
        if fs::symlink_metadata(&path).is_ok_and(|facts| facts.is_symlink()) {
            host.place(&path)?;
        }
    }
    host.program("sh")?;
    for name in programs {
        match name.as_str() {
            "coreutils" => {
                for name in COREUTILS.iter().filter(|name| find_program(name).is_some()) {
                    host.program(name)?;
                }
            }
            name => host.program(name)?,
        }
    }
    for path in BASE {
        host.place_if_there(Path::new(path));
    }
    for tree in BASE_TREES {
        host.tree(Path::new(tree), &[]);
    }
    host.late_libraries();
    host.finish()
}

struct Host<'a> {
    root: PathBuf,
    draft: Draft,
    spool: &'a Spool,
    cache: Vec<Cached>,
    /// Libraries of the loader's list that are in the image.
    used: BTreeMap<String, Cached>,
    looked_at: BTreeSet<PathBuf>,
    /// Libraries that something asks for and that are not there.
    missing: BTreeSet<String>,
}

impl Host<'_> {
    fn finish(mut self) -> Result<HostImage> {
        let cache = write_cache(self.used.into_values().collect());
        if let Some(path) = TreePath::new(b"etc/ld.so.cache") {
            self.draft.put(path, Part::File(self.spool.text(&cache)?))?;
        }
        let notes = self.missing.into_iter().map(|line| format!("not found: {line}")).collect();
        Ok(HostImage { draft: self.draft, notes })
    }

    /// A program, by name or by its path, with everything that it needs.
    fn program(&mut self, name: &str) -> Result<()> {
        let path = if name.starts_with('/') { Some(PathBuf::from(name)) } else { find_program(name) };
        let Some(path) = path else {
            return Err(ImageError::new(
                "image-no-program",
                format!("the host has no program `{}` in {}", name.escape_debug(), PROGRAMS.join(", ")),
                "check the spelling, install it, or give its path; what is in a home directory is never taken",
            ));
        };
        let real = self.place(&path)?;
        self.closure(&real, 0)?;
        let lost: Vec<&String> =
            self.missing.iter().filter(|line| line.ends_with(&format!("by {}", real.display()))).collect();
        match lost.first() {
            None => Ok(()),
            Some(line) => Err(ImageError::new(
                "image-no-library",
                format!("a library of {name} is not on this host: {line}"),
                "install what is missing, then build again",
            )),
        }
    }

    /// What a file needs to be executed or loaded.
    fn closure(&mut self, real: &Path, depth: usize) -> Result<()> {
        if !self.looked_at.insert(real.to_path_buf()) {
            return Ok(());
        }
        let file = self.open(real)?;
        if let Some(elf) = read_elf(&file) {
            if let Some(interpreter) = &elf.interpreter {
                let loader = self.place(Path::new(interpreter))?;
                self.closure(&loader, depth)?;
            }
            self.libraries(real, &elf)?;
        } else if let Some(words) = shebang(&file)? {
            self.interpreter(real, &words, depth)?;
        }
        for extra in extras(real) {
            self.tree(&extra.path, extra.without);
        }
        Ok(())
    }

    fn interpreter(&mut self, script: &Path, words: &[String], depth: usize) -> Result<()> {
        if depth > MOST_SHEBANGS {
            return Err(ImageError::refused(
                "image-bad-program",
                format!("{} is a script of scripts without end", script.display()),
            ));
        }
        let Some(first) = words.first() else { return Ok(()) };
        let interpreter = self.place(Path::new(first))?;
        self.closure(&interpreter, depth + 1)?;
        if interpreter.file_name().is_some_and(|name| name == "env") {
            let named = words[1..].iter().find(|word| !word.starts_with('-') && !word.contains('='));
            if let Some(named) = named {
                self.program(&named.clone())?;
            }
        }
        Ok(())
    }

    /// The libraries that one file asks for, and theirs.
    fn libraries(&mut self, real: &Path, elf: &Elf) -> Result<()> {
        for name in &elf.needed {
            match self.find_library(real, elf, name) {
                Some(path) => {
                    let found = self.place(&path)?;
                    self.closure(&found, 0)?;
                }
                None => {
                    self.missing.insert(format!("{name}, needed by {}", real.display()));
                }
            }
        }
        Ok(())
    }

    /// As the loader looks: paths in the file itself, its list, then the usual directories.
    fn find_library(&mut self, real: &Path, elf: &Elf, name: &str) -> Option<PathBuf> {
        if name.contains('/') {
            return Some(PathBuf::from(name)).filter(|path| path.is_absolute());
        }
        let origin = real.parent().unwrap_or(Path::new("/"));
        let own = if elf.runpath.is_empty() { &elf.rpath } else { &elf.runpath };
        let own = own.iter().map(|path| expand(path, origin));
        if let Some(found) =
            own.map(|directory| directory.join(name)).find(|path| self.fits(path, elf.machine))
        {
            return Some(found);
        }
        let listed = self
            .cache
            .iter()
            .find(|cached| cached.name == name && self.fits(Path::new(&cached.path), elf.machine));
        if let Some(cached) = listed.cloned() {
            self.used.insert(cached.path.clone(), cached.clone());
            return Some(PathBuf::from(cached.path));
        }
        let multiarch = format!("{}-linux-gnu", std::env::consts::ARCH);
        let usual = [
            format!("/lib/{multiarch}"),
            format!("/usr/lib/{multiarch}"),
            "/lib64".into(),
            "/usr/lib64".into(),
            "/lib".into(),
            "/usr/lib".into(),
        ];
        // Beside the file that asks for it: libraries of one package that the program finds by a path of its own.
        let usual = usual.map(PathBuf::from).into_iter().chain([origin.to_path_buf()]);
        usual.map(|directory| directory.join(name)).find(|path| self.fits(path, elf.machine))
    }

    fn fits(&self, path: &Path, machine: Machine) -> bool {
        File::open(self.on_disk(path))
            .ok()
            .and_then(|file| read_elf(&file))
            .is_some_and(|elf| elf.machine == machine)
    }

    fn late_libraries(&mut self) {
        for name in LOADED_LATE {
            let found = self.cache.iter().find(|cached| cached.name == *name).cloned();
            if let Some(cached) = found
                && let Ok(real) = self.place(Path::new(&cached.path))
                && self.closure(&real, 0).is_ok()
            {
                self.used.insert(cached.path.clone(), cached);
            }
        }
    }

    /// What is in a directory of the host, with what its libraries need. What can't be taken is left out: it is not what was
    /// asked for by name.
    fn tree(&mut self, directory: &Path, without: &[&str]) {
        let Ok(entries) = fs::read_dir(self.on_disk(directory)) else { return };
        let mut names: Vec<OsString> = entries.flatten().map(|entry| entry.file_name()).collect();
        names.sort();
        for name in names {
            let path = directory.join(&name);
            let plain = name.to_string_lossy();
            if without.contains(&&*plain)
                || plain.starts_with("config-") && directory.to_string_lossy().contains("python")
            {
                continue;
            }
            let Ok(facts) = fs::symlink_metadata(self.on_disk(&path)) else { continue };
            if facts.is_dir() && plain == "__pycache__" {
                self.compiled(&path);
            } else if facts.is_dir() {
                self.tree(&path, without);
            } else if let Ok(real) = self.place(&path)
                && is_elf(&self.on_disk(&real))
            {
                // One of many plug-ins: what it lacks is told, and the rest works without it.
                let _ = self.closure(&real, 0);
            }
        }
    }

    /// Compiled modules that belong to the sources beside them. The time in each is that of its source, which in an image is
    /// none: so it is written here too.
    fn compiled(&mut self, directory: &Path) {
        let Ok(entries) = fs::read_dir(self.on_disk(directory)) else { return };
        for path in entries.flatten().map(|entry| directory.join(entry.file_name())) {
            let Some(bytes) = self.compiled_module(&path) else { continue };
            let Some(at) = tree_path(&path) else { continue };
            let _ = self.spool.text(&bytes).and_then(|content| self.draft.put(at, Part::File(content)));
        }
    }

    fn compiled_module(&self, path: &Path) -> Option<Vec<u8>> {
        let name = path.file_name()?.to_str()?.strip_suffix(".pyc")?;
        let (module, tag) = name.split_once('.')?;
        if tag.contains('.') {
            return None;
        }
        let source = path.parent()?.parent()?.join(format!("{module}.py"));
        let source = fs::symlink_metadata(self.on_disk(&source)).ok().filter(fs::Metadata::is_file)?;
        self.check(path, &fs::symlink_metadata(self.on_disk(path)).ok()?).ok()?;
        let mut bytes = fs::read(self.on_disk(path)).ok()?;
        let word = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let fresh = word(4)? == 0 && word(8)? == source.mtime() as u32 && word(12)? == source.size() as u32;
        if !fresh {
            return None;
        }
        bytes[8..12].fill(0);
        Some(bytes)
    }

    fn place_if_there(&mut self, path: &Path) {
        if fs::metadata(self.on_disk(path)).is_ok() {
            let _ = self.place(path);
        }
    }

    /// Put a file into the image, with every link and directory on the way to it; where it really is.
    fn place(&mut self, path: &Path) -> Result<PathBuf> {
        let mut waiting: Vec<OsString> = parts(path);
        waiting.reverse();
        let mut at = PathBuf::from("/");
        let mut links = 0;
        while let Some(part) = waiting.pop() {
            if part == ".." {
                at.pop();
                continue;
            }
            let next = at.join(&part);
            let facts = fs::symlink_metadata(self.on_disk(&next)).at("look at", &next)?;
            self.check(&next, &facts)?;
            let Some(key) = tree_path(&next) else {
                return Err(not_system(&next, "it has a name that no image takes"));
            };
            if facts.is_symlink() {
                links += 1;
                if links > MOST_LINKS {
                    return Err(not_system(path, "its links lead in a circle"));
                }
                let target = fs::read_link(self.on_disk(&next)).at("read the link", &next)?;
                self.draft.put(key, Part::Link(target.as_os_str().as_bytes().to_vec()))?;
                if target.is_absolute() {
                    at = PathBuf::from("/");
                }
                waiting.extend(parts(&target).into_iter().rev());
            } else if facts.is_dir() {
                self.draft.put(key, Part::Directory)?;
                at = next;
            } else {
                self.draft.put(key, Part::File(self.on_disk(&next)))?;
                at = next;
            }
        }
        Ok(at)
    }

    /// Root's, for everybody to read, for nobody else to write, and in a system directory.
    fn check(&self, path: &Path, facts: &fs::Metadata) -> Result<()> {
        let first = path.components().nth(1).map(|first| first.as_os_str().to_owned());
        if !first.is_some_and(|first| SYSTEM.iter().any(|name| first == *name)) {
            return Err(not_system(path, "it is in no system directory"));
        }
        if facts.uid() != 0 && self.root == Path::new("/") {
            return Err(not_system(path, "it does not belong to root"));
        }
        if facts.is_symlink() {
            return Ok(());
        }
        if facts.mode() & 0o002 != 0 {
            return Err(not_system(path, "everybody may write to it"));
        }
        if !facts.is_dir() && (!facts.is_file() || facts.mode() & 0o004 == 0) {
            return Err(not_system(path, "not everybody may read it"));
        }
        Ok(())
    }

    fn open(&self, real: &Path) -> Result<File> {
        open_file(&self.on_disk(real)).at("open", real)
    }

    fn on_disk(&self, path: &Path) -> PathBuf {
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }
}

fn parts(path: &Path) -> Vec<OsString> {
    path.components()
        .filter_map(|part| match part {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some("..".into()),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
        })
        .collect()
}

fn tree_path(path: &Path) -> Option<TreePath> {
    TreePath::new(path.as_os_str().as_bytes().strip_prefix(b"/")?)
}

fn not_system(path: &Path, why: &str) -> ImageError {
    ImageError::new(
        "image-not-system",
        format!("{} is not taken into an image: {why}", path.display()),
        "install the program in a system directory, or make an image from a directory with --from DIR",
    )
}

fn find_program(name: &str) -> Option<PathBuf> {
    if name.is_empty() || name.contains('/') || name == "." || name == ".." {
        return None;
    }
    let is_program =
        |path: &PathBuf| fs::metadata(path).is_ok_and(|facts| facts.is_file() && facts.mode() & 0o111 != 0);
    PROGRAMS.iter().map(|directory| Path::new(directory).join(name)).find(is_program)
}

fn is_elf(path: &Path) -> bool {
    let mut magic = [0; 4];
    open_file(path).is_ok_and(|mut file| file.read_exact(&mut magic).is_ok() && magic == *b"\x7fELF")
}

/// `$ORIGIN` and its other spelling; any other name in it means a directory that is not there.
fn expand(path: &str, origin: &Path) -> PathBuf {
    let origin = origin.to_string_lossy();
    PathBuf::from(path.replace("${ORIGIN}", &origin).replace("$ORIGIN", &origin))
}

/// The words of a script's first line.
fn shebang(file: &File) -> Result<Option<Vec<String>>> {
    let mut head = Vec::new();
    file.take(256).read_to_end(&mut head).at("read", Path::new("a script"))?;
    let Some(rest) = head.strip_prefix(b"#!") else { return Ok(None) };
    let line = rest.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let words = String::from_utf8_lossy(line).split_whitespace().map(str::to_owned).collect();
    Ok(Some(words))
}

#[cfg(test)]
mod tests;
