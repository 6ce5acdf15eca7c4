//! Being built.
mod config;
mod demo;
mod duration;
mod nearest;
mod secret;
fn main() -> std::process::ExitCode {
    demo::serve(demo::Kind::Notes)
}
