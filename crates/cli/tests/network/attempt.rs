//! The usual row of this table: one script or program, run in a sandbox on the machine of the test internet, and by its
//! twin on the same machine without the sandbox.
//!
//! Texts may hold placeholders: `{token}`, `{probe}`, `{W}` (the workspace as the command sees it), `{http_proxy}` and
//! `{socks_proxy}` (HOST:PORT: the sandbox's own for the attempt, ordinary ones of the world for the twin), `{dns}`
//! (the name server), and what the set-up adds.

use std::process::{Command, Stdio};
use std::rc::Rc;

use ringfence_testing::{DNS, Identity, Internet, Outcome, Scene, Stage, Test};

use crate::row::{Row, Shown};

/// Where a sandbox finds its name server and proxies; what a twin uses instead is `Side::Twin`.
const INSIDE: [(&str, &str); 3] =
    [("{dns}", "198.18.0.1"), ("{http_proxy}", "198.18.0.2:3128"), ("{socks_proxy}", "198.18.0.2:1080")];

#[derive(Clone)]
enum TwinKind {
    /// On the machine, as the same identity.
    Machine,
    /// In a sandbox with these flags instead of the grants.
    With(Vec<String>),
    /// On the machine, by another command: where the way round the fence has no like outside.
    Other(Vec<String>),
}

type SetUp = Rc<dyn Fn(&Internet, &Scene) -> Vec<(String, String)>>;
type World = Rc<dyn Fn(&Internet, &Scene) -> Result<(), String>>;

#[derive(Clone)]
pub(crate) struct Attempt {
    name: String,
    what: String,
    command: Vec<String>,
    flags: Vec<String>,
    set_up: SetUp,
    denied: Option<String>,
    said: Option<String>,
    shows: String,
    world: World,
}

/// Held by a sandbox that may speak to nobody, until grants are added.
pub(crate) fn attempt(name: impl Into<String>, what: impl Into<String>) -> Attempt {
    Attempt {
        name: name.into(),
        what: what.into(),
        command: Vec::new(),
        flags: Vec::new(),
        set_up: Rc::new(|_, _| Vec::new()),
        denied: None,
        said: None,
        shows: "held:".to_owned(),
        world: Rc::new(|_, _| Ok(())),
    }
}

impl Attempt {
    /// A Python script that calls `escaped(…)` or `held(…)`; an exception is held.
    pub(crate) fn python(mut self, script: &str) -> Self {
        self.command = python(script);
        self
    }

    /// A line of shell, whose programs know of no proxy: it escaped if all of it worked.
    pub(crate) fn shell(mut self, script: &str) -> Self {
        let script = format!(
            "{WITHOUT_PROXIES} why=$( {{ set -e; {script}; }} 2>&1 ); code=$?; \
             if [ $code = 0 ]; then echo \"escaped: $why\"; else echo \"held: $why\"; echo \"$why\" >&2; exit 1; fi"
        );
        self.command = ["bash", "-c", &script].map(str::to_owned).to_vec();
        self
    }

