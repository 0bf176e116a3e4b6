//! Credentials in text that is about to be written down or shown: what has the form of a token, stands behind the name of
//! a secret, or is the password of an address is masked.
//!
//! A guess by form, so that a record holds no secret by accident; values that are known are masked as well. What has no form
//! and no name can't be told from any other word.

/// What is there instead.
pub const MASKED: &str = "[masked]";

/// Beginnings of tokens, with whose they are.
const PREFIXES: &[(&str, &str)] = &[
    ("AKIA", "aws access key"),
    ("ASIA", "aws session key"),
    ("ghp_", "github token"),
    ("gho_", "github token"),
    ("ghu_", "github token"),
    ("ghs_", "github token"),
    ("ghr_", "github token"),
    ("github_pat_", "github token"),
    ("glpat-", "gitlab token"),
    ("xoxa-", "slack token"),
    ("xoxb-", "slack token"),
    ("xoxp-", "slack token"),
    ("sk-", "model provider key"),
    ("sk_live_", "stripe key"),
    ("rk_live_", "stripe key"),
    ("AIza", "google key"),
    ("GOCSPX-", "google client secret"),
    ("npm_", "npm token"),
    ("pypi-", "pypi token"),
    ("hf_", "hugging face token"),
    ("dop_v1_", "digitalocean token"),
    ("eyJ", "json web token"),
    ("rf_", "key of this server"),
];
/// A shorter word is no token, whatever it begins with.
const SHORTEST_TOKEN: usize = 16;

/// Parts of names that secrets have.
const NAMES: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "pwd",
    "secret",
    "token",
    "apikey",
    "api-key",
    "api_key",
    "access-key",
    "access_key",
    "accesskey",
    "private-key",
    "private_key",
    "credential",
    "authorization",
    "session-key",
    "session_key",
    "cookie",
];
/// A known value that is shorter would be found in innocent words.
const SHORTEST_KNOWN: usize = 6;

/// Would something of this name hold a secret?
pub fn is_secret_name(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    NAMES.iter().any(|part| lower.contains(part))
}

/// The values among these variables that are to be taken for secrets wherever they turn up.
pub fn secret_values<'a>(variables: impl IntoIterator<Item = (&'a String, &'a String)>) -> Vec<String> {
    // What is long and has no blank and no slash is no ordinary word, and no path.
    const LONG: usize = 12;
    let is_one = |name: &str, value: &str| {
        value.len() >= SHORTEST_KNOWN
            && (is_secret_name(name) || (value.len() >= LONG && !value.contains(['/', ' ', '\n'])))
    };
    variables
        .into_iter()
        .filter(|(name, value)| is_one(name, value))
        .map(|(_, value)| value.clone())
        .collect()
}

/// A variable's value, fit to be shown.
pub fn masked_variable(name: &str, value: &str) -> String {
    if is_secret_name(name) && !value.is_empty() { MASKED.to_owned() } else { masked_text(value, &[]) }
}

/// The words of a command, fit to be written down. `known` are values that are secret whatever they look like.
pub fn masked_words<S: AsRef<str>>(words: &[S], known: &[&str]) -> Vec<String> {
    let mut shown: Vec<String> = Vec::with_capacity(words.len());
    let mut before: Option<&str> = None;
    let mut by_p = false;
    for word in words {
        let word = word.as_ref();
        if by_p && let Some(head) = password_by_p(word) {
            shown.push(format!("{head}{MASKED}"));
            before = Some(word);
            continue;
        }
        by_p |= takes_password_by_p(word.rsplit('/').next().unwrap_or(word));
        let named =
            before.is_some_and(|flag| flag.starts_with('-') && !flag.contains('=') && is_secret_name(flag));
        let user = matches!(before, Some("-u" | "--user" | "--proxy-user"));
        shown.push(match word.split_once(':') {
            _ if named && !word.starts_with('-') => MASKED.to_owned(),
            Some((name, password)) if user && !password.is_empty() => format!("{name}:{MASKED}"),
            _ => masked_text(word, known),
        });
        before = Some(word);
    }
    shown
}

