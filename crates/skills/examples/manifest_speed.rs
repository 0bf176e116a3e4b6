//! How long 10,000 skills take on one core: `cargo run --release -p ringfence-skills --example manifest_speed`.

use std::time::Instant;

use ringfence_skills::{load, validate};

#[allow(dead_code)]
#[path = "../tests/manifest/generator.rs"]
mod generator;

const SKILLS: usize = 10_000;

fn main() {
    let mut random = generator::Random::new(1);
    let ordinary: Vec<_> = (0..SKILLS).map(|number| generator::ordinary(&mut random, number)).collect();
    let every_kind: Vec<_> = (0..SKILLS).map(|_| generator::manifest(&mut random)).collect();
    for (what, manifests) in [("ordinary", ordinary), ("of every kind, broken ones too", every_kind)] {
        let start = Instant::now();
        let valid =
            manifests.iter().filter(|(directory, bytes)| validate(bytes, directory).is_empty()).count();
        let validated = start.elapsed();
        let loaded = manifests.iter().filter(|(directory, bytes)| load(bytes, directory).is_ok()).count();
        let all = start.elapsed();
        println!(
            "{SKILLS} skills {what}: validated in {validated:?} ({valid} valid), and loaded in {all:?} ({loaded})"
        );
    }
}
