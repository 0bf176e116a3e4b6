//! Manifests of every kind, valid and not, from a seed: first a whole one from parts, then mutations of it.

/// SplitMix64: small, and the same everywhere.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }

    /// True once in so many times.
    fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }
}

/// A directory name and the bytes of a manifest.
pub(crate) fn manifest(random: &mut Random) -> (String, Vec<u8>) {
    let name = if random.once_in(3) { random.pick(NAMES) } else { random.pick(&NAMES[..12]) };
    let directory = if random.once_in(12) { "other" } else { directory_of(name) };
    let mut text = whole(random, name);
    // Half of all stay as they are: else hardly any would be valid.
    if random.once_in(2) {
        for _ in 0..1 + random.below(3) {
            mutate(random, &mut text);
        }
    }
    let mut bytes = text.into_bytes();
    if random.once_in(60) {
        let at = random.below(bytes.len() + 1);
        bytes.insert(at, random.pick(&[&0xff_u8, &0xc3, &0x00, &0x07, &0x7f, &0xed]).to_owned());
    }
    (directory.to_owned(), bytes)
}

/// The last part of a path can't be these.
fn directory_of(name: &str) -> &str {
    let plain = name.trim_matches(['"', '\'']);
    if plain.is_empty() || plain.contains(['/', '\0']) || matches!(plain, "." | "..") {
        "other"
    } else {
        plain
    }
}

#[rustfmt::skip]
const NAMES: &[&str] = &[
    "pdf", "pdf", "pdf-tools", "a", "a1", "123", "x-1-y", "\"pdf\"", "'pdf'", "naïve", "技能", "навык",
    "été-2", "ﬁle", "①", "ǆ", "ß", "ς", "Σας", "PDF", "Pdf-tools", "-pdf", "pdf-", "pdf--tools",
    "pdf_tools", "pdf tools", "pdf.tools", "ａｂｃ", "yes", "null", "1.10", "2024-01-01", "~", "=",
    "\"a\\u0301\"", "🦀", "अ", "हिन्दी", "İ", "ⅷ", "ª", "½",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "", "true", "0x1f", "\"\\ud800\"",
    "<<",
];

/// How a value can be written behind its key; `\n` inside are indented by the caller's two spaces already.
#[rustfmt::skip]
const VALUES: &[&str] = &[
    " Reads PDF files.", " Reads PDF files. Use when asked.", " short", " \"quoted: text\"",
    " 'it''s quoted'", " x # comment", " |\n  one\n  two", " >\n  one\n  two\n\n  three",
    " >-\n  one\n   indented\n  two", " |+\n  one\n\n\n", " |2\n    one\n   two", " |-  # comment\n  one",
    " plain\n  on two lines", " plain\n\n  with a gap", " \"double\n  on two\\\n  lines\"",
    " 'single\n\n  on lines'", "", " ", " # only a comment", "\n  # comment\n  text", "\n  text",
    " \"tab\\tescape \\x41 \\u00e9\"", " \"\"", " ''", " null", " ~", " yes", " 12", " 1.10",
    " 2024-01-01", " =", " a: b", " a:b", " http://x.y/z", " a #b", " a#b", " - a", " -a", " ?a", " :a",
    " @a", " `a`", " %a", " [a, b]", " {a: b}", " *", " *a", " &a b", " !!str a", " ! a", " \"a\" b",
    " 'a' b", " | text", " > text", " |0\n  a", "\ttab", " a\tb", " a\t", " \\", " 'open", " \"open",
    " \"bad \\q\"", " a --- b", " é\u{85}x", " a\u{2028}b", " a\u{2028}\n  b", " \u{feff}a",
    " \"\\U0001F600\"", " \"\\U00110000\"", " \"\\x1c\"", " ...", " a\n...", "\n- a\n- b",
    "\n  - a\n  - b", "\n  -\n  - b", "\n- - a\n  - b\n- c: d\n  e: f", "\n  a: b", "\n  a: b\n  c: d",
    "\n  a:\n    b: c\n  d:\n    e: f", "\n  a:\n    b: c\n  d:\n      e: f", "\n  a: b\n  a: c",
    "\n  <<:\n    a: b", "\n  <<: a", "\n  ? a\n  : b", "\n  ? - a\n  : b", "\n  ? a: b\n  : c", "\n  : b",
    "\n  ? a", "\n  a: |\n    x\n\n  # comment\n  b: y", "\n  a:\n  # comment\n\n  b: c # d\n  # e\n",
    "\n  a: # one\n    # two\n    - b # three\n    # four\n    - c",
    "\n  - # a\n    b\n  # c\n\n  -\n    # d\n    e", "\n  'a': \"b\"\n  \"c\" : d\n  e : f",
    " |\n  a\n # less\n", " >\n\n  a\n   \n  b\n ", " |\n\n   a\n  b", "\n  a:\n\n\n  b:\n",
    "\n\n\n  a: b", "\n  a: 'x'\n\n\t b: c", " # c\n\n\t a", "\n    a: b\n  c: d", "\n  a: b\n    c: d",
    "\n  a: b\n c: d", "\n  version: 1.10\n  date: 2024-01-01\n  on: yes",
];

#[rustfmt::skip]
const KEYS: &[&str] = &["license", "compatibility", "metadata", "allowed-tools"];
#[rustfmt::skip]
const ODD_KEYS: &[&str] = &[
    "version", "Name", "\"license\"", "'metadata'", "tools", "name", "description", "<<", "? license\n",
    "a b", "x-y", "=", "\"\"", "metadata ",
];

