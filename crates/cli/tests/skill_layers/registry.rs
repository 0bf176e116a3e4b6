//! A registry on loopback, and skills that need something of it.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use ringfence_testing::{Identity, Outcome, Scene, Test};

/// A registry on loopback: pages by path, and what was asked of it.
pub(crate) struct Registry {
    pub(crate) url: String,
    pages: Arc<Mutex<BTreeMap<String, Vec<u8>>>>,
}

impl Registry {
    pub(crate) fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://127.0.0.1:{}", listener.local_addr().unwrap().port());
        let pages = Arc::new(Mutex::new(BTreeMap::<String, Vec<u8>>::new()));
        let served = Arc::clone(&pages);
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let mut request = [0; 8192];
                let count = stream.read(&mut request).unwrap_or(0);
                let line = String::from_utf8_lossy(&request[..count]).into_owned();
                let path = line.split(' ').nth(1).unwrap_or_default().replace("%2f", "/");
                let page = served.lock().unwrap().get(&path).cloned();
                let status = if page.is_some() { "200 OK" } else { "404 Not Found" };
                let body = page.unwrap_or_else(|| b"{}".to_vec());
                let kind = if path.starts_with("/simple") { "text/html" } else { "application/json" };
                let _ = write!(
                    stream,
                    "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                    body.len()
                );
                let _ = stream.write_all(&body);
            }
        });
        Self { url, pages }
    }

    fn page(&self, path: &str, body: impl Into<Vec<u8>>) {
        self.pages.lock().unwrap().insert(path.into(), body.into());
    }

    /// An npm package whose one export says `who`.
    pub(crate) fn npm(self, name: &str, who: &str) -> Self {
        self.npm_with(name, who, "true")
    }

    /// The same, with a command that runs when it is installed.
    pub(crate) fn npm_with(self, name: &str, who: &str, install: &str) -> Self {
        let manifest =
            format!(r#"{{"name": "{name}", "version": "1.0.0", "scripts": {{"install": "{install}"}}}}"#);
        let files = [("package.json", manifest), ("index.js", format!("module.exports = '{who}';\n"))];
        self.page("/it.tgz", tarball(&files));
        let package = format!(
            r#"{{"name": "{name}", "dist-tags": {{"latest": "1.0.0"}}, "versions": {{"1.0.0": {{"name": "{name}",
                "version": "1.0.0", "hasInstallScript": true, "dist": {{"tarball": "{}/it.tgz"}}}}}}}}"#,
            self.url
        );
        self.page(&format!("/{name}"), package);
        self
    }

    /// A wheel whose module says `who`.
    pub(crate) fn pip(self, name: &str, who: &str) -> Self {
        let file = format!("{name}-1.0-py3-none-any.whl");
        self.page(&format!("/files/{file}"), wheel(name, who));
        self.page(&format!("/simple/{name}/"), format!("<a href=\"/files/{file}\">{file}</a>"));
        self
    }
}

fn tarball(files: &[(&str, String)]) -> Vec<u8> {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("package")).unwrap();
    for (name, text) in files {
        fs::write(directory.path().join("package").join(name), text).unwrap();
    }
    output(Command::new("tar").args(["-cz", "-C"]).arg(directory.path()).arg("package"))
}

fn wheel(name: &str, who: &str) -> Vec<u8> {
    let script = "import sys, zipfile\n\
        name, who, out = sys.argv[1:]\n\
        info = f'{name}-1.0.dist-info/'\n\
        with zipfile.ZipFile(out, 'w') as archive:\n\
        \x20   archive.writestr(f'{name}.py', f'who = {who!r}\\n')\n\
        \x20   archive.writestr(info + 'METADATA', f'Metadata-Version: 2.1\\nName: {name}\\nVersion: 1.0\\n')\n\
        \x20   archive.writestr(info + 'WHEEL', 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')\n\
        \x20   archive.writestr(info + 'RECORD', '')\n";
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("it.whl");
    output(Command::new("/usr/bin/python3").args(["-I", "-c", script, name, who]).arg(&out));
    fs::read(out).unwrap()
}

fn output(command: &mut Command) -> Vec<u8> {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// Is the client there? Where it is not, that is a notice, and a failure in CI.
pub(crate) fn has(program: &str, args: &[&str]) -> bool {
    let found = Command::new(program).args(args).output().is_ok_and(|output| output.status.success());
    assert!(found || std::env::var("CI").as_deref() != Ok("true"), "there is no {program} here");
    if !found {
        eprintln!("skipped: there is no {program} here");
    }
    found
}

pub(crate) fn each(test: impl Fn(&Scene)) {
    for identity in Identity::all() {
        test(&Scene::new(identity));
    }
}

pub(crate) fn node_skill(scene: &Scene, package: &str) {
    scene.write("skill/SKILL.md", "---\nname: skill\ndescription: A test.\n---\n");
    scene.write("skill/package.json", &format!(r#"{{"dependencies": {{"{package}": "^1.0.0"}}}}"#));
    scene.write("skill/scripts/main.js", &format!("console.log(require('{package}'))\n"));
}

pub(crate) fn python_skill(scene: &Scene, package: &str) {
    scene.write("skill/SKILL.md", "---\nname: skill\ndescription: A test.\n---\n");
    scene.write("skill/requirements.txt", &format!("{package}\n"));
    scene.write("skill/scripts/main.py", &format!("import {package}\nprint({package}.who)\n"));
}

pub(crate) fn run(scene: &Scene, from: &Path) -> Outcome {
    let test = Test::in_scene(scene).cwd(from).verb(["skill", "run"]).args([scene.path("skill")]);
    test.call()
}
