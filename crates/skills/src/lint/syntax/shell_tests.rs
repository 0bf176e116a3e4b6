use super::*;

#[test]
fn what_shells_read_is_read() {
    for source in [
        "",
        "#!/bin/sh\n# it's a comment\necho ok\n",
        "if [ -f x ]; then\n  echo 'a'\nelif true; then :\nelse\n  echo \"b\"\nfi\n",
        "for x in a b; do echo \"$x\"; done\nwhile read -r l; do echo $l; done < f\n",
        "case \"$1\" in\n  a|b) echo x ;;\n  (c) echo y ;;\n  if) echo z ;;\n  *) exit 1 ;;\nesac\n",
        "f() {\n  local x=$(echo \"$(cat \"$1\")\")\n  echo ${x#*'/'}\n}\nfunction g { echo; }\n",
        "function h() {\n  echo\n}\nfunction i\n{\n  echo\n}\nfunction j {\n  echo\n}\n",
        "#!/bin/sh\n'''exec' /usr/bin/python3 \"$0\" \"$@\"\n' '''\nif x:\n  pass\n",
        "cat <<EOF\nit's \"fine ${x}\nif (\nEOF\necho done\n",
        "cat <<-'END' | sed s/a/b/\n\tdon't\n\tEND\n",
        "x=$((1 + (2 << 3)))\n(( x++ ))\necho $# ${#x} $$\n",
        "echo it\\'s \\\"ok\n",
        "arr=(a 'b c' \"d\")\necho \"${arr[@]}\"\n",
        "echo $'don\\'t'\n",
        "x=`echo \"a\" 'b'`\n",
        "[[ $x =~ ^(a|b)$ ]] && echo yes\n",
        "echo if then fi done esac }\n",
        "diff <(sort a) <(sort b)\n",
        "( cd x && ls ) || { echo no; exit 1; }\n",
        "y=$(case $x in a) echo 1;; esac)\n",
        "echo \"${x:-it's}\"\n",
        "cmd \\\n  --flag 'x' \\\n  && other\n",
        "echo a#b c # \"comment\n",
        "for ((i=0; i<3; i++)); do echo $i; done\n",
        "python3 - <<'PY'\nprint('(')\nPY\n",
        "trap 'rm -f \"$tmp\"' EXIT\n",
        "echo {a,b} ${x%.*} \"${y//\\//_}\"\n",
    ] {
        assert_eq!(check(source), Ok(()), "{source}");
    }
}

#[test]
fn what_shells_refuse_has_a_line() {
    for (source, line) in [
        ("echo 'abc\n", 1),
        ("a\necho \"abc\n", 2),
        ("if true; then\n  echo x\n", 1),
        ("for x in a; do\n  echo\nfi\n", 3),
        ("x=$(echo a\n", 1),
        ("done\n", 1),
        ("echo )\n", 1),
        ("f() {\n  echo\n", 1),
        ("case x in\n a) ;;\n", 1),
        ("echo ${x\n", 1),
    ] {
        assert_eq!(check(source).err().map(|fault| fault.line), Some(line), "{source}");
    }
}

#[test]
fn depth_is_a_fault_not_a_crash() {
    for source in ["$(".repeat(1 << 19), "\"$(".repeat(1 << 18), "${".repeat(1 << 19), "{ ".repeat(1 << 19)] {
        assert!(check(&source).is_err());
    }
}
