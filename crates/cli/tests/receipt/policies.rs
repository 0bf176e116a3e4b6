//! Policies by chance, each with what is to be expected of the files that it speaks of.

use ringfence_testing::Scene;
use serde_json::{Map, Value, json};

use crate::text;

/// Numbers that are the same for the same seed (SplitMix64).
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64, number: u64) -> Self {
        Self(seed ^ number.wrapping_mul(0xA076_1D64_78BD_642F))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn percent(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }

    fn one_of<T: Clone>(&mut self, all: &[T]) -> T {
        all[(self.next() % all.len() as u64) as usize].clone()
    }
}

/// What a program inside may do with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reach {
    pub(crate) reads: bool,
    pub(crate) writes: bool,
}

#[derive(Debug)]
pub(crate) struct RandomPolicy {
    pub(crate) file: Value,
    /// Each file, by its path inside.
    pub(crate) expected: Vec<(String, Reach)>,
    pub(crate) waived: Vec<&'static str>,
    /// Limits with the values that they were asked for.
    pub(crate) limits: Vec<(String, Value)>,
    pub(crate) hostname: Option<&'static str>,
    pub(crate) variables: Vec<&'static str>,
}

const WAIVABLE: [&str; 8] = [
    "filesystem.protected",
    "filesystem.landlock",
    "network",
    "syscalls",
    "limits.memory",
    "limits.processes",
    "limits.open_files",
    "limits.wall_time",
];

/// Places of the scene that policies speak of.
pub(crate) fn furnish(scene: &Scene) {
    scene.write("ws/.git/config", "[core]\n");
    scene.write("ws/.git/HEAD", "ref: refs/heads/main\n");
    scene.mkdir("ws/.git/hooks");
    for file in ["ws/file", "ws/secrets/key", "ws/docs/page", "data/file", "store/file", "store/inner/file"] {
        scene.write(file, "text\n");
    }
}

pub(crate) fn random(scene: &Scene, chance: &mut Chance) -> RandomPolicy {
    let profile = chance.one_of(&["restrictive", "moderate", "permissive"]);
    let waived: Vec<&'static str> = WAIVABLE.into_iter().filter(|_| chance.percent(6)).collect();
    let (filesystem, expected) = filesystem(scene, chance, profile, &waived);
    let limits = limits(chance, &waived);
    let hostname = chance.percent(20).then_some("build");
    let mut file = json!({ "profile": profile, "filesystem": filesystem, "waive": waived });
    let mut part = |name: &str, value: Value| {
        if value.as_object().is_some_and(|object| !object.is_empty()) {
            file[name] = value;
        }
    };
    part("limits", Value::Object(limits.clone().into_iter().collect()));
    part("network", network(chance, &waived));
    part("identity", hostname.map_or(json!({}), |hostname| json!({ "hostname": hostname })));
    let variables = if chance.percent(30) { vec!["RF_SET"] } else { Vec::new() };
    if !variables.is_empty() {
        part("environment", json!({ "set": { "RF_SET": "some words" } }));
    }
    if chance.percent(20) {
        let allow = chance.one_of(&[json!(["personality"]), json!(["ptrace", "kcmp"])]);
        part("syscalls", json!({ "allow": allow, "compat": chance.percent(30) }));
    }
    RandomPolicy { file, expected, waived, limits, hostname, variables }
}

fn filesystem(
    scene: &Scene,
    chance: &mut Chance,
    profile: &str,
    waived: &[&str],
) -> (Value, Vec<(String, Reach)>) {
    let mut said = Map::new();
    let mut host = if profile == "permissive" { "all" } else { "system" };
    if chance.percent(20) {
        host = chance.one_of(&["system", "all"]);
        said.insert("host".into(), host.into());
    }
    let mut workspace = if profile == "restrictive" { "private" } else { "current" };
    if chance.percent(40) {
        workspace = chance.one_of(&["private", "current"]);
        said.insert("workspace".into(), workspace.into());
    }
    if chance.percent(15) {
        said.insert("toolchains".into(), chance.percent(50).into());
    }
    if chance.percent(25) {
        said.insert("tmp".into(), chance.one_of(&["1M", "16M", "300M"]).into());
    }
    let place = |relative: &str| text(&scene.path(relative));
    let mut list = |name: &str, percent: u64, value: String| {
        let is_said = chance.percent(percent);
        if is_said {
            let list = said.entry(name).or_insert_with(|| json!([]));
            list.as_array_mut().expect("a list").push(value.into());
        }
        is_said
    };
    let reads = list("read", 35, place("data"));
    let writes = list("write", 35, place("store"));
    let hides_data = list("hide", 15, place("data"));
    let hides_inner = list("hide", 15, place("store/inner"));
    let hides_key = list("hide", 20, place("ws/secrets"));
    let frees_config = list("unprotect", 15, ".git/config".into());
    let protects_docs = list("protect", 20, "docs/".into());

    let all = host == "all";
    let direct = workspace == "current";
    let open = waived.contains(&"filesystem.protected");
    let reach = |reads: bool, writes: bool| Reach { reads: reads || writes, writes };
    let below = |path: &str| format!("/workspace/{path}");
    let expected = vec![
        (place("outside/secret"), reach(all, false)),
        (place("data/file"), reach((reads || all) && !hides_data, false)),
        (place("store/file"), reach(all, writes)),
        (place("store/inner/file"), reach(all && !hides_inner, writes && !hides_inner)),
        (below("file"), reach(direct, direct)),
        (below("secrets/key"), reach(direct && !hides_key, direct && !hides_key)),
        (below(".git/config"), reach(direct, direct && (frees_config || open))),
        (below("docs/page"), reach(direct, direct && (!protects_docs || open))),
        ("/etc/passwd".to_owned(), reach(true, false)),
        ("/usr/bin/env".to_owned(), reach(true, false)),
    ];
    (Value::Object(said), expected)
}

fn limits(chance: &mut Chance, waived: &[&str]) -> Vec<(String, Value)> {
    let all: [(&str, u64, Vec<Value>); 9] = [
        ("cpus", 20, vec![json!(0.5), json!(1), json!(2)]),
        ("memory", 25, vec![json!("128M"), json!("300M"), json!("2G")]),
        ("processes", 25, vec![json!(40), json!(77), json!(300)]),
        ("disk", 15, vec![json!("8M"), json!("64M")]),
        ("open_files", 25, vec![json!(64), json!(1000)]),
        ("output", 15, vec![json!("1M"), json!("3M")]),
        ("wall_time", 25, vec![json!("60s"), json!("5m")]),
        ("connections", 10, vec![json!(3)]),
        ("bandwidth", 10, vec![json!("1M")]),
    ];
    let mut said = Vec::new();
    for (name, percent, values) in all {
        let value = chance.one_of(&values);
        if chance.percent(percent) && !waived.contains(&format!("limits.{name}").as_str()) {
            said.push((name.to_owned(), value));
        }
    }
    said
}

/// Names that nobody asks for: nothing is looked up or dialled.
fn network(chance: &mut Chance, waived: &[&str]) -> Value {
    if waived.contains(&"network") {
        return json!({});
    }
    match chance.one_of(&["", "", "", "off", "allow", "allow", "open", "local"]) {
        "off" => json!({ "mode": "off" }),
        "allow" => json!({
            "allow": ["api.example.com", "*.example.org:443", "192.0.2.10:22"],
            "deny": chance.one_of(&[json!([]), json!(["telemetry.example.org"])]),
        }),
        "open" => json!({ "mode": "open", "deny": ["*.example.com"] }),
        "local" => json!({ "local": [5432] }),
        _ => json!({}),
    }
}
