//! Being built.
mod demo;
fn main() -> std::process::ExitCode {
    demo::serve(demo::Kind::Notes)
}
