//! A Model Context Protocol server over stdio whose faults are switches: `fake-server --help`.

use std::process::ExitCode;

fn main() -> ExitCode {
    mcp_testkit::fake_server::main(std::env::args().skip(1))
}
