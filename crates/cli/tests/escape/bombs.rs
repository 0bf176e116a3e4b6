//! Taking more than the limits give. Each twin takes as much without the limit, which is little for the host.

use ringfence_testing::{Scene, Stage, Test};

use crate::attempt::{Twin, attempt};
use crate::row::{Row, drill};

pub(crate) fn rows() -> Vec<Row> {
    vec![
        attempt("fork-bomb", "makes more processes than --pids")
            .flags(["--pids", "64"])
            .probe(["fork-bomb", "200"])
            .limited_by("limits.processes")
            .twin(Twin::Host),
        attempt("thread-bomb", "makes more threads than --pids")
            .flags(["--pids", "64"])
            .probe(["thread-bomb", "200"])
            .limited_by("limits.processes")
            .twin(Twin::Host),
        attempt("fork-bomb-profile", "makes more processes than the profile's default")
            .probe(["fork-bomb", "400"])
            .limited_by("limits.processes")
            .twin(Twin::Host),
        attempt("disk-bomb-workspace", "fills a private workspace beyond --disk")
            .own_workspace()
            .flags(["--disk", "16M"])
            .probe(["disk-bomb", ".", "24"])
            .limited_by("limits.disk")
            .twin(Twin::Host),
        attempt("disk-bomb-home", "fills the private home beyond --disk")
            .own_workspace()
            .flags(["--disk", "16M"])
            .shell("{probe} disk-bomb \"$HOME\" 24")
            .limited_by("limits.disk")
            .twin(Twin::Host),
        attempt("disk-bomb-both", "fills workspace, home and more, each below --disk, together beyond")
            .own_workspace()
            .flags(["--disk", "16M"])
            .shell("head -c 12M /dev/zero >here; head -c 12M /dev/zero >\"$HOME/there\"; rm here \"$HOME/there\"")
            .twin(Twin::Host),
        attempt("disk-bomb-tmp", "fills /tmp")
            .probe(["disk-bomb", "/tmp", "80"])
            .twin(Twin::Host),
        attempt("disk-bomb-shm", "fills /dev/shm")
            .probe(["disk-bomb", "/dev/shm", "100"])
            .twin(Twin::HostAsRoot),
        attempt("inode-bomb-tmp", "makes more files in /tmp than memory should hold")
            .probe(["inode-bomb", "/tmp", "40000"])
            .twin(Twin::Host),
        attempt("disk-bomb-root", "fills the root directory").probe(["may-write", "/"]).twin(Twin::HostAsRoot),
        attempt("disk-bomb-dev", "fills /dev").probe(["may-write", "/dev"]).twin(Twin::HostAsRoot),
        attempt("fd-bomb", "opens more files than the profile gives")
            .probe(["fd-bomb", "3000"])
            .limited_by("limits.open_files")
            .twin(Twin::Host),
        memory_bomb(),
        core_dump(),
        output_bomb(),
    ]
}

/// Where this host can enforce a memory limit for this caller, the bomb is killed; where it can't, asking for
/// the limit is refused before anything starts.
fn memory_bomb() -> Row {
    let run = |scene: &Scene, flags: &[&str]| {
        let probe = Stage::get().probe.to_string_lossy().into_owned();
        let test = Test::in_scene(scene).profile("restrictive").with_probe();
        test.args(flags.iter().copied()).run([probe, "memory-bomb".into(), "160".into()])
    };
    drill(
        "memory-bomb",
        "takes more memory than --memory",
        "tests/session/guard.rs",
        move |identity| {
            let outcome = run(&Scene::new(identity), &["--memory", "64M"]);
            let refused = outcome.exit == 125 && outcome.errors.contains("memory");
            let stopped = !outcome.output.contains("escaped:") && outcome.has_denial("limits.memory");
            if refused || stopped { Ok(()) } else { Err(outcome.describe()) }
        },
        move |identity| {
            let outcome = run(&Scene::new(identity), &["--waive", "limits.memory"]);
            if outcome.output.contains("escaped:") { Ok(()) } else { Err(outcome.describe()) }
        },
    )
}

fn core_dump() -> Row {
    let cores = |scene: &Scene| {
        let entries = std::fs::read_dir(scene.workspace()).into_iter().flatten().flatten();
        entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("core")).count()
    };
    drill(
        "core-dump",
        "dies with a core dump of what it had in memory",
        "tests/session/guard.rs",
        move |identity| {
            let scene = Scene::new(identity);
            let probe = Stage::get().probe.to_string_lossy().into_owned();
            let test =
                Test::in_scene(&scene).profile("restrictive").with_probe().workspace(scene.workspace());
            let outcome = test.run([probe, "dump-core".into()]);
            if outcome.exit != 128 + 6 {
                return Err(outcome.describe());
            }
            if cores(&scene) == 0 { Ok(()) } else { Err("there is a core dump in the workspace".into()) }
        },
        move |identity| {
            let scene = Scene::new(identity);
            let pattern = std::fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
            let line = [Stage::get().probe.to_string_lossy().into_owned(), "dump-core".into()];
            // Without `timeout`, which would turn dumps off for its child.
            let mut command = std::process::Command::new(&line[0]);
            command.arg(&line[1]).current_dir(scene.workspace());
            identity.apply(&mut command);
            let status = command.status().map_err(|error| error.to_string())?;
            let dumped = std::os::unix::process::ExitStatusExt::core_dumped(&status);
            // A pattern with a pipe or a directory puts it elsewhere; that the kernel dumped is what counts.
            let found = cores(&scene) > 0 || pattern.contains(['|', '/']);
            if dumped && found { Ok(()) } else { Err(format!("no core dump: {status}, pattern {pattern}")) }
        },
    )
}

/// Captured output is cut at its limit and says so; the command is not killed for it.
fn output_bomb() -> Row {
    let run = |scene: &Scene, limit: &str| {
        let test = Test::in_scene(scene).profile("restrictive").args(["--output-limit", limit]);
        test.run(["head", "-c", "3000000", "/dev/zero"])
    };
    drill(
        "output-bomb",
        "prints more than --output-limit",
        "tests/session/floods.rs",
        move |identity| {
            let outcome = run(&Scene::new(identity), "64K");
            let truncated = outcome.json.as_ref().is_some_and(|json| {
                json["truncated"].as_bool() == Some(true) || json["truncated"].is_object()
            });
            if truncated && outcome.output.len() <= 64 << 10 {
                Ok(())
            } else {
                Err(format!("{} bytes, truncated: {truncated}, exit {}", outcome.output.len(), outcome.exit))
            }
        },
        move |identity| {
            let outcome = run(&Scene::new(identity), "10M");
            if outcome.output.len() == 3_000_000 {
                Ok(())
            } else {
                Err(format!("{} bytes", outcome.output.len()))
            }
        },
    )
}