/// A text, fit to be written down.
pub fn masked_text(text: &str, known: &[&str]) -> String {
    let mut text = text.to_owned();
    for value in known.iter().filter(|value| value.len() >= SHORTEST_KNOWN) {
        text = text.replace(value, MASKED);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text.as_str();
    let mut by_p = false;
    while let Some(first) = rest.chars().next() {
        let name = &rest[..run(rest, is_name)];
        by_p = match first {
            '\n' | ';' | '|' | '&' => false,
            _ => by_p || takes_password_by_p(name),
        };
        if by_p && let Some(head) = password_by_p(name) {
            out.push_str(head);
            out.push_str(MASKED);
            rest = &rest[run(rest, is_value)..];
        } else if let Some(after) = private_key(rest) {
            out.push_str(MASKED);
            rest = after;
        } else if let Some((head, after)) = address_password(rest) {
            out.push_str(head);
            out.push_str(MASKED);
            rest = after;
        } else if is_name(first) {
            rest = word(rest, &mut out);
        } else {
            out.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    out
}

/// Programs whose `-pWORD` is a password, with nothing in between.
fn takes_password_by_p(program: &str) -> bool {
    const PROGRAMS: [&str; 9] = [
        "mysql",
        "mysqldump",
        "mysqladmin",
        "mysqlimport",
        "mysqlsh",
        "mariadb",
        "mariadb-dump",
        "mariadb-admin",
        "sshpass",
    ];
    PROGRAMS.contains(&program)
}

/// `-p`, where a password follows it at once.
fn password_by_p(word: &str) -> Option<&str> {
    word.strip_prefix("-p").filter(|password| !password.is_empty()).map(|_| "-p")
}

fn is_name(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '_' | '-')
}

fn is_value(character: char) -> bool {
    !(character.is_whitespace()
        || matches!(character, '"' | '\'' | '`' | '&' | ';' | ',' | ')' | '}' | '|' | '>'))
}

/// Where a run of such characters ends.
fn run(text: &str, of: fn(char) -> bool) -> usize {
    text.find(|character| !of(character)).unwrap_or(text.len())
}

/// One word and what is said to be its value; what comes after.
fn word<'a>(text: &'a str, out: &mut String) -> &'a str {
    let end = run(text, is_name);
    let (name, after) = text.split_at(end);
    let long = run(text, |character| is_name(character) || matches!(character, '.' | '+' | '/' | '=' | '~'));
    let token = |prefix: &str| name.starts_with(prefix) && long >= SHORTEST_TOKEN;
    if PREFIXES.iter().any(|(prefix, _)| token(prefix)) {
        out.push_str(MASKED);
        return &text[long..];
    }
    out.push_str(name);
    let scheme = name.eq_ignore_ascii_case("bearer") || name.eq_ignore_ascii_case("basic");
    let between = match () {
        () if scheme => after.len() - after.trim_start_matches(' ').len(),
        () if is_secret_name(name) => assignment(after),
        () => 0,
    };
    let (between, value) = after.split_at(between);
    // `authorization: bearer` says how; the value comes after that.
    let scheme_follows = ["bearer ", "basic "]
        .iter()
        .any(|scheme| value.get(..scheme.len()).is_some_and(|head| head.eq_ignore_ascii_case(scheme)));
    out.push_str(between);
    let length = run(value, is_value);
    // A variable is named, not its value.
    if between.is_empty()
        || scheme_follows
        || length == 0
        || value.starts_with('$')
        || value.starts_with(MASKED)
    {
        return value;
    }
    out.push_str(MASKED);
    &value[length..]
}

/// How long the sign between a name and its value is: `=`, `: `, `": "`.
fn assignment(text: &str) -> usize {
    let trimmed = text.trim_start_matches(['"', '\'', ' ']);
    let Some(value) = trimmed.strip_prefix(['=', ':']) else { return 0 };
    text.len() - value.trim_start_matches(['"', '\'', ' ', '>']).len()
}

/// `://user:` of an address that goes on with a password, and what follows the password.
fn address_password(text: &str) -> Option<(&str, &str)> {
    let authority = text.strip_prefix("://")?;
    let end = authority.find(|c: char| c.is_whitespace() || matches!(c, '/' | '?' | '#' | '"' | '\''));
    let (user, _) = authority[..end.unwrap_or(authority.len())].rsplit_once('@')?;
    let colon = user.find(':').filter(|colon| colon + 1 < user.len())?;
    Some((&text[.."://".len() + colon + 1], &authority[user.len()..]))
}

