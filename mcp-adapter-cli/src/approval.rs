//! Asking a person before a project's file starts a program, or sends what is in the environment elsewhere (C218).

use std::io::Write as _;

use crate::app::SharedApp;
use crate::config::Approvals;
use crate::failure::{Failure, exit};
use crate::servers::{Reach, Target};
use crate::text::{one_line, visible};

/// How far what an entry starts is trusted.
#[derive(Clone, Debug)]
pub(crate) enum Trust {
    /// Nobody has approved it yet.
    Needed {
        /// Of what would be started.
        fingerprint: String,
        /// The names of the variables that it would get from the file.
        variables: Vec<String>,
    },
    /// It may be started; why.
    Given(&'static str),
}

/// Makes sure that the target may be started; asks when a person is there. The question is asked once, its answer kept.
///
/// # Errors
/// When nobody approved.
pub(crate) async fn ensure(app: &SharedApp, target: &Target) -> Result<(), Failure> {
    let Trust::Needed {
        fingerprint,
        variables,
    } = &target.trust
    else {
        return Ok(());
    };
    let starts = matches!(target.launch, Ok(Reach::Process(_)));
    let refused = || {
        Failure::new(
            exit::PERSON_NEEDED,
            "approval_needed",
            format!(
                "{}: nobody has approved what this project's file {}",
                target.id,
                if starts { "starts" } else { "sends" }
            ),
        )
        .note(format!(
            "it would {}: {}",
            if starts { "start" } else { "reach" },
            target.place
        ))
        .next(
            "mcpline --trust ...",
            "approves what project files start, for one run",
        )
    };
    let approvals = app.folders.state.as_deref().map(Approvals::in_folder);
    // Since the configuration was read, another run may have asked.
    let known = approvals
        .as_ref()
        .is_some_and(|approvals| approvals.contains(fingerprint));
    if known {
        return Ok(());
    }
    if !app.can_ask() {
        return Err(refused());
    }
    let mut question = format!(
        "{} comes from a project's file. It {}:\n  {}\n",
        target.id,
        if starts { "starts" } else { "reaches" },
        target.place
    );
    if !variables.is_empty() {
        question += &format!(
            "  {} the variables {}\n",
            if starts {
                "with"
            } else {
                "and sends what is in"
            },
            one_line(&variables.join(" "), 300)
        );
    }
    if let Ok(Reach::Process(command)) = &target.launch
        && let Some(folder) = command.folder()
    {
        question += &format!("  in {}\n", folder.display());
    }
    question += &format!(
        "{} it, now and later? [y/N] ",
        if starts { "Start" } else { "Reach" }
    );
    // Not on the runtime's thread: signals must be heard while nobody answers.
    let answer = tokio::task::spawn_blocking(move || {
        // The lock goes before the wait: others have things to say meanwhile.
        let _ = std::io::stderr().write_all(visible(&question).as_bytes());
        let mut answer = String::new();
        std::io::stdin().read_line(&mut answer).map(|_| answer)
    });
    let answer = answer.await.ok().and_then(Result::ok).unwrap_or_default();
    if !matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes") {
        return Err(refused());
    }
    if let Some(approvals) = approvals
        && let Err(error) = approvals.add(std::slice::from_ref(fingerprint))
    {
        app.say(&format!("note: the approval could not be kept: {error}"));
    }
    Ok(())
}
