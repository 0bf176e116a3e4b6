use super::*;

fn holds(range: &str, version: &str) -> bool {
    satisfies(&VersionRange::parse(range).unwrap(), version)
}

#[test]
fn ranges_as_in_the_standard() {
    for (range, yes, no) in [
        ("", "3.11.7", "not a version"),
        (">=3.9", "3.9", "3.8.20"),
        (">= 3.9 , < 4", "3.14.2", "4.0"),
        ("~=3.9", "3.14", "4.0"),
        ("~=3.9.1", "3.9.20", "3.10.0"),
        ("~=3.9.1", "3.9.1.post1", "3.9.0"),
        ("==3.11.*", "3.11.7", "3.12.0"),
        ("==3.11", "3.11.0", "3.11.1"),
        ("==3.11.0", "3.11", "3.11rc1"),
        ("!=3.11.*", "3.12.1", "3.11.1"),
        ("!=3.11", "3.11.1", "3.11.0"),
        ("<3.14", "3.13.9", "3.14.0rc1"),
        ("<3.14rc2", "3.14rc1", "3.14rc2"),
        (">3.11", "3.11.1", "3.11"),
        (">1.0", "1.1", "1.0.post1"),
        (">1.0.post1", "1.0.post2", "1.0.post1"),
        ("<=3.11", "3.11.0", "3.11.1"),
        ("<=1.0", "1.0+local", "1.1"),
        ("==1.0", "1.0+local.7", "1.0.1"),
        ("==1.0+local", "1.0+local", "1.0+other"),
        ("===1.0", "1.0", "1.0.0"),
        (">=1!1.0", "1!1.1", "2024.1"),
        (">=3.6.*", "3.6", "3.5.9"),
        (">=1.0.dev1", "1.0a1", "1.0.dev0"),
        (">=1.0-1", "1.0.post1", "1.0"),
        (">=1.0alpha", "1.0a0", "1.0.dev3"),
        (">=V3.8", "v3.8.0", "3.7"),
    ] {
        assert!(holds(range, yes), "{yes} lies in {range:?}");
        assert!(!holds(range, no), "{no} does not lie in {range:?}");
    }
}

#[test]
fn what_is_no_range() {
    for text in [
        "3.9",
        ">=",
        ">=x",
        "=>3.9",
        "~=3",
        "~=3.9.*",
        ">=3.9;",
        ">=3.9 -r x",
        ">=99999999999999999999",
        ">=3..9",
        ">=3.9\n--index-url=x",
        ">=3.9+é",
    ] {
        assert!(VersionRange::parse(text).is_err(), "{text:?}");
    }
    assert!(VersionRange::parse(&">=1,".repeat(200)).is_err());
}

#[test]
fn one_spelling_for_one_range() {
    let text = |range: &str| VersionRange::parse(range).unwrap().as_str().to_owned();
    assert_eq!(text("< 4, >= 3.9"), text(">=3.9,<4"));
    assert_eq!(text(">=1.0-ALPHA.1"), ">=1.0a1");
    assert_eq!(text("==1.0.preview2.rev3_dev4+Ubuntu-1"), "==1.0rc2.post3.dev4+ubuntu.1");
    let both = VersionRange::parse(">=3.9").unwrap().and(&VersionRange::parse("<4,>=3.9").unwrap());
    assert_eq!(both.as_str(), "<4,>=3.9");
}

#[test]
fn versions_in_their_order() {
    let order = [
        "1.0.dev0",
        "1.0a1.dev1",
        "1.0a1",
        "1.0a1.post1",
        "1.0b2",
        "1.0rc1",
        "1.0",
        "1.0+a",
        "1.0+5",
        "1.0.post1",
        "1.1.dev1",
        "1.1",
        "1!0.1",
    ];
    for pair in order.windows(2) {
        let [low, high] = [pair[0], pair[1]].map(|text| Version::parse(text).unwrap());
        assert_eq!(low.cmp(&high), Ordering::Less, "{pair:?}");
        assert_eq!(high.cmp(&low), Ordering::Greater, "{pair:?}");
    }
}
