//! The sandboxes of the user who started `ringfence mcp`: in their current directory, under their own policy. Nothing but
//! what was made for this directory and policy can be named, and without a name only by the connection that made it: it may
//! have what was granted to that one alone. It lives on a lease: if this process is killed, what it made ends soon after.

use std::io::Write;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ringfence_policy::{Bound, HostRule, Layer, NetworkMode, Policy, ProfileError, ProfileName, Span};
use ringfence_sandbox::{Exec, ExecStdio, Launcher, Sandbox};
use ringfence_service::workers::{
    CreateOrder, Order, OwnPolicy, Report, RunOrder, SandboxOrder, SkillOrder, Stock,
};
use ringfence_service::{
    ClientRules, Places, list_sessions, open_session, remove_session, rollback_session, take_snapshot,
};
use serde_json::Value;
use tokio::io::AsyncWriteExt;
use uuid::Uuid;

use super::drafts::{put, put_output};
use super::host::{
    Command, FileDraft, NetworkWish, Restored, SessionShown, SessionWish, Sink, SkillCommand, SkillName,
    Stream, Taken, Wish, Words, carry,
};
use crate::blocking;
use crate::error::{Answer, ApiError};
use crate::http::inside;
use crate::launch::{Input, Pipes, Worker};
use crate::told::{Ran, told};

/// How long what was made lives on without us.
const LEASE: Duration = Duration::from_secs(120);
const RENEWED: Duration = Duration::from_secs(30);
/// A session with a name is for other connections too.
const NAMED_TTL: Duration = Duration::from_secs(24 * 3600);
/// Of one connection and those with a name for its directory and policy, at a time.
const MOST_SESSIONS: usize = 32;

#[derive(Debug)]
pub(super) struct Own {
    places: Places,
    launcher: Arc<Launcher>,
    /// Empty: what a user's own policy comes to is found out by each run.
    stock: Arc<Stock>,
    policy: OwnPolicy,
    /// What the user denies their client's own shell.
    rules: Option<Arc<ClientRules>>,
    /// Before every name: another directory or another policy is another world.
    prefix: String,
    /// The same of what has no name: another connection is another world.
    own_prefix: String,
    leased: Mutex<Vec<String>>,
    /// Held by each that is being made: nothing is made while all are ended.
    making: tokio::sync::RwLock<()>,
}

impl Own {
    /// `merged` is what the user's files and flags come to now: a session that was named under another policy is none of ours.
    pub(super) fn new(
        places: Places,
        launcher: Arc<Launcher>,
        policy: OwnPolicy,
        rules: Option<ClientRules>,
        merged: &Policy,
    ) -> Answer<Self> {
        let what = serde_json::to_vec(&(&places.current, &policy, merged))
            .map_err(|error| ApiError::internal("write the policy", error))?;
        let prefix = format!("mcp-{}-", &blake3::hash(&what).to_hex()[..12]);
        let own_prefix = format!("mcp-{}-", &Uuid::new_v4().simple().to_string()[..20]);
        let stock = Arc::new(Stock::new(Arc::clone(&launcher), 0));
        let (leased, making) = Default::default();
        let rules = rules.map(Arc::new);
        Ok(Self { places, launcher, stock, policy, rules, prefix, own_prefix, leased, making })
    }

    pub(super) fn places(&self) -> &Places {
        &self.places
    }

    pub(super) async fn places_of(&self, session: &str) -> Answer<(Places, String)> {
        Ok((self.places.clone(), self.sandbox(session).await?.name()))
    }

    /// Is this what the user denies their client's own shell? It is in that shell's place here.
    pub(super) async fn may_run(&self, words: &Words, stdin: &str) -> Answer<()> {
        let Some(rules) = self.rules.clone() else { return Ok(()) };
        let (words, stdin) = (words.clone(), stdin.to_owned());
        blocking(move || {
            let checked = match &words {
                Words::Shell(text) => rules.check_shell(text, &stdin),
                Words::Program(argv) => rules.check_words(argv, &stdin),
            };
            checked.map_err(|refusal| {
                let status = axum::http::StatusCode::FORBIDDEN;
                ApiError::new(status, refusal.code(), refusal.to_string(), refusal.hint())
            })
        })
        .await
    }

