use std::collections::{BTreeMap, BTreeSet};

use ringfence_linux::{Controller, Hierarchy};
use ringfence_policy::{Layer, Origin, ProviderName, ToolchainDir, merge};

use super::*;
use crate::attachment::{Alias, AttachAs, Attached, Attachment};
use crate::host::{GitUser, HostPath, RootEntry, WorkspaceDir};
use crate::request::Stream;

pub(crate) fn host(uid: u32) -> Host {
    let root = |path: &str, link: Option<&str>| RootEntry {
        path: path.into(),
        link: link.map(PathBuf::from),
        source: None,
    };
    Host {
        uid,
        gid: uid,
        user: "ann".into(),
        home: "/home/ann".into(),
        ids: if uid == 0 { OuterIds::Unused(1_879_050_000) } else { OuterIds::Own },
        current: "/home/ann/project/sub".into(),
        environment: BTreeMap::from([("PATH".into(), "/usr/bin".into())]),
        roots: vec![root("/usr", None), root("/bin", Some("usr/bin")), root("/etc", None)],
        image: None,
        workspace: None,
        layers: None,
        read: Vec::new(),
        write: Vec::new(),
        attachments: Vec::new(),
        hide: vec!["/home/ann/.local/state/ringfence".into()],
        toolchains: Vec::new(),
        git_user: Some(GitUser { name: "Ann".into(), email: "ann@example.org".into() }),
        shows_more: false,
        network: crate::network::NetworkFacts::default(),
        sockets: Vec::new(),
        cgroups: Hierarchy::V2 {
            base: "/sys/fs/cgroup".into(),
            controllers: BTreeSet::from(Controller::ALL),
        },
        landlock: 7,
        open_files_hard: 65_536,
        home_exists: true,
        overlay: true,
    }
}

fn workspace(mut host: Host) -> Host {
    host.workspace = Some(WorkspaceDir {
        path: "/home/ann/project".into(),
        uid: host.uid,
        gid: host.gid,
        device: 1,
        inode: 2,
    });
    host.toolchains = vec![ToolchainDir {
        path: "/home/ann/.cargo".into(),
        hide: vec!["/home/ann/.cargo/credentials.toml".into()],
    }];
    host
}

pub(crate) fn request(profile: ProfileName, toml: &str) -> Request {
    let layers = [(Origin::flag("--test"), Layer::from_toml(toml).unwrap())];
    Request {
        policy: merge(profile, &layers).unwrap(),
        argv: vec!["true".into()],
        directory: None,
        attached: Attached::default(),
        image: None,
        workspace_layers: None,
        stream: Stream::Inherit,
        trace: false,
        learn: false,
        strict: false,
        state: "/home/ann/.local/state/ringfence".into(),
        secrets: "/home/ann/.local/state/ringfence/secrets".into(),
    }
}

fn planned(profile: ProfileName, toml: &str, host: &Host) -> Result<Plan, Refusal> {
    plan(&request(profile, toml), host, ProviderName::Native)
}

#[test]
fn the_restrictive_plan_of_an_ordinary_user() {
    insta::assert_json_snapshot!(planned(ProfileName::Restrictive, "", &host(1000)).unwrap());
}

#[test]
fn the_moderate_plan_of_root() {
    insta::assert_json_snapshot!(planned(ProfileName::Moderate, "", &workspace(host(0))).unwrap());
}

#[test]
fn a_network_that_cannot_be_enforced_is_refused() {
    for mode in ["allow", "open"] {
        let toml = format!("waive = ['syscalls']\n[network]\nmode = '{mode}'");
        let refusal = planned(ProfileName::Restrictive, &toml, &host(1000)).unwrap_err();
        assert!(matches!(refusal, Refusal::NotEnforceable { clause: "network", .. }), "{refusal}");
    }
}

