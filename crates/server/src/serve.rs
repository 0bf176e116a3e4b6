//! From options to a server that runs until it is told to stop.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ringfence_service::workers::start_launcher;
use ringfence_service::{ErrorCode, Places, ServiceError};
use ringfence_store::{Role, Store};
use tokio::net::{TcpListener, UnixListener};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Semaphore, watch};

use crate::app::App;
use crate::auth::{FirstToken, LOCAL};
use crate::config::ServerConfig;
use crate::http::router;
use crate::metrics::Metrics;
use crate::rates::Rates;
use crate::recover::recover;
use crate::streams::Streams;

/// How long streams may take to end when the server is told to stop.
const DRAIN: Duration = Duration::from_secs(20);

/// Where to listen.
#[derive(Clone, Debug)]
pub enum Listen {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

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
}

/// What is told once the server listens.
#[derive(Debug)]
pub struct Served {
    pub addresses: Vec<String>,
    /// For whoever started it: the URL with the one-time token.
    pub first_url: Option<String>,
}

fn failed(doing: &str, error: impl std::fmt::Display, next: &str) -> ServiceError {
    ServiceError::new(ErrorCode::SandboxFailed, format!("cannot {doing}: {error}"), next)
}

/// Serve until SIGINT or SIGTERM. Must be called by a process with one thread: it forks the helper first.
pub fn serve(options: ServeOptions, tell: impl FnOnce(&Served)) -> Result<(), ServiceError> {
    check(&options)?;
    let config = ServerConfig::load(options.config.as_deref())?;
    let places = Places::from_env()?;
    places.state.ensure()?;
    // Before the first thread.
    let launcher = Arc::new(start_launcher()?);
    logging(options.json_logs);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(|error| {
        failed("start the server's threads", error, "see whether this user may start more processes")
    })?;
    let done = runtime.block_on(run(options, config, places, launcher, tell));
    runtime.shutdown_timeout(Duration::from_secs(5));
    done
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
                "use 127.0.0.1, or say --beyond-loopback if that is what you want; put TLS in front of it",
            ));
        }
    }
    Ok(())
}

fn logging(json: bool) {
    use std::io::IsTerminal;

    use tracing_subscriber::EnvFilter;

    let filter = EnvFilter::try_from_env("RINGFENCE_LOG")
        .unwrap_or_else(|_| EnvFilter::new("warn,ringfence_server=info"));
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    // A second server in one process, in a test say, keeps the first one's.
    let _ = if json { builder.json().try_init() } else { builder.try_init() };
}

async fn run(
    options: ServeOptions,
    config: ServerConfig,
    places: Places,
    launcher: Arc<ringfence_sandbox::Launcher>,
    tell: impl FnOnce(&Served),
) -> Result<(), ServiceError> {
    let database = places.state.path().join("server.db");
    let in_store =
        |error: ringfence_store::StoreError| failed("open the database", error, "see docs/server.md");
    let store = Store::open(&database).await.map_err(in_store)?;
    let living = recover(&store, &places)
        .await
        .map_err(|error| failed("find sandboxes again", error.message, &error.hint))?;
    if options.without_authentication && store.user(LOCAL).await.map_err(in_store)?.is_none() {
        store.add_user(LOCAL, Role::Admin).await.map_err(in_store)?;
    }
    let no_users = store.users().await.map_err(in_store)?.is_empty();
    let mut bound = Vec::new();
    for listen in &options.listen {
        bound.push(Bound::new(listen).await?);
    }
    let addresses: Vec<String> = bound.iter().map(Bound::shown).collect();
    let first_token = FirstToken::default();
    let first_url = match (no_users, addresses.iter().find(|address| address.starts_with("http"))) {
        (true, Some(address)) => {
            let token = first_token
                .issue()
                .map_err(|error| failed("make the first token", error, "see whether getrandom works"))?;
            Some(format!("{address}/?token={token}"))
        }
        _ => None,
    };
    let app = Arc::new(App {
        commands: Arc::new(Semaphore::new(config.server.commands as usize)),
        commands_of: Mutex::new(HashMap::new()),
        own_paths: own_paths(&places, &options),
        hosts: hosts(&options),
        without_authentication: options.without_authentication,
        started: Instant::now(),
        store: store.clone(),
        launcher,
        places,
        config,
        metrics: Metrics::default(),
        streams: Streams::default(),
        rates: Rates::default(),
        first_token,
    });
    app.metrics.sandboxes.set(living as i64);
    let (stop, stopped) = watch::channel(false);
    let mut serving = tokio::task::JoinSet::new();
    for one in bound {
        serving.spawn(one.serve(router(Arc::clone(&app)), stopped.clone()));
    }
    tell(&Served { addresses, first_url });
    told_to_stop().await?;
    tracing::info!("stopping: no new requests; streams have {} s to end", DRAIN.as_secs());
    let _ = stop.send(true);
    let drained = async { while serving.join_next().await.is_some() {} };
    if tokio::time::timeout(DRAIN, drained).await.is_err() {
        tracing::warn!("some streams did not end, and are broken off");
    }
    store.close().await;
    Ok(())
}

