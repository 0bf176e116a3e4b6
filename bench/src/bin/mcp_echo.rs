//! The least that a server of the protocol can be, in the SDK that ours is made with: one tool, which gives back what it gets.
//!
//! `mcp_echo` speaks on stdin and stdout; `mcp_echo --http` at `/mcp` of a port of loopback, which it prints as JSON.

use std::sync::Arc;

use anyhow::{Result, bail};
use axum::serve::ListenerExt;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, Implementation, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RoleServer, ServiceExt};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, ServerHandler};
use serde_json::{Value, json};

struct Echo;

impl ServerHandler for Echo {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().build();
        ServerConfig::new(capabilities).with_server_info(Implementation::new("echo", "1"))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema = json!({ "type": "object" });
        let schema = Arc::new(schema.as_object().cloned().unwrap_or_default());
        Ok(ListToolsResult::with_all_items(vec![Tool::new("echo", "Gives back what it gets", schema)]))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        Ok(CallToolResult::structured(arguments).into())
    }
}

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    // As many threads as `ringfence mcp` has.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => runtime.block_on(stdio())?,
        ["--http"] => runtime.block_on(http())?,
        _ => bail!("usage: mcp_echo [--http]"),
    }
    // A read of stdin can't be broken off.
    runtime.shutdown_background();
    Ok(())
}

async fn stdio() -> Result<()> {
    let transport = AsyncRwTransport::new(tokio::io::stdin(), tokio::io::stdout());
    Echo.serve(transport).await?.waiting().await?;
    Ok(())
}

async fn http() -> Result<()> {
    let config = StreamableHttpServerConfig::default().disable_allowed_hosts().with_sse_retry(None);
    let sessions = Arc::new(LocalSessionManager::default());
    let service = StreamableHttpService::new(|| Ok(Echo), sessions, config);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", json!({ "addresses": [format!("http://{}", listener.local_addr()?)] }));
    // Else it is the kernel's waiting for more that is measured.
    let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
    axum::serve(listener, axum::Router::new().route_service("/mcp", service)).await?;
    Ok(())
}