    fn leased(&self) -> Vec<String> {
        self.leased.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Renew the lease of what this connection made, as long as it is there.
    pub(super) async fn keep_leases(self: Arc<Self>) {
        loop {
            tokio::time::sleep(RENEWED).await;
            for name in self.leased() {
                let places = self.places.clone();
                let _ = blocking(move || Ok(open_session(&places, &name)?.extend(Some(LEASE), None)?)).await;
            }
        }
    }

    /// End what this connection made and gave no name.
    pub(super) async fn end_leased(&self) {
        let _nothing_is_made = self.making.write().await;
        for name in self.leased() {
            let places = self.places.clone();
            let notes = blocking(move || Ok(remove_session(&places, &name)?)).await;
            // The client is gone and reads no answer; whoever looks at its log of this program does.
            for note in notes.into_iter().flatten() {
                let note: String = note.chars().filter(|letter| !letter.is_control()).collect();
                let _ = writeln!(std::io::stderr(), "ringfence: note: {note}");
            }
        }
    }

    fn order(&self, wish: Wish, command: &Command) -> Answer<SandboxOrder> {
        let compat = crate::http::compat(wish.compat.as_deref())?;
        let mut layer = Layer::default();
        if let Some(profile) = wish.profile {
            let profile: ProfileName = profile.parse().map_err(|error: ProfileError| {
                ApiError::bad(error.to_string(), "name one of the profiles")
            })?;
            layer.profile = Some(profile);
        }
        layer.image = wish.image;
        if let Some(network) = wish.network {
            add_network(&mut layer, network)?;
        }
        layer.environment.set = command.variables.clone();
        layer.limits.wall_time =
            command.timeout.map(|timeout| Bound::At(Span::from_millis(timeout.as_millis() as u64)));
        Ok(SandboxOrder {
            layers: vec![layer],
            own: Some(self.policy.clone()),
            compat,
            granted: wish.granted,
            argv: command.argv.clone(),
            directory: command.directory.clone().map(PathBuf::from),
            skills: true,
            ..SandboxOrder::default()
        })
    }

    /// Goes on if nobody waits for it any more: what was begun is finished, and ends with the connection.
    pub(super) async fn create(self: &Arc<Self>, wish: SessionWish) -> Answer<(String, Vec<String>)> {
        let own = Arc::clone(self);
        let making = tokio::spawn(async move { own.make(wish).await });
        making.await.map_err(|error| ApiError::internal("make a session", error))?
    }

    async fn make(&self, wish: SessionWish) -> Answer<(String, Vec<String>)> {
        let _made_before_all_are_ended = self.making.read().await;
        if self.leased().len() >= MOST_SESSIONS || self.list().await?.len() >= MOST_SESSIONS {
            return Err(ApiError::too_many(
                format!("there are {MOST_SESSIONS} sessions, and that is the most"),
                "close one with sandbox_session_close",
                1,
            ));
        }
        let named = wish.name.is_some();
        let shown = wish.name.unwrap_or_else(|| Uuid::now_v7().simple().to_string()[20..].to_owned());
        let name = format!("{}{shown}", if named { &self.prefix } else { &self.own_prefix });
        let command = Command { variables: wish.variables, ..Command::default() };
        let order = CreateOrder {
            sandbox: self.order(wish.wish, &command)?,
            name: name.clone(),
            ttl: Some(wish.ttl.unwrap_or(if named { NAMED_TTL } else { LEASE })),
            idle: None,
            overlay: wish.overlay,
            asked: vec!["mcp".into()],
        };
        if !named {
            self.leased.lock().unwrap_or_else(PoisonError::into_inner).push(name.clone());
        }
        let order = Order::Create(Box::new(order));
        let made = async {
            match Worker::silent(&self.launcher, &order).await?.report().await? {
                Report::Created(report) => Ok(report),
                _ => Err(ApiError::internal("understand a worker", "it reported on something else")),
            }
        };
        match made.await {
            Ok(report) => Ok((shown, report.warnings.into_iter().chain(report.notes).collect())),
            Err(error) => {
                self.forget(&name);
                Err(error)
            }
        }
    }

    fn forget(&self, name: &str) {
        self.leased.lock().unwrap_or_else(PoisonError::into_inner).retain(|leased| leased != name);
    }

    pub(super) async fn sandbox(&self, session: &str) -> Answer<Sandbox> {
        let missing = || {
            ApiError::new(
                axum::http::StatusCode::NOT_FOUND,
                "no_session",
                format!("there is no session `{}`", session.escape_debug()),
                "list them with sandbox_session_list, or make one with sandbox_session_create",
            )
        };
        let own = format!("{}{session}", self.own_prefix);
        let name = if self.leased().contains(&own) { own } else { format!("{}{session}", self.prefix) };
        let sandbox = open_session(&self.places, &name).map_err(|_| missing())?;
        if sandbox.is_alive() { Ok(sandbox) } else { Err(missing()) }
    }

    pub(super) async fn list(&self) -> Answer<Vec<SessionShown>> {
        let places = self.places.clone();
        let rows = blocking(move || Ok(list_sessions(&places, false)?)).await?;
        let shown = rows.into_iter().filter_map(|row| {
            let id = &row.facts.id;
            let session =
                id.strip_prefix(&self.prefix).or_else(|| id.strip_prefix(&self.own_prefix))?.to_owned();
            Some(SessionShown { session, profile: row.facts.profile, created: row.facts.created })
        });
        Ok(shown.collect())
    }

    pub(super) async fn close(&self, session: &str) -> Answer<Vec<String>> {
        let name = self.sandbox(session).await?.name();
        let (places, removed) = (self.places.clone(), name.clone());
        let notes = blocking(move || Ok(remove_session(&places, &removed)?)).await?;
        self.forget(&name);
        Ok(notes)
    }

    pub(super) async fn exec(&self, session: &str, command: Command, sink: Sink) -> Answer<Value> {
        let sandbox = self.sandbox(session).await?;
        let (exec, stdin) = exec_of(command, ExecStdio::Pipes);
        let (argv, directory) = (exec.argv.clone(), exec.directory.clone());
        let mut process = sandbox.exec_async(exec)?;
        let feeding = feed(process.stdin.take(), stdin);
        let (stdout, stderr) = (process.stdout.take(), process.stderr.take());
        let Some((stdout, stderr)) = stdout.zip(stderr) else {
            return Err(ApiError::internal("read a command", "it has no pipes"));
        };
        let carried = async {
            tokio::join!(carry(stdout, Stream::Stdout, &sink), carry(stderr, Stream::Stderr, &sink))
        };
        let (result, (_, stderr)) = tokio::join!(process.wait(), carried);
        feeding.abort();
        let ran = Ran { argv, directory, stderr: stderr.into_bytes() };
        Ok(told(&self.places, &sandbox, ran, result?).await?.1)
    }

    pub(super) async fn write(&self, session: &str, draft: FileDraft) -> Answer<()> {
        let path = inside(&draft.path)?;
        let sandbox = self.sandbox(session).await?;
        blocking(move || put(&mut sandbox.files()?, &path, &draft.bytes, draft.mode)).await
    }

    pub(super) async fn keep_output(&self, session: &str, path: &str, bytes: Vec<u8>) -> Answer<()> {
        put_output(self.sandbox(session).await?, path, bytes).await
    }

    pub(super) async fn start(&self, session: &str, command: Command) -> Answer<u32> {
        let sandbox = self.sandbox(session).await?;
        let stdio = ExecStdio::Log { stdin: !command.stdin.is_empty(), terminal: None };
        let (exec, stdin) = exec_of(command, stdio);
        blocking(move || {
            let process = sandbox.exec(exec)?.id;
            if !stdin.is_empty() {
                sandbox.stdin(process)?.write_all(stdin.as_bytes())?;
                sandbox.close_stdin(process)?;
            }
            Ok(process)
        })
        .await
    }

    pub(super) async fn signal(&self, session: &str, process: u32, signal: i32) -> Answer<()> {
        let sandbox = self.sandbox(session).await?;
        blocking(move || Ok(sandbox.signal(process, signal, true)?)).await
    }

    pub(super) async fn snapshot(&self, session: &str, name: Option<String>) -> Answer<Taken> {
        let (places, of) = self.places_of(session).await?;
        let taken = blocking(move || {
            Ok(take_snapshot(&places, &of, name.as_deref(), &mut |_| ControlFlow::Continue(()))?)
        });
        let taken = taken.await?;
        Ok(Taken { snapshot: taken.id, name: taken.name, entries: taken.entries, bytes: taken.bytes })
    }

    /// Nothing waits here: there is no action.
    pub(super) async fn restore(
        &self,
        session: &str,
        snapshot: String,
        _: Option<String>,
    ) -> Answer<Restored> {
        let (places, name) = self.places_of(session).await?;
        let done = blocking(move || Ok(rollback_session(&places, &name, &snapshot)?)).await?;
        Ok(Restored { written: done.written, removed: done.removed, unchanged: done.unchanged })
    }

    pub(super) async fn run(&self, wish: Wish, command: Command, sink: Sink) -> Answer<Value> {
        let sandbox = self.order(wish, &command)?;
        self.work(RunOrder { sandbox, skill: None }, command.stdin, sink).await
    }

    pub(super) async fn run_skill(&self, skill: SkillCommand, sink: Sink) -> Answer<Value> {
        let SkillCommand { skill, script, command } = skill;
        let mut sandbox = self.order(Wish::default(), &command)?;
        let args = std::mem::take(&mut sandbox.argv);
        sandbox.skills = false;
        let SkillName { domain, name } = skill;
        let skill = Some(SkillOrder { domain, name, script, args, version: None });
        self.work(RunOrder { sandbox, skill }, command.stdin, sink).await
    }

    /// Carry a worker's pipes until it reports. Dropping this ends what it runs.
    async fn work(&self, order: RunOrder, stdin: String, sink: Sink) -> Answer<Value> {
        let input = Input::of(stdin.as_bytes());
        let (mut worker, pipes) = Worker::run(&self.launcher, &self.stock, order, input).await?;
        let Pipes { stdin: to, stdout, stderr } = pipes;
        let feeding = feed(to, stdin);
        let carried = async {
            tokio::join!(carry(stdout, Stream::Stdout, &sink), carry(stderr, Stream::Stderr, &sink));
        };
        let (report, ()) = tokio::join!(worker.report(), carried);
        feeding.abort();
        match report? {
            Report::Ran { facts } => Ok(facts),
            _ => Err(ApiError::internal("understand a worker", "it reported on something else")),
        }
    }
}

/// What is started, and what it reads.
fn exec_of(command: Command, stdio: ExecStdio) -> (Exec, String) {
    let Command { argv, directory, variables, stdin, timeout, action: _ } = command;
    let exec = Exec {
        argv: argv.into_iter().map(Into::into).collect(),
        environment: variables.into_iter().map(|(name, value)| (name, value.into())).collect(),
        directory: directory.map(PathBuf::from),
        timeout,
        stdio,
    };
    (exec, stdin)
}

/// Hand a command its input; one that does not read it is not waited for.
fn feed(to: Option<tokio::net::unix::pipe::Sender>, stdin: String) -> Feeding {
    Feeding(tokio::spawn(async move {
        if let Some(mut to) = to {
            let _ = to.write_all(stdin.as_bytes()).await;
        }
    }))
}

/// Ends with the call that it is for.
struct Feeding(tokio::task::JoinHandle<()>);

impl Feeding {
    fn abort(&self) {
        self.0.abort();
    }
}

impl Drop for Feeding {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn add_network(layer: &mut Layer, network: NetworkWish) -> Answer<()> {
    if !network.enabled {
        layer.network.mode = Some(NetworkMode::Off);
        return Ok(());
    }
    if network.allowed_domains.is_empty() {
        layer.network.mode = Some(NetworkMode::Open);
    }
    for domain in &network.allowed_domains {
        let rule = HostRule::parse(domain)
            .map_err(|error| ApiError::bad(error.to_string(), "correct `network.allowed_domains`"))?;
        layer.network.allow.push(rule);
    }
    Ok(())
}
