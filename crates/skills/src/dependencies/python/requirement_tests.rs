use super::*;

#[test]
fn every_spelling_is_written_one_way() {
    for (text, expected) in [
        ("requests", "requests"),
        ("Requests", "requests"),
        (" scikit_learn ", "scikit-learn"),
        ("ruamel..yaml", "ruamel-yaml"),
        ("requests>=2", "requests>=2"),
        ("requests >= 2.31 , < 3", "requests<3,>=2.31"),
        ("requests (>=2)", "requests>=2"),
        ("requests[socks, Security]>=2", "requests[security,socks]>=2"),
        ("pandas==2.*", "pandas==2.*"),
        ("torch==2.1.0+cpu", "torch==2.1.0+cpu"),
        ("tomli; python_version<'3.11'", r#"tomli; python_version < "3.11""#),
        (
            "a>=1;(os_name=='nt' or sys_platform != \"win32\")and extra=='x'",
            r#"a>=1; (os_name == "nt" or sys_platform != "win32") and extra == "x""#,
        ),
        ("a; 'linux' in sys_platform", r#"a; "linux" in sys_platform"#),
        ("a; 'arm' not in platform.machine", r#"a; "arm" not in platform_machine"#),
        ("a[]", "a"),
    ] {
        assert_eq!(parse(text).unwrap().text(), expected, "{text}");
        assert_eq!(parse(expected).unwrap().text(), expected, "{expected}");
    }
}

#[test]
fn nothing_but_a_requirement_is_taken() {
    use RequirementError::*;
    for (text, error) in [
        ("", Syntax),
        ("-r other.txt", Syntax),
        ("--index-url=https://x", Url),
        ("a --index-url x", Versions),
        ("a\n-r b", Syntax),
        ("a @ https://example.com/a.whl", Url),
        ("a@git+https://example.com/a", Repository),
        ("a @ file:///etc", Path),
        ("git+ssh://git@example.com/a", Repository),
        ("https://example.com/a.tar.gz", Url),
        ("./local", Path),
        ("../local", Path),
        ("local/package", Path),
        ("thing-1.0-py3-none-any.whl", Path),
        ("~/a", Path),
        ("a=1", Versions),
        ("a 1.0", Versions),
        ("a[b", Syntax),
        ("a[b c]", Syntax),
        ("a-", Syntax),
        ("a; python_version", Marker),
        ("a; 'x' == 'y'", Marker),
        ("a; python_version < '3' or", Marker),
        ("a; nonsense == '3'", Marker),
        ("a; os_name == 'x\\'", Marker),
        ("${HOME}", Syntax),
        ("a;", Marker),
    ] {
        assert_eq!(parse(text), Err(error), "{text:?}");
    }
    assert_eq!(parse(&format!("a; {}os_name == 'x'{}", "(".repeat(50), ")".repeat(50))), Err(Marker));
    assert_eq!(parse(&"a".repeat(5_000)), Err(Syntax));
}

proptest::proptest! {
    /// What is written is one safe line, and reads the same again.
    #[test]
    fn what_is_written_is_safe(text in "[a-zA-Z\\[\\]<>=!~;,.' \"()0-9@:/-]{0,60}") {
        if let Ok(parsed) = parse(&text) {
            let written = parsed.text();
            proptest::prop_assert!(written.starts_with(|c: char| c.is_ascii_alphanumeric()), "{}", written);
            proptest::prop_assert!(!written.contains(['\n', '@', '#']) && !written.contains(" -"), "{}", written);
            proptest::prop_assert_eq!(parse(&written).unwrap(), parsed);
        }
    }

    #[test]
    fn arbitrary_text_does_no_harm(text in ".{0,200}") {
        let _ = parse(&text);
    }
}