#[test]
fn a_network_has_its_sockets_routes_and_variables() {
    let toml = "
        [network]
        allow = ['api.example.com', '192.0.2.10:22']
        local = [5432]
        [[network.secrets]]
        name = 'TOKEN'
        from = 'env:TOKEN'
        hosts = ['api.example.com']
    ";
    let mut host = host(0);
    host.network = crate::network::NetworkFacts {
        ipv6: true,
        resolver_file: Some("/run/systemd/resolve/stub-resolv.conf".into()),
        bundles: Vec::new(),
        nonce: "n0".into(),
    };
    let plan = planned(ProfileName::Restrictive, toml, &host).unwrap();
    let egress = plan.egress.as_ref().unwrap();
    assert_eq!(egress.roles.len(), egress.shape.sockets.len());
    insta::assert_json_snapshot!((&egress, &plan.environment));
    let resolver = plan
        .mounts
        .iter()
        .any(|mount| matches!(mount, Mount::Seed { target, .. } if target.starts_with("/run/systemd")));
    assert!(resolver, "the name server's file is not there");
}

#[test]
fn a_limit_that_was_asked_for_is_enforced_or_refused_and_a_default_is_a_warning() {
    let mut host = host(1000);
    host.cgroups = Hierarchy::Absent { why: "none here".into(), fix: "mount one".into() };
    let plan = planned(ProfileName::Restrictive, "", &host).unwrap();
    assert!(plan.receipt.warnings.iter().any(|warning| warning.contains("limits.memory")));
    let refusal = planned(ProfileName::Restrictive, "[limits]\nmemory = '64M'", &host).unwrap_err();
    assert!(matches!(refusal, Refusal::NotEnforceable { clause: "limits.memory", .. }), "{refusal}");
    let mut strict = request(ProfileName::Restrictive, "");
    strict.strict = true;
    assert!(super::plan(&strict, &host, ProviderName::Native).is_err());
}

#[test]
fn a_disk_limit_on_the_users_own_directory_is_refused() {
    let host = workspace(host(1000));
    assert!(planned(ProfileName::Moderate, "", &host).is_ok());
    let refusal = planned(ProfileName::Moderate, "[limits]\ndisk = '1G'", &host).unwrap_err();
    assert!(matches!(refusal, Refusal::NotEnforceable { clause: "limits.disk", .. }), "{refusal}");
}

#[test]
fn no_landlock_is_refused_unless_waived() {
    let mut host = host(1000);
    host.landlock = 0;
    assert!(planned(ProfileName::Restrictive, "", &host).is_err());
    let plan = planned(ProfileName::Restrictive, "waive = ['filesystem.landlock']", &host).unwrap();
    assert!(!plan.landlock);
}

#[test]
fn the_command_starts_where_the_caller_is_if_that_is_shown() {
    let host = workspace(host(1000));
    assert_eq!(
        planned(ProfileName::Moderate, "", &host).unwrap().directory,
        Path::new("/home/ann/project/sub")
    );
    assert_eq!(planned(ProfileName::Restrictive, "", &host).unwrap().directory, Path::new("/workspace/sub"));
}

#[test]
fn sockets_of_the_host_are_hidden_wherever_a_bind_shows_them() {
    let mut host = workspace(host(1000));
    host.sockets = vec!["/home/ann/project/x.sock".into(), "/srv/data/y.sock".into(), "/run/z.sock".into()];
    host.read = vec![HostPath { written: "/srv/data".into(), real: "/srv/data".into(), is_dir: true }];
    let plan = planned(ProfileName::Moderate, "", &host).unwrap();
    assert_eq!(plan.workspace.unwrap().sockets, [PathBuf::from("x.sock")]);
    let hidden: Vec<_> = plan.mounts.iter().filter(|mount| matches!(mount, Mount::Hide { .. })).collect();
    assert!(hidden.iter().any(|mount| mount.target() == Path::new("/srv/data/y.sock")));
    assert!(!hidden.iter().any(|mount| mount.target() == Path::new("/run/z.sock")));
}

#[test]
fn a_parent_is_mounted_before_its_children_and_hiding_is_last() {
    let plan = planned(ProfileName::Moderate, "", &workspace(host(0))).unwrap();
    for (index, mount) in plan.mounts.iter().enumerate() {
        if matches!(mount, Mount::Hide { .. }) {
            assert!(plan.mounts[index..].iter().all(|later| matches!(later, Mount::Hide { .. })));
            break;
        }
        let after = &plan.mounts[index + 1..];
        assert!(
            !after.iter().any(|later| {
                mount.target().starts_with(later.target()) && mount.target() != later.target()
            })
        );
    }
}

