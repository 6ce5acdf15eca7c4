//! Processes that carry a mark in their environment.

use std::time::{Duration, Instant};

/// Waits until no live process carries `name=value`; returns those that still do.
pub(crate) async fn wait_gone(name: &str, value: &str, within: Duration) -> Vec<String> {
    let by = Instant::now() + within;
    loop {
        let left = marked(&format!("{name}={value}"));
        if left.is_empty() || Instant::now() >= by {
            return left;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn marked(mark: &str) -> Vec<String> {
    let carries = |pid: &str| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
        environment
            .split(|byte| *byte == 0)
            .any(|entry| entry == mark.as_bytes())
            .then_some(())?;
        let command = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        // A process without a command line is on its way out.
        (!command.is_empty()).then(|| {
            format!(
                "{pid} {}",
                String::from_utf8_lossy(&command)
                    .replace('\0', " ")
                    .trim_end()
            )
        })
    };
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| carries(entry.file_name().to_str()?))
        .collect()
}
