//! The protocol's requests, handed to whoever answers them.

use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CustomRequest, CustomResult, DiscoverResult, ErrorCode,
    GetPromptRequestParams, GetPromptResponse, GetPromptResult, Implementation, JsonObject,
    ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
    PaginatedRequestParams, PromptMessage, ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse,
    ReadResourceResult, Role, ServerCapabilities, ServerConfig, SetLevelRequestMethod,
};
use rmcp::service::{NotificationContext, RequestContext, RoleServer};
use rmcp::{ErrorData, ServerHandler};
use serde_json::json;

use super::ask::{self, Person, Round};
use super::client::answer_limit;
use super::connection::Connection;
use super::host::Host;
use super::http::Door;
use super::own::Own;
use super::tools::{self, Behind, Call};
use super::{resources, skills};

const INSTRUCTIONS: &str = "\
Run commands and work with files inside a sandbox with sandbox_run and sandbox_file_*. The workspace is /workspace; nothing \
outside of it can be changed, and the network is closed but for what the user allows. What is blocked comes back in `denials` \
with a reason: say so to the user, do not look for a way round. Look for a fitting skill with skill_search before you begin \
something that others have done before.";
/// Of resources and prompts.
const PAGE: usize = 200;

/// One connection's end of the protocol.
#[derive(Clone, Debug)]
pub(super) struct Mcp {
    front: Front,
    connection: Arc<Connection>,
}

/// Where calls come from.
#[derive(Clone, Debug)]
enum Front {
    Stdio(Arc<Own>),
    Http(Door),
}

impl Mcp {
    pub(super) fn stdio(own: Arc<Own>) -> Self {
        Self { front: Front::Stdio(own), connection: Arc::default() }
    }

    pub(super) fn http(door: Door) -> Self {
        Self { front: Front::Http(door), connection: Arc::default() }
    }

    /// Whose sandboxes a request is about, and which connection it belongs to.
    fn origin(&self, extensions: &rmcp::model::Extensions) -> Result<(Host, Arc<Connection>), ErrorData> {
        match &self.front {
            Front::Stdio(own) => Ok((Host::Own(Arc::clone(own)), Arc::clone(&self.connection))),
            Front::Http(door) => {
                let (host, shared, store) = door.host(extensions).map_err(skills::failed)?;
                let connection = shared.unwrap_or_else(|| Arc::clone(&self.connection));
                connection.outputs.belong_to(|| store);
                Ok((host, connection))
            }
        }
    }

    /// A client has shown up, and its first call is not to wait.
    fn make_ahead(&self, extensions: &rmcp::model::Extensions) {
        if let Ok((host, connection)) = self.origin(extensions)
            && host.may_change().is_ok()
        {
            connection.make_ahead(&host);
        }
    }
}

impl ServerHandler for Mcp {
    fn get_info(&self) -> ServerConfig {
        let mut capabilities =
            ServerCapabilities::builder().enable_tools().enable_resources().enable_prompts().build();
        capabilities.extensions = Some([(skills::EXTENSION.to_owned(), JsonObject::new())].into());
        let mut us = Implementation::new("ringfence", env!("CARGO_PKG_VERSION"));
        us.title = Some("Ringfence".into());
        ServerConfig::new(capabilities).with_server_info(us).with_instructions(INSTRUCTIONS)
    }

    async fn discover(&self, context: RequestContext<RoleServer>) -> Result<DiscoverResult, ErrorData> {
        self.make_ahead(&context.extensions);
        Ok(DiscoverResult::from_server_info(self.supported_protocol_versions().into_owned(), self.get_info()))
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        self.make_ahead(&context.extensions);
    }

