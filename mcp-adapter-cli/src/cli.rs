//! The command line.
//!
//! Must not know: what any of it does.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::BoolishValueParser;
use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};

use crate::duration::parse_duration;

/// A terminal host for Model Context Protocol servers.
#[derive(Debug, Parser)]
#[command(
    name = "mcpline",
    version,
    about,
    max_term_width = 100,
    infer_subcommands = false
)]
#[command(
    after_help = "Everything after -- is the command line of a server: mcpline tools -- npx -y some-server\nA server elsewhere: mcpline tools --url https://example.com/mcp"
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// Options of every command.
#[derive(Args, Clone, Debug)]
pub(crate) struct Global {
    /// Read servers from this file only (repeatable, later files win)
    #[arg(short, long, global = true, value_name = "FILE")]
    pub(crate) config: Vec<PathBuf>,
    /// Use the two servers that are built in
    #[arg(long, global = true, conflicts_with = "config")]
    pub(crate) demo: bool,
    /// Reach a server by its URL
    #[arg(long, global = true, conflicts_with_all = ["config", "demo"], value_name = "URL")]
    pub(crate) url: Option<String>,
    /// Send a header to --url; ${VAR} in it is filled in (repeatable)
    #[arg(short = 'H', long, global = true, value_name = "NAME: VALUE")]
    pub(crate) header: Vec<String>,
    /// Send the token in this variable to --url
    #[arg(long, global = true, value_name = "VAR")]
    pub(crate) bearer_env: Option<String>,
    /// Which transport to speak with --url
    #[arg(long, global = true, value_enum, value_name = "TRANSPORT")]
    pub(crate) transport: Option<TransportChoice>,
    /// Trust the certificates in this file as well
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,
    /// Reach servers through this proxy, or none
    #[arg(long, global = true, value_name = "URL|none")]
    pub(crate) proxy: Option<String>,
    /// Set a variable for the server after -- (repeatable)
    #[arg(short, long, global = true, value_name = "KEY=VALUE")]
    pub(crate) env: Vec<String>,
    /// Start the server after -- in this folder
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// Pass more of the environment on: all, or names separated by commas
    #[arg(
        long,
        global = true,
        value_name = "all|NAMES",
        env = "MCPLINE_INHERIT_ENV"
    )]
    pub(crate) inherit_env: Option<String>,
    /// Which protocol eras may be spoken
    #[arg(long, global = true, value_enum, default_value_t = EraChoice::Auto, env = "MCPLINE_ERA")]
    pub(crate) era: EraChoice,
    /// Longest silence during a call, such as 30s
    #[arg(long, global = true, value_name = "TIME", value_parser = parse_duration, env = "MCPLINE_TIMEOUT")]
    pub(crate) timeout: Option<Duration>,
    /// Longest call in all, such as 10m
    #[arg(long, global = true, value_name = "TIME", value_parser = parse_duration, env = "MCPLINE_MAX_TIME")]
    pub(crate) max_time: Option<Duration>,
    /// Longest start of a server, such as 30s
    #[arg(long, global = true, value_name = "TIME", value_parser = parse_duration, env = "MCPLINE_START_TIMEOUT")]
    pub(crate) start_timeout: Option<Duration>,
    /// Print one JSON document
    #[arg(long, global = true, env = "MCPLINE_JSON", value_parser = BoolishValueParser::new())]
    pub(crate) json: bool,
    /// Write the output into this file
    #[arg(short, long, global = true, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Show server output and notifications (-v), and debug events (-vv)
    #[arg(short, long, global = true, action = ArgAction::Count, env = "MCPLINE_VERBOSE")]
    pub(crate) verbose: u8,
    /// Say nothing but errors on the error output
    #[arg(short, long, global = true, env = "MCPLINE_QUIET", value_parser = BoolishValueParser::new())]
    pub(crate) quiet: bool,
    /// Never ask anything
    #[arg(long, global = true, env = "MCPLINE_NO_INPUT", value_parser = BoolishValueParser::new())]
    pub(crate) no_input: bool,
    /// Approve what project files start, for this run
    #[arg(long, global = true)]
    pub(crate) trust: bool,
    /// When to use colour
    #[arg(long, global = true, value_enum, default_value_t = ColorChoice::Auto, env = "MCPLINE_COLOR")]
    pub(crate) color: ColorChoice,
    /// Use plain characters for marks
    #[arg(long, global = true, env = "MCPLINE_ASCII", value_parser = BoolishValueParser::new())]
    pub(crate) ascii: bool,
}

/// Which eras may be spoken.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum EraChoice {
    Auto,
    Legacy,
    Modern,
}

/// Which transport is spoken over HTTP.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum TransportChoice {
    /// Found out
    Auto,
    /// HTTP+SSE of 2024-11-05
    Sse,
    /// Streamable HTTP
    Streamable,
}

