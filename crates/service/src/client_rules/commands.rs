//! The simple commands of what a shell is given, as rules are written for them: after `&&`, in a pipe, in `$(…)`, behind
//! `sudo` or `env`, in `bash -c '…'`.
//!
//! The words of a command are no boundary, here as little as in a client: what a shell makes of variables is not seen. The
//! sandbox is the boundary. In doubt more is taken for a command than less.

/// Something that a rule may match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) text: String,
    pub(super) words: Vec<String>,
}

const DEEPEST: usize = 8;
/// Of one command: what all its parts together are long, and how many words of it a rule may name.
const MOST_BYTES: usize = 1 << 20;
const MOST_CANDIDATES: usize = 16 << 20;
const MOST_WORDS: usize = 32;
/// They start what comes behind them.
const STARTERS: &[&str] = &[
    "builtin", "busybox", "command", "coproc", "doas", "env", "exec", "function", "ionice", "nice", "nohup",
    "parallel", "setsid", "stdbuf", "sudo", "time", "timeout", "unshare", "watch", "xargs",
];
const SHELLS: &[&str] = &["ash", "bash", "dash", "ksh", "sh", "zsh"];
const KEYWORDS: &[&str] = &["!", "{", "}", "do", "elif", "else", "if", "then", "until", "while"];

/// None: there are more than anybody looks at.
pub(super) fn of_shell(text: &str) -> Option<Vec<Candidate>> {
    let mut found = Found::new();
    found.add(text.trim().to_owned(), Vec::new());
    found.shell(text, 0);
    found.done()
}

/// Is one of them a shell, which reads more from its input?
pub(super) fn starts_shell(candidates: &[Candidate]) -> bool {
    candidates.iter().any(|one| one.words.first().is_some_and(|first| SHELLS.contains(&base_name(first))))
}

pub(super) fn of_words(words: &[String]) -> Option<Vec<Candidate>> {
    let mut found = Found::new();
    found.command(words, 0);
    found.done()
}

struct Found {
    all: Vec<Candidate>,
    /// How many bytes of candidates are made still: what a hostile text comes to grows without a bound.
    left: usize,
}

impl Found {
    fn new() -> Self {
        Self { all: Vec::new(), left: MOST_CANDIDATES }
    }

    /// None: there were too many.
    fn done(self) -> Option<Vec<Candidate>> {
        (self.left > 0).then_some(self.all)
    }

    fn add(&mut self, text: String, words: Vec<String>) {
        self.left = self.left.saturating_sub(text.len() + 64);
        if !text.is_empty() && self.left > 0 {
            self.all.push(Candidate { text, words });
        }
    }

    /// One command, and what it starts.
    fn command(&mut self, words: &[String], depth: usize) {
        let length: usize = words.iter().map(String::len).sum();
        // Which of the words is the first of a command depends on the options of what starts it.
        let parts = if words.first().is_some_and(|first| STARTERS.contains(&base_name(first))) {
            (MOST_BYTES / length.max(1)).clamp(8, 256).min(words.len())
        } else {
            1
        };
        for at in 0..parts {
            self.one(&words[at..], depth);
        }
    }

    /// As it is, by the name of its program alone, and what a program that is known makes of its words.
    fn one(&mut self, words: &[String], depth: usize) {
        let Some(first) = words.first() else { return };
        if depth > DEEPEST || self.left == 0 {
            return;
        }
        let begin = words[..words.len().min(MOST_WORDS)].to_vec();
        self.add(words.join(" "), begin.clone());
        let name = base_name(first);
        if name != first {
            let mut short = begin;
            short[0] = name.to_owned();
            let rest = words[1..].iter().map(String::as_str);
            self.add(std::iter::once(name).chain(rest).collect::<Vec<_>>().join(" "), short);
        }
        let rest = &words[1..];
        if name == "find" {
            let starts = |word: &String| matches!(word.as_str(), "-exec" | "-execdir" | "-ok" | "-okdir");
            for at in (0..rest.len()).filter(|at| starts(&rest[*at])) {
                // What a `find` behind it starts is among these.
                if rest.get(at + 1).is_some_and(|word| base_name(word) != "find") {
                    self.command(&rest[at + 1..], depth + 1);
                }
            }
        }
        if name == "eval" {
            self.shell(&rest.join(" "), depth + 1);
        }
        if name == "trap"
            && let Some(text) = rest.iter().find(|word| !word.starts_with('-'))
        {
            self.shell(text, depth + 1);
        }
        // `-ec` and `-ce`; which of the words behind it is the text depends on the options among them.
        let is_c = |word: &String| word.starts_with('-') && !word.starts_with("--") && word.contains('c');
        if SHELLS.contains(&name)
            && let Some(at) = rest.iter().position(is_c)
        {
            for text in rest[at + 1..].iter().filter(|word| !word.starts_with(['-', '+'])).take(3) {
                self.shell(text, depth + 1);
            }
        }
    }

