//! Search over skills, through the public API: ranking, typos, scripts, hostile queries, damage, many at once.

use std::fs;
use std::path::Path;

use ringfence_skills::{
    Add, Create, Domain, Edits, Library, Matched, Reference, Replace, SearchIndex, SkillName, SkillOrigin,
    SkillText,
};

fn text(name: &str, description: &str, tags: &[&str], body: &str) -> SkillText {
    SkillText {
        name: name.into(),
        description: description.into(),
        tags: tags.iter().map(ToString::to_string).collect(),
        body: body.into(),
    }
}

fn skills() -> Vec<SkillText> {
    vec![
        text(
            "pdf",
            "Read, split and merge PDF files",
            &["documents"],
            "Use pypdf to extract the text of each page.",
        ),
        text("pdf-forms", "Fill in forms", &["documents"], "Works with fillable PDF documents."),
        text(
            "spreadsheet",
            "Edit Excel workbooks",
            &["office"],
            "Convert a workbook to csv or PDF with a script.",
        ),
        text("python-lint", "Check Python code for mistakes", &["code"], "Runs ruff on the project."),
        text("résumé-writer", "Write a curriculum vitae", &["career"], "Ask for experience and education."),
        text("書類作成", "契約書の書類を作成する", &[], "最初に会社名を確認します。"),
        text(
            "imageResizer",
            "Make pictures smaller",
            &["images"],
            "Uses Pillow. Line one\nline two\u{1}\u{2}.",
        ),
    ]
}

fn index(cache: &Path, skills: &[SkillText]) -> SearchIndex {
    let mut index = SearchIndex::open(cache, "test").unwrap();
    sync(&mut index, skills);
    index
}

fn sync(index: &mut SearchIndex, skills: &[SkillText]) -> ringfence_skills::Synced {
    let present: Vec<_> =
        skills.iter().map(|skill| (skill.name.clone(), skill.description.clone())).collect();
    index.sync(&present, |key| skills.iter().find(|skill| skill.name == key).cloned()).unwrap()
}

fn keys(index: &mut SearchIndex, query: &str) -> Vec<String> {
    index.search(query, 10).unwrap().into_iter().map(|hit| hit.key).collect()
}

#[test]
fn exact_names_come_first_then_names_then_text() {
    let cache = tempfile::tempdir().unwrap();
    let mut index = index(cache.path(), &skills());
    assert_eq!(keys(&mut index, "pdf"), ["pdf", "pdf-forms", "spreadsheet"]);
    assert_eq!(keys(&mut index, "PDF Forms")[0], "pdf-forms");
    assert_eq!(keys(&mut index, "spread")[0], "spreadsheet");
    assert_eq!(keys(&mut index, "converting workbooks")[0], "spreadsheet");
    assert_eq!(keys(&mut index, "career"), ["résumé-writer"]);
    assert_eq!(keys(&mut index, "resizer"), ["imageResizer"]);
    // Not all the words are anywhere: those with most of them come.
    assert_eq!(keys(&mut index, "please merge my files zzzz")[0], "pdf");
    let hits = index.search("pdf", 10).unwrap();
    assert_eq!(hits[0].matched, Matched::Name);
    assert_eq!(hits[1].matched, Matched::NameBegins);
    assert_eq!(hits[2].matched, Matched::Words);
    assert_eq!(index.search("pdf", 1).unwrap().len(), 1);
}

#[test]
fn mistakes_accents_and_scripts_without_spaces() {
    let cache = tempfile::tempdir().unwrap();
    let mut index = index(cache.path(), &skills());
    for typo in ["spreadshet", "spraedsheet", "zpreadsheet", "spreadsheeet"] {
        let hits = index.search(typo, 10).unwrap();
        assert_eq!((hits[0].key.as_str(), hits[0].matched), ("spreadsheet", Matched::Near), "{typo}");
    }
    assert_eq!(keys(&mut index, "pyhton mistakes")[0], "python-lint");
    assert_eq!(keys(&mut index, "resume")[0], "résumé-writer");
    assert_eq!(keys(&mut index, "RÉSUMÉ WRITER")[0], "résumé-writer");
    for query in ["書類", "契約", "会社名", "類", "作成する"] {
        assert_eq!(keys(&mut index, query), ["書類作成"], "{query}");
    }
    assert_eq!(keys(&mut index, "約契"), Vec::<String>::new());
}

