//! Which crate may depend on which, and what must never be reached from below.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::step::{cargo, output, say};

/// Each crate of the workspace and the crates of the workspace that it may depend on.
const EDGES: &[(&str, &[&str])] = &[
    ("mcp-jsonrpc", &[]),
    ("mcp-proto", &["mcp-jsonrpc"]),
    ("mcp-auth", &[]),
    ("mcp-transport-stdio", &["mcp-jsonrpc", "mcp-proto"]),
    (
        "mcp-transport-http",
        &["mcp-auth", "mcp-jsonrpc", "mcp-proto"],
    ),
    (
        "mcp-client",
        &[
            "mcp-auth",
            "mcp-jsonrpc",
            "mcp-proto",
            "mcp-transport-http",
            "mcp-transport-stdio",
        ],
    ),
    ("mcp-manager", &["mcp-client"]),
    ("mcp-adapter-cli", &["mcp-client", "mcp-manager"]),
    ("mcp-adapter-rpi", &["mcp-client", "mcp-manager"]),
    ("mcp-conformance", &["mcp-client"]),
    ("mcp-interop", &["mcp-client"]),
    ("mcp-testkit", &["mcp-jsonrpc", "mcp-proto"]),
    ("xtask", &[]),
];

/// Crates without I/O, and what they must not reach, however far below.
pub(crate) const SANS_IO: &[&str] = &["mcp-auth", "mcp-jsonrpc", "mcp-proto"];
const FORBIDDEN_BELOW: &[&str] = &[
    "async-std",
    "futures",
    "futures-core",
    "futures-util",
    "http",
    "http-body",
    "hyper",
    "hyper-util",
    "mio",
    "rand",
    "rand_core",
    "tokio",
    "tokio-util",
    "tracing",
    "tracing-core",
];

/// The one crate that tests of any other may use.
const TESTKIT: &str = "mcp-testkit";

pub(crate) fn run() -> Result<(), String> {
    let metadata = output(cargo().args(["metadata", "--format-version", "1", "--locked"]))?;
    let metadata: Value = serde_json::from_str(&metadata).map_err(|error| error.to_string())?;
    let faults = check(&metadata)?;
    if faults.is_empty() {
        say("every edge between crates points down");
        return Ok(());
    }
    Err(faults.join("\n"))
}

/// All faults of a workspace, as `cargo metadata` describes it.
fn check(metadata: &Value) -> Result<Vec<String>, String> {
    let mut faults = Vec::new();
    let members: BTreeSet<&str> = strings(&metadata["workspace_members"]).collect();
    let packages: Vec<&Value> = array(&metadata["packages"]).collect();
    let ours = || {
        packages
            .iter()
            .filter(|package| members.contains(text(&package["id"])))
    };
    let our_names: BTreeSet<&str> = ours().map(|package| text(&package["name"])).collect();
    if our_names.is_empty() {
        return Err("cargo metadata names no member of the workspace".to_owned());
    }
    for package in ours() {
        let name = text(&package["name"]);
        let Some((_, allowed)) = EDGES.iter().find(|(known, _)| *known == name) else {
            faults.push(format!(
                "{name}: not in the table of layers (xtask/src/layering.rs)"
            ));
            continue;
        };
        for dependency in array(&package["dependencies"]) {
            let to = text(&dependency["name"]);
            let for_tests = dependency["kind"] == "dev";
            let fine = allowed.contains(&to) || (for_tests && to == TESTKIT);
            if our_names.contains(to) && !fine {
                let kind = if for_tests { " (for tests)" } else { "" };
                faults.push(format!("{name} -> {to}{kind}: this edge is not allowed"));
            }
        }
    }
    let graph = Graph::of(metadata);
    for package in ours().filter(|package| SANS_IO.contains(&text(&package["name"]))) {
        let name = text(&package["name"]);
        for reached in graph.below(text(&package["id"])) {
            let reached_name = packages
                .iter()
                .find(|package| text(&package["id"]) == reached)
                .map_or("", |package| text(&package["name"]));
            if FORBIDDEN_BELOW.contains(&reached_name) {
                faults.push(format!(
                    "{name} reaches {reached_name}, which a crate without I/O must not"
                ));
            }
        }
    }
    Ok(faults)
}

/// What depends on what, tests left out, for all targets.
struct Graph<'a>(BTreeMap<&'a str, Vec<&'a str>>);

