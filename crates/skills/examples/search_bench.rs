//! Measures indexing and search over generated skills: `cargo run --release -p ringfence-skills --example search_bench`.
//!
//! Prints figures, judges nothing. Times are those of the processor: others may use this machine.

use std::fs;
use std::time::Duration;

use ringfence_skills::{Create, Depth, Library, SearchIndex, Stamp};

const WORDS: &[&str] = &[
    "convert",
    "merge",
    "split",
    "extract",
    "analyse",
    "report",
    "chart",
    "table",
    "invoice",
    "contract",
    "database",
    "query",
    "deploy",
    "container",
    "cluster",
    "monitor",
    "alert",
    "schedule",
    "calendar",
    "email",
    "message",
    "translate",
    "summary",
    "review",
    "refactor",
    "format",
    "validate",
    "schema",
    "image",
    "resize",
    "audio",
    "video",
    "transcribe",
    "spreadsheet",
    "workbook",
    "document",
    "presentation",
    "slide",
    "template",
    "render",
    "browser",
    "scrape",
    "crawl",
    "security",
    "audit",
    "secret",
    "token",
    "network",
    "firewall",
    "backup",
    "restore",
    "archive",
    "compress",
    "encrypt",
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let count: usize = std::env::args().nth(1).map_or(Ok(10_000), |text| text.parse())?;
    let directory = tempfile::tempdir()?;
    let root = directory.path().join("library");
    let library = Library::open(&root, Create::Yes)?;
    let mut random = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = |below: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random >> 20) as usize % below
    };
    for number in 0..count {
        // Words as in real text: few that are everywhere, and many that are rare.
        let mut word = || match next(4) {
            0 => format!("w{}", next(40_000)),
            1 => WORDS[next(8)].to_owned(),
            _ => WORDS[next(WORDS.len())].to_owned(),
        };
        let name = format!("{}-{}-{number}", word(), word());
        let description = (0..25).map(|_| word()).collect::<Vec<_>>().join(" ");
        let body = (0..500).map(|_| word()).collect::<Vec<_>>().join(" ");
        let folder = root.join(format!("domain-{}", number % 20)).join(&name);
        fs::create_dir_all(&folder)?;
        fs::write(
            folder.join("SKILL.md"),
            format!("---\nname: {name}\ndescription: {description}\n---\n{body}\n"),
        )?;
    }
    let cache = directory.path().join("cache");
    let started = cpu();
    let mut index = SearchIndex::open(&cache, "bench")?;
    let synced = index.sync_library(&library)?;
    println!("index {} skills: {:?}", synced.written, cpu() - started);
    let size: u64 = fs::read_dir(&cache)?.filter_map(|entry| Some(entry.ok()?.metadata().ok()?.len())).sum();
    println!("index size: {} MiB", size >> 20);
    std::thread::sleep(Duration::from_secs(4));
    for _ in 0..2 {
        let started = cpu();
        let synced = index.sync_library(&library)?;
        println!("sync with {} changes: {:?}", synced.written, cpu() - started);
    }
    let stamp = library.changes_since(&Stamp::nothing(Depth::Manifest))?.stamp;
    let started = cpu();
    library.changes_since(&stamp)?;
    println!("poll: {:?}", cpu() - started);

    let mut all = Vec::new();
    let kinds: [(&str, &[&str]); 5] = [
        ("a common word", &["convert", "merge", "report", "extract"]),
        ("two words", &["invoice chart", "deploy cluster", "translate audio", "schema validate"]),
        ("a rare word", &["w1234", "w77", "w39999", "w20001"]),
        ("a mistake", &["spreadshet", "transcirbe", "presentaton", "databse query"]),
        (
            "a sentence",
            &[
                "please make a chart of the invoices in my workbook",
                "how do I back up and restore a database",
            ],
        ),
    ];
    for (kind, queries) in kinds {
        let mut times = Vec::new();
        for round in 0..25 * queries.len() {
            let started = cpu();
            let hits = index.search(queries[round % queries.len()], 10)?;
            times.push(cpu() - started);
            assert!(!hits.is_empty());
        }
        times.sort();
        println!("{kind}: median {:?}, worst {:?}", times[times.len() / 2], times[times.len() - 1]);
        all.extend(times);
    }
    all.sort();
    println!("all: median {:?}, 95 of 100 {:?}", all[all.len() / 2], all[all.len() * 95 / 100]);
    let started = cpu();
    SearchIndex::open(&cache, "bench")?.search("invoice chart", 10)?;
    println!("open and ask once: {:?}", cpu() - started);
    Ok(())
}

/// What this thread has used of the processor.
fn cpu() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}