    /// Some clients set one as they begin. Nothing of ours is a log message, so that there is no more to do; the revision that
    /// has no such request any more does not get one.
    #[expect(deprecated, reason = "the last revision has no logging, those before it have")]
    async fn set_level(
        &self,
        _: rmcp::model::SetLevelRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        match context.protocol_version().is_some_and(|version| version >= ProtocolVersion::V_2026_07_28) {
            true => Err(ErrorData::method_not_found::<SetLevelRequestMethod>()),
            false => Ok(()),
        }
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        // Some say no hello.
        self.make_ahead(&context.extensions);
        Ok(ListToolsResult::with_all_items(tools::list(match self.front {
            Front::Stdio(_) => Behind::Stdio,
            Front::Http(_) => Behind::Server,
        })))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let (host, connection) = self.origin(&context.extensions)?;
        let client = context.client_info().map(|client| client.name);
        let token = context.meta.get_progress_token();
        let person = Person::of(&context);
        let mut call = Call {
            host,
            connection,
            limit: answer_limit(client.as_deref()),
            progress: token.map(|token| (context.peer.clone(), token)),
            granted: false,
        };
        let gone = match &self.front {
            Front::Stdio(_) => None,
            Front::Http(door) => door.gone(&context.extensions),
        };
        let gone = async {
            match gone {
                Some(gone) => gone.cancelled().await,
                None => std::future::pending().await,
            }
        };
        let arguments = request.arguments.unwrap_or_default();
        let round = Round { responses: request.input_responses, state: request.request_state };
        // Giving a call up drops it, and that ends its command with all that it started.
        let result = tokio::select! {
            result = ask::call(&mut call, &person, &request.name, arguments, round) => result,
            () = context.ct.cancelled() => return Err(given_up()),
            () = gone => return Err(given_up()),
        };
        match result {
            Some(result) => Ok(result),
            None => Err(ErrorData::invalid_params(
                format!("there is no tool `{}`", request.name.escape_debug()),
                None,
            )),
        }
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let (host, connection) = self.origin(&context.extensions)?;
        let mut all = resources::outputs(&connection);
        all.extend(skills::resources(&host).await.map_err(|error| skills::failed(host.told(error)))?);
        let (resources, next) = page(all, request)?;
        let mut result = ListResourcesResult::with_all_items(resources);
        result.next_cursor = next;
        Ok(result)
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(resources::templates()))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let (host, connection) = self.origin(&context.extensions)?;
        match resources::read(&host, &connection, &request.uri).await {
            Ok(contents) => Ok(ReadResourceResult::new(vec![contents]).into()),
            Err(error) => {
                let error = host.told(error);
                Err(ErrorData::resource_not_found(error.message, Some(json!({ "uri": request.uri }))))
            }
        }
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let (host, _) = self.origin(&context.extensions)?;
        let all = skills::prompts(&host).await.map_err(|error| skills::failed(host.told(error)))?;
        let (prompts, next) = page(all, request)?;
        let mut result = ListPromptsResult::with_all_items(prompts);
        result.next_cursor = next;
        Ok(result)
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let (host, _) = self.origin(&context.extensions)?;
        let task = request.arguments.as_ref().and_then(|arguments| arguments.get("task"));
        let task = task.and_then(|task| task.as_str().map(str::to_owned));
        let text = tools::skill_prompt(&host, &request.name, task.as_deref()).await;
        let text = text.map_err(|error| ErrorData::invalid_params(host.told(error).message, None))?;
        Ok(GetPromptResult::new(vec![PromptMessage::new_text(Role::User, text)]).into())
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let (host, _) = self.origin(&context.extensions)?;
        let answer = skills::request(&host, &request.method, request.params.as_ref()).await;
        match answer {
            Some(answer) => Ok(CustomResult::new(answer?)),
            None => Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method, None)),
        }
    }
}

/// Nobody is told this: whoever asked has gone.
fn given_up() -> ErrorData {
    ErrorData::internal_error("the call was given up", None)
}

/// One page of a list; a cursor is the place to go on at.
fn page<T>(
    all: Vec<T>,
    request: Option<PaginatedRequestParams>,
) -> Result<(Vec<T>, Option<String>), ErrorData> {
    let from: usize = match request.and_then(|request| request.cursor) {
        None => 0,
        Some(cursor) => {
            cursor.parse().map_err(|_| ErrorData::invalid_params("this is no cursor of ours", None))?
        }
    };
    let more = all.len() > from.saturating_add(PAGE);
    let next = more.then(|| (from + PAGE).to_string());
    Ok((all.into_iter().skip(from).take(PAGE).collect(), next))
}
