use super::*;

fn imports(text: &str) -> Vec<(String, u32, Dependence)> {
    read(text)
        .imports
        .into_iter()
        .map(|import| {
            (format!("{}{}", ".".repeat(import.level), import.module), import.line, import.dependence)
        })
        .collect()
}

fn modules(text: &str) -> Vec<String> {
    imports(text).into_iter().map(|(module, ..)| module).collect()
}

#[test]
fn statements_in_all_their_forms() {
    for (text, expected) in [
        ("import a", &["a"][..]),
        ("import a, b as c, d.e", &["a", "b", "d.e"]),
        ("import a ; import b", &["a", "b"]),
        ("from a import b", &["a"]),
        ("from a.b import (\n  c as d,  # why\n  e,\n)\nimport f", &["a.b", "f"]),
        ("from . import a", &["."]),
        ("from .. a import b", &["..a"]),
        ("from ...a.b import *", &["...a.b"]),
        ("import \\\n  a", &["a"]),
        ("if x: import a", &["a"]),
        ("if (m := f()): import a\nelse: import b", &["a", "b"]),
        ("if m := f({1: 2}): import a", &["a"]),
        ("while lambda: 1: import a", &["a"]),
        ("def f(a: int = {1:2}) -> 'x':\n\timport b\n\tdef g():\n\t\timport c", &["b", "c"]),
        ("class A: import b", &["b"]),
        ("async def f():\n  async with x as y:\n    import a", &["a"]),
        ("match x:\n  case {'a': 1}: import b", &["b"]),
        ("match = 1; import a", &["a"]),
        ("x = 'import a'\n# import b\n'''\nimport c\n'''\nimport d", &["d"]),
        ("x = \"a\\\"; import b\"\nimport c", &["c"]),
        ("x = r'\\'\nimport b'", &[]),
        ("x = [\nimport_a,\n]\nimport b", &["b"]),
        ("x = f'{a['b']}' ; import c", &["c"]),
        ("x = f\"{d[\"k\"]:>{w}}\" ; import c", &["c"]),
        ("x = f'{{import a}}'; import b", &["b"]),
        ("x = f'''{\n a # }\n}''' ; import b", &["b"]),
        ("x = f'{a:%H:%M}' ; import b", &["b"]),
        ("x = f'{f'{f'{1}'}'}'\nimport b", &["b"]),
        ("x = 'unterminated\nimport b", &["b"]),
        ("__import__('a'); importlib.import_module(\"b.c\")", &["a", "b.c"]),
        ("import_module('.a', p); __import__(name); __import__('a' + b)", &[]),
        ("a.from_ = 1\nimports = 2\nyield_ = (yield from x)", &[]),
        ("\u{c}import a", &["a"]),
        ("import é.ü", &["é.ü"]),
        ("for x in y: pass\nelse: import a", &["a"]),
        ("import a.b.c as d,e", &["a.b.c", "e"]),
    ] {
        assert_eq!(modules(text), expected, "{text}");
    }
}

#[test]
fn whether_an_import_is_needed() {
    use Dependence::*;
    let cases: &[(&str, &[Dependence])] = &[
        ("try:\n  import a\nexcept ImportError:\n  a = None", &[Optional]),
        ("try:\n  import a\nexcept ValueError:\n  pass", &[Needed]),
        ("try:\n  import a\nexcept (KeyError, ModuleNotFoundError) as e:\n  pass", &[Optional]),
        ("try: import a\nexcept: pass", &[Optional]),
        ("try:\n  import a\nfinally:\n  pass", &[Needed]),
        ("try:\n  import a\nexcept ImportError:\n  print('no')\n  sys.exit(1)", &[Needed]),
        ("try:\n  import a\nexcept ImportError as e:\n  raise SystemExit('x') from e", &[Needed]),
        ("def m():\n  try:\n    import a\n  except ImportError:\n    return 1", &[Needed]),
        ("def m():\n  try:\n    import a\n  except ImportError:\n    return None", &[Optional]),
        (
            "try:\n  import a\n  HAS = True\nexcept ImportError:\n  HAS = False\ndef f():\n  if not HAS:\n    exit(2)",
            &[Needed],
        ),
        (
            "try:\n  import a\n  HAS = True\nexcept ImportError:\n  HAS = False\nif not HAS:\n  print()",
            &[Optional],
        ),
        (
            "try:\n  import a\nexcept ImportError:\n  a = None\nif a is None:\n  raise RuntimeError()",
            &[Needed],
        ),
        (
            "try:\n  import a\nexcept ImportError:\n  subprocess.run([sys.executable, '-m', 'pip', 'install', 'a'])",
            &[Needed],
        ),
        // Of two that will do, the first; of one that comes with Python, neither.
        ("try:\n  import a\nexcept ImportError:\n  import b", &[Needed, Optional]),
        ("try:\n  import orjson\nexcept ImportError:\n  import json", &[Optional, Optional]),
        ("try:\n  import tomllib\nexcept ImportError:\n  import tomli as tomllib", &[Needed, Needed]),
        ("try:\n  from yaml import C\nexcept ImportError:\n  from yaml import D", &[Needed, Optional]),
        ("try:\n  x()\nexcept Exception:\n  import a", &[Needed]),
        ("if TYPE_CHECKING:\n  import a\nelse:\n  import b", &[Types, Needed]),
        ("if typing.TYPE_CHECKING:\n  from a import b\nimport c", &[Types, Needed]),
        ("if not TYPE_CHECKING:\n  import a", &[Needed]),
        (
            "try:\n  import a\nexcept KeyError:\n  pass\nexcept ImportError:\n  pass\nelse:\n  import b\nimport c",
            &[Optional, Needed, Needed],
        ),
        ("try:\n  if x:\n    for y in z:\n      import a\nexcept ImportError:\n  pass", &[Optional]),
        (
            "try:\n  try:\n    import a\n  except KeyError:\n    pass\nexcept ImportError:\n  pass\nimport b",
            &[Optional, Needed],
        ),
    ];
    for (text, expected) in cases {
        let found: Vec<_> = imports(text).into_iter().map(|(.., dependence)| dependence).collect();
        // The first of the pair with `tomllib` needs it in name only: it is Python's own.
        if text.contains("tomllib") {
            assert_eq!(found[1], expected[1], "{text}");
        } else {
            assert_eq!(found, *expected, "{text}");
        }
    }
}

