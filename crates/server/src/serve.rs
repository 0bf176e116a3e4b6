//! From options to a server that runs until it is told to stop.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ringfence_sandbox::limits_processors;
use ringfence_service::workers::{Stock, start_launcher};
use ringfence_service::{ErrorCode, Places, ServiceError};
use ringfence_store::{Role, Store, StoreOptions};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use crate::actions::{Watch, fail_interrupted, sweep_for_ever};
use crate::app::App;
use crate::auth::{FirstToken, LOCAL};
use crate::config::ServerConfig;
use crate::disk::Measured;
use crate::ended::Endings;
use crate::held::PerUser;
use crate::http::router;
use crate::jwt::Tokens;
use crate::listen::{Bound, Listen};
use crate::mask::Mask;
use crate::metrics::Metrics;
use crate::rates::Rates;
use crate::recover::recover;
use crate::standing::People;
use crate::streams::Streams;
use crate::tally::Tally;
use crate::telemetry::Telemetry;
use crate::tickets::Tickets;
use crate::tls::{Certificates, TlsFiles};
use crate::traffic::SandboxTraffic;
use crate::usage::Usage;

#[derive(Clone, Debug)]
pub struct ServeOptions {
    pub listen: Vec<Listen>,
    pub config: Option<PathBuf>,
    /// Serve without keys. Everybody who reaches the server is an admin.
    pub without_authentication: bool,
    /// Listen on addresses other than loopback.
    pub beyond_loopback: bool,
    /// Other names that the server is reached by.
    pub names: Vec<String>,
    pub json_logs: bool,
    /// For every TCP address.
    pub tls: Option<TlsFiles>,
}

/// What is told once the server listens.
#[derive(Debug)]
pub struct Served {
    pub addresses: Vec<String>,
    /// For whoever started it: the URL with the one-time token.
    pub first_url: Option<String>,
}

pub(crate) fn failed(doing: &str, error: impl std::fmt::Display, next: &str) -> ServiceError {
    ServiceError::new(ErrorCode::SandboxFailed, format!("cannot {doing}: {error}"), next)
}

/// Serve until SIGINT or SIGTERM; a second one ends it at once. SIGHUP reads certificate and keys again. Must be called by a
/// process with one thread: it forks the helper first.
pub fn serve(options: ServeOptions, tell: impl FnOnce(&Served)) -> Result<(), ServiceError> {
    check(&options)?;
    let config = ServerConfig::load(options.config.as_deref())?;
    let certificates = options.tls.clone().map(Certificates::load).transpose()?;
    let places = Places::from_env()?;
    places.state.ensure()?;
    // Before the first thread.
    let launcher = Arc::new(start_launcher()?);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(|error| {
        failed("start the server's threads", error, "see whether this user may start more processes")
    })?;
    let telemetry = {
        let _inside = runtime.enter();
        Telemetry::start(options.json_logs)?
    };
    let done = runtime.block_on(run(options, config, certificates, places, Arc::clone(&launcher), tell));
    if matches!(done, Ok(Ended::AtOnce)) {
        runtime.shutdown_background();
        return Ok(());
    }
    telemetry.close();
    runtime.shutdown_timeout(Duration::from_secs(5));
    // The last to hold it, with time to take away what a killed helper left.
    drop(launcher);
    done.map(|_| ())
}

fn check(options: &ServeOptions) -> Result<(), ServiceError> {
    for listen in &options.listen {
        if let Listen::Tcp(address) = listen
            && !address.ip().is_loopback()
            && !options.beyond_loopback
        {
            return Err(ServiceError::new(
                ErrorCode::BadRequest,
                format!("{address} can be reached from other machines"),
                "use 127.0.0.1, or say --beyond-loopback if that is what you want, with --tls-cert and --tls-key",
            ));
        }
    }
    Ok(())
}

/// How it came to its end.
enum Ended {
    Drained,
    /// Told to stop a second time.
    AtOnce,
}

