//! The scenarios of the suite as this repository knows them, and how they differ from the ones that a release has.
//!
//! A release that renames, drops or adds something must not pass by default: any difference is a fault.

use std::collections::BTreeMap;

/// A scenario with the wires that it is run at.
#[derive(Debug)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) wires: &'static [&'static str],
    /// Checks that must be SUCCESS: for scenarios that are content with a client that does nothing.
    pub(crate) named: &'static [&'static str],
}

/// The wire of what belongs to no version: the suite runs it at a version of its own choice.
pub(crate) const EXTENSION: &str = "extension";

/// All wires in the order of a run.
pub(crate) const WIRES: &[&str] = &[
    "2025-03-26",
    "2025-06-18",
    "2025-11-25",
    "2026-07-28",
    EXTENSION,
];

/// The revisions whose requirements are frozen.
pub(crate) const REQUIREMENTS: &[&str] = &["2025-11-25", "2026-07-28"];

/// Came after the requirements of their versions were frozen: run there, but not scored.
const LATE: &[&str] = &["json-schema-2020-12-preservation"];

const A: &[&str] = &["2025-03-26"];
const BC: &[&str] = &["2025-06-18", "2025-11-25"];
const BCD: &[&str] = &["2025-06-18", "2025-11-25", "2026-07-28"];
const C: &[&str] = &["2025-11-25"];
const CD: &[&str] = &["2025-11-25", "2026-07-28"];
const D: &[&str] = &["2026-07-28"];
const E: &[&str] = &[EXTENSION];

const fn scenario(name: &'static str, wires: &'static [&'static str]) -> Scenario {
    Scenario {
        name,
        wires,
        named: &[],
    }
}

const fn named(
    name: &'static str,
    wires: &'static [&'static str],
    named: &'static [&'static str],
) -> Scenario {
    Scenario { name, wires, named }
}

/// The scenarios for a client, in the suite's order.
pub(crate) const SCENARIOS: &[Scenario] = &[
    named("initialize", BC, &["mcp-client-initialization"]),
    scenario("tools_call", BCD),
    scenario("elicitation-sep1034-client-defaults", C),
    scenario("sse-retry", C),
    scenario("request-metadata", D),
    scenario("auth/metadata-default", CD),
    scenario("auth/metadata-var1", CD),
    scenario("auth/metadata-var2", CD),
    scenario("auth/metadata-var3", CD),
    scenario("auth/basic-cimd", CD),
    scenario("auth/scope-from-www-authenticate", CD),
    scenario("auth/scope-from-scopes-supported", CD),
    scenario("auth/scope-omitted-when-undefined", CD),
    scenario("auth/scope-step-up", CD),
    scenario("auth/scope-retry-limit", CD),
    scenario("auth/token-endpoint-auth-basic", BCD),
    scenario("auth/token-endpoint-auth-post", BCD),
    scenario("auth/token-endpoint-auth-none", BCD),
    scenario("auth/pre-registration", CD),
    scenario("auth/2025-03-26-oauth-metadata-backcompat", A),
    scenario("auth/2025-03-26-oauth-endpoint-fallback", A),
    scenario("auth/resource-mismatch", D),
    scenario("auth/offline-access-scope", D),
    scenario("auth/offline-access-not-supported", D),
    scenario("auth/authorization-server-migration", D),
    scenario("auth/iss-supported", D),
    scenario("auth/iss-not-advertised", D),
    scenario("auth/iss-supported-missing", D),
    scenario("auth/iss-wrong-issuer", D),
    scenario("auth/iss-unexpected", D),
    scenario("auth/iss-normalized", D),
    scenario("auth/metadata-issuer-mismatch", D),
    scenario("auth/client-credentials-jwt", E),
    scenario("auth/client-credentials-basic", E),
    scenario("auth/enterprise-managed-authorization", E),
    scenario("auth/dpop", E),
    scenario("auth/dpop-nonce", E),
    scenario("auth/wif-jwt-bearer", E),
    scenario("sep-2322-client-request-state", D),
    named(
        "http-standard-headers",
        D,
        &[
            "ClientMcpMethodHeader_tools_list",
            "ClientMcpMethodHeader_tools_call",
            "ClientMcpMethodHeader_resources_list",
            "ClientMcpMethodHeader_resources_read",
            "ClientMcpMethodHeader_prompts_list",
            "ClientMcpMethodHeader_prompts_get",
            "ClientMcpNameHeader_tools_call",
            "ClientMcpNameHeader_resources_read",
            "ClientMcpNameHeader_prompts_get",
        ],
    ),
    scenario("http-custom-headers", D),
    scenario("http-invalid-tool-headers", D),
    scenario("json-schema-ref-no-deref", D),
    scenario("json-schema-2020-12-preservation", CD),
    named(
        "sep-2640-client-no-prefetch",
        E,
        &["sep-2640-host-no-prefetch"],
    ),
    named(
        "sep-2640-client-verify-digest",
        E,
        &["sep-2640-host-verify-digest"],
    ),
    named(
        "sep-2640-client-verify-size",
        E,
        &["sep-2640-host-size-mismatch-failure"],
    ),
    named(
        "sep-2640-client-verify-frontmatter",
        E,
        &["sep-2640-host-frontmatter-comparison"],
    ),
];

/// The scenario of this name.
pub(crate) fn find(name: &str) -> Option<&'static Scenario> {
    SCENARIOS.iter().find(|scenario| scenario.name == name)
}

