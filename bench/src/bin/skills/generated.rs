//! Skills as people write them, by number: the same ones in each run.

const WORDS: &[&str] = &[
    "convert",
    "merge",
    "split",
    "extract",
    "report",
    "chart",
    "table",
    "invoice",
    "contract",
    "database",
    "query",
    "deploy",
    "container",
    "monitor",
    "schedule",
    "calendar",
    "email",
    "translate",
    "summary",
    "review",
    "format",
    "validate",
    "schema",
    "image",
    "resize",
    "audio",
    "transcribe",
    "spreadsheet",
    "document",
    "template",
    "browser",
    "security",
    "secret",
    "network",
    "backup",
    "restore",
    "archive",
    "compress",
    "encrypt",
];

pub(crate) struct Generator(u64);

pub(crate) struct Skill {
    pub(crate) domain: String,
    pub(crate) name: String,
    pub(crate) manifest: String,
}

impl Default for Generator {
    fn default() -> Self {
        Self(0x9e37_79b9_7f4a_7c15)
    }
}

impl Generator {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 20) as usize % bound
    }

    /// Few words that are everywhere, and many that are rare.
    fn word(&mut self) -> String {
        match self.below(4) {
            0 => format!("w{}", self.below(40_000)),
            _ => WORDS[self.below(WORDS.len())].to_owned(),
        }
    }

    fn words(&mut self, count: usize) -> String {
        (0..count).map(|_| self.word()).collect::<Vec<_>>().join(" ")
    }

    pub(crate) fn skill(&mut self, number: usize) -> Skill {
        let name = format!("{}-{}-{number}", self.word(), self.word());
        let description = self.words(25);
        let body = self.words(300);
        let manifest = format!(
            "---\nname: {name}\ndescription: {description}\nlicense: MIT\nallowed-tools: Bash Read\nmetadata:\n  author: bench\n  version: \"1.0\"\n---\n\n# {name}\n\n{body}\n"
        );
        Skill { domain: format!("domain-{}", number % 20), name, manifest }
    }
}

pub(crate) const QUERIES: &[&str] = &[
    "convert",
    "report",
    "invoice chart",
    "deploy container",
    "w1234",
    "spreadshet",
    "transcirbe audio",
    "make a chart of the invoices in my spreadsheet",
    "database backup",
    "presentaton",
];