fn attachment(target: &str, attach_as: AttachAs) -> Attachment {
    Attachment { source: "/srv/skill".into(), target: target.into(), attach_as, expected: None }
}

#[test]
fn what_is_attached_is_shown_where_it_is_told() {
    let mut host = host(1000);
    host.attachments = vec![
        attachment("/skills/general/one", AttachAs::Read),
        attachment("/skills/general/two", AttachAs::Copy),
        attachment("/run/ringfence/dependencies", AttachAs::Write),
    ];
    let mut request = request(ProfileName::Restrictive, "");
    request.attached = Attached {
        aliases: vec![Alias { target: "/skills/one".into(), to: "general/one".into() }],
        path: vec!["/run/ringfence/dependencies/bin".into()],
        variables: vec![("PYTHONUNBUFFERED".into(), "1".into())],
        ..Attached::default()
    };
    let plan = plan(&request, &host, ProviderName::Native).unwrap();
    let found = |target: &str| plan.mounts.iter().rfind(|mount| mount.target() == Path::new(target)).unwrap();
    assert!(matches!(found("/skills/general/one"), Mount::Bind { access: Access::Read, .. }));
    assert!(matches!(found("/skills/general/two"), Mount::Overlay { .. }));
    assert!(matches!(found("/run/ringfence/dependencies"), Mount::Bind { access: Access::Write, .. }));
    assert!(matches!(found("/skills/one"), Mount::Symlink { .. }));
    let variable = |name: &str| &plan.environment.iter().find(|(found, _)| found == name).unwrap().1;
    assert_eq!(variable("PATH"), "/run/ringfence/dependencies/bin:/usr/bin");
    assert_eq!(variable("PYTHONUNBUFFERED"), "1");
    assert!(plan.receipt.clauses.iter().any(|line| line.clause == Clause::FilesystemAttached));
}

#[test]
fn a_throwaway_copy_is_refused_where_there_is_no_overlay() {
    let mut host = host(1000);
    host.overlay = false;
    host.attachments = vec![attachment("/skills/general/one", AttachAs::Copy)];
    let refused = plan(&request(ProfileName::Restrictive, ""), &host, ProviderName::Native);
    assert!(matches!(refused, Err(Refusal::NotEnforceable { clause: "filesystem.attached", .. })));
}

fn layered(host: Host) -> Host {
    let mut host = workspace(host);
    let lower = host.workspace.clone().unwrap();
    host.layers = Some(crate::layers::LayersDir { directory: "/state/sessions/s1".into(), lower });
    host
}

#[test]
fn an_overlay_workspace_is_shown_like_a_direct_one_and_nothing_in_it_is_pinned() {
    let plan = planned(ProfileName::Moderate, "", &layered(host(1000))).unwrap();
    let workspace = plan.workspace.as_ref().unwrap();
    assert!(!workspace.protect);
    assert_eq!(workspace.own_path.as_deref(), Some(Path::new("/home/ann/project")));
    assert!(plan.mounts.contains(&Mount::Layered {
        lower: "/home/ann/project".into(),
        layers: "/state/sessions/s1".into(),
        target: WORKSPACE.into(),
    }));
    let mechanism = |clause| {
        let line = plan.receipt.clauses.iter().find(|line| line.clause == clause).unwrap();
        (line.status, line.mechanism.as_str())
    };
    let enforced = crate::receipt::Status::Enforced;
    let workspace = "overlay: writes go to a layer on disk until they are committed";
    assert_eq!(mechanism(Clause::FilesystemWorkspace), (enforced, workspace));
    assert_eq!(mechanism(Clause::FilesystemProtected), (enforced, "left out when the overlay is committed"));
    let waived =
        planned(ProfileName::Moderate, "waive = ['filesystem.protected']", &layered(host(0))).unwrap();
    let line = waived.receipt.clauses.iter().find(|line| line.clause == Clause::FilesystemProtected).unwrap();
    assert_eq!(line.status, crate::receipt::Status::Waived);
}

