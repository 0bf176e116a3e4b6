//! What the figures are of.

use std::fs;

#[derive(Debug)]
pub struct Machine {
    pub cpu: String,
    pub cores: usize,
    pub kernel: String,
    pub date: String,
    /// Before the measuring.
    pub load: String,
}

impl Machine {
    pub fn look() -> Self {
        let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let cpu = cpus
            .lines()
            .find_map(|line| line.strip_prefix("model name")?.split_once(": ").map(|(_, name)| name));
        Self {
            cpu: cpu.unwrap_or("unknown").into(),
            cores: std::thread::available_parallelism().map_or(1, Into::into),
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            date: jiff::Timestamp::now().strftime("%Y-%m-%d").to_string(),
            load: load(),
        }
    }
}

/// Of the last minute.
pub fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or("?").into()
}
