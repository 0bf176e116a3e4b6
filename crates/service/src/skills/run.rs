//! Running a script of a skill: from the names that a person gives to what came of it.

use std::ffi::OsString;
use std::path::Path;

use ringfence_policy::{Layer, Origin, Workspace};
use ringfence_sandbox::{Alias, AttachAs, Attached, Attachment, FileId};
use ringfence_skills::{Digest, Needs, Tree, needs};
use serde::Serialize;

use super::changes::{Snapshot, WorkspaceChanges};
use super::check::check;
use super::command::{Dependencies, Fitted, Fitting, MakeLayer, fit};
use super::grants::{Permitted, permitted};
use super::interpreter::{HEAD, Interpreter, Kind, interpreter};
use super::layers::LayerInUse;
use super::programs::Programs;
use super::script::{Wanted, find_script};
use super::settings::skill_settings;
use super::source::{FoundSkill, SkillReference, find_skill};
use crate::error::{ErrorCode, ServiceError};
use crate::places::Places;
use crate::runs::{PreparedRun, RunReport, RunSpec, prepare};

/// What a caller asks for.
#[derive(Clone, Debug)]
pub struct SkillRunSpec {
    pub reference: SkillReference,
    pub wanted: Wanted,
    pub args: Vec<OsString>,
    /// The skill may write into its own directory; what it writes is thrown away.
    pub copy: bool,
    pub dependencies: Dependencies,
    /// Everything else, as for a plain run. Its command is not looked at.
    pub run: RunSpec,
}

/// What is known of a run before its policy is: enough to explain it.
#[derive(Debug)]
pub struct SkillSetup {
    pub run: RunSpec,
    pub notes: Vec<String>,
    skill: FoundSkill,
    script: String,
    needs: Needs,
    inferred: Vec<String>,
    layers: Vec<LayerInUse>,
}

/// A run that is decided and not yet begun.
#[derive(Debug)]
pub struct PreparedSkill {
    prepared: PreparedRun,
    setup: Rest,
    warnings: Vec<String>,
}

#[derive(Debug)]
struct Rest {
    notes: Vec<String>,
    skill: FoundSkill,
    script: String,
    inferred: Vec<String>,
    layers: Vec<LayerInUse>,
}

/// What is told of a run beside what came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tell {
    pub digest: bool,
    pub workspace_changes: bool,
}

#[derive(Debug)]
pub struct SkillReport {
    pub run: RunReport,
    pub skill: RanSkill,
    pub dependencies: RanWith,
    pub workspace_changes: Option<WorkspaceChanges>,
}

/// The skill that was run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RanSkill {
    pub name: String,
    pub domain: String,
    /// Null where it was not asked for, or where the skill holds what none can have.
    pub digest: Option<Digest>,
    /// Its path in the skill, or the module's name.
    pub script: String,
}

/// The installed dependencies that it was run with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RanWith {
    pub inferred: Vec<String>,
    /// The ids of their layers.
    pub layer: Vec<String>,
}