#[test]
fn a_disk_limit_on_an_overlay_workspace_is_refused() {
    let host = layered(host(1000));
    assert!(planned(ProfileName::Moderate, "", &host).is_ok());
    let refusal = planned(ProfileName::Moderate, "[limits]\ndisk = '1G'", &host).unwrap_err();
    assert!(refusal.to_string().contains("overlay workspace"), "{refusal}");
}

#[test]
fn a_snapshot_beneath_takes_the_directorys_place_and_its_owner() {
    let mut host = layered(host(0));
    let lower = host.layers.as_mut().map(|layers| &mut layers.lower).unwrap();
    (lower.path, lower.uid, lower.gid) = ("/state/snapshots/t1".into(), 7, 8);
    let plan = planned(ProfileName::Moderate, "", &host).unwrap();
    assert_eq!(plan.workspace.as_ref().unwrap().source, Path::new("/state/snapshots/t1"));
    assert_eq!(plan.directory, Path::new("/home/ann/project/sub"));
    let mapped = plan.ids.mapped.unwrap();
    assert_eq!((mapped.owner_uid, mapped.owner_gid), (7, 8));
}

/// The mounts that do not come with the order.
fn made_ahead(plan: &Plan) -> Vec<&Mount> {
    plan.mounts.iter().zip(&plan.late).filter_map(|(mount, late)| (!late).then_some(mount)).collect()
}

#[test]
fn what_is_made_ahead_is_the_same_whatever_the_order_brings() {
    let without = planned(ProfileName::Moderate, "", &host(0)).unwrap();
    let mut with = workspace(host(0));
    with.attachments = vec![Attachment {
        source: "/srv/library/a".into(),
        target: "/skills/a".into(),
        attach_as: AttachAs::Read,
        expected: None,
    }];
    let with = planned(ProfileName::Moderate, "", &with).unwrap();
    assert_eq!(made_ahead(&without), made_ahead(&with));
    for target in ["/workspace", "/home/ann/project", "/skills/a", "/home/ann/.cargo"] {
        let at = with.mounts.iter().position(|mount| mount.target() == Path::new(target)).unwrap();
        assert!(with.late[at], "{target}");
    }
    assert!(made_ahead(&with).iter().any(|mount| matches!(mount, Mount::Proc { .. })));
}

#[test]
fn what_lies_on_something_late_is_late_too() {
    let mut host = workspace(host(1000));
    // Beneath the workspace's own path: placed before it, it would be covered.
    let below = PathBuf::from("/home/ann/project/vendor");
    host.read = vec![HostPath { written: below.clone(), real: below.clone(), is_dir: true }];
    let plan = planned(ProfileName::Moderate, "", &host).unwrap();
    let at = plan.mounts.iter().position(|mount| mount.target() == below).unwrap();
    assert!(plan.late[at]);
    assert_eq!(plan.late.len(), plan.mounts.len());
}

/// What bubblewrap is told, for the plan of each identity.
fn bwrap_words(profile: ProfileName, toml: &str, host: &Host) -> String {
    let plan = plan(&request(profile, toml), host, ProviderName::Bwrap).unwrap();
    let words = crate::providers::bwrap_words(&plan, Some("/home/ann/input.txt".into()));
    // One option a line, with what belongs to it.
    words.iter().map(|word| word.to_string_lossy()).fold(String::new(), |mut text, word| {
        text.push_str(if word.starts_with("--") { "\n" } else { " " });
        text.push_str(&word);
        text
    })
}

#[test]
fn bubblewrap_gets_what_the_plan_shows_and_no_more() {
    insta::assert_snapshot!(bwrap_words(ProfileName::Restrictive, "", &host(1000)));
    insta::assert_snapshot!(bwrap_words(
        ProfileName::Moderate,
        "waive = ['network']\n[filesystem]\nread = ['/srv/data']",
        &workspace(host(0))
    ));
}

/// What a daemon is asked for: nothing of the plan's mounts is in it.
#[test]
fn docker_is_asked_for_a_container_and_told_of_nothing_that_is_shown() {
    let spec = |profile, toml: &str, host: &Host, runtime| {
        let plan = plan(&request(profile, toml), host, ProviderName::Docker).unwrap();
        crate::providers::container_spec(&plan, runtime)
    };
    let own = spec(ProfileName::Restrictive, "", &host(1000), None);
    insta::assert_json_snapshot!(own);
    let toml = "waive = ['network']\n[filesystem]\nread = ['/srv/data']";
    let roots = spec(ProfileName::Moderate, toml, &workspace(host(0)), Some("crun"));
    insta::assert_json_snapshot!(roots);
    assert!(!roots.to_string().contains("/srv/data") && !roots.to_string().contains("/workspace"));
}

