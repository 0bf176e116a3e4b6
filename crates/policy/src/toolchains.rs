//! Which directories make up the toolchains that PATH reaches in the home directory: reviewed data.
//!
//! Pure: paths are taken apart as text, and what is returned need not exist. A directory that a toolchain needs is
//! named together with the files in it that hold credentials. The home directory itself is never returned.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

/// A directory to show, with the files below it that stay hidden.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolchainDir {
    pub path: PathBuf,
    pub hide: Vec<PathBuf>,
}

/// A directory below home, or where its variable says.
struct Dir {
    home: &'static str,
    variable: Option<&'static str>,
    /// Credentials, relative to the directory.
    hide: &'static [&'static str],
}

/// If PATH reaches the first directory (or its variable names a place below home), all of them are needed.
struct Toolchain(&'static [Dir]);

const fn dir(home: &'static str) -> Dir {
    Dir { home, variable: None, hide: &[] }
}

const fn at(home: &'static str, variable: &'static str) -> Dir {
    Dir { home, variable: Some(variable), hide: &[] }
}

const fn hiding(dir: Dir, hide: &'static [&'static str]) -> Dir {
    Dir { hide, ..dir }
}

const TOOLCHAINS: &[Toolchain] = &[
    // `.cargo/config.toml` stays: it names vendored sources, without which an offline build fails.
    Toolchain(&[
        hiding(at(".cargo", "CARGO_HOME"), &["credentials", "credentials.toml"]),
        at(".rustup", "RUSTUP_HOME"),
    ]),
    Toolchain(&[at(".rustup", "RUSTUP_HOME")]),
    Toolchain(&[at(".pyenv", "PYENV_ROOT")]),
    Toolchain(&[at(".nvm", "NVM_DIR")]),
    Toolchain(&[at(".volta", "VOLTA_HOME")]),
    Toolchain(&[at(".asdf", "ASDF_DATA_DIR"), at(".asdf", "ASDF_DIR")]),
    Toolchain(&[dir(".local/share/mise")]),
    Toolchain(&[dir(".local/share/fnm")]),
    Toolchain(&[dir(".fnm")]),
    Toolchain(&[at("go", "GOPATH")]),
    // Not the whole of `.local/share`: keyrings and application data are there.
    Toolchain(&[
        dir(".local/bin"),
        dir(".local/lib"),
        hiding(dir(".local/share/uv"), &["credentials"]),
        dir(".local/share/pipx"),
        dir(".local/pipx"),
    ]),
    Toolchain(&[hiding(dir(".local/share/uv"), &["credentials"])]),
    Toolchain(&[at(".bun", "BUN_INSTALL")]),
    Toolchain(&[at(".deno", "DENO_INSTALL")]),
    Toolchain(&[at(".rbenv", "RBENV_ROOT")]),
    Toolchain(&[dir(".rvm")]),
    Toolchain(&[hiding(dir(".gem"), &["credentials"])]),
    Toolchain(&[hiding(dir(".local/share/gem"), &["credentials"])]),
    Toolchain(&[at(".sdkman", "SDKMAN_DIR")]),
    Toolchain(&[dir(".ghcup"), hiding(dir(".cabal"), &["config"])]),
    Toolchain(&[hiding(dir(".cabal"), &["config"])]),
    Toolchain(&[dir(".juliaup"), hiding(dir(".julia"), &["servers"])]),
    Toolchain(&[hiding(dir("miniconda3"), &[".condarc"])]),
    Toolchain(&[hiding(dir("anaconda3"), &[".condarc"])]),
    Toolchain(&[hiding(dir("miniforge3"), &[".condarc"])]),
    Toolchain(&[hiding(dir("mambaforge"), &[".condarc"])]),
    Toolchain(&[hiding(dir("micromamba"), &[".condarc"])]),
    Toolchain(&[dir(".npm-global")]),
    Toolchain(&[at(".local/share/pnpm", "PNPM_HOME")]),
    Toolchain(&[dir(".pnpm")]),
    Toolchain(&[dir(".yarn")]),
    Toolchain(&[hiding(dir(".composer"), &["auth.json"])]),
    Toolchain(&[hiding(dir(".config/composer"), &["auth.json"])]),
    Toolchain(&[dir(".dotnet"), dir(".nuget/packages")]),
    Toolchain(&[dir(".opam")]),
    Toolchain(&[dir(".elan")]),
    Toolchain(&[dir(".nodenv")]),
    Toolchain(&[dir(".goenv")]),
    Toolchain(&[dir(".jenv")]),
];

/// Variables that name one toolchain's directory outright.
const PLACES: [&str; 4] = ["GOROOT", "JAVA_HOME", "VIRTUAL_ENV", "CONDA_PREFIX"];

