//! `run --stats`: what a command used, and its connections, on stderr.

use ringfence_sandbox::{ConnectionRecord, Outcome};

use crate::output;

pub(crate) fn print(outcome: &Outcome) {
    let usage = &outcome.usage;
    let rows = [
        ["time".to_owned(), format!("{} ms", outcome.duration.as_millis())],
        ["processor time".to_owned(), format!("{} ms", usage.cpu.as_millis())],
        ["memory".to_owned(), bytes(usage.max_memory)],
        ["processes".to_owned(), usage.processes.to_string()],
    ];
    output::side_table(["used", ""], rows);
    if let Some(network) = outcome.network.as_ref().filter(|network| !network.connections.is_empty()) {
        let header = ["process", "host", "via", "connections", "sent", "received", "errors"];
        output::side_table(header, network.connections.iter().map(row));
    }
}

fn row(connection: &ConnectionRecord) -> [String; 7] {
    let via = serde_json::to_value(connection.via).ok();
    let host = if connection.host.contains(':') {
        format!("[{}]", connection.host)
    } else {
        connection.host.clone()
    };
    [
        connection.process.clone().unwrap_or_else(|| "?".into()),
        format!("{host}:{}", connection.port),
        via.as_ref().and_then(|via| via.as_str()).unwrap_or_default().replace('_', " "),
        connection.count.to_string(),
        bytes(connection.sent),
        bytes(connection.received),
        connection.errors.to_string(),
    ]
}

/// Three digits are enough for people; `--json` has every one.
pub(crate) fn bytes(count: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let (mut value, mut unit) = (count as f64, 0);
    while value >= 1000.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 || value >= 99.95 {
        format!("{value:.0} {}", units[unit])
    } else {
        format!("{value:.1} {}", units[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::bytes;

    #[test]
    fn sizes_for_people() {
        for (count, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.0 KiB"),
            (1536, "1.5 KiB"),
            (102_400, "100 KiB"),
            (5 << 20, "5.0 MiB"),
            (u64::MAX, "16777216 TiB"),
        ] {
            assert_eq!(bytes(count), text);
        }
    }
}
