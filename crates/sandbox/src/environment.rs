//! The environment and directory that a command starts with. Nothing of the caller's comes in but what is named.

use std::path::{Path, PathBuf};

use ringfence_policy::Policy;

use crate::host::Host;
use crate::network::{self, PlannedEgress};
use crate::plan::{Ids, PlannedWorkspace, WORKSPACE};
use crate::refusal::Refusal;
use crate::request::Request;

const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

pub(crate) fn environment(
    request: &Request,
    host: &Host,
    ids: &Ids,
    egress: Option<&PlannedEgress>,
) -> Vec<(String, String)> {
    let Policy { environment: policy, .. } = &request.policy.policy;
    let mut variables = host.environment.clone();
    if let Some(image) = &host.image {
        // The caller's own leads to the host's directories.
        variables.insert("PATH".into(), image.path.clone().unwrap_or_else(|| PATH.into()));
    }
    variables.entry("PATH".into()).or_insert_with(|| PATH.into());
    for (name, value) in [
        ("HOME", ids.home.display().to_string()),
        ("USER", ids.user.clone()),
        ("LOGNAME", ids.user.clone()),
        ("SHELL", "/bin/sh".into()),
        ("TMPDIR", "/tmp".into()),
        ("RINGFENCE", "1".into()),
    ] {
        variables.insert(name.into(), value);
    }
    variables.extend(egress.into_iter().flat_map(network::variables));
    let set = policy.set.iter().map(|(name, value)| (name.clone(), value.clone()));
    variables.extend(request.attached.variables.iter().cloned().chain(set));
    if !request.attached.path.is_empty() {
        let path = variables.entry("PATH".into()).or_default();
        let before: Vec<String> =
            request.attached.path.iter().map(|directory| directory.display().to_string()).collect();
        *path = format!("{}:{path}", before.join(":"));
    }
    variables.into_iter().collect()
}

/// Where the command starts: the caller's own place in the workspace if that is shown, else the workspace.
pub(crate) fn working_directory(
    request: &Request,
    host: &Host,
    workspace: Option<&PlannedWorkspace>,
) -> Result<PathBuf, Refusal> {
    let start = match workspace {
        Some(workspace) => {
            let root = workspace.own_path.as_deref().unwrap_or(Path::new(WORKSPACE));
            let below = host.workspace.as_ref().map(|own| host.current.strip_prefix(&own.path));
            match below {
                Some(Ok(below)) if !below.as_os_str().is_empty() => root.join(below),
                _ => root.to_path_buf(),
            }
        }
        None => PathBuf::from(WORKSPACE),
    };
    match &request.directory {
        Some(directory) if directory.as_os_str().is_empty() => Err(Refusal::bad(
            "the directory given with --cwd is empty",
            "name a directory inside the sandbox",
        )),
        Some(directory) => Ok(start.join(directory)),
        None => Ok(start),
    }
}