async fn told_to_stop() -> Result<(), ServiceError> {
    let problem = |error| failed("wait for signals", error, "report this as a bug");
    let mut interrupt = signal(SignalKind::interrupt()).map_err(problem)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(problem)?;
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    Ok(())
}

/// Never shown in a sandbox: what this server, its user and its configuration keep.
fn own_paths(places: &Places, options: &ServeOptions) -> Vec<PathBuf> {
    let mut paths = vec![places.home.clone()];
    paths.extend(options.config.iter().filter_map(|path| path.canonicalize().ok()));
    paths.extend(places.system_config.parent().map(PathBuf::from));
    paths.retain(|path| path.is_absolute() && path.parent().is_some() && path.exists());
    paths
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

enum Bound {
    Tcp(TcpListener, SocketAddr),
    Unix(UnixListener, PathBuf),
}

impl Bound {
    async fn new(listen: &Listen) -> Result<Self, ServiceError> {
        match listen {
            Listen::Tcp(address) => {
                let next = "end what listens there, or choose another with --listen";
                let problem = |error| failed(&format!("listen on {address}"), error, next);
                let listener = TcpListener::bind(address).await.map_err(problem)?;
                let address = listener.local_addr().map_err(problem)?;
                Ok(Self::Tcp(listener, address))
            }
            Listen::Unix(path) => {
                let next = "choose another path with --socket";
                let problem =
                    |error: std::io::Error| failed(&format!("listen on {}", path.display()), error, next);
                remove_stale(path).map_err(problem)?;
                let listener = UnixListener::bind(path).map_err(problem)?;
                std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o600))
                    .map_err(problem)?;
                Ok(Self::Unix(listener, path.clone()))
            }
        }
    }

    fn shown(&self) -> String {
        match self {
            Self::Tcp(_, address) => format!("http://{address}"),
            Self::Unix(_, path) => format!("unix:{}", path.display()),
        }
    }

    async fn serve(self, router: axum::Router, mut stopped: watch::Receiver<bool>) {
        let stop = async move {
            let _ = stopped.wait_for(|stop| *stop).await;
        };
        let served = match self {
            Self::Tcp(listener, _) => axum::serve(listener, router).with_graceful_shutdown(stop).await,
            Self::Unix(listener, path) => {
                let served = axum::serve(listener, router).with_graceful_shutdown(stop).await;
                let _ = std::fs::remove_file(path);
                served
            }
        };
        if let Err(error) = served {
            tracing::error!(%error, "a listener failed");
        }
    }
}

/// A socket that a killed server left. One that somebody listens on stays.
fn remove_stale(path: &std::path::Path) -> std::io::Result<()> {
    use std::os::unix::fs::FileTypeExt;
    let Ok(facts) = std::fs::symlink_metadata(path) else { return Ok(()) };
    if facts.file_type().is_socket() && std::os::unix::net::UnixStream::connect(path).is_err() {
        std::fs::remove_file(path)?;
    }
    Ok(())
}