/// When to use colour.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum ColorChoice {
    Auto,
    Always,
    Never,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// First run: start two built-in servers and see a session
    Demo {
        /// Be a demo server on standard input and output instead
        #[arg(long, value_enum, value_name = "SERVER", num_args = 0..=1, default_missing_value = "notes")]
        stdio: Option<DemoServer>,
    },
    /// List servers: state, transport, version, tools, time
    #[command(alias = "list")]
    Ls {
        /// Only these
        servers: Vec<String>,
        /// Only read the configuration
        #[arg(long)]
        no_connect: bool,
        #[command(flatten)]
        adhoc: AdHoc,
    },
    /// List tools, a line each
    Tools {
        /// SERVER or SERVER/PATTERN, where * stands for anything
        targets: Vec<String>,
        /// Print the input schemas
        #[arg(long)]
        schema: bool,
        /// Print whole descriptions
        #[arg(long)]
        full: bool,
        #[command(flatten)]
        adhoc: AdHoc,
    },
    /// List what servers let be read: resources and templates of them
    Resources {
        /// Only these
        servers: Vec<String>,
        #[command(flatten)]
        adhoc: AdHoc,
    },
    /// Read a resource
    Read {
        /// The URI, after the server's name where there are several
        #[arg(required = true, num_args = 1..=2, value_name = "[SERVER] URI")]
        words: Vec<String>,
        #[command(flatten)]
        adhoc: AdHoc,
    },
    /// List prompts, a line each
    Prompts {
        /// Only these
        servers: Vec<String>,
        #[command(flatten)]
        adhoc: AdHoc,
    },
    /// Get a prompt with its arguments filled in
    Prompt {
        /// SERVER/PROMPT, or PROMPT where there is one server
        target: String,
        /// name=value
        #[arg(value_name = "NAME=VALUE")]
        arguments: Vec<String>,
        #[command(flatten)]
        adhoc: AdHoc,
    },
    /// Describe a server or a tool
    #[command(aliases = ["describe", "info"])]
    Show {
        /// SERVER or SERVER/TOOL
        target: Option<String>,
        #[command(flatten)]
        adhoc: AdHoc,
    },
    /// Call a tool
    #[command(aliases = ["exec", "run"])]
    Call(CallArgs),
    /// Start each server and list its tools: for scripts and CI
    Check {
        /// Only these
        servers: Vec<String>,
        /// Fail unless this tool is there (repeatable)
        #[arg(long, value_name = "SERVER/TOOL")]
        require: Vec<String>,
        #[command(flatten)]
        adhoc: AdHoc,
    },
    /// Find out why a server does not work
    Doctor {
        /// Only these
        servers: Vec<String>,
        #[command(flatten)]
        adhoc: AdHoc,
    },
    /// Look at configuration files
    Config {
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

impl Command {
    /// The command line of a server behind `--`; empty when there is none.
    pub(crate) fn server_command(&self) -> &[String] {
        match self {
            Self::Call(args) => &args.adhoc.server_command,
            Self::Check { adhoc, .. }
            | Self::Doctor { adhoc, .. }
            | Self::Ls { adhoc, .. }
            | Self::Prompt { adhoc, .. }
            | Self::Prompts { adhoc, .. }
            | Self::Read { adhoc, .. }
            | Self::Resources { adhoc, .. }
            | Self::Show { adhoc, .. }
            | Self::Tools { adhoc, .. } => &adhoc.server_command,
            Self::Completions { .. } | Self::Config { .. } | Self::Demo { .. } => &[],
        }
    }
}

/// A server given on the command line.
#[derive(Args, Debug, Default)]
pub(crate) struct AdHoc {
    /// The command line of a server, after --
    #[arg(last = true, value_name = "SERVER COMMAND")]
    pub(crate) server_command: Vec<String>,
}

/// The demo servers.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum DemoServer {
    Notes,
    Clock,
}

/// `mcpline call`.
#[derive(Args, Debug)]
pub(crate) struct CallArgs {
    /// SERVER/TOOL, or TOOL where one server has it
    pub(crate) target: String,
    /// key=value, key:=json, key=@file
    #[arg(value_name = "ARG")]
    pub(crate) words: Vec<String>,
    /// All arguments as a JSON object, @FILE, or - for standard input
    #[arg(long, value_name = "JSON")]
    pub(crate) args: Option<String>,
    /// Print the request and send nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Send the arguments without checking them against the tool's schema
    #[arg(long)]
    pub(crate) no_validate: bool,
    /// Print the result untouched
    #[arg(long, conflicts_with = "json")]
    pub(crate) raw: bool,
    /// Print only what this JSON pointer names, such as /structuredContent/total
    #[arg(long, value_name = "POINTER")]
    pub(crate) get: Option<String>,
    /// Write images, sound and other bytes into this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) save: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) adhoc: AdHoc,
}

/// `mcpline config`.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Which files are read
    Path,
    /// What they say
    List,
    /// Look for mistakes
    Check,
    /// Where every value of a server comes from
    Explain {
        /// The server
        server: String,
    },
}
