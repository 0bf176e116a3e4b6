//! Connections to the protocol: the pipes of a program, `ringfence mcp` or `mcp_echo`, and a kept connection to `/mcp` of a
//! server of either.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

pub(crate) trait Connection {
    /// A request's result.
    fn ask(&mut self, method: &str, params: &Value) -> Result<Value>;
}

fn hello() -> Value {
    json!({
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "bench", "version": "1" },
    })
}

fn request(id: u64, method: &str, params: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string()
}

const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// Where this one's own programs are.
fn echo() -> Result<Command> {
    let program = std::env::current_exe()?.with_file_name("mcp_echo");
    ensure!(program.exists(), "mcp_echo is not built: cargo build --release -p ringfence-bench");
    Ok(Command::new(program))
}

fn command(ringfence: &Path, place: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(ringfence);
    command.args(words).env("RINGFENCE_STATE_DIR", place.join("state")).current_dir(place);
    command
}

/// Ended when dropped: a client that goes away ends what it made.
pub(crate) struct Stdio {
    child: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
    next: u64,
}

impl Stdio {
    pub(crate) fn start(ringfence: &Path, place: &Path) -> Result<Self> {
        Self::of(command(ringfence, place, &["mcp", "--private"]))
    }

    pub(crate) fn echo() -> Result<Self> {
        Self::of(echo()?)
    }

    fn of(mut command: Command) -> Result<Self> {
        let mut child = command
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .context("cannot start a server on stdio")?;
        let to = child.stdin.take();
        let from = BufReader::new(child.stdout.take().context("no pipe")?);
        let mut this = Self { child, to, from, next: 0 };
        this.ask("initialize", &hello())?;
        this.send(INITIALIZED)?;
        Ok(this)
    }

    fn send(&mut self, line: &str) -> Result<()> {
        let to = self.to.as_mut().context("it is closed")?;
        to.write_all(format!("{line}\n").as_bytes())?;
        Ok(())
    }
}

impl Connection for Stdio {
    fn ask(&mut self, method: &str, params: &Value) -> Result<Value> {
        self.next += 1;
        let id = self.next;
        self.send(&request(id, method, params))?;
        loop {
            let mut line = String::new();
            ensure!(self.from.read_line(&mut line)? > 0, "the server has ended");
            let mut message: Value = serde_json::from_str(&line)?;
            if message["id"] == id {
                ensure!(message.get("error").is_none(), "{method}: {message}");
                return Ok(message["result"].take());
            }
        }
    }
}

impl Drop for Stdio {
    fn drop(&mut self) {
        self.to = None;
        let _ = self.child.wait();
    }
}

pub(crate) struct Http {
    server: Child,
    stream: BufReader<TcpStream>,
    head: String,
    session: Option<String>,
    next: u64,
}

impl Http {
    pub(crate) fn start(ringfence: &Path, place: &Path) -> Result<Self> {
        // Any number of requests: what is measured is a call, not a quota.
        let config = place.join("server.toml");
        std::fs::write(&config, "[roles.operator.quotas]\nrequests_per_minute = 0\n")?;
        let mut serve =
            command(ringfence, place, &["serve", "--json", "--listen", "127.0.0.1:0", "--config"]);
        serve.arg(&config);
        let (server, address) = Self::serve(serve)?;
        let key = command(ringfence, place, &["key", "create", "--user", "bench"]).output()?;
        let key = String::from_utf8(key.stdout)?;
        Self::connect(server, &address, &format!("authorization: Bearer {}\r\n", key.trim()))
    }

    pub(crate) fn echo() -> Result<Self> {
        let mut command = echo()?;
        command.arg("--http");
        let (server, address) = Self::serve(command)?;
        Self::connect(server, &address, "")
    }

    fn serve(mut command: Command) -> Result<(Child, String)> {
        let mut server = command
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::null())
            .spawn()
            .context("cannot start a server")?;
        let mut told = String::new();
        BufReader::new(server.stdout.take().context("no pipe")?).read_line(&mut told)?;
        let told: Value = serde_json::from_str(&told).context("the server did not start")?;
        let address = told["addresses"][0].as_str().and_then(|url| url.strip_prefix("http://"));
        Ok((server, address.context("no address")?.to_owned()))
    }

    fn connect(server: Child, address: &str, key: &str) -> Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let head = format!(
            "POST /mcp HTTP/1.1\r\nhost: {address}\r\n{key}content-type: application/json\r\n\
             accept: application/json, text/event-stream\r\n"
        );
        let mut this = Self { server, stream: BufReader::new(stream), head, session: None, next: 0 };
        this.ask("initialize", &hello())?;
        this.post(INITIALIZED)?;
        Ok(this)
    }

    fn post(&mut self, body: &str) -> Result<String> {
        let session = self.session.as_ref().map_or(String::new(), |id| {
            format!("mcp-session-id: {id}\r\nmcp-protocol-version: 2025-11-25\r\n")
        });
        let text = format!("{}{session}content-length: {}\r\n\r\n{body}", self.head, body.len());
        self.stream.get_mut().write_all(text.as_bytes())?;
        let (mut length, mut chunked) = (0, false);
        loop {
            let mut line = String::new();
            ensure!(self.stream.read_line(&mut line)? > 0, "the server has closed the connection");
            let line = line.trim_end();
            if line.is_empty() {
                break;
            }
            if let Some((name, value)) = line.split_once(": ") {
                match name.to_ascii_lowercase().as_str() {
                    "content-length" => length = value.parse()?,
                    "transfer-encoding" => chunked = value == "chunked",
                    "mcp-session-id" => self.session = Some(value.to_owned()),
                    _ => {}
                }
            }
        }
        let mut body = Vec::new();
        if !chunked {
            body.resize(length, 0);
            self.stream.read_exact(&mut body)?;
        }
        while chunked {
            let mut size = String::new();
            self.stream.read_line(&mut size)?;
            let size = usize::from_str_radix(size.trim(), 16)?;
            let mut chunk = vec![0; size + 2];
            self.stream.read_exact(&mut chunk)?;
            body.extend_from_slice(&chunk[..size]);
            chunked = size > 0;
        }
        Ok(String::from_utf8(body)?)
    }
}

impl Connection for Http {
    fn ask(&mut self, method: &str, params: &Value) -> Result<Value> {
        self.next += 1;
        let id = self.next;
        let body = self.post(&request(id, method, params))?;
        for data in body.lines().filter_map(|line| line.strip_prefix("data:")).chain([body.as_str()]) {
            let Ok(mut message) = serde_json::from_str::<Value>(data.trim()) else { continue };
            if message["id"] == id {
                ensure!(message.get("error").is_none(), "{method}: {message}");
                return Ok(message["result"].take());
            }
        }
        bail!("{method}: no answer in {body}")
    }
}

impl Drop for Http {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            let text = self.head.replacen("POST", "DELETE", 1);
            let text = format!("{text}mcp-session-id: {session}\r\ncontent-length: 0\r\n\r\n");
            let _ = self.stream.get_mut().write_all(text.as_bytes());
            let _ = self.stream.read_line(&mut String::new());
        }
        let pid = rustix::process::Pid::from_child(&self.server);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.server.wait();
    }
}
