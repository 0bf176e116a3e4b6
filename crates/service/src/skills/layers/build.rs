//! Installing a layer: in a sandbox that reaches the package registry and nothing else, with an empty workspace, none of
//! the caller's variables and no secret. Whatever packages run while they are installed, they run there.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use ringfence_sandbox::{AttachAs, Attached, Attachment, End, Holes, Stream, WriteBound};
use ringfence_skills::remove_tree;
use rustix::fs::{FlockOperation, flock};

use super::kept::{LayerRecord, Layers, Package, RECORD, ROOT, remove};
use super::plan::{LayerKind, LayerPlan};
use crate::error::{ErrorCode, ServiceError};
use crate::places::Places;
use crate::registry::Registry;
use crate::skills::contained::{Contained, Work, run_contained};
use crate::skills::programs::Programs;

const PYTHON: &str = include_str!("python.sh");
const NODE: &str = include_str!("node.sh");
/// Where the installer finds what it is given.
const INPUT: &str = "/run/ringfence/build";
/// Far more than people install, and less than what a disk can't spare.
const BOUND: WriteBound =
    WriteBound { bytes: 16 << 30, entries: 1_000_000, depth: 64, keep_free: 1 << 30, holes: Holes::Count };

/// Make the layer, unless somebody else has made it meanwhile; `again` makes it anew. What the installer says goes to this
/// process's stdout and stderr; `say` is told what is waited for.
pub fn build_layer(
    places: &Places,
    plan: &LayerPlan,
    again: bool,
    say: &mut dyn FnMut(&str),
) -> Result<(), ServiceError> {
    let layers = Layers::of(places);
    layers.ensure(places)?;
    layers.sweep().iter().for_each(|problem| say(&problem.to_string()));
    let lock = layers.lock_file(&plan.key)?;
    let locked = |error: rustix::io::Errno| ServiceError::state("lock", &layers.path, &error.into());
    if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
        say("waiting: another ringfence installs the same packages");
        flock(&lock, FlockOperation::LockExclusive).map_err(locked)?;
    }
    let place = layers.path.join(&plan.key);
    if place.exists() && !again {
        return Ok(());
    }
    let staging = layers.staging(&plan.key);
    let problem = |error: io::Error| ServiceError::state("write", &staging, &error);
    if staging.exists() {
        remove_tree(&staging).map_err(problem)?;
    }
    let built = prepare(&staging, plan).map_err(problem).and_then(|()| install(places, plan, &staging));
    let kept = built.and_then(|()| keep(&layers, plan, &staging).map_err(problem)?.ok_or_else(in_use));
    if kept.is_err() {
        let _ = remove_tree(&staging);
    }
    kept
}

fn prepare(staging: &Path, plan: &LayerPlan) -> io::Result<()> {
    fs::create_dir_all(staging.join(ROOT))?;
    let input = staging.join("input");
    fs::create_dir(&input)?;
    for (name, text) in &plan.input {
        fs::write(input.join(name), text)?;
    }
    Ok(())
}

fn install(places: &Places, plan: &LayerPlan, staging: &Path) -> Result<(), ServiceError> {
    let programs = Programs::on_path(places, Vec::new(), &BTreeMap::new());
    let interpreter = &plan.interpreter.path;
    let mut attached = Attached {
        directories: programs.attachments(interpreter),
        path: interpreter.parent().map(Path::to_path_buf).into_iter().collect(),
        bound: Some(BOUND),
        ..Attached::default()
    };
    let mut attach = |source: &Path, target: &Path, attach_as| {
        attached.directories.push(Attachment {
            source: source.into(),
            target: target.into(),
            attach_as,
            expected: None,
        });
    };
    attach(&staging.join(ROOT), &plan.kind.inside(), AttachAs::Write);
    attach(&staging.join("input"), Path::new(INPUT), AttachAs::Read);
    let (script, registry) = match plan.kind {
        LayerKind::Python => {
            attached.variables = plan.sources.pip_variables();
            (PYTHON, Registry::Pip)
        }
        LayerKind::Node => (NODE, Registry::Npm),
    };
    let tool = &plan.sources.installer;
    if let Some(tool) = tool {
        attached.directories.extend(programs.attachments(tool));
    }
    let argv = [
        "/bin/sh".into(),
        "-c".into(),
        script.into(),
        "sh".into(),
        interpreter.clone().into_os_string(),
        plan.kind.inside().into_os_string(),
        INPUT.into(),
        tool.clone().unwrap_or_default().into_os_string(),
    ];
    let contained = Contained {
        work: Work::Build,
        argv: argv.to_vec(),
        attached,
        registries: vec![registry],
        hosts: Vec::new(),
        stream: Stream::Inherit,
    };
    let outcome = run_contained(places, contained)?;
    // Also what was written since it was last looked at.
    BOUND.check(&staging.join(ROOT)).map_err(|beyond| too_much(plan, &beyond.to_string()))?;
    if outcome.end == End::OverBound {
        return Err(too_much(plan, "so much that the disk would soon be full"));
    }
    if outcome.exit_code() == 0 {
        return Ok(());
    }
    let blocked: Vec<&str> = outcome.denials.iter().take(3).map(|denial| denial.what.as_str()).collect();
    let why = if blocked.is_empty() {
        String::new()
    } else {
        format!("; the sandbox refused {}", blocked.join(", "))
    };
    Err(ServiceError::new(
        ErrorCode::BuildFailed,
        format!("the packages could not be installed: {}{why}", plan.requirements.join(", ")),
        "read what the installer said above; --no-deps runs without them",
    ))
}