#[test]
fn lines_are_those_of_the_statement() {
    let text = "'''\n\n'''\nx = (1,\n 2)\nfrom a import (\n b)\nimport c; y = \\\n 1\nimport d";
    let found: Vec<_> = imports(text).into_iter().map(|(module, line, _)| (module, line)).collect();
    assert_eq!(found, [("a".to_owned(), 6), ("c".to_owned(), 8), ("d".to_owned(), 10)]);
}

#[test]
fn variables_and_programs() {
    let text = r#"
key = os.environ["API_KEY"]
os.environ["SET_HERE"] = "1"
if os.environ["MODE_X"] == "1": pass
region = environ.get("REGION", "eu")
other = os.getenv("OTHER_TOKEN")
home = os.environ["HOME"]
if "MAYBE_SET" in os.environ: pass
low = os.environ["lower"]
computed = os.environ[name]
subprocess.run(["ffmpeg", "-i", x], check=True)
subprocess.check_output("pandoc a -o b", shell=True)
if shutil.which("soffice"): pass
os.system("ls -l")
sys.path.insert(0, "x")
"#;
    let source = read(text);
    let variables: Vec<_> =
        source.variables.iter().map(|(name, presence, _)| (name.as_str(), *presence)).collect();
    assert_eq!(
        variables,
        [
            ("API_KEY", Presence::Required),
            ("MODE_X", Presence::Required),
            ("REGION", Presence::Optional),
            ("OTHER_TOKEN", Presence::Expected),
            ("MAYBE_SET", Presence::Expected),
        ]
    );
    assert_eq!(source.programs, [("ffmpeg", false, 11), ("pandoc", false, 12), ("soffice", true, 13)]);
    assert!(source.extends_path);
    assert!(!read("import sys\nprint(sys.path)").extends_path);
}

#[test]
fn deep_and_long_input_ends() {
    let _ = read(&"(".repeat(500_000));
    let _ = read(&"f'{".repeat(200_000));
    let _ = read(&"f\"{f'{".repeat(100_000));
    let _ = read(&"try:\n".repeat(100_000));
    let nested: String = (0..3_000).map(|level| format!("{}try:\n", " ".repeat(level))).collect();
    let _ = read(&nested);
    let _ = read(&"import a\n".repeat(100_000));
    let _ = read(&format!("import {}", "a,".repeat(300_000)));
    let _ = read(&"x = '''".repeat(100_000));
    let _ = read(&"if not a:\n x\n".repeat(50_000));
}

proptest::proptest! {
    #[test]
    fn arbitrary_text_does_no_harm(text in ".{0,400}") {
        let _ = read(&text);
    }

    #[test]
    fn pieces_of_python_do_no_harm(pieces in proptest::collection::vec(proptest::sample::select(vec![
        "import ", "from ", "a", ".", ",", "(", ")", "\n", "\n  ", "try:", "except ImportError:", "f'", "'", "\"\"\"",
        "{", "}", ":", "\\", "\\\n", "#", ";", "if not a:", "é", "rb'", "lambda", "environ", "[", "]", "=", "1e", "\t",
        "__import__(", "import_module", "else:", "raise", "is None",
    ]), 0..60)) {
        let _ = read(&pieces.concat());
    }
}
