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
    /// Skills in the library that a run shows whole.
    pub(crate) shown: usize,
}

impl Amount {
    pub(crate) const FULL: Self = Self { skills: 10_000, queries: 500, calls: 40, runs: 200, shown: 1_000 };
    pub(crate) const QUICK: Self = Self { skills: 300, queries: 20, calls: 3, runs: 5, shown: 30 };
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
    pub(crate) run_with_library: Spread,
}

pub(crate) fn measure(amount: Amount) -> Result<Figures> {
    let place = tempfile::Builder::new().prefix("ringfence-bench-").tempdir()?;
    let mut generator = Generator::default();
    let skills: Vec<Skill> = (0..amount.skills).map(|number| generator.skill(number)).collect();
    let (load, validate) = read_all(&skills)?;
    let root = place.path().join("library");
    let library = Library::open(&root, Create::Yes)?;
    for skill in &skills {
        write(&root, skill)?;
    }
    let shown = place.path().join("shown");
    for skill in &skills[..amount.shown] {
        let scripts = write(&shown, skill)?.join("scripts");
        fs::create_dir(&scripts)?;
        fs::write(scripts.join("main.py"), "print('hello')\n")?;
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
    let [run, skill_run, run_with_library] = runs(place.path(), &shown, amount.runs)?;
    Ok(Figures { load, validate, index, look_again, query, command, run, skill_run, run_with_library })
}

/// Into a library, as people and `skill add` do. The skill's folder.
fn write(library: &Path, skill: &Skill) -> Result<PathBuf> {
    let folder = library.join(&skill.domain).join(&skill.name);
    fs::create_dir_all(&folder)?;
    fs::write(folder.join("SKILL.md"), &skill.manifest)?;
    Ok(folder)
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

/// The same script as a file, as a skill, and as a file with a whole library beside it, in turns.
fn runs(place: &Path, library: &Path, runs: usize) -> Result<[Spread; 3]> {
    let skill = place.join("hello");
    fs::create_dir_all(skill.join("scripts"))?;
    fs::write(skill.join("SKILL.md"), "---\nname: hello\ndescription: Says hello.\n---\n")?;
    fs::write(skill.join("scripts/main.sh"), "echo hello\n")?;
    let script = skill.join("scripts/main.sh");
    let call = |turn: usize| {
        let mut command = ringfence(place)?;
        match turn {
            0 => command.args(["run", "--", "bash"]).arg(&script),
            1 => command.args(["skill", "run"]).arg(&skill),
            _ => {
                command.args(["run", "--skills", "--library"]).arg(library);
                command.args(["--", "bash"]).arg(&script)
            }
        };
        timed(command)
    };
    let (mut order, mut times) = (Order::default(), [const { Vec::new() }; 3]);
    let mut turns = [0, 1, 2];
    for turn in turns {
        call(turn)?;
    }
    for _ in 0..runs {
        order.shuffle(&mut turns);
        for turn in turns {
            times[turn].push(call(turn)?);
        }
    }
    let [plain, as_skill, with_library] = times.map(|times| Spread::of(times).context("no runs"));
    Ok([plain?, as_skill?, with_library?])
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
