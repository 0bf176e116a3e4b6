//! Denials guessed from a failed command's output: lines that name a path, or a port of loopback, and an error that the policy
//! explains.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;

use ringfence_linux::SocketShape;
use ringfence_policy::{Blocked, Clause, NetworkReason};

use crate::denial::{Denial, DenialKind};
use crate::plan::Plan;
use crate::view::{Intent, normal, refused};

/// How many denials one run's output is worth.
const MOST: usize = 16;

/// A permission may be the file's own and a read's: only such a line speaks of a write.
const WRITES: &[&str] = &["create", "touch", "write", "remove", "unlink", "rename", "move", "mkdir", "save"];

/// What a refused access looks like in the messages of common programs.
const SIGNS: &[(&str, Intent)] = &[
    ("Read-only file system", Intent::Write),
    ("Device or resource busy", Intent::Write),
    ("Permission denied", Intent::Write),
    ("Permission denied", Intent::Read),
    ("No such file or directory", Intent::Read),
    ("Directory nonexistent", Intent::Read),
    ("not found", Intent::Read),
    ("ENOENT", Intent::Read),
    ("EROFS", Intent::Write),
    ("EACCES", Intent::Write),
];

/// Those of them that a missing directory gives too.
const MISSING: &[&str] = &["No such file or directory", "Directory nonexistent", "ENOENT"];

/// What a connection that nobody takes looks like.
const REFUSED: &[&str] = &[
    "Connection refused",
    "ECONNREFUSED",
    "Failed to connect to",
    "Couldn't connect to server",
    "ConnectionRefusedError",
];

/// What running into a limit that nobody counts looks like.
const LIMITS: &[(&str, Clause)] = &[
    ("Resource temporarily unavailable", Clause::LimitProcesses),
    ("Cannot fork", Clause::LimitProcesses),
    ("can't start new thread", Clause::LimitProcesses),
    ("Too many open files", Clause::LimitOpenFiles),
    ("EMFILE", Clause::LimitOpenFiles),
];

/// The limits that `output` suggests were reached.
pub(crate) fn infer_limits(output: &[u8]) -> Vec<Clause> {
    let text = String::from_utf8_lossy(output);
    let mut found: Vec<Clause> =
        LIMITS.iter().filter(|(sign, _)| text.contains(sign)).map(|(_, clause)| *clause).collect();
    found.dedup();
    found
}

/// How much of an output is looked at for denials, from its end.
const LOOKED_AT: usize = 64 << 10;
/// How many of its lines are worth a question.
const LINES: usize = 64;

/// Those lines of `output` that may tell of a refused access.
pub(crate) fn telling_lines(output: &[u8]) -> String {
    let text = String::from_utf8_lossy(&output[output.len().saturating_sub(LOOKED_AT)..]);
    let signs = || SIGNS.iter().map(|(sign, _)| *sign).chain(REFUSED.iter().copied());
    let lines = text.lines().filter(|line| signs().any(|sign| line.contains(sign)));
    lines.take(LINES).map(|line| format!("{}\n", line.chars().take(1024).collect::<String>())).collect()
}

/// The accesses that `output` suggests were refused by `plan`, of a command that was started in `base`. `exists` tells what
/// the host has.
pub(crate) fn infer(plan: &Plan, base: &Path, output: &[u8], exists: impl Fn(&Path) -> bool) -> Vec<Denial> {
    let mut found: Vec<Denial> = Vec::new();
    let text = String::from_utf8_lossy(output);
    for line in text.lines() {
        if REFUSED.iter().any(|sign| line.contains(sign))
            && let Some((host, port)) = own_loopback(line)
            && !is_granted(plan, port)
        {
            let reason = NetworkReason::OwnLoopback;
            let blocked = Blocked::Network { host, port: Some(port), process: None, reason };
            let denial = Denial::new(DenialKind::Network, &blocked).inferred();
            if found.len() < MOST && !found.contains(&denial) {
                found.push(denial);
            }
        }
        // The shell that speaks is not what was refused: `/usr/bin/bash: line 1: PATH: …`.
        let line = line.find(": line ").map_or(line, |at| &line[at..]);
        for (sign, intent) in SIGNS {
            let speaks_of_it = *intent == Intent::Read
                || !matches!(*sign, "Permission denied" | "EACCES")
                || WRITES.iter().any(|word| line.contains(word));
            if !line.contains(sign) {
                continue;
            }
            for path in paths(line) {
                let path = normal(base, Path::new(path));
                let known = exists(&path) || (*intent == Intent::Write && path.parent().is_some_and(&exists));
                let blocked = match known {
                    true => refused(plan, &path, *intent),
                    // Made anew in a directory that the host has and the sandbox does not show.
                    false if MISSING.contains(sign) => missing_directory(plan, line, &path, &exists),
                    false => None,
                };
                let Some(blocked) = blocked else { continue };
                let kind = match &blocked {
                    // It can be read by all: who is refused wanted to write, whatever a shell says of it.
                    Blocked::Protected { .. } => DenialKind::Protected,
                    _ if speaks_of_it => DenialKind::File,
                    _ => continue,
                };
                let denial = Denial::new(kind, &blocked).inferred();
                if found.len() < MOST && !found.contains(&denial) {
                    found.push(denial);
                }
            }
        }
    }
    found
}

