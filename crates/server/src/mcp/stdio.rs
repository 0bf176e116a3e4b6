//! `ringfence mcp`: the protocol on stdin and stdout, for the user who starts it, with no server.

use std::sync::Arc;
use std::time::Duration;

use ringfence_service::workers::{OwnPolicy, start_launcher};
use ringfence_service::{Client, ClientRules, ErrorCode, FileRules, Places, ServiceError, check_environment};
use rmcp::ServiceExt;
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio::signal::unix::{SignalKind, signal};

use super::handler::Mcp;
use super::own::Own;

/// How long ends may take when the client is gone.
const FAREWELL: Duration = Duration::from_secs(20);

#[derive(Clone, Debug)]
pub struct McpOptions {
    /// What the user said about the policy.
    pub policy: OwnPolicy,
    /// Whose own deny rules hold for commands, beside the policy.
    pub rules_of: Option<Client>,
}

fn failed(doing: &str, error: impl std::fmt::Display, next: &str) -> ServiceError {
    ServiceError::new(ErrorCode::SandboxFailed, format!("cannot {doing}: {error}"), next)
}

/// Serve until the client closes its end, or SIGINT or SIGTERM. Must be called by a process with one thread: it forks the
/// helper first.
pub fn serve_mcp(options: McpOptions) -> Result<(), ServiceError> {
    if let Some(client) = options.rules_of {
        check_environment(client)?;
    }
    let places = Places::from_env()?;
    places.state.ensure()?;
    // What is wrong with the policy is said now, where a person sees it, and not by the first call.
    let merged = ringfence_service::workers::check_own_policy(&places, &options.policy)?;
    // Before the first thread.
    let launcher = Arc::new(start_launcher()?);
    crate::telemetry::log_errors();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().map_err(
            |error| failed("start threads", error, "see whether this user may start more processes"),
        )?;
    let rules = options.rules_of.map(|client| ClientRules::new(&places, client));
    let files = options.rules_of.map(|client| FileRules::new(&places, client));
    let policy = OwnPolicy { files, ..options.policy };
    let own = Own::new(places, launcher, policy, rules, &merged)
        .map_err(|error| failed("begin", error.message, &error.hint))?;
    let done = runtime.block_on(run(Arc::new(own)));
    // A read of stdin can't be broken off: it must not keep us.
    runtime.shutdown_background();
    done
}

async fn run(own: Arc<Own>) -> Result<(), ServiceError> {
    let problem = |error| failed("wait for signals", error, "report this as a bug");
    let mut interrupt = signal(SignalKind::interrupt()).map_err(problem)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(problem)?;
    let leases = tokio::spawn(Arc::clone(&own).keep_leases());
    let served = async {
        let transport = AsyncRwTransport::new(tokio::io::stdin(), tokio::io::stdout());
        match Mcp::stdio(Arc::clone(&own)).serve(transport).await {
            Ok(running) => {
                let _ = running.waiting().await;
                Ok(())
            }
            // Nobody began anything.
            Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => Ok(()),
            Err(error) => Err(failed(
                "speak with the client",
                error,
                "a client of the Model Context Protocol starts this command and speaks with it over stdin and stdout",
            )),
        }
    };
    let done = tokio::select! {
        done = served => done,
        _ = interrupt.recv() => Ok(()),
        _ = terminate.recv() => Ok(()),
    };
    leases.abort();
    let _ = tokio::time::timeout(FAREWELL, own.end_leased()).await;
    done
}