/// What a runtime is told, for the plan of each identity.
fn runtime_words(program: &str, toml: &str, host: &Host) -> String {
    let mut plan = plan(&request(ProfileName::Moderate, toml), host, ProviderName::Oci).unwrap();
    plan.program = Some(program.into());
    let (words, config) = crate::providers::runtime_words(&plan, Some("/home/ann/input.txt".into()));
    let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    let config: serde_json::Value = serde_json::from_str(&config).unwrap();
    format!("{}\n{config:#}", words.join(" "))
}

#[test]
fn a_runtime_gets_what_the_plan_shows_and_no_more() {
    insta::assert_snapshot!(runtime_words("/usr/bin/crun", "", &workspace(host(1000))));
    insta::assert_snapshot!(runtime_words(
        "/usr/sbin/runc",
        "waive = ['network']\n[filesystem]\nread = ['/srv/data']",
        &workspace(host(0))
    ));
}

const BUNDLED: &str = "waive = ['filesystem.landlock', 'filesystem.protected']";

fn bundled(profile: ProfileName, toml: &str, host: &Host) -> Result<crate::OciBundle, Refusal> {
    crate::bundle(&request(profile, toml), host, Path::new("/srv/job/files"))
}

/// Without its list of calls, which has a test of its own.
#[test]
fn a_bundle_holds_the_policy_by_itself() {
    for (name, profile, host) in [
        ("restrictive", ProfileName::Restrictive, host(1000)),
        ("moderate", ProfileName::Moderate, workspace(host(1000))),
        ("root", ProfileName::Restrictive, host(0)),
    ] {
        let mut made = bundled(profile, BUNDLED, &host).unwrap();
        // The same document again when it is read as one: there is nothing in it that the specification does not know.
        let read: oci_spec::runtime::Spec = serde_json::from_value(made.config.clone()).unwrap();
        assert_eq!(serde_json::to_value(read).unwrap(), made.config);
        let calls = made.config.pointer_mut("/linux/seccomp/syscalls").unwrap().as_array_mut().unwrap();
        assert!(calls.len() > 40, "{}", calls.len());
        *calls = Vec::new();
        insta::assert_snapshot!(
            format!("a_bundle_{name}"),
            format!("{:#}\n{:#?}\n{:#?}\n{:#?}", made.config, made.notes, made.root, made.files)
        );
    }
}

#[test]
fn a_bundle_closes_what_the_table_closes() {
    let config = bundled(ProfileName::Restrictive, BUNDLED, &host(1000)).unwrap().config;
    let seccomp = &config["linux"]["seccomp"];
    assert_eq!(seccomp["defaultAction"], "SCMP_ACT_ERRNO");
    assert_eq!(seccomp["defaultErrnoRet"], 38);
    assert_eq!(seccomp["architectures"], serde_json::json!(["SCMP_ARCH_X86_64", "SCMP_ARCH_AARCH64"]));
    let calls = seccomp["syscalls"].as_array().unwrap();
    let of = |name: &str| {
        let named = |call: &&serde_json::Value| call["names"].as_array().unwrap().iter().any(|it| it == name);
        calls.iter().filter(named).cloned().collect::<Vec<_>>()
    };
    assert_eq!(of("read")[0]["action"], "SCMP_ACT_ALLOW");
    assert_eq!(
        (of("bpf")[0]["action"].as_str(), of("bpf")[0]["errnoRet"].as_u64()),
        (Some("SCMP_ACT_ERRNO"), Some(1))
    );
    assert_eq!(of("clone3")[0]["errnoRet"], 38);
    let unshare = of("unshare");
    assert_eq!(unshare.len(), 1);
    assert_eq!(unshare[0]["args"][0]["op"], "SCMP_CMP_MASKED_EQ");
    assert_eq!(unshare[0]["args"][0]["valueTwo"], 0);
    let mut host = host(1000);
    host.shows_more = true;
    let config = bundled(ProfileName::Restrictive, &format!("{BUNDLED}\n[syscalls]\ncompat = true"), &host)
        .unwrap()
        .config;
    let seccomp = &config["linux"]["seccomp"];
    let architectures = seccomp["architectures"].as_array().unwrap();
    assert!(
        architectures.iter().any(|it| it == "SCMP_ARCH_X86")
            && architectures.iter().any(|it| it == "SCMP_ARCH_X32")
    );
    let calls = seccomp["syscalls"].as_array().unwrap();
    let sockets = calls.iter().filter(|call| call["names"][0] == "socket");
    assert!(sockets.clone().count() > 0);
    assert!(
        sockets.clone().all(|call| call["args"][0]["valueTwo"] != 1),
        "unix sockets are closed where more is shown"
    );
}

