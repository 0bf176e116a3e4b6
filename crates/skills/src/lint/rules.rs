//! The rules: reviewed data. An id is stable; a new rule gets a new one, and a line in `docs/skills/lint.md`.

use serde::Serialize;

use super::finding::Severity;

/// What lint looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Rule {
    /// Stable: `pipe-to-shell`.
    pub id: &'static str,
    pub severity: Severity,
    pub title: &'static str,
    pub why: &'static str,
    pub fix: &'static str,
}

/// Every rule, by topic.
pub fn rules() -> &'static [Rule] {
    RULES
}

/// One constant a rule, so that a check can only name a rule that exists, and the list of them all.
macro_rules! rules {
    ($($name:ident = $id:literal, $severity:ident, $title:literal, why: $why:literal, fix: $fix:literal;)+) => {
        $(pub(super) const $name: Rule =
            Rule { id: $id, severity: Severity::$severity, title: $title, why: $why, fix: $fix };)+
        const RULES: &[Rule] = &[$($name),+];
    };
}

rules! {
    // What a model reads
    PROMPT_INJECTION = "prompt-injection", High, "text that tries to take over the agent",
        why: "The agent reads this as instructions. Text that sets earlier instructions aside, or gives the \
            agent a new identity, works for whoever wrote the skill, not for its user.",
        fix: "Remove the passage. If it is an example, say so in the text and move it to a file that the \
            agent is not told to read.";
    SECRECY = "secrecy", High, "asks the agent to keep something from its user",
        why: "A skill with nothing to hide does not ask for silence; hidden steps are how data leaves.",
        fix: "Remove the passage, and say openly what the skill does.";
    NO_CONFIRMATION = "no-confirmation", Medium, "asks the agent to go on without its user's consent",
        why: "It takes away the one check that a person has.",
        fix: "Leave the question whether to ask to the user and the agent's settings.";
    ROLE_MARKUP = "role-markup", Medium, "markup that imitates messages of the system or of a tool",
        why: "Some clients pass such markers through to the model, where the text after them looks like it \
            came from the system.",
        fix: "Remove the markers, or write them with a space inside if the skill is about chat formats.";
    HIDDEN_INSTRUCTIONS = "hidden-instructions", High, "instructions in a comment or in text that is not shown",
        why: "A person who reads the rendered page does not see it; the model does.",
        fix: "Write it as visible text, or remove it.";
    HIDDEN_TAGS = "hidden-tags", Critical, "text in invisible Unicode tags",
        why: "Characters from U+E0000 to U+E007F show nothing on the screen and spell words for a model. \
            There is no honest use in a skill but three flags.",
        fix: "Remove the characters, and find out who put them there.";
    HIDDEN_BIDI = "hidden-bidi", High, "characters that change the direction of text",
        why: "What you read is in another order than what the interpreter and the model read.",
        fix: "Remove the characters.";
    HIDDEN_PAYLOAD = "hidden-payload", High, "a run of invisible characters",
        why: "Runs of variation selectors or zero-width characters carry bytes that nobody sees.",
        fix: "Remove the characters, and find out who put them there.";
    HIDDEN_ZERO_WIDTH = "hidden-zero-width", Medium, "invisible characters inside text",
        why: "They split words so that a search or a filter does not find them. Most come from copying a web \
            page.",
        fix: "Remove the characters.";
    REMOTE_INSTRUCTIONS = "remote-instructions", High, "instructions to be fetched and followed",
        why: "What is at that address tomorrow was not reviewed today: the skill can be changed for everyone \
            at any time.",
        fix: "Put the instructions into the skill.";
    // What a script or a command does
    PIPE_TO_SHELL = "pipe-to-shell", High, "a download that is run unseen",
        why: "Whoever controls the address, or the way to it, runs code here. Nothing is kept that could be \
            looked at later.",
        fix: "Name a package with a version, or download, compare a checksum and then run.";
    ENCODED_COMMAND = "encoded-command", High, "encoded text that is decoded and run",
        why: "Encoding hides from review what is executed.",
        fix: "Write the command or the code in plain text.";
    REMOTE_CODE = "remote-code", High, "downloaded data that is run as code",
        why: "`eval`, `exec` and `pickle` run what the other side sends.",
        fix: "Parse the data (JSON), or put the code into the skill.";
    DOWNLOAD_AND_RUN = "download-and-run", Medium, "a downloaded file that is made executable",
        why: "A file that was not checked is run with the user's rights.",
        fix: "Compare a checksum that stands in the skill before the file is run, or use a package manager.";
    REVERSE_SHELL = "reverse-shell", Critical, "a shell for somebody else",
        why: "It connects a shell to another machine.",
        fix: "Do not use this skill.";
    PERSISTENCE = "persistence", High, "something that stays after the task",
        why: "A timer, a service or a login key goes on working when the skill has ended.",
        fix: "Remove it; a skill works when it is asked to.";
    SHELL_STARTUP = "shell-startup", Medium, "a change of shell start-up files",
        why: "It changes every later shell of the user, on which other programs rely.",
        fix: "Set variables for the one command that needs them.";
    AGENT_SETTINGS = "agent-settings", High, "a change of an agent's settings or memory",
        why: "Settings, hooks, MCP servers and memory files decide what the agent may do and is told in \
            every later session.",
        fix: "Tell the user what to change, and let the user do it.";
    OTHER_SKILLS = "other-skills", Medium, "a change of installed skills",
        why: "A skill that writes other skills gets round their review.",
        fix: "Write to a path that the user gives.";
    AGENT_SAFETY_OFF = "agent-safety-off", High, "an agent's permission checks are switched off",
        why: "Without them everything that a model comes up with runs at once.",
        fix: "Remove the flag. Give the few permissions that are needed, or use a sandbox.";
    TLS_OFF = "tls-off", Medium, "certificates or host keys are not checked",
        why: "Anyone on the way can read and change what is sent.",
        fix: "Leave the check on; add the missing certificate authority where one is missing.";
    GIT_CHECKS_OFF = "git-checks-off", Low, "git hooks are left out",
        why: "The checks of the project are passed over.",
        fix: "Let the hooks run, and repair what they find.";
    MINER = "miner", Critical, "a crypto miner",
        why: "It uses the machine for somebody else.",
        fix: "Do not use this skill.";
    DESTRUCTIVE = "destructive", High, "a command that destroys a system or a home directory",
        why: "A wrong variable or a wrong machine, and everything is gone.",
        fix: "Name exactly what is to be removed, beneath a directory of the skill's own.";
    PRIVILEGE = "privilege", Low, "asks for more rights than its user has",
        why: "What runs as root is bound by nothing.",
        fix: "Do without `sudo`; say which system package has to be there.";
    OBFUSCATION = "obfuscation", Medium, "code that is written so that it can't be read",
        why: "Whoever reviews it can't say what it does.",
        fix: "Write it in plain text.";
    PACKAGE_BY_URL = "package-by-url", Medium, "a package that comes from no registry, or from an unchecked one",
        why: "It has no version that anyone reviewed and can change at any time.",
        fix: "Name a package of the registry with its version, or a commit by its full hash.";
    TYPOSQUAT = "typosquat", Medium, "a package name one letter away from a well-known one",
        why: "Such names are registered to catch typing errors, and their install scripts run at once.",
        fix: "Check the name. If it is meant, pin a version that you looked at.";
    // Secrets
    CREDENTIAL_READ = "credential-read", Medium, "a path where credentials are kept",
        why: "Whoever reads it can act as the user elsewhere.",
        fix: "Take the one secret that is needed from the environment, and say its name in the manifest.";
    CREDENTIAL_THEFT = "credential-theft", High, "a store of passwords, keys or sessions that no skill needs",
        why: "Browsers, keychains, wallets, password hashes and cloud metadata hold all of a person's or a \
            machine's access.",
        fix: "Remove it.";
    ENV_DUMP = "env-dump", Medium, "the whole environment is written out or passed on",
        why: "Tokens live in environment variables.",
        fix: "Read the variables that are needed by name.";
    EXFILTRATION = "exfiltration", High, "secrets are read and something is sent, in one place",
        why: "Together the two are how credentials leave a machine.",
        fix: "Take out one of the two. If both are needed, say to which host and why, and use a secret that \
            never enters the sandbox.";
    DROP_SITE = "drop-site", High, "an address where anyone can collect data without a name",
        why: "Request bins, call-back services and throw-away file hosts are where stolen data goes.",
        fix: "Use a host of your own, and name it in the manifest.";
    CHAT_WEBHOOK = "chat-webhook", Medium, "an address that hands data to a chat, a tunnel or a paste site",
        why: "What is sent there leaves the company's control. The address alone is the right to post.",
        fix: "Let the user give the address in the environment.";
    DNS_EXFILTRATION = "dns-exfiltration", High, "data in a host name that is looked up",
        why: "Name look-ups get out where connections do not.",
        fix: "Remove it.";
    URL_BY_ADDRESS = "url-by-address", Medium, "a URL with a bare public IP address",
        why: "There is no name that could be checked, allowed or held to account.",
        fix: "Use a host name and https.";
    SECRET = "secret", High, "a secret in a file",
        why: "Everybody who gets the skill has it.",
        fix: "Revoke it now, then read it from the environment.";
    SECRET_LIKE = "secret-like", Medium, "a value that looks like a secret",
        why: "A long random value under the name of a key, token or password.",
        fix: "If it is one, revoke it and read it from the environment; else write a value that nobody takes \
            for one.";
    CREDENTIAL_FILE = "credential-file", Medium, "a file of a kind that holds credentials",
        why: "Such files get into a skill by accident and go to everybody who installs it.",
        fix: "Remove it, or ship an example with empty values.";
    // Files
    LINK_OUT = "link-out", High, "a link that leads out of the skill",
        why: "Whatever reads, packs or copies the skill through it reads the user's files.",
        fix: "Put the file into the skill.";
    REFERENCE_OUT = "reference-out", Low, "a reference to a file outside of the skill",
        why: "It is not there when the skill is installed alone, and what is there instead is up to chance.",
        fix: "Put the file into the skill, or give a web address.";
    SPECIAL_FILE = "special-file", Critical, "a device, a pipe, a socket or a setuid file",
        why: "It has no place in a skill, and reading or running it does something else than it looks like.",
        fix: "Remove it.";
    DISGUISED = "disguised", High, "a program under the name of something else",
        why: "A name that says image or text keeps people and filters from looking.",
        fix: "Remove it, or give it the name that it has by right.";
    POLYGLOT = "polyglot", High, "a file that is two things at once",
        why: "A picture that is also an archive or a script shows one face to a check and the other to \
            whoever runs it.",
        fix: "Write the picture anew with an image program, or remove it.";
    OPAQUE_CODE = "opaque-code", Medium, "a compiled program",
        why: "Nobody can review what it does.",
        fix: "Ship the source, or name the package that holds the program.";
    ENCRYPTED_ARCHIVE = "encrypted-archive", High, "an archive behind a password",
        why: "Encryption keeps scanners out; the password stands beside it so that the user lets the content \
            in.",
        fix: "Put the files into the skill as they are.";
    ARCHIVE = "archive", Info, "an archive in the skill",
        why: "Lint does not look inside.",
        fix: "Put the files into the skill as they are.";
    BINARY_IN_TEXT = "binary-in-text", Medium, "bytes in a text or a script that are no text",
        why: "A NUL or a broken encoding keeps tools from reading the file; interpreters read on.",
        fix: "Save the file as UTF-8.";
    // What runs by itself
    AUTORUN_PYTHON = "autorun-python", High, "a file that Python runs at every start",
        why: "`.pth` files with an import, `sitecustomize.py` and `usercustomize.py` run before any script \
            does.",
        fix: "Remove it, and import what is needed where it is needed.";
    AUTORUN_TESTS = "autorun-tests", Medium, "a file that a test runner runs by itself",
        why: "`pytest` imports `conftest.py` of every directory that it looks into, tests or no tests.",
        fix: "Leave tests out of the skill.";
    AUTORUN_INSTALL = "autorun-install", Medium, "a script that runs when the package is installed",
        why: "An install runs it before anyone calls anything.",
        fix: "Remove the script from `package.json`; build before you publish.";
    AUTORUN_GIT = "autorun-git", Medium, "git hooks",
        why: "They run at the next commit, checkout or push.",
        fix: "Leave hooks out of the skill.";
    AUTORUN_EDITOR = "autorun-editor", High, "a command that runs when a directory is opened",
        why: "Editors, dev containers and direnv run it before anyone read it.",
        fix: "Remove it.";
    AUTORUN_AGENT = "autorun-agent", High, "agent settings in a skill",
        why: "Hooks and MCP servers in it are started by agents that work in this directory.",
        fix: "Remove it, and describe in the text what the user may set.";
    AUTORUN_EXPANSION = "autorun-expansion", Medium, "a command that runs when the manifest is loaded",
        why: "Some clients run what stands in !`…` before the model sees the text, and put the output in its \
            place.",
        fix: "Let the agent run the command as a step, where it can be seen and refused.";
    // Quality
    BROAD_TOOLS = "broad-tools", Medium, "permission for more tools than a task needs",
        why: "`allowed-tools` gives them without a question. A shell or an interpreter without a pattern is \
            everything.",
        fix: "Name the commands: `Bash(git status:*)`, `Read`.";
    UNDECLARED_DEPENDENCY = "undeclared-dependency", Low, "an import that nothing declares",
        why: "Which package is meant, and which version, is left to whoever runs it.",
        fix: "Declare it: PEP 723 in the script, `requirements.txt`, `pyproject.toml` or `package.json`.";
    SYNTAX = "syntax", Medium, "a script or data file that does not parse",
        why: "It fails when it is needed, or was cut off on the way.",
        fix: "Repair it at the line that is named.";
    UNREADABLE_MANIFEST = "unreadable-manifest", Medium, "a SKILL.md that can't be loaded",
        why: "Clients skip the skill, and lint could not judge what it asks for.",
        fix: "Run `ringfence skill validate`.";
    LONG_MANIFEST = "long-manifest", Low, "a SKILL.md longer than 500 lines or some 5,000 tokens",
        why: "All of it is in the model's context whenever the skill is used.",
        fix: "Move detail to files that the text refers to.";
    LARGE_FILE = "large-file", Low, "a file of more than 5 MiB",
        why: "Skills are copied and loaded often.",
        fix: "Download it when it is needed, or make it smaller.";
    LARGE_SKILL = "large-skill", Low, "a skill of more than 50 MiB or 1,000 files",
        why: "Skills are copied and loaded often.",
        fix: "Leave out what the scripts do not use.";
    UNREAD = "unread", Medium, "something that lint did not read",
        why: "Lint reads a bounded part of each file and of a skill. It says nothing about the rest.",
        fix: "Look at the rest by hand, or make the file smaller.";
    MORE_FINDINGS = "more-findings", Info, "findings that were left out",
        why: "A rule is reported a bounded number of times.",
        fix: "Repair what is reported, and lint again.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_distinct_and_texts_are_whole() {
        let mut ids: Vec<_> = rules().iter().map(|rule| rule.id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), rules().len());
        for rule in rules() {
            assert!(rule.id.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'), "{}", rule.id);
            assert!(rule.why.ends_with('.') && rule.fix.ends_with('.'), "{}", rule.id);
            assert!(!rule.title.ends_with('.'), "{}", rule.id);
        }
    }
}
