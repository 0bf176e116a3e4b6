//! Private dirty memory of a sandbox whose command sleeps: of all its processes but the command's own.

use std::collections::BTreeMap;
use std::fs;
use std::process::Child;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::contender::{Kind, Setup};
use crate::figures::Memory;
use crate::stage::as_user;

/// An hour that no other `sleep` is likely to be asked for.
const SLEEP: &[&str] = &["/bin/sleep", "3607"];

/// Empty if this user may not look into the processes: guard is opaque to all but root.
pub(crate) fn measure(setup: &Setup, user: Option<u32>) -> Result<Vec<Memory>> {
    let mut rows = Vec::new();
    for contender in setup.contenders.iter().filter(|contender| contender.kind != Kind::Exec) {
        eprintln!("  memory of {}", contender.kind.label());
        let mut command = as_user(user, &setup.words(contender, SLEEP));
        setup.surround(&mut command, contender);
        let mut sandbox = Sleeping(command.spawn()?);
        let others = sandbox.others().with_context(|| format!("memory of {}", contender.kind.label()))?;
        // Nothing of the start is on its way any more.
        std::thread::sleep(Duration::from_millis(300));
        let mut row =
            Memory { kind: contender.kind, processes: others.len(), private_dirty: 0, proportional: 0 };
        for process in others {
            let Ok(text) = fs::read_to_string(format!("/proc/{process}/smaps_rollup")) else {
                return Ok(Vec::new());
            };
            row.private_dirty +=
                bytes_of(&text, "Private_Dirty:").context("no Private_Dirty in smaps_rollup")?;
            row.proportional += bytes_of(&text, "Pss:").context("no Pss in smaps_rollup")?;
        }
        rows.push(row);
    }
    Ok(rows)
}

fn bytes_of(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
}

struct Sleeping(Child);

impl Sleeping {
    /// The processes of the tree once the command sleeps, without the command.
    fn others(&mut self) -> Result<Vec<u32>> {
        let deadline = Instant::now() + Duration::from_secs(10);
        while Instant::now() < deadline {
            if let Some(status) = self.0.try_wait()? {
                bail!("the sandbox ended with {status} instead of sleeping");
            }
            let (sleeping, others): (Vec<u32>, Vec<u32>) =
                tree(self.0.id())?.into_iter().partition(|pid| is_sleep(*pid));
            if !sleeping.is_empty() {
                return Ok(others);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        bail!("the command did not start within 10 s")
    }
}

impl Drop for Sleeping {
    fn drop(&mut self) {
        // The command first, where it can be seen: then everything above it ends by itself, as it should.
        for pid in tree(self.0.id()).unwrap_or_default().into_iter().filter(|pid| is_sleep(*pid)) {
            if let Some(pid) = rustix::process::Pid::from_raw(pid.cast_signed()) {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
        let deadline = Instant::now() + Duration::from_secs(2);
        while matches!(self.0.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn is_sleep(pid: u32) -> bool {
    let words = SLEEP.iter().flat_map(|word| word.bytes().chain([0]));
    fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|found| found.into_iter().eq(words))
}

/// `top` and all its descendants.
fn tree(top: u32) -> Result<Vec<u32>> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for entry in fs::read_dir("/proc")?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
        // The name is in brackets and may hold anything; the parent is the second field after it.
        let parent = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1)?.parse().ok());
        children.entry(parent.unwrap_or(0)).or_default().push(pid);
    }
    let mut found = vec![top];
    let mut next = 0;
    while let Some(pid) = found.get(next).copied() {
        found.extend(children.remove(&pid).unwrap_or_default());
        next += 1;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_of_smaps_is_in_bytes() {
        let text = "Rss: 100 kB\nPss:                  12 kB\nPss_Dirty: 3 kB\nPrivate_Dirty:        8 kB\n";
        assert_eq!(bytes_of(text, "Private_Dirty:"), Some(8192));
        assert_eq!(bytes_of(text, "Pss:"), Some(12_288));
        assert_eq!(bytes_of(text, "Swap:"), None);
    }

    #[test]
    fn a_tree_has_its_top_and_its_children() {
        let child = std::process::Command::new("/bin/sleep").arg("5").spawn().unwrap();
        let mut child = Sleeping(child);
        let found = tree(std::process::id()).unwrap();
        let _ = child.0.kill();
        assert!(found.contains(&std::process::id()) && found.contains(&child.0.id()));
    }
}