/// Find the skill and its script, and install what is missing.
pub fn set_up_skill(
    places: &Places,
    spec: SkillRunSpec,
    make: &mut MakeLayer<'_>,
) -> Result<SkillSetup, ServiceError> {
    let SkillRunSpec { reference, wanted, args, copy, dependencies, mut run } = spec;
    let settings = skill_settings(places)?;
    let skill = find_skill(places, &reference)?;
    let inside = skill.inside();
    let Permitted { layer: granted, mut notes } = permitted(places, &skill, &run.policy.flags)?;
    // Below the flags: what is said for this run wins.
    run.policy.flags.splice(0..0, granted);
    let (script, runs) = match &wanted {
        Wanted::Module(name) => (module(&skill.tree, &skill.name, name)?, python()),
        Wanted::Only | Wanted::Script(_) => {
            let name = if let Wanted::Script(name) = &wanted { Some(name.as_str()) } else { None };
            let script = find_script(&skill.tree, &skill.name, name, &settings.interpreters)?;
            let head = skill.tree.read_file(&script.path, HEAD).map_err(|error| bad(error.to_string()))?;
            let runs = interpreter(&script.path, &head, script.executable, &settings.interpreters);
            (script.path, runs.map_err(|error| bad(format!("{}: {error}", skill.name)))?)
        }
    };
    let needs = needs(&skill.tree, &skill.manifest, Some(&script));
    let own = &settings.interpreters;
    let programs = Programs::on_path(places, hostile(places, &run), own);
    let fitting =
        Fitting { places, programs: &programs, own, tree: &skill.tree, needs: &needs, dependencies, make };
    let mut fitted = fit(fitting, &runs)?;
    run.policy.flags.extend(shown(&mut fitted));
    notes.extend(skill.warnings.iter().map(|problem| format!("SKILL.md: {}", problem.message)));
    notes.extend(
        needs.refused.iter().map(|one| format!("{}: `{}` is not taken: {}", one.origin, one.what, one.why)),
    );
    notes.append(&mut fitted.notes);
    let mut argv = std::mem::take(&mut fitted.words);
    let mut variables = vec![
        ("RINGFENCE_SKILL".to_owned(), inside.display().to_string()),
        // The skill is read-only, and its layer too.
        ("PYTHONDONTWRITEBYTECODE".to_owned(), "1".to_owned()),
    ];
    let script_shown = match &wanted {
        Wanted::Module(name) => {
            argv.extend(["-m".into(), name.into()]);
            variables.push(("PYTHONPATH".to_owned(), inside.display().to_string()));
            name.clone()
        }
        _ => {
            argv.push(inside.join(&script).into_os_string());
            script
        }
    };
    argv.extend(args);
    run.argv = argv;
    let inferred = fitted.plans.iter().flat_map(|plan| plan.inferred.clone()).collect();
    attach(&mut run.attached, &skill, copy, &mut fitted, variables);
    Ok(SkillSetup { run, notes, skill, script: script_shown, needs, inferred, layers: fitted.layers })
}

/// Show skills in a sandbox that somebody else finds commands for, with what all their scripts need. With what a person
/// should know.
pub fn attach_skills(
    places: &Places,
    skills: Vec<SkillReference>,
    run: &mut RunSpec,
    make: &mut MakeLayer<'_>,
) -> Result<Vec<String>, ServiceError> {
    let settings = skill_settings(places)?;
    let own = &settings.interpreters;
    let mut notes = Vec::new();
    for reference in skills {
        let skill = find_skill(places, &reference)?;
        let Permitted { layer: granted, notes: more } = permitted(places, &skill, &run.policy.flags)?;
        run.policy.flags.splice(0..0, granted);
        notes.extend(more);
        let needs = needs(&skill.tree, &skill.manifest, None);
        let programs = Programs::on_path(places, hostile(places, run), own);
        let dependencies = Dependencies::Install;
        let fitting = Fitting {
            places,
            programs: &programs,
            own,
            tree: &skill.tree,
            needs: &needs,
            dependencies,
            make,
        };
        let any = Interpreter { kind: Kind::Itself, args: Vec::new(), variables: Vec::new() };
        let mut fitted = fit(fitting, &any)?;
        let taken = |directory: &Attachment| {
            run.attached.directories.iter().any(|had| had.target == directory.target)
        };
        if let Some(twice) = fitted.attached.directories.iter().find(|directory| taken(directory)) {
            return Err(bad(format!(
                "{} needs packages at {}, where another skill's are already: make a session for each",
                skill.name,
                twice.target.display()
            )));
        }
        run.policy.flags.extend(shown(&mut fitted));
        notes.append(&mut fitted.notes);
        let variables = vec![("PYTHONDONTWRITEBYTECODE".to_owned(), "1".to_owned())];
        attach(&mut run.attached, &skill, false, &mut fitted, variables);
    }
    Ok(notes)
}

impl SkillSetup {
    /// Decide the rest, and say what is missing. Nothing has run yet.
    pub fn prepare(self, places: Places) -> Result<PreparedSkill, ServiceError> {
        let Self { run, notes, skill, script, needs, inferred, layers } = self;
        let prepared = prepare(places, run)?;
        if let Some(image) = prepared.image() {
            return Err(ServiceError::new(
                ErrorCode::BadRequest,
                format!(
                    "the skill was fitted to this host's programs, and would see those of image `{image}`"
                ),
                "leave --image out; or make an image with the skill in it (`ringfence skill pack --image`, \
                 `ringfence image build --from`), and run its script with `ringfence run --image`",
            ));
        }
        let warnings = check(&skill.name, &needs, prepared.plan())?;
        Ok(PreparedSkill { prepared, warnings, setup: Rest { notes, skill, script, inferred, layers } })
    }
}