#[test]
fn a_snippet_shows_where() {
    let cache = tempfile::tempdir().unwrap();
    let mut index = index(cache.path(), &skills());
    let hit = &index.search("workbook csv", 1).unwrap()[0];
    assert_eq!(hit.snippet.text, "Convert a workbook to csv or PDF with a script.");
    let shown: Vec<_> = hit.snippet.matches.iter().map(|range| &hit.snippet.text[range.clone()]).collect();
    assert_eq!(shown, ["workbook", "csv"]);
    let hit = &index.search("会社", 1).unwrap()[0];
    assert_eq!(hit.name, "書類作成");
    assert_eq!(hit.description, "契約書の書類を作成する");
    assert!(hit.snippet.text.contains("最初に会社名を確認"), "{}", hit.snippet.text);
    assert_eq!(&hit.snippet.text[hit.snippet.matches[0].clone()], "会社");
    // Marks that a skill brought along are not marks.
    let hit = &index.search("pillow", 1).unwrap()[0];
    assert_eq!(hit.snippet.matches.len(), 1);
}

#[test]
fn whatever_is_typed_is_a_question_not_a_query() {
    let cache = tempfile::tempdir().unwrap();
    let mut index = index(cache.path(), &skills());
    let long = "pdf ".repeat(100_000);
    for query in [
        "",
        " ",
        "\"",
        "\"pdf",
        "pdf*",
        "NEAR(pdf form, 2)",
        "name : pdf",
        "{name}:pdf",
        "^pdf",
        "pdf AND",
        "OR",
        "NOT pdf",
        "(pdf",
        "pdf)",
        "-pdf",
        "+",
        "'; DROP TABLE skill; --",
        "pdf\0x",
        "\u{1}\u{2}",
        "\u{2063}",
        "%",
        "_",
        "\u{10FFFF}",
        &long,
    ] {
        index.search(query, 5).unwrap_or_else(|error| panic!("{query:?}: {error}"));
    }
    // A column filter would make it a match of all the words.
    let hits = index.search("name:spreadsheet", 5).unwrap();
    assert_eq!((hits[0].key.as_str(), hits[0].matched), ("spreadsheet", Matched::SomeWords));
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]
    #[test]
    fn any_text_can_be_indexed_and_asked_for(name in ".{0,40}", body in "\\PC{0,200}", query in ".{0,60}") {
        let cache = tempfile::tempdir().unwrap();
        let mut index = SearchIndex::open(cache.path(), "test").unwrap();
        let skill = text(&name, &body, &[&query], &body);
        index.sync(&[("k".into(), "1".into())], |_| Some(skill.clone())).unwrap();
        let hits = index.search(&query, 3).unwrap();
        // Its own words find it.
        if let Some(word) = query.split(|c: char| !c.is_ascii_alphanumeric()).find(|word| word.len() > 3 && query.is_ascii()) {
            proptest::prop_assert!(!hits.is_empty(), "{word}");
        }
        for hit in hits {
            for range in hit.snippet.matches {
                proptest::prop_assert!(hit.snippet.text.get(range).is_some());
            }
        }
    }
}

#[test]
fn only_what_changed_is_read_again() {
    let cache = tempfile::tempdir().unwrap();
    let mut all = skills();
    let mut index = index(cache.path(), &all);
    assert_eq!(sync(&mut index, &all).written, 0);
    all[0].description = "Something about walruses".into();
    all.remove(1);
    let synced = sync(&mut index, &all);
    assert_eq!((synced.written, synced.removed), (1, 1));
    assert_eq!(keys(&mut index, "walrus"), ["pdf"]);
    assert_eq!(keys(&mut index, "pdf-forms"), ["pdf", "spreadsheet"]);
    drop(index);
    let mut again = SearchIndex::open(cache.path(), "test").unwrap();
    assert_eq!(sync(&mut again, &all).written, 0);
    let mut other = SearchIndex::open(cache.path(), "another library").unwrap();
    assert_eq!(keys(&mut other, "pdf"), Vec::<String>::new());
}

