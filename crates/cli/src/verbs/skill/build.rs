//! Installing what a skill needs, with progress. The work is done by a process of its own, `ringfence skill build-layer`:
//! this one reads what it says and draws, and that one is the owner of a sandbox, which has no thread and no bar.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, IsTerminal, Read, Write, stderr, stdin};
use std::os::fd::AsFd;
use std::process::{Command, Stdio};

use indicatif::{ProgressBar, ProgressStyle};
use ringfence_service::skills::{LayerPlan, build_layer};
use ringfence_service::{ErrorCode, Places, ServiceError};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use serde::{Deserialize, Serialize};

use super::progress::Progress;
use crate::failure::Failure;
use crate::output::{self, printable};

/// How many lines of the installer are shown when it fails.
const TAIL: usize = 30;
/// A line of a hostile installer may be of any length.
const LINE: u64 = 4096;
/// A plan is larger only by its lock file.
const MOST_INPUT: u64 = 64 << 20;

/// What the other process is told, on its stdin.
#[derive(Debug, Serialize, Deserialize)]
struct Order {
    plan: LayerPlan,
    again: bool,
    /// It ends when this process does.
    owner: u32,
}

/// Say what is installed and why, have it installed, and show how far it is.
pub(crate) fn make_layer(plan: &LayerPlan, again: bool) -> Result<(), ServiceError> {
    if plan.inferred.is_empty() {
        output::note(&format!("installing {}", plan.requirements.join(", ")));
    } else {
        output::note(&format!("nothing declares these: inferred from imports: {}", plan.inferred.join(", ")));
    }
    let order = Order { plan: plan.clone(), again, owner: std::process::id() };
    let order =
        serde_json::to_vec(&order).map_err(|error| failed(&format!("the plan can't be written: {error}")))?;
    let (from, to) = std::io::pipe().map_err(|error| failed(&error.to_string()))?;
    let both = to.try_clone().map_err(|error| failed(&error.to_string()))?;
    let mut child = Command::new("/proc/self/exe")
        .args(["skill", "build-layer"])
        .stdin(Stdio::piped())
        .stdout(to)
        .stderr(both)
        .spawn()
        .map_err(|error| failed(&format!("ringfence can't be started again: {error}")))?;
    let mut input = child.stdin.take();
    let told = input.as_mut().map_or(Ok(()), |input| input.write_all(&order));
    drop(input);
    let tail = watch(from, Progress::new(plan.locked_packages()));
    let status = child.wait().map_err(|error| failed(&error.to_string()))?;
    if status.success() && told.is_ok() {
        return Ok(());
    }
    output::below(&tail.into_iter().collect::<Vec<_>>().join("\n"));
    Err(ServiceError::new(
        ErrorCode::BuildFailed,
        format!("the packages could not be installed: {}", plan.requirements.join(", ")),
        "read what the installer said above; --no-deps runs without them",
    ))
}

/// In the process that does it: read the order, install, and fail with a reason.
pub(super) fn build_layer_here() -> Result<i32, Failure> {
    let bad = |why: String| {
        Failure::new(format!("this is not for people to call: {why}"), "ringfence skill run SKILL")
    };
    let mut bytes = Vec::new();
    stdin().lock().take(MOST_INPUT).read_to_end(&mut bytes).map_err(|error| bad(error.to_string()))?;
    let order: Order = serde_json::from_slice(&bytes).map_err(|error| bad(error.to_string()))?;
    set_parent_process_death_signal(Some(Signal::TERM)).map_err(|error| bad(error.to_string()))?;
    // It may have ended before that.
    if getppid().is_none_or(|parent| parent.as_raw_nonzero().get() as u32 != order.owner) {
        return Err(bad("who asked for it has ended".into()));
    }
    build_layer(&Places::from_env()?, &order.plan, order.again, &mut |text| output::line(text))?;
    Ok(0)
}

/// Show how far it is until the end; the last lines, for a failure.
fn watch(from: std::io::PipeReader, mut progress: Progress) -> VecDeque<String> {
    let mut tail = VecDeque::new();
    let bar = stderr().is_terminal().then(ProgressBar::new_spinner);
    let mut lines = BufReader::new(from);
    loop {
        if let Some(bar) = &bar
            && lines.buffer().is_empty()
            && !is_ready(lines.get_ref())
        {
            bar.tick();
            continue;
        }
        let mut line = Vec::new();
        match lines.by_ref().take(LINE).read_until(b'\n', &mut line) {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(_) => break,
        }
        let line = printable(String::from_utf8_lossy(&line).trim_end());
        if line.is_empty() {
            continue;
        }
        let total = progress.total;
        progress.hear(&line);
        match &bar {
            Some(bar) => draw(bar, &progress),
            // In a pipe: one line for each step, not for each package.
            None if line.starts_with("== ") || line.starts_with("waiting") => {
                output::note(&format!("dependencies: {}", line.trim_start_matches("== ")));
            }
            None if progress.total != total => {
                output::note(&format!(
                    "dependencies: {} packages in all",
                    progress.total.unwrap_or_default()
                ));
            }
            None => {}
        }
        tail.push_back(line);
        if tail.len() > TAIL {
            tail.pop_front();
        }
    }
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    tail
}

/// A bar where it is known how much there is, else something that turns.
fn draw(bar: &ProgressBar, progress: &Progress) {
    let template = match progress.total {
        Some(_) => "{spinner} {elapsed:>4} [{bar:24}] {pos}/{len} {wide_msg}",
        None => "{spinner} {elapsed:>4} {wide_msg}",
    };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    if let Some(total) = progress.total {
        bar.set_length(total);
        bar.set_position(progress.done);
    }
    bar.set_message(progress.current.clone());
}

/// Is there something to read now? Waits for as long as a frame lasts.
fn is_ready(pipe: &std::io::PipeReader) -> bool {
    let mut waiting = [PollFd::from_borrowed_fd(pipe.as_fd(), PollFlags::IN)];
    let timeout = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
    !matches!(poll(&mut waiting, Some(&timeout)), Ok(0) | Err(rustix::io::Errno::INTR))
}

fn failed(why: &str) -> ServiceError {
    ServiceError::new(
        ErrorCode::BuildFailed,
        format!("the packages could not be installed: {why}"),
        "try again",
    )
}
