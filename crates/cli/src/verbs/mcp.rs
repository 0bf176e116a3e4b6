//! `ringfence mcp`

use ringfence_server::{McpOptions, serve_mcp};
use ringfence_service::workers::OwnPolicy;

use crate::args::McpArgs;
use crate::failure::Failure;
use crate::resolve;

pub(crate) fn mcp(mut args: McpArgs) -> Result<i32, Failure> {
    if args.private {
        args.policy.workspace = Some("private".into());
    }
    let spec = resolve::policy(args.policy)?;
    let policy = OwnPolicy {
        file: spec.file,
        flags: spec.flags.into_iter().map(|(origin, layer)| (origin.to_string(), layer)).collect(),
        registries: spec.registries.iter().map(ToString::to_string).collect(),
        variables_tighten: args.rules_of.is_some(),
        ..OwnPolicy::default()
    };
    serve_mcp(McpOptions { policy, rules_of: args.rules_of.map(Into::into) })?;
    Ok(0)
}
