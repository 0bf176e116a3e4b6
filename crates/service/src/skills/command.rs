//! The command for a script: which program, which arguments, and what has to be shown for it to run.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use ringfence_sandbox::{Alias, AttachAs, Attached, Attachment};
use ringfence_skills::{Needs, NodeLock, NodeNeeds, PythonNeeds, Tree};

use super::interpreter::{Interpreter, Kind, is_known};
use super::layers::{LayerInUse, LayerKind, LayerPlan, Sources, find_layer, plan_node, plan_python};
use super::nodes::pick_node;
use super::programs::Programs;
use super::pythons::{InterpreterFacts, Language, any_python, interpreter_facts, pick_python};
use crate::error::{ErrorCode, ServiceError};
use crate::places::Places;

/// Whether what a skill needs is installed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dependencies {
    #[default]
    Install,
    Leave,
    InstallAgain,
    /// Use what is there, and only say what would be installed.
    Explain,
}

/// Makes a layer that is missing; `true` where it is to be made again.
pub type MakeLayer<'a> = dyn FnMut(&LayerPlan, bool) -> Result<(), ServiceError> + 'a;

/// What a command line and its surroundings are put together from.
pub(crate) struct Fitting<'a, 'b> {
    pub(crate) places: &'a Places,
    pub(crate) programs: &'a Programs,
    /// The user's words for extensions.
    pub(crate) own: &'a BTreeMap<String, Vec<String>>,
    pub(crate) tree: &'a Tree,
    pub(crate) needs: &'a Needs,
    pub(crate) dependencies: Dependencies,
    pub(crate) make: &'a mut MakeLayer<'b>,
}

/// A command that is ready, and what comes with it.
#[derive(Debug, Default)]
pub(crate) struct Fitted {
    /// The words before the script.
    pub(crate) words: Vec<OsString>,
    pub(crate) attached: Attached,
    /// Single files that are shown.
    pub(crate) read: Vec<PathBuf>,
    pub(crate) layers: Vec<LayerInUse>,
    pub(crate) plans: Vec<LayerPlan>,
    pub(crate) notes: Vec<String>,
}

/// Look everything up, install what is missing, and say which words go before the script.
pub(crate) fn fit(mut fitting: Fitting<'_, '_>, interpreter: &Interpreter) -> Result<Fitted, ServiceError> {
    let mut fitted = Fitted::default();
    fitted.attached.variables.extend(interpreter.variables.iter().cloned());
    let python = fitting.python_layer(&mut fitted, &interpreter.kind)?;
    let node = fitting.node_layer(&mut fitted, &interpreter.kind)?;
    let mut args: Vec<OsString> = Vec::new();
    let program = match &interpreter.kind {
        Kind::Python { .. } => Some(python.ok_or_else(|| missing("python3", ""))?),
        Kind::Node => Some(node.ok_or_else(|| missing("node", ""))?),
        Kind::TypeScript => {
            let (program, flag) = fitting.typescript(&mut fitted, node)?;
            args.extend(flag.map(OsString::from));
            Some(program)
        }
        Kind::Named(names) => Some(fitting.named(&mut fitted, names)?),
        Kind::Itself => None,
    };
    fitted.words.extend(program.map(PathBuf::into_os_string));
    fitted.words.extend(args);
    fitted.words.extend(interpreter.args.iter().map(OsString::from));
    Ok(fitted)
}

impl Fitting<'_, '_> {
    /// The Python for the script, from a layer where packages are needed. `None` where nothing needs one.
    fn python_layer(&mut self, fitted: &mut Fitted, kind: &Kind) -> Result<Option<PathBuf>, ServiceError> {
        let is_python = matches!(kind, Kind::Python { .. });
        let exact = if let Kind::Python { version } = kind { version.as_deref() } else { None };
        let needs = self.needs.python.as_ref();
        let range = needs.and_then(|needs| needs.requires_python.as_ref());
        let layered = needs.filter(|needs| needs.needs_layer() && self.dependencies != Dependencies::Leave);
        if layered.is_none() && !is_python {
            return Ok(None);
        }
        if let Some(needs) = layered {
            fitted.notes.extend(undeclared(needs));
            let facts = pick_python(self.places, self.programs, range, exact)?;
            let interpreter = facts.path.clone();
            fitted.show(self.programs, &interpreter);
            let sources = Sources::of(self.places, self.programs, LayerKind::Python)?;
            if self.layer(fitted, plan_python(needs, facts, sources))? {
                let inside = LayerKind::Python.inside();
                fitted.attached.path.push(inside.join("bin"));
                fitted.attached.variables.push(("VIRTUAL_ENV".into(), inside.display().to_string()));
                return Ok(Some(inside.join("bin/python")));
            }
            return Ok(Some(interpreter));
        }
        let path = if range.is_some() || exact.is_some() {
            Some(pick_python(self.places, self.programs, range, exact)?.path)
        } else {
            any_python(self.places, self.programs)
        };
        if let Some(path) = &path {
            fitted.show(self.programs, path);
        }
        Ok(path)
    }

