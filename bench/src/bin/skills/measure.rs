//! The measuring: everything in one run, contenders taken in turns.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use ringfence_bench::{Order, Spread};
use ringfence_skills::{Create, Library, SearchIndex, load, validate};

use crate::generated::{Generator, QUERIES, Skill};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Amount {
    pub(crate) skills: usize,
    pub(crate) queries: usize,
    pub(crate) calls: usize,
    pub(crate) runs: usize,
}

impl Amount {
    pub(crate) const FULL: Self = Self { skills: 10_000, queries: 500, calls: 40, runs: 200 };
    pub(crate) const QUICK: Self = Self { skills: 300, queries: 20, calls: 3, runs: 5 };
}

/// Times in milliseconds.
#[derive(Debug)]
pub(crate) struct Figures {
    pub(crate) load: f64,
    pub(crate) validate: f64,
    pub(crate) index: f64,
    pub(crate) look_again: f64,
    pub(crate) query: Spread,
    pub(crate) command: Spread,
    pub(crate) run: Spread,
    pub(crate) skill_run: Spread,
}

pub(crate) fn measure(amount: Amount) -> Result<Figures> {
    let place = tempfile::Builder::new().prefix("ringfence-bench-").tempdir()?;
    let mut generator = Generator::default();
    let skills: Vec<Skill> = (0..amount.skills).map(|number| generator.skill(number)).collect();
    let (load, validate) = read_all(&skills)?;
    let root = place.path().join("library");
    let library = Library::open(&root, Create::Yes)?;
    for skill in &skills {
        let folder = root.join(&skill.domain).join(&skill.name);
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("SKILL.md"), &skill.manifest)?;
    }
    let started = Instant::now();
    let mut search = SearchIndex::open(&place.path().join("cache"), "bench")?;
    let synced = search.sync_library(&library)?;
    let index = milliseconds(started);
    ensure!(synced.written == amount.skills, "only {} skills were indexed", synced.written);
    // What was just written is read again for a while: that is not what a search on another day costs.
    std::thread::sleep(std::time::Duration::from_secs(4));
    search.sync_library(&library)?;
    let started = Instant::now();
    search.sync_library(&library)?;
    let look_again = milliseconds(started);
    let query = spread((0..amount.queries).map(|round| {
        let started = Instant::now();
        search.search(QUERIES[round % QUERIES.len()], 10)?;
        Ok(milliseconds(started))
    }))?;
    let command = command_line(place.path(), &root, amount.calls)?;
    let (run, skill_run) = runs(place.path(), amount.runs)?;
    Ok(Figures { load, validate, index, look_again, query, command, run, skill_run })
}

/// On one core: this program has one thread.
fn read_all(skills: &[Skill]) -> Result<(f64, f64)> {
    let started = Instant::now();
    for skill in skills {
        load(skill.manifest.as_bytes(), &skill.name).with_context(|| skill.name.clone())?;
    }
    let loaded = milliseconds(started);
    let started = Instant::now();
    for skill in skills {
        let problems = validate(skill.manifest.as_bytes(), &skill.name);
        ensure!(problems.is_empty(), "{}: {problems:?}", skill.name);
    }
    Ok((loaded, milliseconds(started)))
}

/// The whole command: start, look for changes in all skills, search, print.
fn command_line(place: &Path, library: &Path, calls: usize) -> Result<Spread> {
    let call = |query: &str| {
        let mut command = ringfence(place)?;
        command.args(["skill", "search", "--library"]).arg(library).arg(query);
        timed(command)
    };
    call(QUERIES[0])?;
    spread((0..calls).map(|round| call(QUERIES[round % QUERIES.len()])))
}

/// The same script as a skill and as a file, in turns.
fn runs(place: &Path, runs: usize) -> Result<(Spread, Spread)> {
    let skill = place.join("hello");
    fs::create_dir_all(skill.join("scripts"))?;
    fs::write(skill.join("SKILL.md"), "---\nname: hello\ndescription: Says hello.\n---\n")?;
    fs::write(skill.join("scripts/main.sh"), "echo hello\n")?;
    let plain = || {
        let mut command = ringfence(place)?;
        command.args(["run", "--", "bash"]).arg(skill.join("scripts/main.sh"));
        timed(command)
    };
    let as_skill = || {
        let mut command = ringfence(place)?;
        command.args(["skill", "run"]).arg(&skill);
        timed(command)
    };
    plain()?;
    as_skill()?;
    let (mut order, mut times) = (Order::default(), [Vec::new(), Vec::new()]);
    for _ in 0..runs {
        let mut turns = [0, 1];
        order.shuffle(&mut turns);
        for turn in turns {
            times[turn].push(if turn == 0 { plain()? } else { as_skill()? });
        }
    }
    let [plain, as_skill] = times;
    Ok((Spread::of(plain).context("no runs")?, Spread::of(as_skill).context("no runs")?))
}

/// The program that was built beside this one, in directories of its own. It is started in the skill's directory, which
/// is the workspace: the script is there in both forms.
fn ringfence(place: &Path) -> Result<Command> {
    let own = std::env::current_exe()?;
    let program: PathBuf = own.with_file_name("ringfence");
    ensure!(program.exists(), "{} is not built: cargo build --release", program.display());
    let (home, workspace) = (place.join("home"), place.join("hello"));
    fs::create_dir_all(&home)?;
    fs::create_dir_all(&workspace)?;
    let mut command = Command::new(program);
    command
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("HOME", home)
        .env("RINGFENCE_STATE_DIR", place.join("state"))
        .current_dir(workspace)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    Ok(command)
}

fn timed(mut command: Command) -> Result<f64> {
    let started = Instant::now();
    let output = command.output()?;
    let took = milliseconds(started);
    if !output.status.success() {
        bail!("{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(took)
}

fn spread(samples: impl Iterator<Item = Result<f64>>) -> Result<Spread> {
    Spread::of(samples.collect::<Result<_>>()?).context("no samples")
}

fn milliseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1000.0
}
