use super::*;

fn programs(text: &str) -> Vec<(&'static str, bool)> {
    read(text).programs.into_iter().map(|(name, asks, _)| (name, asks)).collect()
}

#[test]
fn command_words() {
    for (text, expected) in [
        ("jq . a", &["jq"][..]),
        ("cat a | jq . && git status || curl x; gh pr", &["jq", "git", "curl", "gh"]),
        ("A=1 B=\"x y\" ffmpeg -i a", &["ffmpeg"]),
        ("echo jq git curl", &[]),
        ("echo \"$(jq . \"$(curl x)\")\"", &["jq", "curl"]),
        ("x=`git log | jq .`", &["git", "jq"]),
        (
            "if git diff; then docker ps; elif ! jq .; then curl; else gh; fi",
            &["git", "docker", "jq", "curl", "gh"],
        ),
        ("while read line; do pandoc $line; done < <(git ls-files)", &["pandoc", "git"]),
        ("sudo -E docker ps", &["docker"]),
        ("find . | xargs -0 pdfinfo", &["pdfinfo"]),
        ("# jq\necho 'jq\ngit' # git\ncurl", &["curl"]),
        ("cat <<EOF\njq\nEOF\ncurl", &["curl"]),
        ("cat <<-'END' | jq .\n\tgit\n\tEND\ncurl", &["jq", "curl"]),
        ("x <<A; y <<B\njq\nA\ngit\nB\ncurl", &["curl"]),
        ("jq() { git x; }\njq .", &["git"]),
        ("function curl { :; }\ncurl x", &[]),
        ("case $1 in\n  docker) git x ;;\n  jq|curl) gh y;;\nesac\nffmpeg", &["git", "gh", "ffmpeg"]),
        ("echo a > jq; echo b 2>git 2>&1 | curl", &["curl"]),
        ("/usr/bin/jq .", &["jq"]),
        ("./jq .", &[]),
        ("for git in jq curl; do gh; done", &["gh"]),
        ("(git x; (jq y))", &["git", "jq"]),
        ("a \\\n  jq\ncurl", &["curl"]),
        ("echo ${A:-$(git x)} \"${B:-\"$(jq y)\"}\"", &["git", "jq"]),
        ("printf $'it\\'s jq; git'\ncurl", &["curl"]),
        ("make -C x | tar x", &["make", "tar"]),
        ("[[ $a == \"x\" ]] && git y", &["git"]),
        ("x=$((1 + 2)); git", &["git"]),
        ("\"jq\" .", &["jq"]),
        ("$JQ .", &[]),
    ] {
        let found: Vec<_> = programs(text).into_iter().map(|(name, _)| name).collect();
        assert_eq!(found, expected, "{text}");
    }
}

#[test]
fn a_script_that_asks_first() {
    assert_eq!(programs("if command -v jq >/dev/null; then jq .; fi"), [("jq", true), ("jq", false)]);
    assert_eq!(programs("which ffmpeg || exit 1"), [("ffmpeg", true)]);
    assert_eq!(programs("command git x"), [("git", false)]);
    assert_eq!(programs("type -p gh jq"), [("gh", true), ("jq", true)]);
}

#[test]
fn variables_and_what_becomes_of_missing_ones() {
    let text = r#"
: "${NOTION_URL:?set it}"
key="${API_KEY:-}"
curl -H "Authorization: $GITHUB_TOKEN" "${BASE_URL:-x}"
MY_SECRET=$(cat x)
echo $MY_SECRET ${PLAIN} ${HOME:?} ${PASSWORD:-hunter2}
read -r DB_PASSWORD
echo "$DB_PASSWORD" '$QUOTED_TOKEN'
"#;
    let mut found = read(text).variables;
    found.sort();
    let expected = [
        ("API_KEY", Presence::Expected, 3),
        ("GITHUB_TOKEN", Presence::Expected, 4),
        ("NOTION_URL", Presence::Required, 2),
        ("PASSWORD", Presence::Optional, 6),
    ];
    assert_eq!(found, expected.map(|(name, presence, line)| (name.to_owned(), presence, line)));
}

#[test]
fn mentions_of_other_scripts() {
    let found = read("python3 \"$DIR/helper.py\" x; ./run.sh; node lib/a.mjs > b.txt").mentions;
    assert_eq!(found, ["/helper.py", "./run.sh", "lib/a.mjs"]);
}

#[test]
fn deep_and_long_input_ends() {
    for piece in
        ["$(", "\"$(", "${a:-", "`", "(", "case x in ", "<<A\n", "\"", "'", "\\", "a=", "$", "<(", "\"`"]
    {
        let _ = read(&piece.repeat(100_000));
    }
}

proptest::proptest! {
    #[test]
    fn arbitrary_text_does_no_harm(text in "(?s).{0,300}") {
        let _ = read(&text);
    }

    #[test]
    fn pieces_of_shell_do_no_harm(pieces in proptest::collection::vec(proptest::sample::select(vec![
        "$(", ")", "\"", "'", "`", "${A_KEY", "}", ":?", "<<", "E\n", "\n", "\\", " ", "é", "case ", "in ", ";;", "esac",
        "|", "&", ">", "jq", "function ", "()", "$", "#", "A=", "command ", "-v", "$'",
    ]), 0..60)) {
        let _ = read(&pieces.concat());
    }
}
