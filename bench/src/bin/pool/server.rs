//! `ringfence serve` and one connection to it that stays.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

pub(crate) struct Stage {
    place: TempDir,
    ringfence: PathBuf,
}

impl Stage {
    pub(crate) fn new() -> Result<Self> {
        let place = tempfile::Builder::new().prefix("ringfence-bench-").tempdir()?;
        let ringfence = std::env::current_exe()?.with_file_name("ringfence");
        ensure!(ringfence.exists(), "the ringfence program is not built: cargo build --release");
        Ok(Self { place, ringfence })
    }
}

pub(crate) struct Server {
    child: Child,
    connection: BufReader<TcpStream>,
    key: String,
}

impl Server {
    /// With so many sandboxes made ahead, at most.
    pub(crate) fn start(stage: &Stage, pool: u32) -> Result<Self> {
        let state = stage.place.path().join(format!("state-{pool}"));
        let config = stage.place.path().join(format!("server-{pool}.toml"));
        let text = format!("[roles.admin.quotas]\nrequests_per_minute = 1000000\n[server]\npool = {pool}\n");
        std::fs::write(&config, text)?;
        let command = |words: &[&str]| {
            let mut command = Command::new(&stage.ringfence);
            command.args(words).env("RINGFENCE_STATE_DIR", &state).env("RINGFENCE_LOG", "error");
            command.current_dir(stage.place.path()).stdin(Stdio::null());
            command
        };
        let made = command(&["key", "create", "--user", "bench", "--role", "admin"]).output()?;
        ensure!(made.status.success(), "no key: {}", String::from_utf8_lossy(&made.stderr));
        let key = String::from_utf8_lossy(&made.stdout).trim().to_owned();
        let mut child = command(&["serve", "--json", "--listen", "127.0.0.1:0", "--config"])
            .arg(&config)
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the server")?;
        let mut told = String::new();
        BufReader::new(child.stdout.take().context("no stdout")?).read_line(&mut told)?;
        let told: serde_json::Value = serde_json::from_str(&told).context("the server said nothing")?;
        let address = told["addresses"][0].as_str().and_then(|url| url.strip_prefix("http://"));
        let stream = TcpStream::connect(address.context("no address")?)?;
        stream.set_nodelay(true)?;
        Ok(Self { child, connection: BufReader::new(stream), key })
    }

    /// One run of `/bin/true` in this workspace.
    pub(crate) fn run(&mut self, workspace: &str) -> Result<()> {
        let body = format!(
            "{{\"command\":[\"/bin/true\"],\"profile\":\"restrictive\",\"workspace\":\"{workspace}\"}}"
        );
        let answer = self.ask("POST", "/v1/run", &body)?;
        let answer: serde_json::Value = serde_json::from_str(&answer)?;
        ensure!(answer["exit_code"] == 0, "the run failed: {answer}");
        Ok(())
    }

    pub(crate) fn get(&mut self, path: &str) -> Result<()> {
        self.ask("GET", path, "").map(drop)
    }

    /// How many runs found a sandbox ready, and how many did not.
    pub(crate) fn hits(&mut self) -> Result<(u64, u64)> {
        let text = self.ask("GET", "/v1/metrics", "")?;
        let count = |kind: &str| {
            let name = format!("ringfence_pool_total{{kind=\"{kind}\"}} ");
            text.lines().find_map(|line| line.strip_prefix(&name)?.parse().ok()).unwrap_or(0)
        };
        Ok((count("hit"), count("miss")))
    }

    fn ask(&mut self, method: &str, path: &str, body: &str) -> Result<String> {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            self.key,
            body.len()
        );
        self.connection.get_mut().write_all(head.as_bytes())?;
        let mut status = String::new();
        self.connection.read_line(&mut status)?;
        let mut length = 0;
        loop {
            let mut line = String::new();
            ensure!(self.connection.read_line(&mut line)? > 0, "the server closed the connection");
            if line == "\r\n" {
                break;
            }
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse()?;
            }
        }
        let mut answer = vec![0; length];
        self.connection.read_exact(&mut answer)?;
        let answer = String::from_utf8(answer)?;
        ensure!(status.contains(" 200 "), "{method} {path}: {status}{answer}");
        Ok(answer)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let pid = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw);
        if let Some(pid) = pid {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let _ = self.child.wait();
    }
}
