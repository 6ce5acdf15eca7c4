//! Skills as an extension of the protocol: listed with digests, read only when one is loaded, and checked before use.
//!
//! A host reads `SKILL.md` first. Its length, its digest and its front matter must be those of the list; else nothing of the
//! skill is used, and no other file of it is asked for.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use mcp_client::{CallOptions, Client};
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::failure::{Failure, unexpected};
use crate::task::Task;

/// What the extension is called when it is declared.
pub(crate) const EXTENSION: &str = "io.modelcontextprotocol/skills";

/// Whether a scenario is about skills.
pub(crate) fn is_about(task: &Task) -> bool {
    task.scenario.starts_with("sep-2640-")
}

/// A skill, as the server lists it.
#[derive(Debug, Deserialize)]
pub(crate) struct Skill {
    /// Its `SKILL.md`.
    uri: String,
    /// What stands at the head of that file.
    frontmatter: BTreeMap<String, Value>,
    /// All its files.
    resources: Vec<File>,
}

#[derive(Debug, Deserialize)]
struct File {
    uri: String,
    /// `sha256:` and 64 hexadecimal digits.
    digest: String,
    /// In bytes.
    size: usize,
}

#[derive(Deserialize)]
struct Skills {
    skills: Vec<Skill>,
}

/// Why a skill was not loaded.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// A file is not what was listed.
    Differs {
        /// Digest, front matter or size.
        what: &'static str,
        /// The file.
        uri: String,
    },
    /// A file could not be read.
    NotRead(Failure),
}

/// Lists the skills, and reads none of their files.
pub(crate) async fn list(client: &Client) -> Result<Vec<Skill>, Failure> {
    let extensions = client.agreement();
    let extensions = extensions.capabilities.value("extensions");
    let offered = extensions
        .and_then(|raw| serde_json::from_str::<BTreeMap<String, Value>>(raw.get()).ok())
        .is_some_and(|extensions| extensions.contains_key(EXTENSION));
    if !offered {
        return unexpected(format!("the server does not offer {EXTENSION}"));
    }
    let result = client
        .request_raw("skills/list", None, CallOptions::default())
        .await?;
    match serde_json::from_str::<Skills>(result.as_str()) {
        Ok(list) => Ok(list.skills),
        Err(error) => unexpected(format!("the list of skills can't be read: {error}")),
    }
}

/// Reads all files of a skill, `SKILL.md` first, and checks each before the next is asked for.
pub(crate) async fn load(client: &Client, skill: &Skill) -> Result<Vec<String>, Refusal> {
    let mut files: Vec<_> = skill.resources.iter().collect();
    files.sort_by_key(|file| file.uri != skill.uri);
    let mut texts = Vec::new();
    for file in files {
        let text = read(client, &file.uri).await.map_err(Refusal::NotRead)?;
        let expected = (file.uri == skill.uri).then_some(&skill.frontmatter);
        check(file, expected, &text).map_err(|what| Refusal::Differs {
            what,
            uri: file.uri.clone(),
        })?;
        texts.push(text);
    }
    Ok(texts)
}

async fn read(client: &Client, uri: &str) -> Result<String, Failure> {
    Ok(client.read_resource(uri).await?.text())
}

/// What of a file differs from the list, if anything does.
fn check(
    file: &File,
    front_matter: Option<&BTreeMap<String, Value>>,
    text: &str,
) -> Result<(), &'static str> {
    if text.len() != file.size {
        return Err("size");
    }
    if digest(text) != file.digest {
        return Err("digest");
    }
    if front_matter.is_some_and(|expected| read_front_matter(text).as_ref() != Some(expected)) {
        return Err("front matter");
    }
    Ok(())
}

fn digest(text: &str) -> String {
    let mut shown = "sha256:".to_owned();
    for byte in Sha256::digest(text.as_bytes()) {
        // Writing to a string never fails.
        let _ = write!(shown, "{byte:02x}");
    }
    shown
}

/// The head of a `SKILL.md`: lines `name: text` between two `---`. Anything else that YAML has is not read, so that it counts
/// as a difference.
fn read_front_matter(text: &str) -> Option<BTreeMap<String, Value>> {
    let (head, _) = text.strip_prefix("---\n")?.split_once("\n---\n")?;
    head.lines()
        .map(|line| {
            let (name, value) = line.split_once(": ")?;
            let plain = !value.starts_with(['"', '\'', '[', '{', '&', '*', '!', '|', '>']);
            plain.then(|| (name.to_owned(), Value::from(value.trim())))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "---\nname: tide\ndescription: When it is high\n---\n\nLook at the moon.\n";

    fn listed(text: &str) -> File {
        File {
            uri: "skill://tide/SKILL.md".to_owned(),
            digest: digest(text),
            size: text.len(),
        }
    }

    #[test]
    fn what_differs_from_the_list_is_found() {
        let front_matter = |text| read_front_matter(text).unwrap_or_default();
        let head = front_matter(TEXT);
        assert_eq!(head["description"], "When it is high");
        let other = TEXT.replace("high", "lows");
        let cases = [
            (TEXT.to_owned(), TEXT, Ok(())),
            (TEXT.replace("moon", "suns"), TEXT, Err("digest")),
            (format!("{TEXT}more"), TEXT, Err("size")),
            (other.clone(), other.as_str(), Err("front matter")),
        ];
        for (text, of, expected) in cases {
            assert_eq!(check(&listed(of), Some(&head), &text), expected, "{text}");
        }
        // Only `SKILL.md` has a head.
        assert_eq!(check(&listed("x"), None, "x"), Ok(()));
    }

    #[test]
    fn a_head_that_is_more_than_lines_is_not_read() {
        for text in [
            "no head",
            "---\nname: tide\n",
            "---\nname: [a, b]\n---\n",
            "---\nname:\n  - a\n---\n",
            "---\nname: |\n---\n",
        ] {
            assert_eq!(read_front_matter(text), None, "{text}");
        }
    }

    #[test]
    fn digests_are_those_of_the_standard() {
        let empty = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(digest(""), empty);
    }
}