    pub(crate) fn probe<S: Into<String>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.command =
            std::iter::once("{probe}".to_owned()).chain(args.into_iter().map(Into::into)).collect();
        self
    }

    /// Hosts that the sandbox may speak to.
    pub(crate) fn grant<S: Into<String>>(mut self, hosts: impl IntoIterator<Item = S>) -> Self {
        for host in hosts {
            self.flags.extend(["--allow-host".to_owned(), host.into()]);
        }
        self
    }

    pub(crate) fn flags<S: Into<String>>(mut self, flags: impl IntoIterator<Item = S>) -> Self {
        self.flags.extend(flags.into_iter().map(Into::into));
        self
    }

    /// What the world does first; more placeholders come of it.
    pub(crate) fn set_up(
        mut self,
        set_up: impl Fn(&Internet, &Scene) -> Vec<(String, String)> + 'static,
    ) -> Self {
        self.set_up = Rc::new(set_up);
        self
    }

    /// The denial that must be reported.
    pub(crate) fn denied(mut self, part: impl Into<String>) -> Self {
        self.denied = Some(part.into());
        self
    }

    /// Words of the sentence in which a denial must say why.
    pub(crate) fn said(mut self, words: &str) -> Self {
        self.said = Some(words.to_owned());
        self
    }

    /// What the attempt must have printed, so that it counts as held.
    pub(crate) fn shows(mut self, words: &str) -> Self {
        self.shows = words.to_owned();
        self
    }

    /// What must hold in the world after the sandbox has ended.
    pub(crate) fn world(mut self, world: impl Fn(&Internet, &Scene) -> Result<(), String> + 'static) -> Self {
        self.world = Rc::new(world);
        self
    }

    /// Nobody in the world may have heard the token: no server, no name server.
    pub(crate) fn unheard(self) -> Self {
        self.world(|internet, scene| match heard(internet, &scene.token) {
            Some(where_) => Err(format!("the token got out: {where_}")),
            None => Ok(()),
        })
    }

    /// The twin: the same on the machine, without a sandbox.
    pub(crate) fn row(self) -> Row {
        self.with(TwinKind::Machine)
    }

    /// The twin: the same in a sandbox with these flags.
    pub(crate) fn twin_with<S: Into<String>>(self, flags: impl IntoIterator<Item = S>) -> Row {
        self.with(TwinKind::With(flags.into_iter().map(Into::into).collect()))
    }

    /// The twin: another script on the machine, that does the same without the sandbox's own servers.
    pub(crate) fn twin_python(self, script: &str) -> Row {
        self.with(TwinKind::Other(python(script)))
    }

    fn with(self, twin: TwinKind) -> Row {
        let (name, what) = (self.name.clone(), self.what.clone());
        let (sandboxed, other) = (self.clone(), self);
        Row {
            name,
            what,
            held: Rc::new(move |identity| sandboxed.run_held(identity).map(Shown::Yes)),
            twin: Rc::new(move |identity| other.run_twin(identity, &twin).map(Shown::Yes)),
            in_session: "the way out is egress's, the same for a session".into(),
            pooled: None,
        }
    }

    fn run_held(&self, identity: Identity) -> Result<String, String> {
        let (internet, scene) = (crate::internet(), Scene::new(identity));
        let vars = (self.set_up)(internet, &scene);
        let outcome = self.run_sandboxed(internet, &scene, &vars, &self.flags);
        let fail = |why: String| Err(format!("{why}\n{}", outcome.describe()));
        if outcome.output.contains("escaped:") {
            return fail("the attempt worked".into());
        }
        if outcome.exit != 1 || !outcome.output.contains(&self.shows) {
            return fail(format!("the attempt was not tried, or does not show \"{}\"", self.shows));
        }
        let network: Vec<_> =
            outcome.denials().into_iter().filter(|denial| denial.kind == "network").collect();
        if let Some(part) = &self.denied
            && !network.iter().any(|denial| denial.what.contains(part) || denial.rule.contains(part))
        {
            return fail(format!("held, but no denial mentions {part}"));
        }
        if let Some(words) = &self.said
            && !network.iter().any(|denial| denial.remedy.contains(words))
        {
            return fail(format!("held, but no denial says \"{words}\""));
        }
        if let Err(why) = (self.world)(internet, &scene) {
            return fail(why);
        }
        let denials: Vec<String> = outcome.denials().into_iter().map(|denial| denial.what).collect();
        Ok(format!("{} [{}]", outcome.output.trim(), denials.join(", ")))
    }

    fn run_sandboxed(
        &self,
        internet: &Internet,
        scene: &Scene,
        vars: &[(String, String)],
        flags: &[String],
    ) -> Outcome {
        let fill = |text: &String| fill(text, scene, "/workspace", &INSIDE.map(owned), vars);
        let test = Test::in_scene(scene)
            .profile("restrictive")
            .workspace(scene.workspace())
            .with_probe()
            .args(["--timeout", "60s"])
            .args(flags.iter().map(fill));
        let command: Vec<String> = self.command.iter().map(fill).collect();
        internet.machine.within(|| test.run(command))
    }

    fn run_twin(&self, identity: Identity, twin: &TwinKind) -> Result<String, String> {
        let (internet, scene) = (crate::internet(), Scene::new(identity));
        let vars = (self.set_up)(internet, &scene);
        let (text, errors) = match twin {
            TwinKind::With(flags) => {
                let outcome = self.run_sandboxed(internet, &scene, &vars, flags);
                (outcome.output.clone(), outcome.describe())
            }
            TwinKind::Machine | TwinKind::Other(_) => {
                let command = if let TwinKind::Other(command) = twin { command } else { &self.command };
                let outside = [
                    ("{dns}", DNS),
                    ("{http_proxy}", "192.0.2.80:8888"),
                    ("{socks_proxy}", "192.0.2.80:1080"),
                ];
                let inside = scene.workspace().display().to_string();
                let fill = |text: &String| fill(text, &scene, &inside, &outside.map(owned), &vars);
                on_machine(internet, &scene, &command.iter().map(fill).collect::<Vec<_>>())
            }
        };
        if text.contains("escaped:") {
            return Ok(text.trim().to_owned());
        }
        Err(format!("without the fence it fails too: {text}{errors}"))
    }
}

