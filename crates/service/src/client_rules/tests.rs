use std::fs;

use super::*;
use crate::state::StateDir;

struct Fixture {
    _root: tempfile::TempDir,
    places: Places,
}

impl Fixture {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().canonicalize().unwrap();
        let places = Places {
            tenant: None,
            current: path.join("home/project"),
            home: path.join("home"),
            system_config: path.join("etc/config.toml"),
            user_config: path.join("home/config.toml"),
            state: StateDir::new(path.join("state")),
            profile: None,
            policy: None,
            library: None,
        };
        fs::create_dir_all(&places.current).unwrap();
        Self { _root: root, places }
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.places.home.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn says(&self, client: Client, command: &str) -> Result<(), RuleRefusal> {
        ClientRules::new(&self.places, client).check_shell(command, "")
    }

    #[track_caller]
    fn denies(&self, client: Client, command: &str, rule: &str, file: &str) {
        match self.says(client, command) {
            Err(RuleRefusal::Denied { rule: found, file: at, .. }) => {
                assert_eq!((found.as_str(), at), (rule, self.places.home.join(file)), "{command}");
            }
            other => panic!("{command}: {other:?}"),
        }
    }

    #[track_caller]
    fn allows(&self, client: Client, commands: &[&str]) {
        for command in commands {
            assert_eq!(self.says(client, command), Ok(()), "{command}");
        }
    }
}

const OPENCODE: &str = ".config/opencode/opencode.json";

#[test]
fn opencode_by_pattern_the_last_decides() {
    let scene = Fixture::new();
    scene.write(
        OPENCODE,
        "{ // mine\n\"permission\": {\"bash\": {\"rm *\": \"deny\", \"rm -i *\": \"ask\", \"*\": \"allow\",\
        \"git *\": \"deny\", \"git status\": \"allow\",}, \"edit\": \"deny\"},}",
    );
    scene.allows(Client::Opencode, &["rm x", "git status", "ls"]);
    scene.denies(Client::Opencode, "ls && git push", "permission.bash: git *", OPENCODE);
    scene.denies(Client::Opencode, "git", "permission.bash: git *", OPENCODE);
    // A project does not take a rule of its user's away, and brings its own.
    scene.write(
        "project/opencode.json",
        "{\"permission\": {\"bash\": {\"git *\": \"allow\", \"make *\": \"deny\"}}}",
    );
    scene.denies(Client::Opencode, "git push", "permission.bash: git *", OPENCODE);
    scene.denies(Client::Opencode, "make x", "permission.bash: make *", "project/opencode.json");
    // All tools, and one of them.
    scene.write(OPENCODE, "{\"permission\": {\"bash\": \"allow\", \"*\": \"deny\"}}");
    scene.allows(Client::Opencode, &["rm x"]);
    scene.write(OPENCODE, "{\"permission\": \"deny\"}");
    scene.denies(Client::Opencode, "ls", "permission", OPENCODE);
}

#[test]
fn gemini_by_prefix() {
    let scene = Fixture::new();
    let file = ".gemini/settings.json";
    scene.write(
        file,
        "{\"tools\": {\"exclude\": [\"run_shell_command\", \"run_shell_command(rm)\", \"web_fetch\"]}}",
    );
    scene.denies(Client::Gemini, "true; rm -r x", "run_shell_command(rm)", file);
    scene.allows(Client::Gemini, &["rmdir x", "ls", "echo rm"]);
    let policy = ".gemini/policies/mine.toml";
    scene.write(policy, "[[rule]]\ntoolName = \"run_shell_command\"\ncommandPrefix = [\"git push\", \"curl\"]\n\
        decision = \"deny\"\npriority = 1\n[[rule]]\ntoolName = \"run_shell_command\"\ncommandRegex = \"x\"\ndecision = \"deny\"\n");
    scene.denies(Client::Gemini, "git push origin", "commandPrefix = git push", policy);
    scene.allows(Client::Gemini, &["git pull", "x"]);
}

#[test]
fn gemini_by_priority_and_by_server() {
    let scene = Fixture::new();
    let policy = ".gemini/policies/mine.toml";
    let deny = |more: &str| format!("[[rule]]\ndecision = \"deny\"\n{more}\n");
    // What is said of the tools of another server, and of ours, which Gemini CLI holds itself.
    for server in ["other", "ringfence"] {
        scene.write(policy, &deny(&format!("mcpName = \"{server}\"\ntoolName = \"*\"\npriority = 900")));
        scene.allows(Client::Gemini, &["ls"]);
    }
    let git = "toolName = \"run_shell_command\"\ncommandPrefix = \"git\"";
    let status =
        "[[rule]]\ntoolName = \"run_shell_command\"\ncommandPrefix = \"git status\"\ndecision = \"allow\"\n";
    // The higher one decides, wherever it stands; of two alike the first.
    for (rules, allowed) in [
        (format!("{}priority = 10\n{status}priority = 20\n", deny(git)), true),
        (format!("{status}priority = 20\n{}priority = 10\n", deny(git)), true),
        (format!("{}priority = 20\n{status}priority = 10\n", deny(git)), false),
        (format!("{status}priority = 5\n{}priority = 5\n", deny(git)), true),
        (format!("{}priority = 5\n{status}priority = 5\n", deny(git)), false),
        (format!("{}priority = 10\n{status}commandRegex = \"x\"\npriority = 20\n", deny(git)), false),
    ] {
        scene.write(policy, &rules);
        assert_eq!(scene.says(Client::Gemini, "git status").is_ok(), allowed, "{rules}");
        scene.denies(Client::Gemini, "git push", "commandPrefix = git", policy);
    }
}