impl<'a> Graph<'a> {
    fn of(metadata: &'a Value) -> Self {
        let nodes = array(&metadata["resolve"]["nodes"]).map(|node| {
            let normal = |dependency: &&Value| {
                array(&dependency["dep_kinds"]).any(|kind| kind["kind"] != "dev")
            };
            let below = array(&node["deps"])
                .filter(normal)
                .map(|dependency| text(&dependency["pkg"]))
                .collect();
            (text(&node["id"]), below)
        });
        Self(nodes.collect())
    }

    fn below(&self, id: &'a str) -> BTreeSet<&'a str> {
        let (mut seen, mut waiting) = (BTreeSet::new(), vec![id]);
        while let Some(id) = waiting.pop() {
            for below in self.0.get(id).into_iter().flatten() {
                if seen.insert(*below) {
                    waiting.push(below);
                }
            }
        }
        seen
    }
}

fn array(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn strings(value: &Value) -> impl Iterator<Item = &str> {
    array(value).filter_map(Value::as_str)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A workspace of these crates, each with its dependencies: `name` or `name (dev)`.
    fn workspace(crates: &[(&str, &[&str])], foreign: &[&str]) -> Value {
        let dependency = |word: &str| {
            let (name, kind) = word
                .strip_suffix(" (dev)")
                .map_or((word, Value::Null), |name| (name, json!("dev")));
            (name.to_owned(), kind)
        };
        let packages = crates.iter().map(|(name, below)| {
            let dependencies: Vec<_> = below
                .iter()
                .map(|word| dependency(word))
                .map(|(name, kind)| json!({"name": name, "kind": kind}))
                .collect();
            json!({"id": name, "name": name, "dependencies": dependencies})
        });
        let others = foreign
            .iter()
            .map(|name| json!({"id": name, "name": name, "dependencies": []}));
        let nodes = crates.iter().map(|(name, below)| {
            let deps: Vec<_> = below
                .iter()
                .map(|word| dependency(word))
                .map(|(name, kind)| json!({"pkg": name, "dep_kinds": [{"kind": kind}]}))
                .collect();
            json!({"id": name, "deps": deps})
        });
        json!({
            "workspace_members": crates.iter().map(|(name, _)| name).collect::<Vec<_>>(),
            "packages": packages.chain(others).collect::<Vec<_>>(),
            "resolve": {"nodes": nodes.collect::<Vec<_>>()},
        })
    }

    #[test]
    fn edges_up_and_sideways_are_found() {
        type Crates<'a> = &'a [(&'a str, &'a [&'a str])];
        let cases: &[(Crates<'_>, &[&str])] = &[
            (
                &[("mcp-jsonrpc", &[]), ("mcp-proto", &["mcp-jsonrpc"])],
                &[],
            ),
            (
                &[
                    ("mcp-proto", &["mcp-testkit (dev)"]),
                    ("mcp-testkit", &["mcp-proto"]),
                ],
                &[],
            ),
            (
                &[("mcp-proto", &["mcp-testkit"]), ("mcp-testkit", &[])],
                &["mcp-proto -> mcp-testkit"],
            ),
            (
                &[("mcp-jsonrpc", &["mcp-proto"]), ("mcp-proto", &[])],
                &["mcp-jsonrpc -> mcp-proto"],
            ),
            (
                &[
                    ("mcp-adapter-cli", &["mcp-transport-stdio"]),
                    ("mcp-transport-stdio", &[]),
                ],
                &["mcp-adapter-cli -> mcp-transport-stdio"],
            ),
            (
                &[
                    ("mcp-transport-http", &["mcp-transport-stdio (dev)"]),
                    ("mcp-transport-stdio", &[]),
                ],
                &["mcp-transport-http -> mcp-transport-stdio (for tests)"],
            ),
            (&[("mcp-new", &[])], &["mcp-new: not in the table"]),
            (&[("mcp-proto", &["tokio"])], &["mcp-proto reaches tokio"]),
            (&[("mcp-proto", &["tokio (dev)"])], &[]),
            (&[("mcp-client", &["tokio"])], &[]),
        ];
        for (crates, expected) in cases {
            let faults = check(&workspace(crates, &["tokio"])).unwrap();
            assert_eq!(faults.len(), expected.len(), "{faults:?}");
            assert!(
                faults
                    .iter()
                    .zip(*expected)
                    .all(|(fault, start)| fault.starts_with(start)),
                "{faults:?}"
            );
        }
        assert!(check(&json!({})).is_err());
    }

    #[test]
    fn this_workspace_is_layered() {
        run().unwrap();
    }
}
