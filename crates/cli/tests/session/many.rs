//! Many sessions at once, and what an idle one costs. Small here, in full by `./test soak` (`RINGFENCE_SOAK_SESSIONS`).

use ringfence_testing::Session;

use crate::each;

fn many() -> u32 {
    std::env::var("RINGFENCE_SOAK_SESSIONS").ok().and_then(|text| text.parse().ok()).unwrap_or(40)
}

/// Memory that nobody else shares, in KiB.
fn private_dirty(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("Private_Dirty:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn many_sessions_each_answer_and_cost_little() {
    const AT_MOST: u64 = 2 << 10;
    each(|scene| {
        let sessions: Vec<Session<'_>> =
            (0..many()).map(|_| Session::create(scene, ["--profile", "restrictive"])).collect();
        for (number, session) in sessions.iter().enumerate() {
            session.sh(&format!("echo {number} > /workspace/own")).code(0);
        }
        for (number, session) in sessions.iter().enumerate() {
            session.sh("cat /workspace/own").stdout(&format!("{number}\n"));
        }
        let costs =
            sessions.iter().map(|session| private_dirty(session.keeper()) + private_dirty(session.guard()));
        let most = costs.max().unwrap_or(0);
        println!("{} sessions as {:?}: at most {most} KiB each", many(), scene.identity);
        assert!(most <= AT_MOST, "an idle session has {most} KiB of its own");
    });
}