async fn run(
    options: ServeOptions,
    config: ServerConfig,
    certificates: Option<Arc<Certificates>>,
    places: Places,
    launcher: Arc<ringfence_sandbox::Launcher>,
    tell: impl FnOnce(&Served),
) -> Result<Ended, ServiceError> {
    let mut signals = Signals::new()?;
    let tokens = config.jwt.clone().map(Tokens::new).transpose()?;
    let tls = certificates.as_ref().map(Certificates::config).transpose()?;
    let database = places.state.path().join("server.db");
    let in_store =
        |error: ringfence_store::StoreError| failed("open the database", error, "see docs/server.md");
    let anchors = StoreOptions { anchors: config.audit.anchors.clone(), ..StoreOptions::default() };
    let store = Store::open_with(&database, anchors).await.map_err(in_store)?;
    if let Some(trouble) = store.audit().anchor_trouble() {
        tracing::error!(why = trouble, "the audit is not what its anchors say: see `ringfence audit verify`");
    }
    let found = recover(&store, &places)
        .await
        .map_err(|error| failed("find sandboxes again", error.message, &error.hint))?;
    fail_interrupted(&store).await.map_err(in_store)?;
    if options.without_authentication && store.user(LOCAL).await.map_err(in_store)?.is_none() {
        store.add_user(LOCAL, Role::Admin).await.map_err(in_store)?;
    }
    let no_users = store.users().await.map_err(in_store)?.is_empty();
    let mut bound = Vec::new();
    for listen in &options.listen {
        bound.push(Bound::new(listen, tls.clone()).await?);
    }
    let addresses: Vec<String> = bound.iter().map(Bound::shown).collect();
    let first_token = FirstToken::default();
    let first_url = if no_users {
        let token = first_token
            .issue()
            .map_err(|error| failed("make the first token", error, "see whether getrandom works"))?;
        // Through a unix socket there is no address, but a name that is taken.
        let address = addresses.iter().find(|address| address.starts_with("http"));
        Some(format!("{}/?token={token}", address.map_or("http://localhost", String::as_str)))
    } else {
        None
    };
    let (stop, stopped) = watch::channel(false);
    let traffic = SandboxTraffic::before(&store, &places)
        .await
        .map_err(|error| failed("look at the sandboxes' traffic", error.message, &error.hint))?;
    let app = Arc::new(App {
        actions: Watch::new(stopped.clone()),
        commands: Arc::new(Semaphore::new(config.server.commands as usize)),
        commands_of: PerUser::default(),
        held: PerUser::default(),
        answers: Tally::default(),
        shown: Tally::default(),
        staged: PerUser::default(),
        own_paths: own_paths(&places, &options, &config),
        mask: Mask::new(&places, options.config.as_deref()),
        hosts: hosts(&options),
        without_authentication: options.without_authentication,
        started: Instant::now(),
        store: store.clone(),
        stock: Arc::new(Stock::new(Arc::clone(&launcher), config.server.pool as usize)),
        launcher,
        places,
        config,
        metrics: Metrics::default(),
        traffic,
        streams: Streams::default(),
        rates: Rates::default(),
        first_token,
        tokens,
        tickets: Tickets::default(),
        people: People::default(),
        disk: Measured::default(),
        usage: Usage::default(),
        limits_processors: limits_processors(),
        endings: Endings::new(found.kept),
        left: found.left,
    });
    app.metrics.sandboxes.set(found.living as i64);
    app.count_left_running();
    let limits = app.config.limits;
    tokio::spawn(sweep_for_ever(Arc::clone(&app)));
    let mut serving = JoinSet::new();
    for one in bound {
        let open = app.metrics.open.clone();
        serving.spawn(one.serve(router(Arc::clone(&app)), limits, open, stopped.clone()));
    }
    // Ended when this function is.
    let mut following = JoinSet::new();
    if let Some(certificates) = certificates.clone() {
        following.spawn(async move { certificates.follow().await });
    }
    let tokens_app = Arc::clone(&app);
    following.spawn(async move {
        if let Some(tokens) = &tokens_app.tokens {
            tokens.follow().await;
        }
    });
    tell(&Served { addresses, first_url });
    let mut helper = true;
    loop {
        tokio::select! {
            told = signals.next() => if told == Told::Stop { break },
            () = helper_gone(&app) => {
                helper = false;
                break;
            }
        }
        let (certificates, app) = (certificates.clone(), Arc::clone(&app));
        // Beside: a key server that is dead keeps nobody from stopping this one.
        following.spawn(async move {
            if let Some(certificates) = certificates {
                let _ = tokio::task::spawn_blocking(move || certificates.reload()).await;
            }
            if let Some(tokens) = &app.tokens {
                tokens.reload().await;
            }
        });
    }
    let drain = limits.drain.duration();
    tracing::info!("stopping: no new requests; streams have {} s to end", drain.as_secs());
    let _ = stop.send(true);
    let drained = async { while serving.join_next().await.is_some() {} };
    tokio::select! {
        drained = tokio::time::timeout(drain, drained) => {
            if drained.is_err() {
                tracing::warn!("some streams did not end, and are broken off");
            }
        }
        () = signals.stop() => {
            tracing::warn!("told to stop again: ending at once");
            return Ok(Ended::AtOnce);
        }
    }
    store.close().await;
    if !helper {
        return Err(failed("go on", "the helper that makes sandboxes was killed", "start the server again"));
    }
    Ok(Ended::Drained)
}

