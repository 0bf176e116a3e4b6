//! What another program has to show of the host, as data: each at a place that guard knows by its number in the plan.

use std::path::{Path, PathBuf};

use crate::plan::{Access, Mount, Plan};
use crate::providers::native::{SOURCES, STDIN_SOURCE, is_second_name};

/// Where, in a mount namespace of the carrier's own, the trees are that only root can map.
pub(super) const STAGE: &str = "/run";

/// One thing of the host's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::providers) struct Source {
    /// Its place in the plan; the workspace's layers come after the last one.
    pub(in crate::providers) index: Option<usize>,
    pub(in crate::providers) from: PathBuf,
    pub(in crate::providers) access: Access,
}

/// What the program is given beside the plan.
#[derive(Clone, Debug)]
pub(in crate::providers) struct Given {
    pub(in crate::providers) sources: Vec<Source>,
}

/// The numbers at which the program is given guard's end of the control channel, and this executable: a runtime passes on those
/// that follow stdio.
pub(in crate::providers) const CONTROL: i32 = 3;
pub(in crate::providers) const EXECUTABLE: i32 = 4;

impl Source {
    /// Where it is put.
    pub(in crate::providers) fn at(&self) -> PathBuf {
        let name = self.index.map_or_else(|| STDIN_SOURCE.to_owned(), |index| index.to_string());
        Path::new(SOURCES).join(name)
    }

    /// Where the carrier puts it, if it is mapped or for a runtime.
    pub(in crate::providers) fn staged(&self) -> PathBuf {
        let name = self.index.map_or_else(|| STDIN_SOURCE.to_owned(), |index| index.to_string());
        Path::new(STAGE).join("ringfence").join(name)
    }
}

/// All that the plan shows of the host, and the file on stdin if there is one.
pub(in crate::providers) fn sources(plan: &Plan, stdin: Option<PathBuf>) -> Vec<Source> {
    let mut found = Vec::with_capacity(plan.mounts.len());
    let mut add = |index: Option<usize>, from: &Path, access| {
        found.push(Source { index, from: from.to_path_buf(), access });
    };
    for (index, mount) in plan.mounts.iter().enumerate() {
        match mount {
            Mount::Bind { source, target, .. } if is_second_name(plan, source, target) => {}
            Mount::Bind { source, access, .. } => add(Some(index), source, *access),
            Mount::Overlay { source, .. } => add(Some(index), source, Access::Read),
            Mount::Layered { lower, layers, .. } => {
                add(Some(index), lower, Access::Read);
                add(Some(plan.mounts.len()), layers, Access::Write);
            }
            _ => {}
        }
    }
    if let Some(stdin) = stdin {
        add(None, &stdin, Access::Read);
    }
    found
}
