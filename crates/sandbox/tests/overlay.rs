//! Copy-on-write workspaces with the real kernel, through the public API: as root and as an ordinary user. Each run is a
//! process of its own with the identity in question, since a sandbox is made for whoever asks, and by a process that has
//! no threads: so this is a program without the usual harness.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ringfence_policy::{Layer, Origin, ProfileName, merge};
use ringfence_sandbox::overlay::{Change, ChangeKind, CommitOptions, Overlay, prepare_layers};
use ringfence_sandbox::{Attached, Host, Native, Provider, Request, Stream, WorkspaceLayers};
use ringfence_testing::{Identity, Scene, USER_ID};

const TASK: &str = "RINGFENCE_TEST_OVERLAY_TASK";

/// What a worker process is told: a line each.
struct Task<'a> {
    scene: &'a Scene,
    /// A shell command to run in the sandbox, or `commit`.
    command: &'a str,
    profile: &'a str,
    policy: &'a str,
    lower: Option<PathBuf>,
    /// Run before, as root, in a mount namespace of its own.
    before: &'a str,
}

impl<'a> Task<'a> {
    fn new(scene: &'a Scene, command: &'a str) -> Self {
        Self { scene, command, profile: "moderate", policy: "", lower: None, before: "true" }
    }

    /// Its output, and whether it succeeded.
    fn run(&self) -> (String, bool) {
        let program = self.scene.path("worker");
        if !program.exists() {
            fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
            fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let lower = self.lower.as_ref().map_or(String::new(), |lower| lower.display().to_string());
        let text =
            [self.profile, &self.scene.root().display().to_string(), &lower, self.command, self.policy];
        let mut command = match self.before {
            "true" => Command::new(&program),
            before => {
                let mut shell = Command::new("unshare");
                let to_user =
                    format!("setpriv --reuid {0} --regid {0} --clear-groups", self.scene.identity.uid());
                let become_user = if self.scene.identity == Identity::User { to_user } else { String::new() };
                shell.args(["-m", "sh", "-c", &format!("{before} && exec {become_user} \"$@\"")]);
                shell.arg("sh").arg(&program);
                shell
            }
        };
        command.env(TASK, text.join("\u{1}")).env("HOME", self.scene.home()).env_remove("RINGFENCE_FAULT");
        command.current_dir(self.scene.workspace()).stdin(Stdio::null());
        if self.before == "true" {
            self.scene.identity.apply(&mut command);
        }
        let output = command.output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (String::from_utf8_lossy(&text).into_owned(), output.status.success())
    }

    fn passes(&self) -> String {
        let (text, passed) = self.run();
        assert!(passed, "{:?}: {text}", self.scene.identity);
        text
    }
}

fn layers(root: &Path, lower: Option<PathBuf>) -> WorkspaceLayers {
    WorkspaceLayers { directory: root.join("state/session"), lower }
}

const TESTS: &[(&str, fn())] = &[
    ("writes_stay_in_the_layer_until_they_are_committed", writes_stay_in_the_layer_until_they_are_committed),
    ("a_later_sandbox_finds_what_an_earlier_one_wrote", a_later_sandbox_finds_what_an_earlier_one_wrote),
    ("root_works_for_whoever_has_the_directory", root_works_for_whoever_has_the_directory),
    ("a_restrictive_one_is_at_its_place_inside_only", a_restrictive_one_is_at_its_place_inside_only),
    ("another_tree_can_lie_beneath", another_tree_can_lie_beneath),
    ("a_socket_of_the_host_is_shown_as_an_empty_file", a_socket_of_the_host_is_shown_as_an_empty_file),
    ("what_is_mounted_beneath_is_not_shown", what_is_mounted_beneath_is_not_shown),
    ("a_disk_limit_that_was_asked_for_is_refused", a_disk_limit_that_was_asked_for_is_refused),
    ("the_layers_themselves_are_out_of_sight", the_layers_themselves_are_out_of_sight),
];

fn main() {
    if let Ok(task) = std::env::var(TASK) {
        return work(&task);
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    if has("--list") {
        // None of them is ignored. What stands behind `--format` is no filter.
        TESTS.iter().filter(|_| !has("--ignored")).for_each(|(name, _)| println!("{name}: test"));
        return;
    }
    let filters: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with('-')).collect();
    let wanted =
        |name: &str| filters.is_empty() || filters.iter().any(|filter| name.contains(filter.as_str()));
    for (name, test) in TESTS.iter().filter(|(name, _)| wanted(name)) {
        test();
        println!("test {name} ... ok");
    }
}

/// What `Task` starts.
fn work(task: &str) {
    let parts: Vec<&str> = task.split('\u{1}').collect();
    let [profile, root, lower, command, policy] = parts[..] else { panic!("{task}") };
    let root = Path::new(root);
    let layers = layers(root, (!lower.is_empty()).then(|| lower.into()));
    fs::create_dir_all(&layers.directory).unwrap();
    prepare_layers(&layers, &root.join("ws")).unwrap();
    if command == "commit" {
        let report = Overlay::open(&layers.directory).unwrap().commit(&CommitOptions::default()).unwrap();
        println!("{}", serde_json::to_string(&report).unwrap());
        return;
    }
    let profile = if profile == "moderate" { ProfileName::Moderate } else { ProfileName::Restrictive };
    let text = format!("[filesystem]\nworkspace = '{}'\n{policy}", root.join("ws").display());
    let layer = (Origin::flag("--test"), Layer::from_toml(&text).unwrap());
    let request = Request {
        policy: merge(profile, &[layer]).unwrap(),
        argv: ["sh", "-ec", command].map(Into::into).to_vec(),
        directory: None,
        attached: Attached::default(),
        image: None,
        workspace_layers: Some(layers),
        stream: Stream::Capture,
        trace: false,
        learn: false,
        strict: false,
        state: root.join("state"),
        secrets: root.join("state/secrets"),
    };
    let ran = Host::look(&request)
        .and_then(|host| Native.plan(&request, &host))
        .and_then(|plan| Native.create(&request, plan));
    match ran {
        Ok(outcome) => {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            println!("{}{}", text(&outcome.captured.stdout), text(&outcome.captured.stderr));
            for line in &outcome.receipt.clauses {
                println!("receipt {} {:?} {}", line.clause.as_str(), line.status, line.mechanism);
            }
            assert_eq!(format!("{:?}", outcome.end), "Exited(Code(0))");
        }
        Err(refusal) => panic!("refused: {refusal}; {}", refusal.fix()),
    }
}

fn scenes() -> impl Iterator<Item = Scene> {
    Identity::all().into_iter().map(|identity| {
        let scene = Scene::new(identity);
        scene.write("ws/a", "old");
        scene.write("ws/gone", "old");
        scene.write("ws/dir/x", "old");
        scene
    })
}

fn changes(scene: &Scene) -> Vec<(ChangeKind, String)> {
    let changes: Vec<Change> = Overlay::open(&scene.path("state/session")).unwrap().changes().unwrap();
    changes.into_iter().map(|change| (change.kind, change.path.display().to_string())).collect()
}

fn writes_stay_in_the_layer_until_they_are_committed() {
    for scene in scenes() {
        let text = Task::new(
            &scene,
            "cat a; echo new > a; rm gone; mv dir/x dir/y; rm -r dir; mkdir dir; echo 1 > dir/z; ln -s a link; \
             mkdir -p .git/hooks; echo evil > .git/hooks/pre-commit; cat /workspace/a; mkdir deep; chmod 700 deep",
        )
        .passes();
        assert!(text.starts_with("oldnew\n"), "{text}");
        assert!(text.contains("receipt filesystem.workspace Enforced overlay"), "{text}");
        assert!(text.contains("receipt filesystem.protected Enforced left out when"), "{text}");
        assert_eq!(scene.read("ws/a").as_deref(), Some("old"));
        assert!(scene.path("ws/gone").exists() && !scene.path("ws/link").exists());
        let found = changes(&scene);
        let has = |kind, path: &str| assert!(found.contains(&(kind, path.to_string())), "{path}: {found:?}");
        has(ChangeKind::Modified, "a");
        has(ChangeKind::Removed, "gone");
        has(ChangeKind::Removed, "dir/x");
        has(ChangeKind::Added, "dir/z");
        has(ChangeKind::Added, "link");
        let committed = Task::new(&scene, "commit").passes();
        assert!(committed.contains(".git/hooks"), "{committed}");
        assert_eq!(scene.read("ws/a").as_deref(), Some("new\n"));
        assert!(!scene.path("ws/gone").exists() && !scene.path("ws/.git/hooks").exists());
        for path in ["ws/a", "ws/dir/z", "ws/link", "ws/deep", "ws/dir"] {
            let facts = scene.path(path).symlink_metadata().unwrap();
            assert_eq!((facts.uid(), facts.gid()), (scene.identity.uid(), scene.identity.gid()), "{path}");
        }
        assert!(changes(&scene).iter().all(|(_, path)| path.starts_with(".git")), "{:?}", changes(&scene));
    }
}

fn a_later_sandbox_finds_what_an_earlier_one_wrote() {
    for scene in scenes() {
        Task::new(&scene, "echo 1 > made; rm a").passes();
        let text = Task::new(&scene, "cat made; test ! -e a; echo 2 >> made; rm gone").passes();
        assert!(text.starts_with("1\n"), "{text}");
        Task::new(&scene, "commit").passes();
        assert_eq!(scene.read("ws/made").as_deref(), Some("1\n2\n"));
        assert!(!scene.path("ws/a").exists() && !scene.path("ws/gone").exists());
        let text = Task::new(&scene, "cat made; echo 3 > made; rm -r dir").passes();
        assert!(text.starts_with("1\n2\n"), "{text}");
        Task::new(&scene, "commit").passes();
        assert_eq!(scene.read("ws/made").as_deref(), Some("3\n"));
        assert!(!scene.path("ws/dir").exists());
    }
}

fn root_works_for_whoever_has_the_directory() {
    if !Identity::Root.is_available() {
        return;
    }
    let scene = Scene::new(Identity::Root);
    for path in ["ws/a", "ws/dir/x"] {
        scene.write(path, "old");
    }
    for path in ["ws", "ws/a", "ws/dir", "ws/dir/x"] {
        Identity::User.own(&scene.path(path));
    }
    Task::new(&scene, "echo new > a; echo 1 > dir/b; mkdir made; echo 1 > made/c; rm dir/x").passes();
    for path in ["a", "dir", "dir/b", "made", "made/c"] {
        let facts = scene.path("state/session/upper").join(path).symlink_metadata().unwrap();
        assert_eq!((facts.uid(), facts.gid()), (USER_ID, USER_ID), "{path}");
    }
    Task::new(&scene, "commit").passes();
    for path in ["ws/a", "ws/dir/b", "ws/made", "ws/made/c"] {
        let facts = scene.path(path).symlink_metadata().unwrap();
        assert_eq!((facts.uid(), facts.gid()), (USER_ID, USER_ID), "{path}");
    }
    assert!(!scene.path("ws/dir/x").exists());
}

fn a_restrictive_one_is_at_its_place_inside_only() {
    for scene in scenes() {
        let own = scene.workspace();
        let command = format!("test \"$PWD\" = /workspace; echo new > a; test ! -e {}", own.display());
        Task { profile: "restrictive", ..Task::new(&scene, &command) }.passes();
        assert_eq!(changes(&scene), [(ChangeKind::Modified, "a".to_string())]);
    }
}

fn another_tree_can_lie_beneath() {
    for scene in scenes() {
        scene.write("snapshot/a", "from the snapshot");
        let lower = Some(scene.path("snapshot"));
        let text = Task { lower, ..Task::new(&scene, "cat a; test ! -e gone; echo new > a; cat a") }.passes();
        assert!(text.starts_with("from the snapshotnew\n"), "{text}");
        assert_eq!(scene.read("snapshot/a").as_deref(), Some("from the snapshot"));
        assert_eq!(scene.read("ws/a").as_deref(), Some("old"));
    }
}

fn a_socket_of_the_host_is_shown_as_an_empty_file() {
    for scene in scenes() {
        let _listener = UnixListener::bind(scene.path("ws/socket")).unwrap();
        fs::set_permissions(scene.path("ws/socket"), fs::Permissions::from_mode(0o777)).unwrap();
        scene.identity.own(&scene.path("ws/socket"));
        Task::new(&scene, "test -f socket; test ! -s socket").passes();
    }
}

fn what_is_mounted_beneath_is_not_shown() {
    for scene in scenes() {
        if !Identity::Root.is_available() {
            return;
        }
        scene.mkdir("ws/nested");
        let at = scene.path("ws/nested");
        let before =
            format!("mount -t tmpfs -o mode=777 tmpfs {0} && echo secret > {0}/secret", at.display());
        let (text, passed) = Task { before: &before, ..Task::new(&scene, "test ! -e nested/secret") }.run();
        match scene.identity {
            Identity::Root => assert!(passed, "{text}"),
            // An ordinary user can't take a mount away to look beneath it.
            Identity::User => {
                assert!(!passed && text.contains("another filesystem is mounted beneath it"), "{text}");
            }
        }
    }
}

fn a_disk_limit_that_was_asked_for_is_refused() {
    for scene in scenes() {
        let (text, passed) = Task { policy: "[limits]\ndisk = '1G'", ..Task::new(&scene, "true") }.run();
        assert!(!passed && text.contains("an overlay workspace is kept in a directory on disk"), "{text}");
    }
}

fn the_layers_themselves_are_out_of_sight() {
    for scene in scenes() {
        let state = scene.state();
        Task::new(&scene, &format!("test ! -e {0}/session/upper; test ! -e {0}/session", state.display()))
            .passes();
    }
}
