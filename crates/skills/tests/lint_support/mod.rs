//! A skill in a directory of its own, and what lint says of it.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::path::Path;

use ringfence_skills::{Finding, LintInput, Loaded, Manifest, Tree, TreeLimits, Undeclared, lint, load};

pub(crate) struct Skill {
    directory: tempfile::TempDir,
    pub(crate) tools: Vec<String>,
    pub(crate) undeclared: Vec<Undeclared>,
}

impl Skill {
    pub(crate) fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap(), tools: Vec::new(), undeclared: Vec::new() }
    }

    pub(crate) fn file(self, path: &str, content: impl AsRef<[u8]>) -> Self {
        let file = self.directory.path().join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, content).unwrap();
        self
    }

    pub(crate) fn manifest(self, body: &str) -> Self {
        self.file("SKILL.md", format!("---\nname: demo\ndescription: A demonstration.\n---\n{body}\n"))
    }

    pub(crate) fn tool(mut self, tool: &str) -> Self {
        self.tools.push(tool.to_owned());
        self
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn lint(&self) -> Vec<Finding> {
        let tree = Tree::read(self.path(), TreeLimits::default(), |_, _| false).unwrap();
        let bytes = std::fs::read(self.path().join("SKILL.md")).unwrap_or_default();
        let texts = load(&bytes, "demo").map(|loaded| loaded.texts).unwrap_or_default();
        let manifest = Manifest {
            name: "demo".into(),
            description: "A demonstration.".into(),
            license: None,
            compatibility: None,
            allowed_tools: self.tools.clone(),
            metadata: Default::default(),
            extra: Default::default(),
            body: String::new(),
        };
        let loaded = Loaded { manifest, warnings: Vec::new(), texts, frontmatter: Default::default() };
        lint(&LintInput { tree: &tree, manifest: Ok(&loaded), undeclared: &self.undeclared })
    }

    pub(crate) fn rules(&self) -> Vec<&'static str> {
        let mut rules: Vec<_> = self.lint().into_iter().map(|finding| finding.rule).collect();
        rules.sort_unstable();
        rules.dedup();
        rules
    }
}