fn too_much(plan: &LayerPlan, what: &str) -> ServiceError {
    ServiceError::new(
        ErrorCode::BuildFailed,
        format!("the packages write {what}, and were stopped: {}", plan.requirements.join(", ")),
        "look at what these packages are; --no-deps runs without them",
    )
}

/// Describe what was installed and put it in its place. `None` if a run uses the one that is to be replaced.
fn keep(layers: &Layers, plan: &LayerPlan, staging: &Path) -> io::Result<Option<()>> {
    remove_tree(&staging.join("input"))?;
    let root = staging.join(ROOT);
    let record = LayerRecord {
        key: plan.key.clone(),
        kind: plan.kind,
        interpreter: plan.interpreter.clone(),
        requirements: plan.requirements.clone(),
        registries: plan.sources.lines(),
        resolved: resolved(plan.kind, &root),
        bytes: size(&root),
        built: jiff::Timestamp::now().to_string(),
    };
    let text = serde_json::to_vec_pretty(&record).map_err(io::Error::other)?;
    let mut file = File::create_new(staging.join(RECORD))?;
    file.write_all(&text)?;
    // A name that outlives a power cut must not outlive the files behind it.
    rustix::fs::syncfs(&file)?;
    let place = layers.path.join(&plan.key);
    if place.exists() && !remove(layers, &plan.key)? {
        return Ok(None);
    }
    fs::rename(staging, &place)?;
    File::open(&layers.path)?.sync_all()?;
    Ok(Some(()))
}

fn in_use() -> ServiceError {
    ServiceError::new(
        ErrorCode::BadRequest,
        "a run uses the layer that is to be replaced",
        "try again when it has ended",
    )
}

/// The packages, by the names of directories: nothing that a package wrote is read.
fn resolved(kind: LayerKind, root: &Path) -> Vec<Package> {
    let mut found = Vec::new();
    match kind {
        LayerKind::Python => {
            let versions = names(&root.join("lib")).into_iter().filter(|name| name.starts_with("python"));
            for version in versions {
                let packages = names(&root.join("lib").join(version).join("site-packages"));
                let named =
                    packages.iter().filter_map(|name| name.strip_suffix(".dist-info")?.rsplit_once('-'));
                found.extend(
                    named.map(|(name, version)| Package { name: name.into(), version: version.into() }),
                );
            }
        }
        LayerKind::Node => {
            let modules = root.join("node_modules");
            for name in names(&modules) {
                let scoped = if name.starts_with('@') { names(&modules.join(&name)) } else { Vec::new() };
                let all = if name.starts_with('@') {
                    scoped.into_iter().map(|inner| format!("{name}/{inner}")).collect()
                } else if name.starts_with('.') {
                    Vec::new()
                } else {
                    vec![name]
                };
                found.extend(all.into_iter().map(|name| {
                    let version = npm_version(&modules.join(&name)).unwrap_or_default();
                    Package { name, version }
                }));
            }
        }
    }
    found.sort();
    found
}

/// `version` of a package.json, if it looks like one.
fn npm_version(package: &Path) -> Option<String> {
    let text = crate::files::read_if_there(&package.join("package.json")).ok()??;
    let version = serde_json::from_str::<serde_json::Value>(&text).ok()?.get("version")?.as_str()?.to_owned();
    (version.len() < 80 && version.chars().all(|letter| letter.is_ascii_graphic())).then_some(version)
}

/// The directories in a directory that is none of a link's.
fn names(directory: &Path) -> Vec<String> {
    if !directory.symlink_metadata().is_ok_and(|facts| facts.is_dir()) {
        return Vec::new();
    }
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let directories = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    directories.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// Of a tree that is within the bound.
fn size(root: &Path) -> u64 {
    let mut bytes = 0u64;
    let mut waiting = vec![root.to_path_buf()];
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(facts) if facts.is_dir() => waiting.push(entry.path()),
                Ok(facts) => bytes = bytes.saturating_add(facts.len()),
                Err(_) => {}
            }
        }
    }
    bytes
}