/// What a configuration can't hold, with the clause that is told.
#[test]
fn a_bundle_is_refused_what_it_cannot_hold() {
    let landlock = "waive = ['filesystem.landlock']";
    for (toml, host, clause) in [
        (String::new(), host(1000), "filesystem.landlock"),
        (landlock.into(), workspace(host(1000)), "filesystem.protected"),
        (BUNDLED.into(), workspace(host(0)), "identity"),
        (format!("{BUNDLED}\n[network]\nallow = ['example.org']"), host(1000), "network"),
        (format!("{BUNDLED}\n[limits]\nwall_time = '1m'"), host(1000), "limits.wall_time"),
        (format!("{BUNDLED}\n[limits]\noutput = '1M'"), host(1000), "limits.output"),
    ] {
        let refusal = bundled(ProfileName::Restrictive, &toml, &host).unwrap_err();
        assert!(
            matches!(refusal, Refusal::NotEnforceable { clause: told, .. } if told == clause),
            "{toml}: {refusal}"
        );
    }
    let made = bundled(ProfileName::Restrictive, BUNDLED, &host(1000)).unwrap();
    assert!(
        made.notes.iter().any(|note| note.starts_with("limits.wall_time = 5m is not in")),
        "{:?}",
        made.notes
    );
}

/// Docker's own control group is one that an ordinary user may not take guard out of.
#[test]
fn docker_refuses_an_ordinary_user_the_limits_that_need_a_control_group_of_v2() {
    let plan = |toml: &str, host: &Host| {
        let request = request(ProfileName::Restrictive, toml);
        crate::Provider::plan_with(&crate::Docker, &request, host, crate::Driven::default())
    };
    for (toml, clause) in
        [("[limits]\nmemory = '64M'", "limits.memory"), ("[limits]\ncpus = 1", "limits.cpus")]
    {
        let refusal = plan(toml, &host(1000)).unwrap_err();
        assert!(
            matches!(refusal, Refusal::NotEnforceable { clause: told, .. } if told == clause),
            "{refusal}"
        );
        assert!(refusal.to_string().contains("a control group of Docker's"), "{refusal}");
        assert!(plan(toml, &host(0)).is_ok());
        assert!(planned(ProfileName::Restrictive, toml, &host(1000)).is_ok());
    }
    // A default is a warning, and processes are bounded by another means.
    let plan = plan("[limits]\nprocesses = 20", &host(1000)).unwrap();
    assert!(plan.receipt.warnings.iter().any(|warning| warning.contains("limits.memory")));
    let line = plan.receipt.clauses.iter().find(|line| line.clause == Clause::LimitProcesses).unwrap();
    assert_eq!(line.mechanism, "RLIMIT_NPROC in the user namespace");
}