#[test]
fn what_a_shell_reads_is_looked_at() {
    let scene = Fixture::new();
    scene.write(OPENCODE, "{\"permission\": {\"bash\": {\"rm *\": \"deny\"}}}");
    let rules = ClientRules::new(&scene.places, Client::Opencode);
    let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
    for shell in [&["sh"] as &[&str], &["/bin/bash", "-s"], &["env", "bash"]] {
        assert!(rules.check_words(&words(shell), "true; rm x").is_err(), "{shell:?}");
    }
    assert!(rules.check_shell("cat | sh", "rm x").is_err());
    assert_eq!(rules.check_words(&words(&["cat"]), "rm x"), Ok(()));
    assert_eq!(rules.check_words(&words(&["sh"]), "ls"), Ok(()));
}

#[test]
fn codex_by_words() {
    let scene = Fixture::new();
    let file = ".codex/rules/mine.rules";
    scene.write(file, "# mine\nprefix_rule(\n  pattern = [\"rm\", [\"-rf\", \"-fr\"]],\n  decision = \"forbidden\",\n  \
        match = [[\"rm\", \"-rf\", \"x\"], 'rm -fr x'],\n  justification = \"no\",\n)\n\
        prefix_rule(pattern=[\"git\"], decision=\"allow\")\nhost_executable(name=\"git\", paths=[\"/usr/bin/git\"])\n");
    scene.denies(Client::Codex, "cd sub && rm -fr /x", "prefix_rule rm -rf|-fr", file);
    scene.denies(Client::Codex, "/bin/rm '-rf' x", "prefix_rule rm -rf|-fr", file);
    scene.allows(Client::Codex, &["rm x", "git push", "rm -r -f x"]);
}

#[test]
fn claude_code_in_its_three_forms() {
    let scene = Fixture::new();
    let (user, local) = (".claude/settings.json", "project/.claude/settings.local.json");
    scene.write(user, "{\"permissions\": {\"deny\": [\"Bash(curl:*)\", \"Bash(git * main)\", \"Read(x)\", \"BashOutput\"]}}");
    scene.denies(Client::ClaudeCode, "curl http://x", "Bash(curl:*)", user);
    scene.denies(Client::ClaudeCode, "git push origin main", "Bash(git * main)", user);
    scene.allows(Client::ClaudeCode, &["curling x", "git push origin dev"]);
    scene.write(local, "{\"permissions\": {\"deny\": [\"Bash\"]}}");
    scene.denies(Client::ClaudeCode, "ls", "Bash", local);
}

#[test]
fn what_is_not_understood_refuses() {
    for (client, file, texts) in [
        (
            Client::Opencode,
            OPENCODE,
            &[
                "{",
                "{\"permission\": 5}",
                "{\"permission\": {\"bash\": {\"x\": \"never\"}}}",
                "{\"permission\": {\"bash\": 5}}",
            ][..],
        ),
        (
            Client::Gemini,
            ".gemini/settings.json",
            &["[", "{\"tools\": {\"exclude\": \"x\"}}", "{\"tools\": {\"exclude\": [5]}}"],
        ),
        (Client::Gemini, ".gemini/policies/a.toml", &["x", "rule = 5", "[[rule]]\ndecision = \"no\"\n"]),
        (
            Client::Codex,
            ".codex/rules/a.rules",
            &[
                "prefix_rule(",
                "x = 5",
                "prefix_rule(pattern = [\"a\"] + B, decision = \"forbidden\")",
                "prefix_rule(pattern = A, decision = \"forbidden\")",
                "prefix_rule(pattern = [], decision = \"forbidden\")",
                "prefix_rule(pattern = [\"a\"], decision = \"never\")",
                "prefix_rule([\"a\"], \"forbidden\")",
            ],
        ),
        (
            Client::ClaudeCode,
            ".claude/settings.json",
            &["{", "{\"permissions\": {\"deny\": \"Bash(rm)\"}}", "{\"permissions\": {\"deny\": [5]}}"],
        ),
    ] {
        for text in texts {
            let scene = Fixture::new();
            scene.allows(client, &["ls"]);
            scene.write(file, text);
            let refusal = scene.says(client, "ls").unwrap_err();
            assert_eq!(refusal.code(), "rules_unreadable", "{text}: {refusal}");
            assert!(refusal.to_string().contains(file), "{refusal}");
        }
    }
    let scene = Fixture::new();
    fs::create_dir_all(scene.places.home.join(".gemini/settings.json")).unwrap();
    assert_eq!(scene.says(Client::Gemini, "ls").unwrap_err().code(), "rules_unreadable");
}

#[test]
fn what_was_denied_at_the_start_stays_denied() {
    let scene = Fixture::new();
    scene.write("project/opencode.json", "{\"permission\": {\"bash\": {\"rm *\": \"deny\"}}}");
    let rules = ClientRules::new(&scene.places, Client::Opencode);
    scene.write("project/opencode.json", "{\"permission\": {\"bash\": {\"make *\": \"deny\"}}}");
    assert_eq!(rules.check_shell("rm x", "").unwrap_err().code(), "denied_by_rule");
    assert_eq!(rules.check_words(&["make".into(), "x".into()], "").unwrap_err().code(), "denied_by_rule");
    assert_eq!(rules.check_shell("ls", ""), Ok(()));
}

#[test]
fn patterns_match_as_they_read() {
    for (pattern, text, is) in [
        ("*", "", true),
        ("rm *", "rm a b", true),
        ("rm *", "rm", false),
        ("a*b*c", "axxbyyc", true),
        ("a*b*c", "axxbyy", false),
        ("a?c", "abc", true),
        ("", "a", false),
    ] {
        assert_eq!(matches_glob(pattern.as_bytes(), text.as_bytes()), is, "{pattern} {text}");
    }
}
