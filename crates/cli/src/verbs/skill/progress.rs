//! How far an installation is, by the lines that uv, pip and npm print. They are a hostile program's to forge: what is made
//! of them is shown, and decides nothing.

/// A line that says more than this is no name of a package.
const LONGEST_NAME: usize = 60;

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    /// How many packages there are, once that is known.
    pub(super) total: Option<u64>,
    pub(super) done: u64,
    /// The package, or the step, that the last line was about.
    pub(super) current: String,
}

impl Progress {
    pub(super) fn new(total: Option<u64>) -> Self {
        Self { total, ..Self::default() }
    }

    pub(super) fn hear(&mut self, line: &str) {
        let mut words = line.split_whitespace();
        match (words.next(), words.next(), words.next()) {
            (Some("=="), Some(step), _) => self.current = step.to_owned(),
            // uv
            (Some("Resolved"), Some(count), Some("package" | "packages")) => {
                self.total = count.parse().ok().filter(|count| *count > 0).or(self.total);
            }
            (Some("Prepared" | "Installed"), Some(count), Some("package" | "packages")) => {
                self.done = count.parse().unwrap_or(self.done);
            }
            (Some("Downloaded" | "Built"), Some(name), _) => self.finished(name),
            // pip
            (Some("Installing"), Some("collected"), Some("packages:")) => {
                let names = line.split_once(':').map_or("", |(_, names)| names);
                self.current = format!("{} packages", names.split(',').count());
            }
            (Some("Collecting" | "Downloading" | "Building"), Some(name), _) => self.about(name),
            // npm
            (Some("npm"), Some("http"), Some("fetch")) => self.fetched(words),
            _ => {}
        }
        if let Some(total) = self.total {
            self.done = self.done.min(total);
        }
    }

    /// The rest of `npm http fetch GET 200 URL …`.
    fn fetched<'a>(&mut self, mut words: impl Iterator<Item = &'a str>) {
        let Some(url) = words.find(|word| word.contains("://")) else { return };
        let path = url.split(['?', '#']).next().unwrap_or(url);
        let file = path.rsplit('/').next().unwrap_or(path);
        match file.strip_suffix(".tgz") {
            Some(name) => self.finished(name),
            None => self.about(&file.replace("%2f", "/").replace("%2F", "/")),
        }
    }

    fn finished(&mut self, name: &str) {
        self.done = self.done.saturating_add(1);
        self.about(name);
    }

    fn about(&mut self, name: &str) {
        let name = name.rsplit('/').next().filter(|_| !name.starts_with('@')).unwrap_or(name);
        if !name.is_empty() && name.chars().count() <= LONGEST_NAME {
            self.current = name.to_owned();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(total: Option<u64>, lines: &[&str]) -> (Option<u64>, u64, String) {
        let mut progress = Progress::new(total);
        lines.iter().for_each(|line| progress.hear(line));
        (progress.total, progress.done, progress.current)
    }

    #[test]
    fn uv_says_how_many_there_are() {
        let lines = [
            "== packages",
            "Resolved 3 packages in 12ms",
            "Downloading numpy (15.0MiB)",
            " Downloaded numpy",
        ];
        assert_eq!(after(None, &lines), (Some(3), 1, "numpy".into()));
        assert_eq!(after(None, &["Resolved 3 packages in 1ms", "Prepared 3 packages in 1s"]).1, 3);
    }

    #[test]
    fn pip_names_what_it_is_at() {
        let lines = [
            "Collecting requests>=2",
            "  Downloading https://x.example/a/requests-2.0-py3-none-any.whl (60 kB)",
        ];
        assert_eq!(after(None, &lines), (None, 0, "requests-2.0-py3-none-any.whl".into()));
        assert_eq!(after(None, &["Installing collected packages: a, b, c"]).2, "3 packages");
    }

    #[test]
    fn npm_counts_against_a_lock() {
        let lines = [
            "npm http fetch GET 200 https://r.example/@corp%2ftool 12ms (cache miss)",
            "npm http fetch GET 200 https://r.example/semver/-/semver-7.6.0.tgz 8ms (cache miss)",
        ];
        assert_eq!(after(Some(2), &lines), (Some(2), 1, "semver-7.6.0".into()));
        assert_eq!(after(None, &lines[..1]).2, "@corp/tool");
    }

    #[test]
    fn forged_lines_break_nothing() {
        let long = format!("Collecting {}", "x".repeat(5_000));
        let lines = [
            "Resolved 99999999999999999999 packages",
            "Resolved 0 packages",
            "Prepared -1 packages",
            "npm http fetch",
            "==",
            &long,
        ];
        assert_eq!(after(None, &lines), (None, 0, String::new()));
        assert_eq!(after(Some(2), &["Downloaded a", "Downloaded b", "Downloaded c"]).1, 2);
    }
}