impl PreparedSkill {
    /// What is likely to go wrong.
    pub fn warnings(&self) -> impl Iterator<Item = &str> {
        self.prepared.warnings().iter().chain(&self.warnings).map(String::as_str)
    }

    pub fn notes(&self) -> impl Iterator<Item = &str> {
        self.setup.notes.iter().chain(self.prepared.notes()).map(String::as_str)
    }

    pub fn run(self, tell: Tell) -> Result<SkillReport, ServiceError> {
        let Self { prepared, setup, .. } = self;
        let workspace = prepared.plan().workspace.as_ref().map(|workspace| workspace.source.clone());
        let before = workspace.filter(|_| tell.workspace_changes).map(|path| Snapshot::take(&path));
        let digest = if tell.digest { setup.skill.digest().ok() } else { None };
        let run = prepared.run()?;
        let Rest { skill, script, inferred, layers, .. } = setup;
        Ok(SkillReport {
            run,
            skill: RanSkill { name: skill.name.clone(), domain: skill.domain.clone(), digest, script },
            dependencies: RanWith { inferred, layer: layers.into_iter().map(|layer| layer.key).collect() },
            workspace_changes: before.map(Snapshot::changes),
        })
    }
}

fn attach(
    attached: &mut Attached,
    skill: &FoundSkill,
    copy: bool,
    fitted: &mut Fitted,
    variables: Vec<(String, String)>,
) {
    let inside = skill.inside();
    attached.aliases.extend(fitted.node_modules(&inside));
    let from = std::mem::take(&mut fitted.attached);
    attached.directories.extend(from.directories);
    attached.aliases.extend(from.aliases);
    attached.path.extend(from.path);
    attached.variables.extend(from.variables);
    attached.variables.extend(variables);
    attached.directories.push(Attachment {
        source: skill.directory.clone(),
        target: inside,
        attach_as: if copy { AttachAs::Copy } else { AttachAs::Read },
        // The one that was read, whatever is called so by then.
        expected: FileId::of(skill.tree.root()).ok(),
    });
    attached.hidden.extend(skill.left_out.iter().map(|path| skill.inside().join(path)));
    if skill.name != skill.domain {
        let to = Path::new(&skill.domain).join(&skill.name);
        attached.aliases.push(Alias { target: Path::new("/skills").join(&skill.name), to });
    }
}

/// The single files that the command needs, as a layer.
fn shown(fitted: &mut Fitted) -> Option<(Origin, Layer)> {
    let mut layer = Layer::default();
    layer.filesystem.read = std::mem::take(&mut fitted.read);
    (!layer.filesystem.read.is_empty()).then(|| (Origin::flag("skill run"), layer))
}

/// Directories that this run, or another one, may write: no program of the host is taken from them.
fn hostile(places: &Places, run: &RunSpec) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for (_, layer) in &run.policy.flags {
        found.extend(layer.filesystem.write.iter().map(|path| places.absolute(path, &places.current)));
        if let Some(Workspace::Path(path)) = &layer.filesystem.workspace {
            found.push(places.absolute(path, &places.current));
        }
    }
    found
}

fn python() -> Interpreter {
    Interpreter { kind: Kind::Python { version: None }, args: Vec::new(), variables: Vec::new() }
}

/// The file of a module, from the skill's root.
fn module(tree: &Tree, skill: &str, name: &str) -> Result<String, ServiceError> {
    let path = name.replace('.', "/");
    let right =
        name.split('.').all(|part| !part.is_empty() && part.chars().all(|c| c.is_alphanumeric() || c == '_'));
    let forms = [format!("{path}.py"), format!("{path}/__main__.py")];
    let found = forms
        .into_iter()
        .filter(|_| right)
        .find(|form| tree.entries().iter().any(|entry| entry.path == *form));
    found.ok_or_else(|| {
        bad(format!("{skill} has no module {name}: neither {path}.py nor {path}/__main__.py is in it"))
    })
}

fn bad(message: String) -> ServiceError {
    ServiceError::new(
        ErrorCode::BadSkill,
        message,
        "name a script of the skill; `ringfence skill deps SKILL` shows what it needs",
    )
}
