//! What was odd about a connection: counts, and the newest examples.

use std::collections::{BTreeMap, VecDeque};

use mcp_proto::connection::Diagnostic;
use mcp_proto::quirk::Quirk;

use crate::redact::Redactor;

/// How many examples of noise are kept.
pub const MAX_NOISE_EXAMPLES: usize = 16;

/// Longest example that is kept, in bytes.
const MAX_EXAMPLE_BYTES: usize = 512;

/// How many different violations are kept as text.
pub const MAX_VIOLATION_EXAMPLES: usize = 16;

/// Counts of what was tolerated, ignored or wrong on a connection so far.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Diagnostics {
    /// Frames that were no messages: banners, log lines (C001).
    pub noise: u64,
    /// The newest of them, each cut to a line.
    pub noise_examples: VecDeque<String>,
    /// Rules broken in a tolerated way, with how often.
    pub quirks: BTreeMap<Quirk, u64>,
    /// Answers to requests that were given up (C067).
    pub late_answers: u64,
    /// Second answers (C069) and answers to nothing.
    pub stray_answers: u64,
    /// Progress that belongs to no request in flight (C074).
    pub stray_progress: u64,
    /// Errors without an id, and rules broken in a way that is not tolerated.
    pub violations: u64,
    /// The newest of them.
    pub violation_examples: VecDeque<String>,
}

impl Diagnostics {
    /// Whether nothing was odd.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(crate) fn record(&mut self, diagnostic: &Diagnostic, redactor: &Redactor) {
        match diagnostic {
            Diagnostic::Noise(fault) => {
                self.noise += 1;
                keep(
                    &mut self.noise_examples,
                    redactor.redact(&fault.to_string()),
                    MAX_NOISE_EXAMPLES,
                );
            }
            Diagnostic::Quirk(quirk) => *self.quirks.entry(*quirk).or_default() += 1,
            Diagnostic::LateAnswer(_) => self.late_answers += 1,
            Diagnostic::DuplicateAnswer(_) | Diagnostic::UnknownAnswer(_) => {
                self.stray_answers += 1
            }
            Diagnostic::UnknownProgress => self.stray_progress += 1,
            Diagnostic::NotTaken(failure) => {
                self.violation(redactor.redact(&format!("a message was not taken: {failure}")))
            }
            Diagnostic::NotRestored { method, reason } => self.violation(redactor.redact(
                &format!("{method} could not be repeated in the new session: {reason}"),
            )),
            Diagnostic::PeerError(error) => self.violation(redactor.redact(&error.to_string())),
            Diagnostic::Violation(violation) => {
                self.violation(redactor.redact(&violation.to_string()))
            }
            _ => {}
        }
    }

    fn violation(&mut self, text: String) {
        self.violations += 1;
        keep(&mut self.violation_examples, text, MAX_VIOLATION_EXAMPLES);
    }
}

fn keep(examples: &mut VecDeque<String>, example: String, max: usize) {
    let example = mcp_jsonrpc::clean_excerpt(example.as_bytes(), MAX_EXAMPLE_BYTES);
    if examples.len() == max {
        examples.pop_front();
    }
    examples.push_back(example);
}
