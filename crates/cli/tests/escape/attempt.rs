//! The usual row: one command, run in a sandbox and by its twin, each in a fresh scene.
//!
//! Arguments and flags may hold placeholders: `{secret}` (a file outside that holds `{token}`), `{outside}`,
//! `{home}`, `{state}`, `{root}` (of the scene), `{ws}` (the workspace on the host), `{W}` (the workspace as the
//! command sees it), `{probe}`, `{target}` (PID 1 inside; a victim for the twin), and what the set-up adds.

use std::any::Any;
use std::process::{Command, Stdio};
use std::rc::Rc;

use ringfence_testing::{Identity, Outcome, Pool, Scene, Session, Stage, Test, Victim, provider_flags};

use crate::hostile;
use crate::row::{InSession, Row, Shown};

/// What the host's side of an attempt made: more placeholders, and things to keep until the end.
#[derive(Default)]
pub(crate) struct Props {
    vars: Vec<(String, String)>,
    keep: Vec<Box<dyn Any>>,
}

impl Props {
    pub(crate) fn var(mut self, name: &str, value: impl ToString) -> Self {
        self.vars.push((format!("{{{name}}}"), value.to_string()));
        self
    }

    pub(crate) fn keep(mut self, thing: impl Any) -> Self {
        self.keep.push(Box::new(thing));
        self
    }
}

#[derive(Clone)]
enum Expect {
    Held,
    /// Held, and reported as a denial that mentions this.
    Denied(String),
    /// The command is killed, or held.
    KilledOrHeld,
    /// Held, or killed with a denial that names this limit.
    Limit(String),
}

#[derive(Clone)]
pub(crate) enum Twin {
    /// The same command on the host as the same identity.
    Host,
    /// On the host as root, without whom it is skipped.
    HostAsRoot,
    /// On the host as the ordinary user, with what root has prepared for it: skipped without root.
    HostAsUser,
    /// On the host, in namespaces of its own where it has every capability.
    Namespaces,
    /// In a sandbox with these flags.
    With(Vec<String>),
    /// In a sandbox with the system calls waived: the kernel decides, and no denial is reported.
    ReachesKernel,
}

/// How a command gets into a sandbox.
#[derive(Clone, Copy)]
enum Way {
    Run,
    /// As the second command of a session, after a hostile first one.
    Session,
    /// In a sandbox that a pool made ahead.
    Pool,
}

type SetUp = Rc<dyn Fn(&Scene) -> Props>;
type After = Rc<dyn Fn(&Scene) -> Result<(), String>>;

#[derive(Clone)]
pub(crate) struct Attempt {
    name: String,
    what: String,
    set_up: SetUp,
    command: Vec<String>,
    profile: &'static str,
    workspace: bool,
    flags: Vec<String>,
    expect: Expect,
    after: After,
}

pub(crate) fn attempt(name: impl Into<String>, what: impl Into<String>) -> Attempt {
    Attempt {
        name: name.into(),
        what: what.into(),
        set_up: Rc::new(|_| Props::default()),
        command: Vec::new(),
        profile: "restrictive",
        workspace: true,
        flags: Vec::new(),
        expect: Expect::Held,
        after: Rc::new(|_| Ok(())),
    }
}