/// What programs in an unknown `…/bin` look for beside it. Not the whole parent: that may be `~/Documents`.
const BESIDE_BIN: [&str; 5] = ["lib", "lib64", "libexec", "include", "pyvenv.cfg"];

/// The directories to show for this PATH, without duplicates, in the order that PATH reaches them.
///
/// `locators` are the caller's variables, of which `CARGO_HOME` and the like are used.
pub fn toolchains_for_path(
    path_var: &str,
    home: &Path,
    locators: &BTreeMap<String, String>,
) -> Vec<ToolchainDir> {
    let mut found = Found { home, dirs: Vec::new() };
    if !home.is_absolute() || home.parent().is_none() {
        return found.dirs;
    }
    for entry in path_var.split(':').filter_map(plain) {
        if !found.known(&entry, locators) && entry.starts_with(home) {
            found.unknown(&entry);
        }
    }
    for Toolchain(dirs) in TOOLCHAINS {
        let named = dirs[0].variable.and_then(|name| locators.get(name)).and_then(|value| plain(value));
        if named.is_some_and(|place| place.starts_with(home)) {
            found.toolchain(dirs, locators);
        }
    }
    for place in PLACES.iter().filter_map(|name| plain(locators.get(*name)?)) {
        if place.starts_with(home) {
            found.push(place, Vec::new());
        }
    }
    found.dirs
}

/// Where the toolchains that are known here are in a home: places that programs are installed to, whatever PATH says.
pub fn usual_toolchains(home: &Path) -> Vec<PathBuf> {
    TOOLCHAINS.iter().flat_map(|Toolchain(dirs)| dirs.iter()).map(|dir| home.join(dir.home)).collect()
}

/// An absolute path without `.` and `..`, or nothing: a PATH entry that needs the filesystem to be understood is
/// not followed.
fn plain(text: &str) -> Option<PathBuf> {
    let path = Path::new(text);
    let clean = |c: Component<'_>| matches!(c, Component::Normal(_) | Component::RootDir);
    (path.is_absolute() && !text.contains('\0') && path.components().all(clean))
        .then(|| path.components().collect())
}

impl Dir {
    fn place(&self, home: &Path, locators: &BTreeMap<String, String>) -> PathBuf {
        let named = self.variable.and_then(|name| locators.get(name)).and_then(|value| plain(value));
        named.unwrap_or_else(|| home.join(self.home))
    }
}

struct Found<'a> {
    home: &'a Path,
    dirs: Vec<ToolchainDir>,
}