/// Runtimes that are known not to do are refused before the daemon is asked; what the others are is the daemon's to say.
#[test]
fn docker_refuses_runtimes_that_let_no_guard_in() {
    let plan = |runtime: &str| {
        let toml = format!("provider = 'docker'\nruntime = '{runtime}'");
        let request = request(ProfileName::Restrictive, &toml);
        crate::Provider::plan_with(&crate::Docker, &request, &host(0), crate::Driven::default())
    };
    for (runtime, what) in [
        ("runsc", "gVisor"),
        ("runsc-kvm", "gVisor"),
        ("io.containerd.runsc.v1", "gVisor"),
        ("kata", "Kata"),
        ("Kata-Runtime", "Kata"),
        ("io.containerd.kata.v2", "Kata"),
    ] {
        let refusal = plan(runtime).unwrap_err();
        let said = refusal.to_string();
        assert!(said.contains(&format!("`{runtime}`")) && said.contains(what), "{said}");
        assert!(refusal.fix().contains("--provider oci"), "{}", refusal.fix());
    }
    for runtime in ["runc", "crun", "my-own"] {
        assert!(plan(runtime).is_ok(), "{runtime}");
    }
}

/// By what each clause is held, or why it is refused: of a policy that asks for all that there is.
fn cells(provider: &dyn crate::Provider, host: &Host) -> BTreeMap<Clause, String> {
    let mut refused = BTreeMap::new();
    loop {
        let waived: Vec<String> = refused.keys().map(|clause: &Clause| format!("'{clause}'")).collect();
        let toml = format!(
            "waive = [{}]\n[filesystem]\nread = ['/srv/data']\nwrite = ['/srv/out']\n[limits]\ncpus = 1\n\
             memory = '1G'\nprocesses = 64\nwall_time = '1m'\nconnections = 8\nbandwidth = '1M'\n\
             [network]\nallow = ['example.org']",
            waived.join(", ")
        );
        let mut request = request(ProfileName::Moderate, &toml);
        request.stream = Stream::Capture;
        match provider.plan_with(&request, host, crate::Driven::default()) {
            Ok(plan) => {
                let lines = plan.receipt.clauses.into_iter().map(|line| (line.clause, line.mechanism));
                let mut cells: BTreeMap<Clause, String> = lines.collect();
                cells.extend(refused);
                return cells;
            }
            Err(Refusal::NotEnforceable { clause, why, .. }) => {
                let had = refused.insert(clause.parse().unwrap(), format!("refused: {why}"));
                assert!(had.is_none(), "{clause} is waived, and refused");
            }
            Err(refusal) => panic!("{refusal}"),
        }
    }
}

/// docs/providers.md: what each provider holds each clause by, from the plans themselves.
#[test]
fn the_table_of_providers_is_that_of_the_plans() {
    let providers: [&dyn crate::Provider; 4] = [&crate::Native, &crate::Bwrap, &crate::Oci, &crate::Docker];
    let names: Vec<String> = providers.iter().map(|provider| provider.name().to_string()).collect();
    let of = |uid| providers.map(|provider| cells(provider, &workspace(host(uid))));
    let (users, roots) = (of(1000), of(0));
    let row = |columns: &[BTreeMap<Clause, String>], clause: &Clause| {
        let cell = |column: &BTreeMap<Clause, String>| column[clause].replace("1879050000", "id");
        let first = cell(&columns[0]);
        let others = columns[1..].iter().map(cell);
        let others = others.map(|other| if other == first { "the same".to_owned() } else { other });
        std::iter::once(first.clone()).chain(others).collect::<Vec<_>>().join(" | ")
    };
    let mut table = format!("| clause | {} |\n|{}\n", names.join(" | "), "---|".repeat(names.len() + 1));
    for clause in users[0].keys() {
        let (user, root) = (row(&users, clause), row(&roots, clause));
        if user == root {
            table.push_str(&format!("| `{clause}` | {user} |\n"));
        } else {
            table.push_str(&format!("| `{clause}`, a user | {user} |\n| `{clause}`, root | {root} |\n"));
        }
    }
    let columns = users.iter().chain(&roots);
    assert!(columns.map(BTreeMap::len).all(|length| length == users[0].len()), "a provider lacks a clause");
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/providers.md");
    let page = std::fs::read_to_string(path).unwrap();
    let (before, rest) = page.split_once("<!-- table -->\n").unwrap();
    let (written, after) = rest.split_once("<!-- /table -->").unwrap();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, format!("{before}<!-- table -->\n{table}<!-- /table -->{after}")).unwrap();
    } else {
        assert_eq!(written, table, "UPDATE_DOCS=1 cargo test -p ringfence-sandbox table_of_providers");
    }
}
