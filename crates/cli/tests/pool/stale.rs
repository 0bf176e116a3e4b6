//! What changed on the host since a sandbox was made: it is dropped, and the run sees the host as it is.

use ringfence_testing::{Identity, Pool, Scene, Test};

use crate::{CLOSED, each};

/// Flags that show a directory of the host, with one file of it hidden.
fn shows(scene: &Scene) -> Vec<String> {
    let shown = scene.path("shown").display().to_string();
    let secret = scene.path("shown/secret").display().to_string();
    let own = ["--read", &shown, "--hide", &secret];
    CLOSED.iter().chain(&own).map(|flag| (*flag).to_owned()).collect()
}

fn closed_pool<'a>(scene: &'a Scene, flags: &[String]) -> Pool<'a> {
    Pool::start(scene, ["--size", "1", "--closed"].map(str::to_owned).into_iter().chain(flags.to_vec()))
}

fn cat(test: Test, flags: &[String], scene: &Scene) -> ringfence_testing::Outcome {
    let secret = scene.path("shown/secret").display().to_string();
    test.args(flags.to_vec()).stdin("").run(["cat".to_owned(), secret])
}

/// A cover goes when the host's file is replaced by its name: the one thing that a waiting sandbox can't hold by itself.
#[test]
fn a_hidden_file_that_is_replaced_meanwhile_stays_hidden() {
    each(|scene| {
        scene.mkdir("shown");
        scene.write("shown/secret", "old secret");
        let flags = shows(scene);
        let pool = closed_pool(scene, &flags);
        let outcome = cat(pool.test(), &flags, scene);
        outcome.code(0).stdout("");
        assert!(outcome.is_pooled(), "{}", outcome.describe());
        drop(pool);
        let pool = closed_pool(scene, &flags);
        scene.write("shown/new", "new secret");
        std::fs::rename(scene.path("shown/new"), scene.path("shown/secret")).unwrap();
        let outcome = cat(pool.test(), &flags, scene);
        outcome.code(0).stdout("");
        assert!(!outcome.is_pooled(), "{}", outcome.describe());
    });
}

#[test]
fn a_hidden_file_that_comes_meanwhile_is_hidden() {
    each(|scene| {
        scene.mkdir("shown");
        let flags = shows(scene);
        let pool = closed_pool(scene, &flags);
        scene.write("shown/secret", "new secret");
        let outcome = cat(pool.test(), &flags, scene);
        outcome.code(0).stdout("");
        assert!(!outcome.is_pooled(), "{}", outcome.describe());
    });
}

#[test]
fn a_directory_that_is_replaced_is_shown_as_it_is() {
    each(|scene| {
        scene.mkdir("shown");
        scene.write("shown/name", "old");
        let shown = scene.path("shown").display().to_string();
        let flags = ["--profile", "restrictive", "--read", &shown];
        let pool = Pool::start(scene, ["--size", "1"].into_iter().chain(flags));
        std::fs::rename(&shown, scene.path("away")).unwrap();
        scene.mkdir("shown");
        scene.write("shown/name", "new");
        let outcome = pool.test().args(flags).run(["cat".to_owned(), format!("{shown}/name")]);
        outcome.code(0).stdout("new");
        assert!(!outcome.is_pooled(), "{}", outcome.describe());
    });
}

/// A place that somebody listens on is hidden from the moment it is there.
#[test]
fn a_socket_that_is_made_meanwhile_is_hidden() {
    each(|scene| {
        scene.mkdir("shown");
        let shown = scene.path("shown").display().to_string();
        let flags = ["--profile", "restrictive", "--read", &shown];
        let pool = Pool::start(scene, ["--size", "1"].into_iter().chain(flags));
        let _listening = std::os::unix::net::UnixListener::bind(scene.path("shown/door")).unwrap();
        let script = format!("test -S {shown}/door && echo socket || echo none");
        pool.test().args(flags).run(["sh", "-c", &script]).code(0).stdout("none\n");
    });
}

/// In a mount namespace of the test's own: other tests' pools are not to notice.
#[test]
fn what_the_host_mounts_meanwhile_is_seen_and_what_it_unmounts_is_let_go() {
    if !Identity::Root.is_available() {
        return;
    }
    let drill = || {
        ringfence_sandbox::own_mounts().unwrap();
        let scene = Scene::new(Identity::Root);
        scene.mkdir("shown");
        scene.mkdir("shown/disk");
        let shown = scene.path("shown").display().to_string();
        let flags = ["--profile", "restrictive", "--read", &shown];
        let disk = scene.path("shown/disk");
        let mount = || {
            rustix::mount::mount("none", &disk, "tmpfs", rustix::mount::MountFlags::empty(), None).unwrap()
        };
        let pool = Pool::start(&scene, ["--size", "2"].into_iter().chain(flags));
        let look = || pool.test().args(flags).run(["sh", "-c", &format!("ls {shown}/disk")]);
        let outcome = look();
        outcome.code(0).stdout("");
        assert!(outcome.is_pooled(), "{}", outcome.describe());
        mount();
        scene.write("shown/disk/on-it", "");
        look().code(0).stdout("on-it\n");
        // Nothing that waits holds the disk, once those made before are gone.
        rustix::mount::unmount(&disk, rustix::mount::UnmountFlags::empty()).unwrap();
        look().code(0).stdout("");
        drop(pool);
    };
    std::thread::spawn(drill).join().unwrap();
}