impl Found<'_> {
    /// Adds the toolchains that this entry of PATH is part of.
    fn known(&mut self, entry: &Path, locators: &BTreeMap<String, String>) -> bool {
        let mut any = false;
        for Toolchain(dirs) in TOOLCHAINS {
            if entry.starts_with(dirs[0].place(self.home, locators)) {
                self.toolchain(dirs, locators);
                any = true;
            }
        }
        any
    }

    fn toolchain(&mut self, dirs: &[Dir], locators: &BTreeMap<String, String>) {
        for dir in dirs {
            let place = dir.place(self.home, locators);
            let hide = dir.hide.iter().map(|name| place.join(name)).collect();
            self.push(place, hide);
        }
    }

    /// A directory of PATH that no toolchain here is known for: itself, and what lies beside a `bin`.
    fn unknown(&mut self, entry: &Path) {
        self.push(entry.to_owned(), Vec::new());
        if entry.file_name().is_some_and(|name| name == "bin")
            && let Some(parent) = entry.parent().filter(|parent| *parent != self.home)
        {
            for name in BESIDE_BIN {
                self.push(parent.join(name), Vec::new());
            }
        }
    }

    /// Adds a directory, unless it is home, a parent of home or a top directory, or is shown already.
    fn push(&mut self, path: PathBuf, hide: Vec<PathBuf>) {
        if self.home.starts_with(&path) || path.components().count() < 3 {
            return;
        }
        if let Some(outer) = self.dirs.iter_mut().find(|dir| path.starts_with(&dir.path)) {
            let new = hide.into_iter().filter(|hidden| !outer.hide.contains(hidden)).collect::<Vec<_>>();
            outer.hide.extend(new);
            return;
        }
        // A directory that holds some of the others takes their place.
        let mut dir = ToolchainDir { path, hide };
        let position = self.dirs.iter().position(|inner| inner.path.starts_with(&dir.path));
        self.dirs.retain_mut(|inner| {
            let inside = inner.path.starts_with(&dir.path);
            if inside {
                let new =
                    inner.hide.drain(..).filter(|hidden| !dir.hide.contains(hidden)).collect::<Vec<_>>();
                dir.hide.extend(new);
            }
            !inside
        });
        self.dirs.insert(position.unwrap_or(self.dirs.len()), dir);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn dirs(path: &str, variables: &[(&str, &str)]) -> Vec<String> {
        let locators = variables.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let line = |dir: ToolchainDir| {
            let hidden: Vec<_> = dir.hide.iter().map(|p| format!(" -{}", p.display())).collect();
            format!("{}{}", dir.path.display(), hidden.concat())
        };
        toolchains_for_path(path, Path::new("/home/u"), &locators).into_iter().map(line).collect()
    }

    #[test]
    fn cargo_brings_rustup_and_hides_tokens() {
        assert_eq!(
            dirs("/home/u/.cargo/bin:/usr/bin:/home/u/.cargo/bin/", &[]),
            [
                "/home/u/.cargo -/home/u/.cargo/credentials -/home/u/.cargo/credentials.toml",
                "/home/u/.rustup"
            ]
        );
    }

    #[test]
    fn usual_places_are_those_of_known_toolchains_only() {
        let usual = usual_toolchains(Path::new("/home/u"));
        let has = |path: &str| usual.iter().any(|place| Path::new(path).starts_with(place));
        assert!(has("/home/u/.pyenv/versions/3/bin/python3") && has("/home/u/.local/bin/uv"));
        assert!(
            !has("/home/u/project/.venv/bin/python3") && !has("/home/u/bin") && !has("/home/u/.local/share")
        );
    }

    #[test]
    fn variables_move_a_toolchain_also_out_of_home() {
        assert_eq!(
            dirs(
                "/opt/rust/cargo/bin",
                &[("CARGO_HOME", "/opt/rust/cargo"), ("RUSTUP_HOME", "/opt/rust/up")]
            ),
            [
                "/opt/rust/cargo -/opt/rust/cargo/credentials -/opt/rust/cargo/credentials.toml",
                "/opt/rust/up"
            ]
        );
        assert!(dirs("/usr/bin", &[("CARGO_HOME", "/opt/rust/cargo")]).is_empty());
        assert_eq!(dirs("/usr/bin", &[("GOPATH", "/home/u/gocode")]), ["/home/u/gocode"]);
    }

    #[test]
    fn order_is_that_of_path() {
        let path = "/home/u/.nvm/versions/node/v20/bin:/home/u/.pyenv/shims:/home/u/.local/bin:/usr/bin";
        assert_eq!(
            dirs(path, &[]),
            [
                "/home/u/.nvm",
                "/home/u/.pyenv",
                "/home/u/.local/bin",
                "/home/u/.local/lib",
                "/home/u/.local/share/uv -/home/u/.local/share/uv/credentials",
                "/home/u/.local/share/pipx",
                "/home/u/.local/pipx",
            ]
        );
    }

    #[test]
    fn an_unknown_bin_shows_no_more_than_it_needs() {
        assert_eq!(dirs("/home/u/bin", &[]), ["/home/u/bin"]);
        let tool = dirs("/home/u/Documents/tool/bin", &[]);
        assert_eq!(tool[0], "/home/u/Documents/tool/bin");
        assert!(tool.contains(&"/home/u/Documents/tool/lib".to_owned()));
        assert!(!tool.iter().any(|dir| dir == "/home/u/Documents/tool" || dir == "/home/u/Documents"));
    }

    #[test]
    fn home_and_its_parents_are_never_shown() {
        let home =
            [("CARGO_HOME", "/home/u"), ("GOROOT", "/home"), ("JAVA_HOME", "/"), ("NVM_DIR", "/home/u/")];
        assert_eq!(dirs("/home/u:/home:/:.::bin:/home/u/../v/bin", &home), ["/home/u/.rustup"]);
    }

    #[test]
    fn an_outer_directory_takes_in_the_inner_ones() {
        let path = "/home/u/.local/bin";
        let shown = dirs(path, &[("VIRTUAL_ENV", "/home/u/.local")]);
        assert_eq!(shown, ["/home/u/.local -/home/u/.local/share/uv/credentials"]);
    }

    proptest! {
        #[test]
        fn any_path_is_safe(
            entries in proptest::collection::vec("(/home/u|/home|/opt)?(/(\\.cargo|\\.local|go|bin|\\.\\.|x|share)){0,4}/?", 0..8),
            cargo in "(/home/u|/home|/)?(/[a-c]){0,3}",
        ) {
            let home = Path::new("/home/u");
            let locators = BTreeMap::from([("CARGO_HOME".to_owned(), cargo)]);
            let shown = toolchains_for_path(&entries.join(":"), home, &locators);
            for (i, dir) in shown.iter().enumerate() {
                prop_assert!(dir.path.is_absolute() && !home.starts_with(&dir.path));
                prop_assert!(dir.hide.iter().all(|hidden| hidden.starts_with(&dir.path)));
                for other in &shown[i + 1..] {
                    prop_assert!(!other.path.starts_with(&dir.path) && !dir.path.starts_with(&other.path));
                }
            }
            prop_assert_eq!(&shown, &toolchains_for_path(&entries.join(":"), home, &locators));
        }
    }
}