/// The checks of a scenario that must be SUCCESS.
pub(crate) fn named_checks(name: &str) -> &'static [&'static str] {
    find(name).map_or(&[], |scenario| scenario.named)
}

/// What belongs to a wire, in order.
pub(crate) fn at(wire: &str) -> impl Iterator<Item = &'static Scenario> {
    SCENARIOS
        .iter()
        .filter(move |scenario| scenario.wires.contains(&wire))
}

/// What the frozen requirements of a revision score.
pub(crate) fn scored(revision: &str) -> Vec<&'static str> {
    at(revision)
        .map(|scenario| scenario.name)
        .filter(|name| !LATE.contains(name))
        .collect()
}

/// The scenarios that the suite lists, with their wires: lines `- NAME [WIRE,WIRE]`.
pub(crate) fn read_list(text: &str) -> BTreeMap<String, Vec<String>> {
    let read = |line: &str| {
        let (name, wires) = line.trim().strip_prefix("- ")?.split_once(" [")?;
        let wires = wires.strip_suffix(']')?.split(',').map(str::to_owned);
        Some((name.to_owned(), wires.collect()))
    };
    text.lines().filter_map(read).collect()
}

/// How a list of the suite differs from the one here.
pub(crate) fn differences(theirs: &BTreeMap<String, Vec<String>>) -> Vec<String> {
    let gone = SCENARIOS
        .iter()
        .filter(|scenario| !theirs.contains_key(scenario.name))
        .map(|scenario| format!("the suite has no scenario {} any more", scenario.name));
    let others = theirs.iter().filter_map(|(name, wires)| match find(name) {
        None => Some(format!(
            "the suite has a scenario {name} ({}) that this client does not know",
            wires.join(", ")
        )),
        Some(known) if known.wires != wires.as_slice() => Some(format!(
            "the suite runs {name} at {}, expected {}",
            wires.join(", "),
            known.wires.join(", ")
        )),
        Some(_) => None,
    });
    gone.chain(others).collect()
}

/// The names below `client:` of a file of frozen requirements.
pub(crate) fn read_requirements(text: &str) -> Vec<String> {
    text.lines()
        .skip_while(|line| line.trim_end() != "client:")
        .skip(1)
        .take_while(|line| line.is_empty() || line.starts_with([' ', '#']))
        .filter_map(|line| line.trim().strip_prefix("- "))
        .map(|name| name.trim().to_owned())
        .collect()
}

/// How the frozen requirements of a revision differ from the ones here.
pub(crate) fn requirement_differences(revision: &str, theirs: &[String]) -> Vec<String> {
    let ours = scored(revision);
    let missing = ours
        .iter()
        .filter(|name| !theirs.iter().any(|other| other == *name))
        .map(|name| format!("the requirements of {revision} do not score {name} any more"));
    let more = theirs
        .iter()
        .filter(|name| !ours.contains(&name.as_str()))
        .map(|name| format!("the requirements of {revision} score {name}, which is new"));
    missing.chain(more).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The list as the suite would print it.
    fn listed(scenarios: &[(&str, &str)]) -> BTreeMap<String, Vec<String>> {
        let lines: Vec<_> = scenarios
            .iter()
            .map(|(name, wires)| format!("  - {name} [{wires}]"))
            .collect();
        read_list(&format!("Client scenarios:\n{}\n", lines.join("\n")))
    }

    #[test]
    fn the_table_has_the_numbers_of_the_suite() {
        let counts: Vec<_> = WIRES.iter().map(|wire| at(wire).count()).collect();
        assert_eq!(counts, [2, 5, 19, 33, 10]);
        assert_eq!(SCENARIOS.len(), 48);
        let scored: Vec<_> = REQUIREMENTS.iter().map(|r| scored(r).len()).collect();
        assert_eq!(scored, [18, 32]);
    }

    #[test]
    fn any_difference_of_the_lists_is_named() {
        let own = SCENARIOS
            .iter()
            .map(|scenario| (scenario.name, scenario.wires.join(",")));
        let own: Vec<_> = own.collect();
        let own: Vec<_> = own
            .iter()
            .map(|(name, wires)| (*name, wires.as_str()))
            .collect();
        assert!(differences(&listed(&own)).is_empty());
        let mut more = own.clone();
        more.push(("brand-new", "2026-07-28"));
        let mut moved = own.clone();
        moved[0].1 = "2026-07-28";
        for (list, expected) in [
            (&own[1..], "the suite has no scenario initialize"),
            (&more, "a scenario brand-new (2026-07-28)"),
            (&moved, "runs initialize at 2026-07-28, expected 2025-06-18"),
        ] {
            let found = differences(&listed(list));
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].contains(expected), "{found:?}");
        }
        // A list that can't be read is no list without differences.
        assert_eq!(differences(&read_list("")).len(), SCENARIOS.len());
    }

    #[test]
    fn requirements_are_read_and_compared() {
        let text = "server:\n  - other\n\nclient:\n  # why\n  - tools_call\n\n  - new\nnot_scored:\n  - scenario: x\n";
        let theirs = read_requirements(text);
        assert_eq!(theirs, ["tools_call", "new"]);
        let found = requirement_differences("2025-11-25", &theirs);
        assert_eq!(found.len(), 18, "{found:?}");
        assert!(found.iter().any(|line| line.contains("score new")));
        assert!(!found.iter().any(|line| line.contains("tools_call")));
        let same: Vec<_> = scored("2026-07-28").iter().map(|n| (*n).into()).collect();
        assert!(requirement_differences("2026-07-28", &same).is_empty());
    }
}
