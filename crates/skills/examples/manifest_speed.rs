//! How much processor time 10,000 skills take: `cargo run --release -p ringfence-skills --example manifest_speed`.

use std::time::Duration;

use ringfence_skills::{load, validate};
use rustix::time::{ClockId, clock_gettime};

#[allow(dead_code)]
#[path = "../tests/manifest/generator.rs"]
mod generator;

const SKILLS: usize = 10_000;

fn main() {
    let mut random = generator::Random::new(1);
    let ordinary: Vec<_> = (0..SKILLS).map(|number| ordinary(&mut random, number)).collect();
    let every_kind: Vec<_> = (0..SKILLS).map(|_| generator::manifest(&mut random)).collect();
    for (what, manifests) in [("ordinary", ordinary), ("of every kind, broken ones too", every_kind)] {
        let start = spent();
        let valid =
            manifests.iter().filter(|(directory, bytes)| validate(bytes, directory).is_empty()).count();
        let validated = spent() - start;
        let loaded = manifests.iter().filter(|(directory, bytes)| load(bytes, directory).is_ok()).count();
        let all = spent() - start;
        println!(
            "{SKILLS} skills {what}: validated in {validated:?} ({valid} valid), and loaded in {all:?} ({loaded})"
        );
    }
}

/// Of this process, whatever else the machine does.
fn spent() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// A skill as most people write them, all different, for measuring.
fn ordinary(random: &mut generator::Random, number: usize) -> (String, Vec<u8>) {
    let name = format!("skill-{number}");
    let mut text = format!(
        "---\nname: {name}\ndescription: Does thing {number}, and is used when the user asks for it.\n"
    );
    text += "license: MIT\ncompatibility: needs python 3.11 and git\nallowed-tools: Bash(git:*) Read\n";
    text += &format!(
        "metadata:\n  author: someone\n  version: \"1.{}\"\n---\n\n# Skill {number}\n\n",
        random.below(99)
    );
    for _ in 0..20 + random.below(40) {
        text += "- Do this, and then that, with `scripts/run.py`; see references/guide.md for more.\n";
    }
    (name, text.into_bytes())
}