/// The address of loopback that a line speaks of, with its port: `127.0.0.1 port 80`, `localhost:80`, `/dev/tcp/::1/80`,
/// `host='127.0.0.1', port=80`.
fn own_loopback(line: &str) -> Option<(String, u16)> {
    let words = line
        .split([' ', '\t', '\'', '"', '`', ',', '(', ')', '/', '=', '‘', '’'])
        .map(|word| word.trim_end_matches(['.', ':', ';']))
        .filter(|word| !word.is_empty());
    let words: Vec<&str> = words.collect();
    let is_loopback = |host: &str| {
        let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        host == "localhost" || address.is_ok_and(|address| address.is_loopback())
    };
    let number = |word: &&str| word.parse::<u16>().ok().filter(|port| *port != 0);
    words.iter().enumerate().find_map(|(at, word)| {
        if let Some((host, port)) = word.rsplit_once(':')
            && is_loopback(host)
            && let Some(port) = number(&port)
        {
            return Some((bare(host), port));
        }
        if !is_loopback(word) {
            return None;
        }
        let rest = &words[at + 1..];
        let behind = rest.iter().position(|word| *word == "port").map_or(0, |port| port + 1);
        rest.get(behind).and_then(number).map(|port| (bare(word), port))
    })
}

fn bare(host: &str) -> String {
    host.trim_start_matches('[').trim_end_matches(']').to_owned()
}

/// What listens there, or not, is on the host then.
fn is_granted(plan: &Plan, port: u16) -> bool {
    let at = SocketShape::Tcp(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
    plan.egress.as_ref().is_some_and(|egress| egress.shape.sockets.contains(&at))
}

fn missing_directory(
    plan: &Plan,
    line: &str,
    path: &Path,
    exists: &impl Fn(&Path) -> bool,
) -> Option<Blocked> {
    let parent = path.parent().filter(|parent| exists(parent))?;
    let hidden = refused(plan, parent, Intent::Read)?;
    // `bash: line 1: PATH: …` is what a redirection says.
    let writes = line.contains(": line ") || WRITES.iter().any(|word| line.contains(word));
    // Also below a private place, /tmp say, which could be written: what the host has there is not it.
    if writes { Some(Blocked::FileWrite { path: path.to_path_buf() }) } else { Some(hidden) }
}

/// Words of a line that may be paths: with a slash, or with a leading dot (`.bashrc`), less quotes and punctuation.
fn paths(line: &str) -> impl Iterator<Item = &str> {
    line.split([' ', '\t', '\'', '"', '`', ':', ',', '(', ')', '‘', '’', '“', '”', '='])
        .map(|word| word.trim_matches(['.', ';']).trim_end_matches('/'))
        .zip(line.split([' ', '\t', '\'', '"', '`', ':', ',', '(', ')', '‘', '’', '“', '”', '=']))
        .map(|(trimmed, whole)| if whole.starts_with('.') { whole } else { trimmed })
        .filter(|word| word.len() > 1 && (word.contains('/') || word.starts_with('.')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_found_between_quotes_and_colons() {
        let line = "cat: /home/a/secret: No such file or directory";
        assert_eq!(paths(line).collect::<Vec<_>>(), ["/home/a/secret"]);
        let line = "sh: 1: cannot create .git/hooks/x: Read-only file system";
        assert_eq!(paths(line).collect::<Vec<_>>(), [".git/hooks/x"]);
        let line = "touch: cannot touch '/usr/x': Read-only file system";
        assert_eq!(paths(line).collect::<Vec<_>>(), ["/usr/x"]);
    }

    #[test]
    fn an_own_loopback_is_found_as_programs_write_it() {
        for (line, host, port) in [
            (
                "curl: (7) Failed to connect to 127.0.0.1 port 8080 after 0 ms: Couldn't connect to server",
                "127.0.0.1",
                8080,
            ),
            ("curl: (7) Failed to connect to localhost port 80: Connection refused", "localhost", 80),
            ("Connecting to 127.0.0.1:8080... failed: Connection refused.", "127.0.0.1", 8080),
            (
                "Connecting to localhost (localhost)|::1|:99... failed: Connection refused. [::1]:99",
                "::1",
                99,
            ),
            ("Error: connect ECONNREFUSED ::1:3000", "::1", 3000),
            (
                "bash: connect: Connection refused bash: /dev/tcp/127.0.0.1/22: Connection refused",
                "127.0.0.1",
                22,
            ),
            (
                "nc: connect to localhost (127.0.0.1) port 25 (tcp) failed: Connection refused",
                "localhost",
                25,
            ),
            (
                "HTTPConnectionPool(host='127.0.0.1', port=5000): [Errno 111] Connection refused",
                "127.0.0.1",
                5000,
            ),
            (
                "psql: connection to server at \"localhost\" (127.0.0.1), port 5432 failed: Connection refused",
                "localhost",
                5432,
            ),
        ] {
            assert_eq!(own_loopback(line), Some((host.to_owned(), port)), "{line}");
        }
        for line in [
            "connect to 10.0.0.1 port 80: Connection refused",
            "Connection refused",
            "localhost: Connection refused",
        ] {
            assert_eq!(own_loopback(line), None, "{line}");
        }
        let told = telling_lines(b"x\ncurl: (7) Failed to connect to 127.0.0.1 port 8080\n");
        assert!(told.starts_with("curl: (7)"));
    }

    #[test]
    fn only_lines_that_tell_something_are_asked_about() {
        let output = b"fine\ncat: /a: No such file or directory\n\xff: Permission denied\nfine\n";
        let told = telling_lines(output);
        assert_eq!(told, "cat: /a: No such file or directory\n\u{fffd}: Permission denied\n");
        assert_eq!(telling_lines(b"all is well\n"), "");
        let flood = "x: Permission denied\n".repeat(100_000);
        assert_eq!(telling_lines(flood.as_bytes()).lines().count(), LINES);
    }
}