    fn node_layer(&mut self, fitted: &mut Fitted, kind: &Kind) -> Result<Option<PathBuf>, ServiceError> {
        let is_node = matches!(kind, Kind::Node | Kind::TypeScript);
        let layered = self
            .needs
            .node
            .as_ref()
            .filter(|needs| needs.needs_layer() && self.dependencies != Dependencies::Leave);
        if layered.is_none() && !is_node {
            return Ok(None);
        }
        let engines = self.needs.node.as_ref().and_then(|needs| needs.engines_node.as_deref());
        let path = match engines.is_some() || layered.is_some() {
            true => pick_node(self.places, self.programs, engines)?.path,
            // Nothing is asked where any will do.
            false => ["node", "nodejs"]
                .iter()
                .find_map(|name| self.programs.find(name))
                .ok_or_else(|| missing("node", ""))?,
        };
        fitted.show(self.programs, &path);
        if let Some(needs) = layered {
            fitted.notes.extend(undeclared_node(needs));
            fitted.notes.extend(needs.lock.as_ref().and_then(NodeLock::unused));
            let facts = interpreter_facts(self.places, self.programs, &path, Language::Node)?;
            let sources = Sources::of(self.places, self.programs, LayerKind::Node)?;
            let plan = plan_node(self.tree, needs, facts, sources)?;
            if self.layer(fitted, plan)? {
                let modules = LayerKind::Node.inside().join("node_modules");
                fitted.attached.path.push(modules.join(".bin"));
                fitted.attached.variables.push(("NODE_PATH".into(), modules.display().to_string()));
            }
        }
        Ok(Some(path))
    }

    /// A program by its name. Its installation is shown only for an interpreter that people install as one: a skill's first
    /// line can name any program, and must not choose which directory of a home is shown.
    fn named(&self, fitted: &mut Fitted, names: &[String]) -> Result<PathBuf, ServiceError> {
        // What a layer brings is in its own PATH.
        if let Some(name) = names.iter().find(|name| fitted.brings(name)) {
            return Ok(PathBuf::from(name));
        }
        let Some(found) = names.iter().find_map(|name| self.programs.find(name)) else {
            let elsewhere = names.iter().find_map(|name| self.programs.passed_over(name));
            return Err(elsewhere
                .map_or_else(|| missing(&names.join(" or "), IN_CONFIG), |path| not_installed(&path)));
        };
        if names.iter().any(|name| is_known(name, self.own)) {
            fitted.show(self.programs, &found);
        } else if !self.programs.attachments(&found).is_empty() {
            fitted.notes.push(format!("{} is shown, and nothing that lies beside it", found.display()));
            fitted.read.push(found.clone());
        }
        Ok(found)
    }

    /// Attach the layer of a plan, made first if it is missing. False where it is only to be talked about.
    fn layer(&mut self, fitted: &mut Fitted, plan: LayerPlan) -> Result<bool, ServiceError> {
        let mut found = find_layer(self.places, &plan.key);
        if self.dependencies == Dependencies::Explain && found.is_none() {
            fitted.notes.push(format!("these would be installed first: {}", plan.requirements.join(", ")));
            fitted.plans.push(plan);
            return Ok(false);
        }
        let again = self.dependencies == Dependencies::InstallAgain;
        if again || found.is_none() {
            drop(found.take());
            (self.make)(&plan, again)?;
            found = find_layer(self.places, &plan.key);
        }
        let layer = found.ok_or_else(|| {
            ServiceError::new(
                ErrorCode::BuildFailed,
                "the installed packages are not there",
                "try again with --rebuild-deps",
            )
        })?;
        fitted.attached.directories.push(Attachment {
            source: layer.root.clone(),
            target: plan.kind.inside(),
            attach_as: AttachAs::Read,
            expected: None,
        });
        fitted.layers.push(layer);
        fitted.plans.push(plan);
        Ok(true)
    }

