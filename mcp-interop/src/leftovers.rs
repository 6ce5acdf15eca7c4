//! Processes that carry a mark in their environment.

use std::time::{Duration, Instant};

/// Waits until no live process carries `name=value`; returns those that still do.
pub(crate) async fn wait_gone(name: &str, value: &str, within: Duration) -> Vec<String> {
    let by = Instant::now() + within;
    loop {
        let left = marked(name, value);
        if left.is_empty() || Instant::now() >= by {
            return left;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// The live processes that carry `name=value`. One that cleared its environment is not seen.
pub(crate) fn marked(name: &str, value: &str) -> Vec<String> {
    let mark = format!("{name}={value}");
    let carries = |pid: &str| {
        pid.parse::<u32>().ok()?;
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

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[tokio::test]
    async fn a_marked_process_is_seen_until_it_is_gone() {
        let value = format!("leftovers-{}", std::process::id());
        let mut child = Command::new("cat")
            .env("MCP_INTEROP_TEST", &value)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        // `cat` reads until its input ends, so it is there now, whatever the scheduler does.
        let left = wait_gone("MCP_INTEROP_TEST", &value, Duration::ZERO).await;
        assert_eq!(left.len(), 1, "{left:?}");
        assert!(
            left[0].starts_with(&child.id().to_string()),
            "{left:?}, not {}",
            child.id()
        );
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!(marked("MCP_INTEROP_TEST", &value), [""; 0]);
    }
}
