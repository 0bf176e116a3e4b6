//! What programs need beside the libraries that they are linked with, as data with a reason beside each entry: an interpreter is
//! nothing without its own library.

use std::path::{Path, PathBuf};

/// A part of the host's file tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Extra {
    pub(super) path: PathBuf,
    /// Names in it that are left out.
    pub(super) without: &'static [&'static str],
}

/// In every image of the host, where the host has them.
pub(super) const BASE: &[&str] = &[
    // How names are looked up.
    "/etc/nsswitch.conf",
    "/etc/services",
    "/etc/protocols",
    // The time zone, and which system this is.
    "/etc/localtime",
    "/etc/os-release",
    // Whom TLS trusts, and how.
    "/etc/ssl/openssl.cnf",
    "/usr/lib/ssl/openssl.cnf",
    "/usr/lib/ssl/certs",
    "/usr/lib/ssl/cert.pem",
    "/etc/pki/tls/certs/ca-bundle.crt",
    // What a terminal can do, for the usual ones.
    "/lib/terminfo/x/xterm",
    "/lib/terminfo/x/xterm-256color",
    "/lib/terminfo/l/linux",
    "/lib/terminfo/s/screen",
    "/lib/terminfo/d/dumb",
    "/usr/share/terminfo/x/xterm-256color",
];

/// The same, as whole directories.
pub(super) const BASE_TREES: &[&str] = &["/etc/ssl/certs", "/usr/lib/locale/C.utf8"];

/// Loaded by name when they are first needed, so that no program lists them.
pub(super) const LOADED_LATE: &[&str] = &["libgcc_s.so.1", "libnss_files.so.2", "libnss_dns.so.2"];

/// `--with coreutils`: what a shell script takes for granted.
pub(super) const COREUTILS: &[&str] = &[
    "basename",
    "cat",
    "chmod",
    "chown",
    "cp",
    "cut",
    "date",
    "dd",
    "df",
    "dirname",
    "du",
    "echo",
    "env",
    "expr",
    "false",
    "find",
    "grep",
    "head",
    "id",
    "ln",
    "ls",
    "mkdir",
    "mktemp",
    "mv",
    "nproc",
    "printf",
    "pwd",
    "readlink",
    "realpath",
    "rm",
    "rmdir",
    "sed",
    "seq",
    "sha256sum",
    "sleep",
    "sort",
    "stat",
    "tail",
    "tee",
    "test",
    "touch",
    "tr",
    "true",
    "uname",
    "uniq",
    "wc",
    "xargs",
];

/// Tests, editors and what is made for compiling against the interpreter.
const PYTHON_WITHOUT: &[&str] =
    &["test", "tests", "idlelib", "tkinter", "turtledemo", "dist-packages", "site-packages", "lib2to3"];

/// What `program` needs beside its libraries. `program` is where it really is.
pub(super) fn extras(program: &Path) -> Vec<Extra> {
    let name = program.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let prefix = program.parent().and_then(Path::parent).filter(|prefix| *prefix != Path::new("/"));
    let prefix = prefix.unwrap_or(Path::new("/usr"));
    let tree = |path: PathBuf| Extra { path, without: &[] };
    if let Some(version) = python_version(name) {
        let library = prefix.join("lib").join(format!("python{version}"));
        return vec![Extra { path: library, without: PYTHON_WITHOUT }];
    }
    if name == "perl" || name.starts_with("perl5") {
        let mut found = vec![tree("/etc/perl".into())];
        for directory in ["/usr/lib", "/usr/share", "/usr/lib64"].map(Path::new) {
            found.push(tree(directory.join("perl")));
            found.push(tree(directory.join("perl-base")));
            found.extend(
                multiarch(directory)
                    .into_iter()
                    .flat_map(|at| [tree(at.join("perl")), tree(at.join("perl-base"))]),
            );
        }
        return found;
    }
    if name == "git" {
        let places = ["lib/git-core", "libexec/git-core", "share/git-core/templates"];
        return places.iter().map(|place| tree(prefix.join(place))).collect();
    }
    // A script of a package is nothing without the rest of the package.
    let parts: Vec<_> = program.iter().collect();
    if let Some(at) = parts.iter().position(|part| *part == "node_modules") {
        let scoped = parts.get(at + 1).is_some_and(|part| part.to_string_lossy().starts_with('@'));
        let package: PathBuf = parts.iter().take(at + 2 + usize::from(scoped)).collect();
        return vec![tree(package)];
    }
    Vec::new()
}

/// 3.11 of python3.11
pub(super) fn python_version(name: &str) -> Option<&str> {
    let version = name.strip_prefix("python")?;
    let (major, minor) = version.split_once('.')?;
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (digits(major) && digits(minor)).then_some(version)
}

/// Where Debian has libraries of this machine: `/usr/lib/x86_64-linux-gnu`.
fn multiarch(directory: &Path) -> Vec<PathBuf> {
    vec![directory.join(format!("{}-linux-gnu", std::env::consts::ARCH))]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interpreters_have_their_libraries() {
        let paths = |program: &str| -> Vec<String> {
            extras(Path::new(program)).iter().map(|extra| extra.path.display().to_string()).collect()
        };
        assert_eq!(paths("/usr/bin/python3.11"), ["/usr/lib/python3.11"]);
        assert_eq!(paths("/usr/local/bin/python3.12"), ["/usr/local/lib/python3.12"]);
        assert_eq!(paths("/bin/git")[0], "/usr/lib/git-core");
        assert_eq!(paths("/usr/lib/node_modules/npm/bin/npm-cli.js"), ["/usr/lib/node_modules/npm"]);
        assert_eq!(paths("/usr/lib/node_modules/@a/b/c.js"), ["/usr/lib/node_modules/@a/b"]);
        assert_eq!(paths("/usr/bin/python3"), Vec::<String>::new());
        assert_eq!(paths("/usr/bin/ls"), Vec::<String>::new());
    }
}