/// Looks after the stock. Returns when the helper is gone, without whom nothing can be run.
async fn helper_gone(app: &App) {
    let mut tick = tokio::time::interval(Duration::from_secs(1));
    loop {
        tick.tick().await;
        if app.launcher.is_gone() {
            return;
        }
        app.stock.tidy();
        app.metrics.pool_ready.set(app.stock.count().0 as i64);
    }
}

/// What the server is told by signals. Made before anybody hears that it listens.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
    /// Whether there was one at the start.
    terminal: bool,
}

fn has_terminal() -> bool {
    std::fs::File::open("/dev/tty").is_ok()
}

#[derive(PartialEq, Eq)]
enum Told {
    Stop,
    Reload,
}

impl Signals {
    fn new() -> Result<Self, ServiceError> {
        let of =
            |kind| signal(kind).map_err(|error| failed("wait for signals", error, "report this as a bug"));
        Ok(Self {
            interrupt: of(SignalKind::interrupt())?,
            terminate: of(SignalKind::terminate())?,
            hangup: of(SignalKind::hangup())?,
            terminal: has_terminal(),
        })
    }

    async fn next(&mut self) -> Told {
        tokio::select! {
            _ = self.interrupt.recv() => Told::Stop,
            _ = self.terminate.recv() => Told::Stop,
            // A terminal that was closed takes with it what was started there.
            _ = self.hangup.recv() => if self.terminal && !has_terminal() { Told::Stop } else { Told::Reload },
        }
    }

    async fn stop(&mut self) {
        while self.next().await != Told::Stop {}
    }
}

/// Never shown in a sandbox: what this server, its user and its configuration keep.
fn own_paths(places: &Places, options: &ServeOptions, config: &ServerConfig) -> Vec<PathBuf> {
    let mut paths = vec![places.home.clone()];
    let tls = options.tls.iter().flat_map(|files| [files.cert.as_path(), files.key.as_path()]);
    paths.extend(config.files().chain(tls).filter_map(|path| path.canonicalize().ok()));
    paths.extend(options.config.iter().filter_map(|path| path.canonicalize().ok()));
    paths.extend(places.system_config.parent().map(PathBuf::from));
    let secrets = options.tls.iter().map(|files| files.key.as_path()).chain(config.secret());
    paths.extend(secrets.filter_map(own_directory));
    paths.retain(|path| path.is_absolute() && path.parent().is_some() && path.exists());
    paths
}

/// Where programs look for what is nobody's secret.
const SHARED: &[&str] = &["/etc/ssl", "/usr/local", "/usr/local/etc", "/usr/share", "/var/lib", "/var/tmp"];

/// A secret that is renewed is another file in the place of the first, and what hides that one in a sandbox goes with it. Its
/// directory hides both, unless the system needs that directory.
fn own_directory(secret: &Path) -> Option<PathBuf> {
    let directory = secret.canonicalize().ok()?.parent()?.to_path_buf();
    let shared =
        directory.components().count() <= 2 || SHARED.iter().any(|path| directory == Path::new(path));
    (!shared).then_some(directory)
}

fn hosts(options: &ServeOptions) -> Vec<String> {
    let mut hosts: Vec<String> = ["localhost", "127.0.0.1", "[::1]"].map(str::to_owned).to_vec();
    for listen in &options.listen {
        if let Listen::Tcp(address) = listen {
            let ip = address.ip();
            hosts.push(if ip.is_ipv6() { format!("[{ip}]") } else { ip.to_string() });
        }
    }
    hosts.extend(options.names.iter().cloned());
    hosts
}