/// What follows a private key, if one begins here.
fn private_key(text: &str) -> Option<&str> {
    const END: &str = "-----END";
    let head = text.strip_prefix("-----BEGIN ")?;
    let title = head.split("-----").next()?;
    if !title.contains("PRIVATE KEY") {
        return None;
    }
    let end = text.find(END).map_or(text.len(), |at| {
        let after = at + END.len();
        text[after..].find("-----").map_or(text.len(), |close| after + close + "-----".len())
    });
    Some(&text[end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> String {
        masked_words(&text.split('|').collect::<Vec<_>>(), &[]).join("|")
    }

    #[test]
    fn what_has_the_form_or_the_name_of_a_secret_is_masked() {
        for (given, kept) in [
            ("curl|-H|Authorization: Bearer planted-value-1", "curl|-H|Authorization: Bearer [masked]"),
            ("curl|-H|authorization:Basic cGxhbnRlZA==", "curl|-H|authorization:Basic [masked]"),
            ("curl|-u|ada:planted", "curl|-u|ada:[masked]"),
            ("mysql|-u|root|-pplanted|-h|db", "mysql|-u|root|-p[masked]|-h|db"),
            ("sudo|/usr/bin/mysqldump|-pplanted", "sudo|/usr/bin/mysqldump|-p[masked]"),
            ("sh|-c|mysql -u root -pplanted x; ls -part", "sh|-c|mysql -u root -p[masked] x; ls -part"),
            ("ssh|-p22|mysql", "ssh|-p22|mysql"),
            ("tool|--password|planted|x", "tool|--password|[masked]|x"),
            ("tool|--api-key=planted", "tool|--api-key=[masked]"),
            ("env|DB_PASSWORD=planted|x", "env|DB_PASSWORD=[masked]|x"),
            (
                "sh|-c|TOKEN=planted ./x; SECRET='pl anted' y",
                "sh|-c|TOKEN=[masked] ./x; SECRET='[masked] anted' y",
            ),
            ("echo|{\"token\": \"planted\", \"n\": 1}", "echo|{\"token\": \"[masked]\", \"n\": 1}"),
            ("git|clone|https://ada:planted@example.org/x", "git|clone|https://ada:[masked]@example.org/x"),
            ("echo|ghp_0123456789abcdefghijABCDEFGHIJ012345|x", "echo|[masked]|x"),
            ("echo|a eyJhbGciOi.eyJzdWIiOi.c2ln-bmF0dXJl b", "echo|a [masked] b"),
            (
                "echo|k -----BEGIN RSA PRIVATE KEY-----\nplanted\n-----END RSA PRIVATE KEY----- l",
                "echo|k [masked] l",
            ),
            ("echo|-----BEGIN PRIVATE KEY-----\nplanted", "echo|[masked]"),
        ] {
            assert_eq!(line(given), kept);
        }
    }

    #[test]
    fn ordinary_commands_stay_as_they_are() {
        for text in [
            "git|commit|-m|tokens are split",
            "ls|-la|/etc/passwd-like",
            "sh|-c|TOKEN=$OTHER ./run; echo \"$SECRET\"",
            "tool|--token|--verbose",
            "curl|https://example.org:8443/a@b",
            "ssh|git@example.org",
            "echo|sk-short|日本: é",
            "cat|-----BEGIN CERTIFICATE-----",
        ] {
            assert_eq!(line(text), text);
        }
    }

    #[test]
    fn known_values_are_masked_wherever_they_are() {
        let shown = masked_words(&["x", "a=planted;planted"], &["planted", "a", ""]);
        assert_eq!(shown, ["x", "a=[masked];[masked]"]);
        assert_eq!(masked_variable("API_TOKEN", "x"), MASKED);
        assert_eq!(masked_variable("MODE", "fast"), "fast");
        let variables =
            [("A_TOKEN", "planted"), ("MODE", "fast"), ("X", "0123456789abcdef"), ("P", "/usr/local/share")];
        let variables: Vec<(String, String)> = variables.map(|(n, v)| (n.to_owned(), v.to_owned())).to_vec();
        let found = secret_values(variables.iter().map(|(name, value)| (name, value)));
        assert_eq!(found, ["planted", "0123456789abcdef"]);
    }
}