#[test]
fn a_missing_or_damaged_index_is_made_anew() {
    let cache = tempfile::tempdir().unwrap();
    drop(index(cache.path(), &skills()));
    let file = || {
        let mut files: Vec<_> =
            fs::read_dir(cache.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.retain(|path| path.extension().is_some_and(|extension| extension == "sqlite3"));
        assert_eq!(files.len(), 1, "{files:?}");
        files.remove(0)
    };
    let whole = fs::read(file()).unwrap();
    type Damage = fn(&mut Vec<u8>);
    let damages: [(&str, Damage); 4] = [
        ("not a database", |bytes| *bytes = b"hello, this is not a database at all, not at all".repeat(100)),
        ("cut", |bytes| bytes.truncate(5000)),
        ("empty", Vec::clear),
        ("overwritten", |bytes| bytes[1024..].fill(0xff)),
    ];
    for (name, damage) in damages {
        let mut bytes = whole.clone();
        damage(&mut bytes);
        fs::write(file(), bytes).unwrap();
        let mut index =
            SearchIndex::open(cache.path(), "test").unwrap_or_else(|error| panic!("{name}: {error}"));
        let present: Vec<_> = skills().iter().map(|skill| (skill.name.clone(), "new".to_owned())).collect();
        let all = skills();
        let fill = |index: &mut SearchIndex| {
            index.sync(&present, |key| all.iter().find(|skill| skill.name == key).cloned())
        };
        fill(&mut index).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(keys(&mut index, "pdf")[0], "pdf", "{name}");
    }
    fs::remove_dir_all(cache.path()).unwrap();
    assert_eq!(keys(&mut index(cache.path(), &skills()), "pdf")[0], "pdf");
}

#[test]
fn a_library_is_followed() {
    let directory = tempfile::tempdir().unwrap();
    let library = Library::open(&directory.path().join("library"), Create::Yes).unwrap();
    let add = |name: &str, body: &str| {
        let source = directory.path().join(name);
        fs::create_dir_all(&source).unwrap();
        fs::write(
            source.join("SKILL.md"),
            format!("---\nname: {name}\ndescription: about {name}\n---\n{body}\n"),
        )
        .unwrap();
        let reference = Reference { domain: Domain::default(), name: SkillName::parse(name).unwrap() };
        let replace = Replace::Yes(Edits::Refuse);
        library
            .add(
                &source,
                &Add { reference: reference.clone(), replace, expected: None, origin: SkillOrigin::Here },
            )
            .unwrap();
        reference
    };
    let walrus = add("walrus", "tusks");
    add("penguin", "flippers");
    let mut index = SearchIndex::open(&directory.path().join("cache"), "library").unwrap();
    let mut search = |query: &str| -> Vec<String> {
        index.search_library(&library, query, 10).unwrap().hits.into_iter().map(|hit| hit.key).collect()
    };
    assert_eq!(search("tusks"), ["general/walrus"]);
    assert_eq!(search("pengiun"), ["general/penguin"]);
    add("walrus", "whiskers");
    assert_eq!(search("tusks"), Vec::<String>::new());
    assert_eq!(search("whiskers"), ["general/walrus"]);
    fs::write(
        library.folder_path(&walrus).join("SKILL.md"),
        "---\nname: walrus\ndescription: edited by hand\n---\n",
    )
    .unwrap();
    assert_eq!(search("hand edited"), ["general/walrus"]);
    library.remove(&walrus, Edits::Discard).unwrap();
    assert_eq!(search("walrus"), Vec::<String>::new());
    assert_eq!(index.sync_library(&library).unwrap().written, 0);
}

#[test]
fn threads_with_an_index_each_agree() {
    let cache = tempfile::tempdir().unwrap();
    let all = skills();
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                for round in 0..10 {
                    let mut index = SearchIndex::open(cache.path(), "test").unwrap();
                    let present: Vec<_> =
                        all.iter().map(|skill| (skill.name.clone(), round.to_string())).collect();
                    index.sync(&present, |key| all.iter().find(|skill| skill.name == key).cloned()).unwrap();
                    assert_eq!(keys(&mut index, "pdf")[0], "pdf");
                }
            });
        }
    });
}