    /// Node where it takes types out by itself, else a `tsx` that the skill declares or that is on PATH.
    fn typescript(
        &mut self,
        fitted: &mut Fitted,
        node: Option<PathBuf>,
    ) -> Result<(PathBuf, Option<&'static str>), ServiceError> {
        if fitted.brings("tsx") {
            return Ok((LayerKind::Node.inside().join("node_modules/.bin/tsx"), None));
        }
        let node = node.ok_or_else(|| missing("node", ""))?;
        let InterpreterFacts { version, .. } =
            interpreter_facts(self.places, self.programs, &node, Language::Node)?;
        let mut numbers = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
        match (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) {
            (22, 18..) | (23, 6..) | (24.., _) => return Ok((node, None)),
            (22, 6..) | (23, _) => return Ok((node, Some("--experimental-strip-types"))),
            _ => {}
        }
        if let Some(tsx) = self.programs.find("tsx") {
            fitted.show(self.programs, &tsx);
            return Ok((tsx, None));
        }
        Err(ServiceError::new(
            ErrorCode::Missing,
            format!("Node {version} does not run TypeScript by itself, and the skill does not bring tsx"),
            "install Node 22.6 or later, or put tsx among the dependencies of the skill's package.json",
        ))
    }
}

impl Fitted {
    /// Show a program's installation, with its directory in PATH.
    fn show(&mut self, programs: &Programs, program: &Path) {
        let attachments = programs.attachments(program);
        if let (false, Some(directory)) = (attachments.is_empty(), program.parent()) {
            self.attached.path.push(directory.to_path_buf());
        }
        for attachment in attachments {
            if !self.attached.directories.contains(&attachment) {
                let (place, program) = (attachment.source.display(), program.display());
                self.notes.push(format!("{place} is shown read-only: {program} runs the script"));
                self.attached.directories.push(attachment);
            }
        }
    }

    /// Does a layer have a program of this name? Links are not followed: they lead somewhere inside.
    fn brings(&self, name: &str) -> bool {
        let places = ["bin", "node_modules/.bin"];
        let at =
            |layer: &LayerInUse, place: &str| layer.root.join(place).join(name).symlink_metadata().is_ok();
        self.layers.iter().any(|layer| places.iter().any(|place| at(layer, place)))
    }

    /// Where Node looks for packages of a module that lies in `skill`.
    pub(crate) fn node_modules(&self, skill: &Path) -> Option<Alias> {
        let has_node = self.plans.iter().any(|plan| plan.kind == LayerKind::Node) && !self.layers.is_empty();
        let target = skill.parent()?.join("node_modules");
        (has_node && target != skill)
            .then(|| Alias { target, to: LayerKind::Node.inside().join("node_modules") })
    }
}

fn undeclared(needs: &PythonNeeds) -> Option<String> {
    let names: Vec<&str> = needs.undeclared.iter().map(|one| one.name.as_str()).collect();
    (!names.is_empty()).then(|| format!("imported and not declared, so not installed: {}", names.join(", ")))
}

fn undeclared_node(needs: &NodeNeeds) -> Option<String> {
    let names: Vec<&str> = needs.undeclared.iter().map(|one| one.name.as_str()).collect();
    (!names.is_empty()).then(|| format!("imported and not declared, so not installed: {}", names.join(", ")))
}

const IN_CONFIG: &str = ", or name another with [skills.interpreters] in your config";

fn not_installed(program: &Path) -> ServiceError {
    let path = program.display();
    ServiceError::new(
        ErrorCode::Missing,
        format!(
            "{path} is not where programs are installed: a sandbox may have written it, so it does not run the script"
        ),
        format!(
            "install it, or name it in your config, with the extension of the script: [skills.interpreters] \".x\" = [\"{path}\"]"
        ),
    )
}

fn missing(name: &str, more: &str) -> ServiceError {
    ServiceError::new(
        ErrorCode::Missing,
        format!("there is no {name} on this machine, which runs the script"),
        format!("install {name} with your package manager{more}"),
    )
}
