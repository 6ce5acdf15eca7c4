//! What there is to show about a server when something went wrong.

/// What is known about the other side of a channel. Holds no secrets that this crate put there; a server's own output
/// is quoted as it is.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Evidence {
    /// How the server's process ended: `exited with status 3`. `None` while it runs, or when there is no process.
    pub exit: Option<String>,
    /// The process's exit status, if it ended with one.
    pub exit_status: Option<i32>,
    /// The newest of what the server wrote to its error output, bounded; may be empty.
    pub stderr: String,
    /// Environment variables that look as if they mattered for network access, exist here, and were not passed on.
    pub unpassed_network_variables: Vec<String>,
}