    fn shell(&mut self, text: &str, depth: usize) {
        if depth > DEEPEST || self.left == 0 {
            return;
        }
        let (commands, within) = Reader::new(text).read();
        for mut words in commands {
            let is_before = |word: &String| KEYWORDS.contains(&word.as_str()) || is_assignment(word);
            let before = words.iter().take_while(|word| is_before(word)).count();
            words.drain(..before);
            self.command(&words, depth);
        }
        for text in within {
            self.shell(&text, depth + 1);
        }
    }
}

fn base_name(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

fn is_assignment(word: &str) -> bool {
    let Some((name, _)) = word.split_once('=') else { return false };
    !name.is_empty()
        && !name.starts_with(|first: char| first.is_ascii_digit())
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

/// One pass over a text: the words of each command without their quotes, and the texts that are substituted.
struct Reader<'a> {
    rest: std::iter::Peekable<std::str::Chars<'a>>,
    word: Option<String>,
    /// The next word is where a redirection goes to.
    target: bool,
    /// It is what is read, `<<< 'text'`.
    is_text: bool,
    words: Vec<String>,
    commands: Vec<Vec<String>>,
    within: Vec<String>,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            rest: text.chars().peekable(),
            word: None,
            target: false,
            is_text: false,
            words: Vec::new(),
            commands: Vec::new(),
            within: Vec::new(),
        }
    }

    fn read(mut self) -> (Vec<Vec<String>>, Vec<String>) {
        while let Some(letter) = self.rest.next() {
            match letter {
                ' ' | '\t' | '\r' => self.end_word(),
                '\n' | ';' | '|' | '(' | ')' => self.end_command(),
                '&' if self.rest.peek() == Some(&'>') => self.end_word(),
                '&' => self.end_command(),
                '<' | '>' => self.redirection(),
                '#' if self.word.is_none() => while self.rest.next_if(|letter| *letter != '\n').is_some() {},
                '\\' => match self.rest.next() {
                    None | Some('\n') => {}
                    Some(letter) => self.push(letter),
                },
                '\'' => {
                    self.word.get_or_insert_default();
                    while let Some(letter) = self.rest.next().filter(|letter| *letter != '\'') {
                        self.push(letter);
                    }
                }
                '"' => self.quoted(),
                '$' if self.rest.next_if_eq(&'\'').is_some() => self.c_quoted(),
                '$' if self.rest.next_if_eq(&'"').is_some() => self.quoted(),
                '$' => self.dollar(),
                '`' => self.backticks(),
                letter => self.push(letter),
            }
        }
        self.end_command();
        (self.commands, self.within)
    }

    fn push(&mut self, letter: char) {
        self.word.get_or_insert_default().push(letter);
    }

    fn end_word(&mut self) {
        let Some(word) = self.word.take() else { return };
        match (std::mem::take(&mut self.target), std::mem::take(&mut self.is_text)) {
            (true, true) => self.within.push(word),
            (true, false) => {}
            (false, _) => self.words.push(word),
        }
    }

    fn end_command(&mut self) {
        self.end_word();
        (self.target, self.is_text) = (false, false);
        if !self.words.is_empty() {
            self.commands.push(std::mem::take(&mut self.words));
        }
    }

    fn redirection(&mut self) {
        // `2>` is no word.
        if self.word.as_ref().is_some_and(|word| word.bytes().all(|byte| byte.is_ascii_digit())) {
            self.word = None;
        }
        self.end_word();
        let mut more = 0;
        while self.rest.next_if(|letter| matches!(letter, '<' | '>' | '&' | '|')).is_some() {
            more += 1;
        }
        // The first one was read before.
        self.is_text = more == 2;
        self.target = true;
    }

    fn quoted(&mut self) {
        self.word.get_or_insert_default();
        while let Some(letter) = self.rest.next() {
            match letter {
                '"' => return,
                '\\' => match self.rest.next() {
                    None | Some('\n') => {}
                    Some(letter) => self.push(letter),
                },
                '$' => self.dollar(),
                '`' => self.backticks(),
                letter => self.push(letter),
            }
        }
    }

    /// `$'…'` has escapes, `$"…"` is `"…"`.
    fn c_quoted(&mut self) {
        self.word.get_or_insert_default();
        while let Some(letter) = self.rest.next() {
            match letter {
                '\'' => return,
                '\\' => {
                    if let Some(letter) = self.escape() {
                        self.push(letter);
                    }
                }
                letter => self.push(letter),
            }
        }
    }

    fn escape(&mut self) -> Option<char> {
        let letter = self.rest.next()?;
        let (radix, most, begun) = match letter {
            'n' => return Some('\n'),
            't' => return Some('\t'),
            'r' => return Some('\r'),
            'a' => return Some('\x07'),
            'b' => return Some('\x08'),
            'e' | 'E' => return Some('\x1b'),
            'f' => return Some('\x0c'),
            'v' => return Some('\x0b'),
            'c' => return self.rest.next().map(|letter| char::from(letter as u8 & 0x1f)),
            'x' => (16, 2, 0),
            'u' => (16, 4, 0),
            'U' => (16, 8, 0),
            '0'..='7' => (8, 2, letter as u32 - '0' as u32),
            other => return Some(other),
        };
        let mut number = begun;
        for _ in 0..most {
            let Some(digit) = self.rest.peek().and_then(|next| next.to_digit(radix)) else { break };
            self.rest.next();
            number = number.wrapping_mul(radix).wrapping_add(digit);
        }
        char::from_u32(number)
    }

    fn dollar(&mut self) {
        self.push('$');
        if self.rest.next_if_eq(&'(').is_none() {
            return;
        }
        let (mut text, mut open) = (String::new(), 1);
        for letter in self.rest.by_ref() {
            match letter {
                '(' => open += 1,
                ')' => open -= 1,
                _ => {}
            }
            if open == 0 {
                break;
            }
            text.push(letter);
        }
        self.keep(text);
    }

    fn backticks(&mut self) {
        let mut text = String::new();
        while let Some(letter) = self.rest.next().filter(|letter| *letter != '`') {
            match letter {
                '\\' => text.extend(self.rest.next()),
                letter => text.push(letter),
            }
        }
        self.keep(text);
    }

    /// The word goes on with what comes of it.
    fn keep(&mut self, text: String) {
        for letter in text.chars() {
            self.push(letter);
        }
        self.within.push(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<String> {
        of_shell(text).unwrap().into_iter().map(|candidate| candidate.text).collect()
    }

    #[test]
    fn commands_are_found_wherever_a_shell_finds_them() {
        for hidden in [
            "rm x",
            "  rm   x ",
            "true && rm x",
            "true;rm x",
            "true | rm x",
            "true & rm x",
            "(rm x)",
            "{ rm x; }",
            "if true; then rm x; fi",
            "for a in b; do rm x; done",
            "! rm x",
            "A=b C='d e' rm x",
            "> out rm x",
            "2>&1 rm x",
            "true &> out; rm x",
            "echo $(rm x)",
            "echo \"a $(rm x) b\"",
            "echo `rm x`",
            "echo \"`rm x`\"",
            "echo $(echo $(rm x))",
            "/bin/rm x",
            "sudo -u bob rm x",
            "env A=b rm x",
            "timeout -k 5 10 nice -n 3 rm x",
            "bash -c 'rm x'",
            "sh -ec \"true; rm x\"",
            "eval rm x",
            "eval 'rm x'",
            "find . -exec rm x \\;",
            "'rm' x",
            "r\\m x",
            "\"rm\" 'x'",
            "true # nothing\nrm x",
            "echo 'a;b' ; rm x",
            "sh -ce 'rm x'",
            "bash -cx 'rm x'",
            "bash -c -o errexit 'rm x'",
            "coproc rm x",
            "coproc P { rm x; }",
            "trap 'rm x' EXIT",
            "function f { rm x; }",
            "function f() { rm x; }",
            "f() { rm x; }; f",
            "bash <<< 'rm x'",
            "bash -s <<<\"rm x\"",
            ". /dev/stdin <<< 'rm x'",
            "$'rm' x",
            "$'r\\x6d' x",
            "$'\\162\\155' x",
            "r$'\\u006d' x",
            "true; $'\\x72m' $'x'",
            "bash -c $'true\\nrm x'",
            "$\"rm\" x",
            "echo $'it\\'s'; rm x",
            "echo \"$'\"; rm x",
        ] {
            assert!(
                texts(hidden).iter().any(|text| text.starts_with("rm x")),
                "{hidden}: {:?}",
                texts(hidden)
            );
        }
        for other in [
            "cat < 'rm x'",
            "echo 'a; rm x'",
            "echo \"; rm x\"",
            "echo # rm x",
            "echo rm x",
            "cat < rm",
            "echo a\\;rm x",
            "echo $'a\\'; rm x'",
            "echo $'a; rm x'",
        ] {
            assert!(!texts(other).iter().any(|text| text.starts_with("rm")), "{other}: {:?}", texts(other));
        }
        let words = ["sh", "-c", "rm x"].map(str::to_owned);
        assert!(of_words(&words).unwrap().iter().any(|candidate| candidate.text == "rm x"));
    }

    #[test]
    fn hostile_texts_end() {
        let nested = (0..7).fold("rm x".to_owned(), |text, _| {
            format!("sudo {} -c '{}'", "sh ".repeat(200), text.replace('\'', "'\\''"))
        });
        for text in [
            "$(".repeat(5_000),
            "sudo ".repeat(2_000),
            "`".repeat(999),
            "eval ".repeat(500),
            "\"$(\"".repeat(900),
            "find -exec ".repeat(900),
            nested,
        ] {
            of_shell(&text);
        }
    }
}