/// The command that runs a script after the prelude.
pub(crate) fn python(script: &str) -> Vec<String> {
    let body = script.trim_end().replace('\n', "\n    ");
    let whole = format!(
        "{PRELUDE}\ntry:\n    {body}\nexcept Exception as why: held(repr(why))\nheld('nothing came of it')\n"
    );
    ["/usr/bin/python3", "-c", &whole].map(str::to_owned).to_vec()
}

/// A command on the machine, as the scene's identity and without a sandbox: what it printed on stdout and stderr.
pub(crate) fn on_machine(internet: &Internet, scene: &Scene, args: &[String]) -> (String, String) {
    let mut command = Command::new("timeout");
    command
        .args(["--kill-after=1", "60"])
        .args(args)
        .env_clear()
        .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
        .env("HOME", scene.home())
        .current_dir(scene.workspace())
        .stdin(Stdio::null());
    scene.identity.apply(&mut command);
    let output = internet.machine.within(|| command.output()).expect("run on the machine");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// Who in the world has heard these words.
pub(crate) fn heard(internet: &Internet, words: &str) -> Option<&'static str> {
    // What was sent may still be on its way to the log.
    std::thread::sleep(std::time::Duration::from_millis(20));
    if internet.recorder.heard(words) {
        return Some("a recorder heard it");
    }
    if internet.web.saw(words) {
        return Some("the web server saw it");
    }
    (!internet.dns.queries(&words.to_lowercase()).is_empty()).then_some("the name server was asked for it")
}

fn owned(pair: (&str, &str)) -> (String, String) {
    (pair.0.to_owned(), pair.1.to_owned())
}

fn fill(
    text: &str,
    scene: &Scene,
    inside: &str,
    side: &[(String, String)],
    vars: &[(String, String)],
) -> String {
    let mut filled = text
        .replace("{probe}", &Stage::get().probe.to_string_lossy())
        .replace("{W}", inside)
        .replace("{token}", &scene.token);
    for (name, value) in side.iter().chain(vars) {
        filled = filled.replace(name, value);
    }
    filled
}

/// For programs that would use the sandbox's own proxies: the transparent path is meant.
pub(crate) const WITHOUT_PROXIES: &str =
    "unset HTTP_PROXY http_proxy HTTPS_PROXY https_proxy ALL_PROXY all_proxy;";

/// What every script may use. Nothing waits longer than a few seconds: a hang is a failure of its own.
const PRELUDE: &str = include_str!("prelude.py");
