//! The command line: which faults the server has.

use std::time::Duration;

/// All switches with their meaning, for `--help` and for the parser: a name, what it takes, what it does.
pub(super) const HELP: &[(&str, &str, &str)] = &[
    (
        "era",
        "legacy|modern|dual",
        "what the server speaks (default legacy)",
    ),
    (
        "version",
        "VERSION",
        "what initialize answers; `none` leaves it out (default: what was asked for, if known)",
    ),
    (
        "probe",
        "KIND",
        "answer to server/discover: not-found, invalid-params, code=N, plain-text, empty, silent, late=MS, exit, exit=N, unsupported=V, legacy-only=V, header-mismatch, missing-capability",
    ),
    ("start-delay", "MS", "waits before it reads anything"),
    (
        "init",
        "KIND",
        "answer to initialize: silent, error=N, exit, exit=N",
    ),
    (
        "exit-after",
        "METHOD[=N]",
        "exits with status N when this method was answered",
    ),
    ("ignore-eof", "", "goes on when its input ends"),
    (
        "ignore-term",
        "",
        "ignores TERM (through a shell's trap; it keeps running under it)",
    ),
    (
        "grandchild",
        "",
        "starts a sleeping process that holds its pipes; says `grandchild pid=N` on its error output",
    ),
    ("banner", "TEXT", "says this on its output first"),
    (
        "noise",
        "N",
        "says a line of noise before every Nth message",
    ),
    ("crlf", "", "ends lines with CR LF"),
    ("bom", "", "begins with a byte order mark"),
    ("blank-lines", "", "says an empty line before each message"),
    (
        "nul",
        "",
        "ends each message with a NUL before the line break",
    ),
    (
        "two-per-line",
        "",
        "puts a notification in front of each message, on the same line",
    ),
    (
        "bad-utf8",
        "",
        "puts a byte that is no UTF-8 into each text",
    ),
    ("lsp", "", "frames messages as LSP does"),
    (
        "no-last-newline",
        "",
        "leaves out the line break after the answer to tools/call, and exits",
    ),
    (
        "half-line",
        "",
        "says half of the answer to tools/call, and exits",
    ),
    (
        "split",
        "BYTES",
        "writes in pieces of so many bytes, each flushed",
    ),
    (
        "huge-line",
        "BYTES",
        "says a line of noise of this length before the answer to tools/call",
    ),
    (
        "id",
        "KIND",
        "how ids are echoed: text, float, wrong, null, last (behind the result)",
    ),
    (
        "answers",
        "KIND",
        "double, neither, both, error-null, extra (for unknown ids)",
    ),
    ("tools", "N", "offers N more tools t1 … tN"),
    ("page-size", "N", "so many tools per page"),
    ("cursor", "KIND", "endless, same, empty, refused (once)"),
    ("duplicate-tool", "", "lists echo twice"),
    ("nulls", "", "writes null for optional members"),
    (
        "bad-tool",
        "",
        "lists entries that are no tools among good ones",
    ),
    (
        "list-changed",
        "N",
        "says N times that the tools have changed, after each answer",
    ),
    ("odd-capabilities", "", "declares capabilities of odd types"),
    (
        "stderr",
        "BYTES",
        "writes so much to its error output at the start",
    ),
    (
        "stderr-on-probe",
        "BYTES",
        "writes so much to its error output when it is probed",
    ),
    (
        "say",
        "TEXT",
        "writes this to its error output at the start",
    ),
    ("late-progress", "", "reports progress after the answer"),
    ("never-read", "", "never reads its input"),
    ("single", "", "does one thing after the other"),
    (
        "shuffle",
        "SEED",
        "answers tools/call in random order, when 64 calls have come or nothing came for 50 ms",
    ),
    ("early-ping", "", "pings before it answers initialize"),
    ("log", "FILE", "appends each line that it reads to a file"),
];

/// What the server does wrong.
#[derive(Clone, Debug, Default)]
#[expect(
    missing_docs,
    reason = "the names and meanings are in `fake-server --help`"
)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
#[non_exhaustive]
pub struct Switches {
    pub era: String,
    pub version: Option<String>,
    pub probe: Option<String>,
    pub start_delay: Duration,
    pub init: Option<String>,
    pub exit_after: Option<(String, i32)>,
    pub ignore_eof: bool,
    pub ignore_term: bool,
    pub grandchild: bool,
    pub banner: Option<String>,
    pub noise: Option<u64>,
    pub crlf: bool,
    pub bom: bool,
    pub blank_lines: bool,
    pub nul: bool,
    pub two_per_line: bool,
    pub bad_utf8: bool,
    pub lsp: bool,
    pub no_last_newline: bool,
    pub half_line: bool,
    pub split: Option<usize>,
    pub huge_line: Option<usize>,
    pub id: Option<String>,
    pub answers: Option<String>,
    pub tools: usize,
    pub page_size: Option<usize>,
    pub cursor: Option<String>,
    pub duplicate_tool: bool,
    pub nulls: bool,
    pub bad_tool: bool,
    pub list_changed: usize,
    pub odd_capabilities: bool,
    pub stderr: usize,
    pub stderr_on_probe: usize,
    pub say: Option<String>,
    pub late_progress: bool,
    pub never_read: bool,
    pub single: bool,
    pub shuffle: Option<u64>,
    pub early_ping: bool,
    pub log: Option<String>,
}

