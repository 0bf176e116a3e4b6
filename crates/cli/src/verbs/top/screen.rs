//! The terminal of `ringfence top`: taken, drawn on, and given back as it was.

use std::fmt::Write as _;
use std::io::{Write as _, stdin, stdout};

use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr,
};
use tokio::sync::mpsc::{Receiver, channel};

use super::look::{Look, Rates, Row};
use crate::output::printable;
use crate::stats::bytes;

/// Another screen, and no cursor; and back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
const CTRL_C: u8 = 3;

pub(super) struct Screen {
    before: Option<Termios>,
    quit: Receiver<()>,
}

impl Screen {
    /// Keys come one by one and unseen.
    pub(super) fn take() -> Self {
        let before = tcgetattr(stdin()).ok();
        if let Some(mut modes) = before.clone() {
            modes.local_modes -= LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG;
            modes.special_codes[SpecialCodeIndex::VMIN] = 1;
            modes.special_codes[SpecialCodeIndex::VTIME] = 0;
            let _ = tcsetattr(stdin(), OptionalActions::Now, &modes);
        }
        put(ENTER);
        let (asked, quit) = channel(1);
        // Waits for a key until the process ends.
        std::thread::spawn(move || {
            let mut typed = [0; 16];
            while let Ok(read @ 1..) = rustix::io::read(stdin(), &mut typed) {
                if typed[..read].iter().any(|key| matches!(key, b'q' | b'Q' | &CTRL_C)) {
                    let _ = asked.blocking_send(());
                }
            }
        });
        Self { before, quit }
    }

    /// Ends when somebody asks for it by a key. Where nobody can type any more, never.
    pub(super) async fn quit(screen: Option<&mut Self>) {
        if let Some(screen) = screen
            && screen.quit.recv().await.is_some()
        {
            return;
        }
        std::future::pending().await
    }

    pub(super) fn show(&mut self, text: &str) {
        let size = tcgetwinsize(stdout()).ok().filter(|size| size.ws_col > 0);
        let (rows, columns) = size.map_or((24, 80), |size| (size.ws_row as usize, size.ws_col as usize));
        let mut all = String::from("\x1b[H");
        for line in text.lines().take(rows.saturating_sub(1).max(1)) {
            let _ = write!(all, "{}\x1b[K\r\n", line.chars().take(columns).collect::<String>());
        }
        all.push_str("\x1b[J");
        put(&all);
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        put(LEAVE);
        if let Some(before) = &self.before {
            let _ = tcsetattr(stdin(), OptionalActions::Now, before);
        }
    }
}

fn put(text: &str) {
    let mut out = stdout();
    let _ = out.write_all(text.as_bytes());
    let _ = out.flush();
}

/// The whole table, without colours: a look, and what changed since the one before.
pub(super) fn drawn(look: &Look, rates: Option<&Rates>) -> String {
    let mut text = String::new();
    let named = look
        .server
        .as_ref()
        .map_or("this machine".to_owned(), |version| format!("server {}", printable(version)));
    let _ = write!(text, "ringfence · {named}");
    if let Some(up) = look.uptime_ms {
        let _ = write!(text, " · up {}", span(up));
    }
    let _ =
        write!(text, " · {} sandboxes · {} commands running", look.sandboxes.len(), look.commands_running);
    if let Some(streams) = look.streams {
        let _ = write!(text, " · {streams} streams");
    }
    text.push('\n');
    let counts = |counts: &std::collections::BTreeMap<String, u64>| {
        let parts: Vec<String> =
            counts.iter().map(|(kind, count)| format!("{} {count}", printable(kind))).collect();
        if parts.is_empty() { "none".to_owned() } else { parts.join(", ") }
    };
    let per_second = |rate: Option<f64>| rate.map_or(String::new(), |rate| format!("  ({rate:.1}/s)"));
    if let Some(requests) = look.requests {
        let _ = writeln!(text, "requests  {requests}{}", per_second(rates.and_then(|rates| rates.requests)));
        let _ = writeln!(
            text,
            "commands  {}{}",
            counts(&look.commands),
            per_second(rates.map(|rates| rates.commands))
        );
    }
    let _ = writeln!(
        text,
        "denials   {}{}\n",
        counts(&look.denials),
        per_second(rates.map(|rates| rates.denials))
    );
    let _ = writeln!(
        text,
        "{:<34} {:<14} {:<12} {:>7} {:>6} {:>10} {:>6} {:>8}  WORKSPACE",
        "SANDBOX", "USER", "PROFILE", "AGE", "CPU%", "MEMORY", "PROCS", "DENIALS"
    );
    for row in &look.sandboxes {
        line(&mut text, row, look.at, rates);
    }
    if look.sandboxes.is_empty() {
        text.push_str("no sandbox is alive\n");
    }
    text
}

fn line(text: &mut String, row: &Row, at: u64, rates: Option<&Rates>) {
    let shown = |value: Option<u64>| value.map_or("-".to_owned(), |value| value.to_string());
    let short = |text: &str, most: usize| printable(text).chars().take(most).collect::<String>();
    let cpu =
        rates.and_then(|rates| rates.cpu.get(&row.id)).map_or("-".to_owned(), |cpu| format!("{cpu:.0}"));
    let _ = writeln!(
        text,
        "{:<34} {:<14} {:<12} {:>7} {:>6} {:>10} {:>6} {:>8}  {}",
        short(&row.id, 34),
        short(row.user.as_deref().unwrap_or("-"), 14),
        short(&row.profile, 12),
        span(at.saturating_sub(row.created)),
        cpu,
        row.memory.map_or("-".to_owned(), bytes),
        shown(row.processes),
        shown(row.denials),
        printable(row.workspace.as_deref().unwrap_or("private")),
    );
}

/// The two largest parts of a time.
fn span(milliseconds: u64) -> String {
    let seconds = milliseconds / 1000;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds / 3600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::span;

    #[test]
    fn times_for_people() {
        for (milliseconds, text) in
            [(999, "0s"), (61_000, "1m01s"), (3_660_000, "1h01m"), (90_000_000, "1d01h")]
        {
            assert_eq!(span(milliseconds), text);
        }
    }
}