fn whole(random: &mut Random, name: &str) -> String {
    let mut lines = Vec::new();
    if !random.once_in(40) {
        lines.push(format!("name: {name}"));
    }
    if !random.once_in(40) {
        let value = if random.once_in(3) { long_value(random) } else { value(random) };
        lines.push(format!("description:{value}"));
    }
    for key in KEYS {
        if random.once_in(3) {
            let value =
                if *key == "compatibility" && random.once_in(4) { long_value(random) } else { value(random) };
            lines.push(format!("{key}:{value}"));
        }
    }
    if random.once_in(12) {
        lines.push(format!("{}:{}", random.pick(ODD_KEYS), value(random)));
    }
    if random.once_in(8) {
        let at = random.below(lines.len() + 1);
        lines.insert(
            at,
            random.pick(&["# a comment", "", "  # indented", " ", "\t", "# one\n\n# two", "\n\n"]).to_owned(),
        );
    }
    if random.once_in(3) {
        let length = lines.len();
        for at in 0..length {
            lines.swap(at, random.below(length));
        }
    }
    let opening = if random.once_in(15) {
        random.pick(&[
            "--- ",
            "---\n",
            "----\n",
            "--- # comment\n",
            "---\t\n",
            "\u{feff}---\n",
            "\n---\n",
            " ---\n",
            "---",
            "--\n",
            "<!-- x -->\n---\n",
            "---\u{feff}\n",
        ])
    } else {
        "---\n"
    };
    let closing = if random.once_in(15) {
        random.pick(&[
            "---",
            "----\n",
            " ---\n",
            "...\n---\n",
            "... # x\n---\n",
            "...\n...\n---\n",
            "",
            "--\n",
            "--- # c\n",
            "# c ---\n",
        ])
    } else {
        "---\n"
    };
    let body = random.pick(&["", "\n# Title\n\nText.\n", "text --- more\n---\n", "\u{0}", "\u{7}"]);
    let text = format!("{opening}{}\n{closing}{body}", lines.join("\n"));
    match random.below(14) {
        0 => text.replace('\n', "\r\n"),
        1 if random.once_in(4) => text.replace('\n', "\r"),
        _ => text,
    }
}

/// Mostly what is likely to be valid.
fn value(random: &mut Random) -> String {
    let among = if random.once_in(3) { VALUES.len() } else { 16 };
    VALUES[random.below(among)].to_owned()
}

/// Near the limits of 500 and 1024 characters.
fn long_value(random: &mut Random) -> String {
    let unit = random.pick(&["a", "é", "技", "🦀"]);
    let length = random.pick(&[&499_usize, &500, &501, &1022, &1023, &1024, &1025]);
    let text = unit.repeat(*length);
    match random.below(5) {
        0 => format!(" |\n  {text}"),
        1 => format!(" >-\n  {text}"),
        2 => format!(" \"{text} \""),
        _ => format!(" {text}"),
    }
}

#[rustfmt::skip]
const SNIPPETS: &[&str] = &[
    ": ", ":", " ", "  ", "\n", "\n\n", "\t", "#", " # c", "\n# c\n", "\n  # c\n", "- ", "-", "\n- ", "? ",
    "\n? ", "'", "\"", "|", ">", "\\", "&a ", "*a", "!", "!!str ", "[", "]", "{", "}", ",", "%", "@", "`",
    "---", "...", "\n...\n", "<<", "=", "\u{85}", "\u{2028}", "\u{2029}", "\u{feff}", "\u{a0}", "\u{200b}",
    "é", "🦀", "a", "name: b\n", "\nname: b", "\n  ", "\n    ", "\r", "\r\n", "|\n", ">-\n  ", "\u{7f}",
    "\u{fffe}", "''", "\\\n", "  \n", "\n \n",
];

fn mutate(random: &mut Random, text: &mut String) {
    let characters: Vec<char> = text.chars().collect();
    // Mostly in the frontmatter.
    let reach = if random.once_in(6) {
        characters.len()
    } else {
        text.split("\n---").next().unwrap_or("").chars().count()
    };
    let at = random.below(reach + 1).min(characters.len());
    let end = (at + 1 + random.below(3)).min(characters.len());
    let join = |parts: [&[char]; 3]| parts.concat().into_iter().collect::<String>();
    *text = match random.below(8) {
        0 => join([&characters[..at], &[], &characters[end..]]),
        1 => join([&characters[..at], &characters[at..end], &characters[at..]]),
        2 => {
            let mut lines: Vec<&str> = text.split('\n').collect();
            let from = lines.remove(random.below(lines.len()));
            lines.insert(random.below(lines.len() + 1), from);
            lines.join("\n")
        }
        3 => {
            let mut lines: Vec<String> = text.split('\n').map(str::to_owned).collect();
            let line = random.below(lines.len());
            let line = &mut lines[line];
            if random.once_in(2) {
                line.insert_str(0, random.pick(&[" ", "  ", "    ", "\t"]))
            } else {
                *line = line.trim_start().to_owned()
            }
            lines.join("\n")
        }
        _ => {
            let snippet: Vec<char> = random.pick(SNIPPETS).chars().collect();
            let after = if random.once_in(4) { end } else { at };
            join([&characters[..at], &snippet, &characters[after..]])
        }
    };
}