impl Switches {
    /// Reads a command line; `None` when help is wanted.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(args: impl Iterator<Item = String>) -> Result<Option<Self>, String> {
        let mut switches = Self {
            era: "legacy".to_owned(),
            ..Self::default()
        };
        let mut args = args;
        while let Some(arg) = args.next() {
            if arg == "--help" {
                return Ok(None);
            }
            let name = arg
                .strip_prefix("--")
                .ok_or_else(|| format!("unexpected {arg:?}"))?;
            let (_, takes, _) = HELP
                .iter()
                .find(|(known, ..)| *known == name)
                .ok_or_else(|| format!("no switch {arg:?}"))?;
            let value = if takes.is_empty() {
                String::new()
            } else {
                args.next().ok_or_else(|| format!("{arg} takes {takes}"))?
            };
            switches
                .set(name, value)
                .map_err(|error| format!("{arg}: {error}"))?;
        }
        Ok(Some(switches))
    }

    fn set(&mut self, name: &str, value: String) -> Result<(), String> {
        match name {
            "era" if matches!(value.as_str(), "legacy" | "modern" | "dual") => self.era = value,
            "era" => return Err(format!("no era {value:?}")),
            "version" => self.version = Some(value),
            "probe" => self.probe = Some(value),
            "start-delay" => self.start_delay = Duration::from_millis(number(&value)?),
            "init" => self.init = Some(value),
            "exit-after" => {
                let (method, status) = value.rsplit_once('=').unwrap_or((&value, "0"));
                self.exit_after = Some((method.to_owned(), number(status)?));
            }
            "ignore-eof" => self.ignore_eof = true,
            "ignore-term" => self.ignore_term = true,
            "grandchild" => self.grandchild = true,
            "banner" => self.banner = Some(value),
            "noise" => self.noise = Some(number(&value)?),
            "crlf" => self.crlf = true,
            "bom" => self.bom = true,
            "blank-lines" => self.blank_lines = true,
            "nul" => self.nul = true,
            "two-per-line" => self.two_per_line = true,
            "bad-utf8" => self.bad_utf8 = true,
            "lsp" => self.lsp = true,
            "no-last-newline" => self.no_last_newline = true,
            "half-line" => self.half_line = true,
            "split" => self.split = Some(number(&value)?),
            "huge-line" => self.huge_line = Some(number(&value)?),
            "id" => self.id = Some(value),
            "answers" => self.answers = Some(value),
            "tools" => self.tools = number(&value)?,
            "page-size" => self.page_size = Some(number(&value)?),
            "cursor" => self.cursor = Some(value),
            "duplicate-tool" => self.duplicate_tool = true,
            "nulls" => self.nulls = true,
            "bad-tool" => self.bad_tool = true,
            "list-changed" => self.list_changed = number(&value)?,
            "odd-capabilities" => self.odd_capabilities = true,
            "stderr" => self.stderr = number(&value)?,
            "stderr-on-probe" => self.stderr_on_probe = number(&value)?,
            "say" => self.say = Some(value),
            "late-progress" => self.late_progress = true,
            "never-read" => self.never_read = true,
            "single" => self.single = true,
            "shuffle" => self.shuffle = Some(number(&value)?),
            "early-ping" => self.early_ping = true,
            "log" => self.log = Some(value),
            other => return Err(format!("{other} is listed but not read")),
        }
        Ok(())
    }
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{text:?} is no number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_switch_is_read() {
        for (name, takes, _) in HELP {
            let mut args = vec![format!("--{name}")];
            if !takes.is_empty() {
                args.push(if *name == "era" { "dual" } else { "1" }.to_owned());
            }
            assert!(
                Switches::parse(args.into_iter()).unwrap().is_some(),
                "{name}"
            );
        }
        assert!(Switches::parse(["--nope".to_owned()].into_iter()).is_err());
        assert!(Switches::parse(["--tools".to_owned()].into_iter()).is_err());
        assert!(
            Switches::parse(["--help".to_owned()].into_iter())
                .unwrap()
                .is_none()
        );
    }
}