impl Attempt {
    /// The probe with these arguments.
    pub(crate) fn probe<S: Into<String>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.command =
            std::iter::once("{probe}".to_owned()).chain(args.into_iter().map(Into::into)).collect();
        self
    }

    /// A line of shell: it escaped if all of it worked.
    pub(crate) fn shell(mut self, script: &str) -> Self {
        let script = format!(
            "why=$( {{ set -e; {script}; }} 2>&1 ); code=$?; \
             if [ $code = 0 ]; then echo \"escaped: $why\"; else echo \"held: $why\"; echo \"$why\" >&2; exit 1; fi"
        );
        self.command = ["bash", "-c", &script].map(str::to_owned).to_vec();
        self
    }

    /// Another program with these arguments.
    pub(crate) fn program<S: Into<String>>(mut self, command: impl IntoIterator<Item = S>) -> Self {
        self.command = command.into_iter().map(Into::into).collect();
        self
    }

    pub(crate) fn set_up(mut self, set_up: impl Fn(&Scene) -> Props + 'static) -> Self {
        self.set_up = Rc::new(set_up);
        self
    }

    /// Another profile than `restrictive`.
    pub(crate) fn profile(mut self, profile: &'static str) -> Self {
        self.profile = profile;
        self
    }

    /// Without `--workspace`: what the profile has by itself.
    pub(crate) fn own_workspace(mut self) -> Self {
        self.workspace = false;
        self
    }

    pub(crate) fn flags<S: Into<String>>(mut self, flags: impl IntoIterator<Item = S>) -> Self {
        self.flags.extend(flags.into_iter().map(Into::into));
        self
    }

    /// The denial that must be reported.
    pub(crate) fn denied(mut self, part: impl Into<String>) -> Self {
        self.expect = Expect::Denied(part.into());
        self
    }

    pub(crate) fn killed_or_held(mut self) -> Self {
        self.expect = Expect::KilledOrHeld;
        self
    }

    /// The limit that must stop it, and be named.
    pub(crate) fn limited_by(mut self, limit: &str) -> Self {
        self.expect = Expect::Limit(limit.to_owned());
        self
    }

    /// What must hold on the host after the sandbox has ended.
    pub(crate) fn after(mut self, after: impl Fn(&Scene) -> Result<(), String> + 'static) -> Self {
        self.after = Rc::new(after);
        self
    }

    pub(crate) fn twin(self, twin: Twin) -> Row {
        let (name, what) = (self.name.clone(), self.what.clone());
        let (sandboxed, second, ahead, other) = (self.clone(), self.clone(), self.clone(), self);
        Row {
            name,
            what,
            held: Rc::new(move |identity| sandboxed.run_held(identity, Way::Run).map(Shown::Yes)),
            twin: Rc::new(move |identity| other.run_twin(identity, &twin)),
            in_session: InSession::Held(Rc::new(move |identity| {
                second.run_held(identity, Way::Session).map(Shown::Yes)
            })),
            pooled: Some(Rc::new(move |identity| match ahead.starts_afresh() {
                Some(flag) => Ok(Shown::Skipped(format!("with {flag} it starts afresh"))),
                None => ahead.run_held(identity, Way::Pool).map(Shown::Yes),
            })),
        }
    }

    /// The twin runs in a sandbox with these flags.
    pub(crate) fn twin_with<S: Into<String>>(self, flags: impl IntoIterator<Item = S>) -> Row {
        self.twin(Twin::With(flags.into_iter().map(Into::into).collect()))
    }

    /// The flag for which nothing is made ahead, or that `ringfence pool` does not take.
    fn starts_afresh(&self) -> Option<&String> {
        const OWN: &[&str] =
            &["--allow", "--network", "--trace", "--cwd", "-t", "--strict", "--secret", "--learn"];
        self.flags
            .iter()
            .find(|flag| OWN.iter().any(|own| flag.starts_with(own)) && !flag.starts_with("--allow-syscall"))
    }

    fn run_held(&self, identity: Identity, way: Way) -> Result<String, String> {
        let scene = Scene::new(identity);
        let props = (self.set_up)(&scene);
        let outcome = self.run_sandboxed(&scene, &props, &[], way);
        let judged = match (self.judge(&outcome), way) {
            (Err(_), Way::Session) if held_or_killed(&outcome) && self.is_told_by_its_words(identity) => {
                Ok(())
            }
            (judged, _) => judged,
        };
        judged.map_err(|why| format!("{why}\n{}", outcome.describe()))?;
        (self.after)(&scene).map_err(|why| format!("{why}\n{}", outcome.describe()))?;
        let denials: Vec<String> = outcome.denials().into_iter().map(|denial| denial.what).collect();
        Ok(format!("{} [{}]", outcome.output.trim(), denials.join(", ")))
    }

    /// Whether its denial comes from what the command says, which nobody but its client sees in a session.
    fn is_told_by_its_words(&self, identity: Identity) -> bool {
        let (Expect::Denied(part) | Expect::Limit(part)) = &self.expect else { return false };
        let scene = Scene::new(identity);
        let props = (self.set_up)(&scene);
        let denials = self.run_sandboxed(&scene, &props, &[], Way::Run).denials();
        let mut named =
            denials.iter().filter(|denial| denial.rule.contains(part) || denial.what.contains(part));
        named.all(|denial| denial.inferred)
    }

    fn judge(&self, outcome: &Outcome) -> Result<(), String> {
        let held = outcome.exit == 1 && outcome.output.contains("held:");
        let killed = outcome.exit > 128;
        if outcome.output.contains("escaped:") {
            return Err("the attempt worked".into());
        }
        match &self.expect {
            Expect::Held if held => Ok(()),
            Expect::Denied(part) if held && outcome.has_denial(part) => Ok(()),
            Expect::Denied(part) if held => Err(format!("held, but no denial mentions {part}")),
            Expect::KilledOrHeld if held || killed => Ok(()),
            Expect::Limit(limit) if (held || killed) && outcome.has_denial(limit) => Ok(()),
            Expect::Limit(limit) if held || killed => Err(format!("held, but no denial names {limit}")),
            _ if outcome.exit == 125 => Err("the sandbox was refused".into()),
            _ => Err("the attempt was not tried".into()),
        }
    }

    fn run_sandboxed(&self, scene: &Scene, props: &Props, more: &[String], way: Way) -> Outcome {
        let inside =
            if self.profile == "restrictive" { "/workspace".into() } else { shown(&scene.workspace()) };
        let fill = |text: &String| fill(text, scene, props, &inside, "1");
        let mut flags = ["--profile", self.profile, "--read"].map(str::to_owned).to_vec();
        flags.push(shown(Stage::get().probe_dir()));
        let closed = matches!(way, Way::Pool) && self.fits_closed_walls(scene);
        if closed {
            flags.extend(["--workspace", "private"].map(str::to_owned));
        } else if self.workspace {
            flags.extend(["--workspace".to_owned(), shown(&scene.workspace())]);
        }
        flags.extend(self.flags.iter().chain(more).map(fill));
        let command = self.command.iter().map(fill);
        match way {
            Way::Run => Test::in_scene(scene).args(flags).run(command),
            Way::Session => {
                let session = Session::create(scene, flags);
                hostile::first_command(&session, &self.name);
                session.exec(command)
            }
            Way::Pool => {
                if self.profile == "permissive" {
                    // Nothing with a way out is made ahead.
                    flags.extend(["--network", "off"].map(str::to_owned));
                }
                let size = ["--size", "1"].into_iter().chain(closed.then_some("--closed")).map(str::to_owned);
                let pool = Pool::start(scene, size.chain(flags.clone()));
                let mut test = pool.test().args(flags);
                if closed {
                    // A file on stdin would need a rule of its own behind them.
                    test = test.stdin("");
                }
                let outcome = test.run(command);
                assert!(outcome.is_pooled(), "it started afresh: {}", outcome.describe());
                outcome
            }
        }
    }

    /// Whether it is shown in a sandbox whose walls were closed ahead, as a server makes them for private workspaces: it wants
    /// nothing of a workspace. Each row is, as one of the two identities; as the other one it is where they are open.
    fn fits_closed_walls(&self, scene: &Scene) -> bool {
        // A name that begins nowhere else is one of the workspace; what makes protected names takes bare ones too.
        let is_relative = |text: &str| !text.starts_with(['/', '{']) && text.contains(['/', '.']);
        let names_none = |text: &String| {
            !text.contains("{W}") && !text.contains("{ws}") && !is_relative(text) && text != "create-deep"
        };
        let is_empty = std::fs::read_dir(scene.workspace()).is_ok_and(|mut all| all.next().is_none());
        let fits = self.profile == "restrictive"
            && self.flags.is_empty()
            && self.command.first().is_some_and(|program| program == "{probe}")
            && self.command.iter().all(names_none)
            && is_empty;
        let turn = self.name.bytes().map(usize::from).sum::<usize>() % 2 == 0;
        fits && turn == (scene.identity == Identity::Root)
    }

    fn run_twin(&self, identity: Identity, twin: &Twin) -> Result<Shown, String> {
        let identity = match twin {
            Twin::HostAsRoot => Identity::Root,
            Twin::HostAsUser => Identity::User,
            _ => identity,
        };
        let needs_root = matches!(twin, Twin::HostAsRoot | Twin::HostAsUser);
        if needs_root && !Identity::Root.is_available() {
            return Ok(Shown::Skipped("needs root".into()));
        }
        if !matches!(twin, Twin::With(_) | Twin::ReachesKernel) && !provider_flags().is_empty() {
            return Ok(Shown::Skipped("no sandbox is in it: shown where `native` makes the others".into()));
        }
        let scene = Scene::new(identity);
        let props = (self.set_up)(&scene);
        match twin {
            Twin::Host | Twin::HostAsRoot | Twin::HostAsUser => self.run_on_host(&scene, &props, &[]),
            Twin::Namespaces => self.run_on_host(&scene, &props, UNSHARE),
            Twin::With(flags) => {
                let outcome = self.run_sandboxed(&scene, &props, flags, Way::Run);
                if outcome.exit == 0 && outcome.output.contains("escaped:") {
                    return Ok(Shown::Yes(outcome.output.trim().to_owned()));
                }
                Err(format!("with {} the attempt still fails\n{}", flags.join(" "), outcome.describe()))
            }
            Twin::ReachesKernel => {
                let flags = ["--waive", "syscalls"].map(str::to_owned);
                let outcome = self.run_sandboxed(&scene, &props, &flags, Way::Run);
                let tried = outcome.output.contains("held:") || outcome.output.contains("escaped:");
                if tried && !outcome.denials().iter().any(|denial| denial.kind == "syscall") {
                    return Ok(Shown::Yes(outcome.output.trim().to_owned()));
                }
                Err(format!("with the calls waived it is still ours to deny\n{}", outcome.describe()))
            }
        }
    }

    /// The same command without any sandbox, in the scene's workspace.
    fn run_on_host(&self, scene: &Scene, props: &Props, wrapper: &[&str]) -> Result<Shown, String> {
        let needs_victim = self.command.iter().any(|arg| arg.contains("{target}"));
        let victim = needs_victim.then(|| Victim::start(scene.identity, &scene.token));
        let target = victim.as_ref().map_or_else(|| "1".to_owned(), |victim| victim.pid().to_string());
        let inside = shown(&scene.workspace());
        let args = self.command.iter().map(|arg| fill(arg, scene, props, &inside, &target));
        // A deadline for attempts that hang; none should.
        let mut command = Command::new("timeout");
        command.args(["--kill-after=1", "60"]).args(wrapper).args(args);
        command
            .env_clear()
            .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
            .env("HOME", scene.home())
            .env("SECRET_WORD", &scene.token)
            .current_dir(scene.workspace())
            .stdin(Stdio::null());
        scene.identity.apply(&mut command);
        let output = command.output().map_err(|error| format!("start the twin: {error}"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        if output.status.success() && text.contains("escaped:") {
            return Ok(Shown::Yes(text.trim().to_owned()));
        }
        let errors = String::from_utf8_lossy(&output.stderr);
        Err(format!("without a sandbox it fails too ({}): {text}{errors}", output.status))
    }
}

fn held_or_killed(outcome: &Outcome) -> bool {
    let held = outcome.exit == 1 && outcome.output.contains("held:");
    !outcome.output.contains("escaped:") && (held || outcome.exit > 128)
}

/// Namespaces where an ordinary user has every capability, and nothing reaches the host.
const UNSHARE: &[&str] = &[
    "unshare",
    "--user",
    "--map-root-user",
    "--mount",
    "--pid",
    "--fork",
    "--kill-child",
    "--uts",
    "--ipc",
    "--net",
    "--cgroup",
    "--mount-proc",
];

fn shown(path: &std::path::Path) -> String {
    path.to_string_lossy().into_owned()
}

fn fill(text: &str, scene: &Scene, props: &Props, inside: &str, target: &str) -> String {
    let mut filled = text
        .replace("{probe}", &shown(&Stage::get().probe))
        .replace("{secret}", &shown(&scene.secret()))
        .replace("{outside}", &shown(&scene.outside()))
        .replace("{home}", &shown(&scene.home()))
        .replace("{state}", &shown(&scene.state()))
        .replace("{root}", &shown(scene.root()))
        .replace("{ws}", &shown(&scene.workspace()))
        .replace("{W}", inside)
        .replace("{token}", &scene.token)
        .replace("{target}", target);
    for (name, value) in &props.vars {
        filled = filled.replace(name, value);
    }
    filled
}

/// The secret outside is what it was.
pub(crate) fn secret_is_untouched(scene: &Scene) -> Result<(), String> {
    match scene.read("outside/secret") {
        Some(text) if text == scene.token => Ok(()),
        other => Err(format!("the file outside is now {other:?}")),
    }
}
