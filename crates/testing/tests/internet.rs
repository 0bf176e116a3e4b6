//! The test internet itself: every server answers an ordinary client on the machine, as root and as an ordinary user, and
//! nothing of it is left when its process is gone.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ringfence_testing::{Answer, CLOSED, Identity, Internet, Scene, Services, processes_with_marker};

/// A line of shell on the machine, in the scene's workspace: its output, and that it worked.
fn on_machine(internet: &Internet, scene: &Scene, script: &str) -> String {
    let mut command = Command::new("timeout");
    command
        .args(["--kill-after=1", "60", "bash", "-ec", script])
        .env_clear()
        .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
        .env("HOME", scene.home())
        .current_dir(scene.workspace())
        .stdin(Stdio::null());
    scene.identity.apply(&mut command);
    let output = internet.machine.within(|| command.output()).expect("run a shell");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{script}\n{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

fn each(check: impl Fn(&Internet, &Scene)) {
    let Some(internet) = Internet::get() else { return };
    for identity in Identity::all() {
        check(internet, &Scene::new(identity));
    }
}

#[test]
fn the_web_answers_on_every_address() {
    each(|internet, scene| {
        let sh = |script: &str| on_machine(internet, scene, script);
        assert_eq!(sh("curl -s4 http://good.test/"), "page of good.test at 192.0.2.10 by HTTP/1.1\n");
        assert_eq!(sh("curl -s6 https://good.test/"), "page of good.test at 2001:db8::10 by HTTP/2.0\n");
        assert!(sh("curl -s --http2-prior-knowledge http://good.test:8082/").contains("HTTP/2.0"));
        assert!(sh("wget -qO- https://good.test/").contains("page of good.test"));
        assert!(sh("curl -s http://by-hosts-file.test/").contains("192.0.2.10"));
        let script: String = CLOSED
            .iter()
            .map(|(class, _)| format!("curl -s --max-time 5 http://{class}.evil.test/ || echo {class}; "))
            .collect();
        let text = sh(&script);
        for (class, address) in CLOSED {
            assert!(text.contains(&format!("page of {class}.evil.test at {address} ")), "{class}: {text}");
        }
        for name in ["othername.test", "expired.test", "selfsigned.test", "unknown-ca.test"] {
            sh(&format!("! curl -s https://{name}/; curl -sk https://{name}/ | grep -q 'page of {name}'"));
        }
        assert!(internet.web.saw("metadata.evil.test"));
    });
}

#[test]
fn every_service_answers() {
    each(|internet, scene| {
        let sh = |script: &str| on_machine(internet, scene, script);
        let access = internet.services.ssh();
        internet.services.git();
        internet.services.postgres();
        internet.services.redis();
        internet.services.proxies();
        internet.web.websocket();
        scene.write("home/key", &access.key);
        scene.write("home/known_hosts", &format!("* {}\n", access.server_key));
        let home = scene.home().display().to_string();
        let ssh = format!("ssh -F none -o UserKnownHostsFile={home}/known_hosts -i {home}/key");
        let user = access.user;
        sh("chmod 600 ~/key");
        if scene.identity == Identity::Root {
            // ssh asks for the caller's passwd entry, which the ordinary user of the tests has only in a sandbox.
            assert_eq!(sh(&format!("{ssh} {user}@ssh.test echo hi")), "hi\n");
            let path = Services::repository();
            sh(&format!("GIT_SSH_COMMAND='{ssh}' git clone -q {user}@git.test:{path} over-ssh"));
        }
        assert_eq!(
            sh("git clone -q https://git.test/git/project.git over-https; cat over-https/*.txt"),
            "hello from git\n"
        );
        assert_eq!(sh("psql -h db.test -U tester -d postgres -Atc 'select 6*7'"), "42\n");
        assert_eq!(sh("redis-cli -h redis.test ping"), "PONG\n");
        let python = |script: &str| sh(&format!("/usr/bin/python3 - <<'EOF'\n{script}\nEOF"));
        let mail = "import smtplib\nserver = smtplib.SMTP('mail.test', 25)\n\
                    server.sendmail('a@b', ['c@d'], 'Subject: x\\n\\nmark TOKEN')\nserver.quit()";
        python(&mail.replace("TOKEN", &scene.token));
        assert!(internet.recorder.heard(&scene.token));
        let socket = "import asyncio, websockets\nasync def main():\n    async with websockets.connect('wss://ws.test/ws') as ws:\n        \
                      await ws.send('hi')\n        print(await ws.recv())\nasyncio.run(main())";
        assert_eq!(python(socket), "echo hi\n");
        assert!(sh("curl -s -x http://proxy.test:8888 https://good.test/").contains("page of good.test"));
        assert!(sh("curl -s -x socks5h://proxy.test:1080 https://good.test/").contains("page of good.test"));
        let greeting = sh("exec 3<>/dev/tcp/echo.test/4242; head -1 <&3");
        assert!(greeting.starts_with("welcome to "), "{greeting}");
    });
}

#[test]
fn names_change_when_told_to_and_questions_are_remembered() {
    each(|internet, scene| {
        let turns = [["192.0.2.66"], ["10.1.2.3"]].map(|set| set.map(|ip| ip.parse().unwrap()).to_vec());
        internet.dns.set("turn.rebind.test", [Answer::Turns(turns.to_vec())]);
        let script = "curl -s4 http://turn.rebind.test/; curl -s4 http://turn.rebind.test/";
        let text = on_machine(internet, scene, script);
        assert!(text.contains("at 192.0.2.66 ") && text.contains("at 10.1.2.3 "), "{text}");
        on_machine(internet, scene, &format!("getent hosts {}.tunnel.test", scene.token));
        assert!(!internet.dns.queries(&scene.token).is_empty());
    });
}

/// The machine's own network is none of the test internet's business.
#[test]
fn nothing_of_it_is_in_this_namespace() {
    let Some(internet) = Internet::get() else { return };
    let links =
        || String::from_utf8(Command::new("ip").args(["-o", "link"]).output().unwrap().stdout).unwrap();
    assert!(!links().contains("up0"), "{}", links());
    let inside = internet.machine.within(links);
    assert!(inside.contains("eth0") && inside.lines().count() == 2, "{inside}");
    let resolv = || std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
    assert!(internet.machine.within(resolv).contains("192.0.2.53"));
    assert!(!resolv().contains("192.0.2.53"));
}

/// The test of the next one: start an internet with all its servers, say so, and wait to be killed.
#[test]
fn waits_to_be_killed_where_told_to() {
    if std::env::var_os("RINGFENCE_INTERNET_WAITS").is_none() {
        return;
    }
    let Some(internet) = Internet::get() else { return };
    internet.services.postgres();
    internet.services.ssh();
    internet.services.git();
    println!("ready");
    std::thread::sleep(Duration::from_secs(60));
}

#[test]
fn a_killed_test_process_leaves_nothing() {
    use std::io::{BufRead, BufReader};
    let Some(_) = Internet::get() else { return };
    let marker = format!("rf-internet-{}", std::process::id());
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "waits_to_be_killed_where_told_to", "--nocapture", &format!("--skip={marker}")])
        .env("RINGFENCE_INTERNET_WAITS", &marker)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.into_iter().any(|line| line.contains("ready")), "the other internet did not start");
    let mut before = children_of(child.id());
    assert!(before.len() >= 4, "{before:?}");
    child.kill().unwrap();
    child.wait().unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    while !before.is_empty() {
        assert!(Instant::now() < deadline, "still there: {before:?}");
        std::thread::sleep(Duration::from_millis(20));
        before.retain(|pid| std::path::Path::new(&format!("/proc/{pid}")).exists());
    }
    assert!(processes_with_marker(&marker).is_empty());
}

/// Every process below `pid`.
fn children_of(pid: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let own: Vec<u32> = tasks
        .flat_map(|task| {
            let text = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
            text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<u32>>()
        })
        .collect();
    own.iter().flat_map(|&child| std::iter::once(child).chain(children_of(child))).collect()
}
