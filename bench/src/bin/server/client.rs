//! A client on one connection, and what it counts.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::place::Place;

pub(crate) struct Client {
    stream: BufReader<TcpStream>,
    head: String,
}

impl Client {
    pub(crate) fn connect(place: &Place) -> Result<Self> {
        let stream = TcpStream::connect(place.address).context("cannot connect")?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        let head = format!(
            "host: {}\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\n",
            place.address, place.key
        );
        Ok(Self { stream: BufReader::new(stream), head })
    }

    /// Ask, read the whole answer, and take nothing but 200.
    pub(crate) fn ask(&mut self, method: &str, path: &str, body: &str) -> Result<()> {
        let text =
            format!("{method} {path} HTTP/1.1\r\n{}content-length: {}\r\n\r\n{body}", self.head, body.len());
        self.stream.get_mut().write_all(text.as_bytes())?;
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        let status = line.split(' ').nth(1).unwrap_or_default().to_owned();
        let (mut length, mut chunked) = (0_usize, false);
        loop {
            line.clear();
            self.stream.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.trim().parse()?,
                "transfer-encoding" => chunked = value.trim() == "chunked",
                _ => {}
            }
        }
        let mut body = Vec::new();
        if chunked {
            loop {
                line.clear();
                self.stream.read_line(&mut line)?;
                let size = usize::from_str_radix(line.trim_end(), 16).context("the size of a chunk")?;
                let mut chunk = vec![0; size + 2];
                self.stream.read_exact(&mut chunk)?;
                if size == 0 {
                    break;
                }
                body.extend_from_slice(&chunk[..size]);
            }
        } else {
            body = vec![0; length];
            self.stream.read_exact(&mut body)?;
        }
        if status != "200" {
            bail!("{status}: {}", String::from_utf8_lossy(&body));
        }
        let text = String::from_utf8_lossy(&body);
        if path == "/v1/run" && !text.contains("\"exit_code\":0") {
            bail!("the command failed: {text}");
        }
        Ok(())
    }
}

/// What came of all requests.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    pub(crate) times: Vec<f64>,
    pub(crate) wrong: usize,
    pub(crate) first_wrong: String,
    pub(crate) seconds: f64,
}

impl Answers {
    pub(crate) fn note(&mut self, milliseconds: f64, told: Result<()>) {
        match told {
            Ok(()) => self.times.push(milliseconds),
            Err(error) => {
                self.wrong += 1;
                if self.first_wrong.is_empty() {
                    self.first_wrong = format!("{error:#}");
                }
            }
        }
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.times.extend(other.times);
        self.wrong += other.wrong;
        if self.first_wrong.is_empty() {
            self.first_wrong = other.first_wrong;
        }
    }

    pub(crate) fn asked(&self) -> usize {
        self.times.len() + self.wrong
    }

    pub(crate) fn a_second(&self) -> f64 {
        self.times.len() as f64 / self.seconds
    }

    /// By rank, in milliseconds.
    pub(crate) fn at(&self, share: f64) -> f64 {
        let mut sorted = self.times.clone();
        sorted.sort_by(f64::total_cmp);
        sorted.len().checked_sub(1).map_or(f64::NAN, |last| sorted[(last as f64 * share).round() as usize])
    }
}
