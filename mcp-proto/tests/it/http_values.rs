//! Properties of what `http` computes: values of header fields, arguments that become fields, the form of an answer.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mcp_proto::http::{MirroredParams, ToolHeaders, encode_value, modern_fields, sniff};
use mcp_proto::version::ProtocolVersion;
use proptest::prelude::*;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

/// What a server makes of a value (HTTPM-23).
fn decoded(value: &str) -> String {
    let inner = value
        .strip_prefix("=?base64?")
        .and_then(|rest| rest.strip_suffix("?="));
    match inner {
        Some(inner) => String::from_utf8(STANDARD.decode(inner).unwrap()).unwrap(),
        None => value.to_owned(),
    }
}

/// Whether every intermediary passes it on unchanged: visible ASCII, spaces inside only.
fn is_legal(value: &str) -> bool {
    value.bytes().all(|byte| (0x20..0x7f).contains(&byte)) && value.trim_matches(' ') == value
}

/// Text that is likely to be difficult.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[ -~]{0,12}",
        "[ \t\r\n\u{0}\u{7f}a]{0,6}",
        "(=\\?base64\\?)?[A-Za-z0-9+/=?]{0,6}(\\?=)?",
        "(=\\?base64\\?){0,2}=?(\\?=){0,2}",
    ]
}

/// Any JSON, with the words of schemas in it.
fn json_value() -> impl Strategy<Value = Value> {
    let key = || {
        prop_oneof![
            Just("properties".to_owned()),
            Just("x-mcp-header".to_owned()),
            Just("type".to_owned()),
            Just("items".to_owned()),
            Just("anyOf".to_owned()),
            Just("$defs".to_owned()),
            "[a-c]",
        ]
    };
    let leaf = prop_oneof![
        Just(json!("string")),
        Just(json!("integer")),
        Just(json!("Tenant")),
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 48, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::vec((key(), inner), 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

fn raw(text: impl Into<String>) -> Box<RawValue> {
    RawValue::from_string(text.into()).unwrap()
}

fn tenant() -> MirroredParams {
    let schema = r#"{"type":"object","properties":{"tenant":{"type":"string","x-mcp-header":"Tenant"},
        "in":{"type":"object","properties":{"deep":{"type":"integer","x-mcp-header":"Deep"}}}}}"#;
    MirroredParams::read(&raw(schema)).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn httpm_23_values_come_back_as_they_were(text in text()) {
        let value = encode_value(&text);
        prop_assert!(is_legal(&value), "{value:?}");
        prop_assert_eq!(decoded(&value), text);
    }

    #[test]
    fn schemas_and_arguments_of_any_shape_are_survived(schema in json_value(), arguments in json_value()) {
        if let Ok(mirrored) = MirroredParams::read(&raw(schema.to_string())) {
            for field in mirrored.fields("t", &arguments.to_string()).into_iter().flatten() {
                prop_assert!(is_legal(&field.value), "{field:?}");
                prop_assert!(field.name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b':'), "{field:?}");
            }
        }
    }

    #[test]
    fn fields_of_any_request_are_legal(method in text(), name in text(), tenant_value in text(), deep in any::<i32>()) {
        let tools: ToolHeaders = [(name.clone(), tenant())].into();
        for method in [method.as_str(), "tools/call", "prompts/get", "resources/read", "tasks/get"] {
            let params = json!({"name": name, "uri": name, "taskId": name, "arguments": {"tenant": tenant_value, "in": {"deep": deep}}});
            let fields = modern_fields(&ProtocolVersion::NEWEST_MODERN, method, &params.to_string(), &tools, &BTreeMap::new()).unwrap();
            let value = |wanted: &str| fields.iter().find(|field| field.name == wanted).map(|field| decoded(&field.value));
            for field in &fields {
                prop_assert!(is_legal(&field.value), "{field:?}");
            }
            prop_assert_eq!(value("Mcp-Method"), Some(method.to_owned()));
            prop_assert_eq!(value("MCP-Protocol-Version"), Some("2026-07-28".to_owned()));
            if method == "tools/call" {
                prop_assert_eq!(value("Mcp-Name"), Some(name.clone()));
                prop_assert_eq!(value("Mcp-Param-Tenant"), Some(tenant_value.clone()));
                prop_assert_eq!(value("Mcp-Param-Deep"), Some(deep.to_string()));
            }
        }
    }

    #[test]
    fn the_form_of_an_answer_does_not_depend_on_how_its_start_is_cut(
        bom in any::<bool>(),
        space in "[ \t\r\n]{0,4}",
        start in prop_oneof![
            prop::sample::select(&["{", "[", "data: x", "event: x", "id:1", "retry:1", ":x", "<html", "ok", "da", "dat\u{e9}", ""][..]).prop_map(str::to_owned),
            any::<String>(),
        ],
    ) {
        let mut whole = if bom { b"\xef\xbb\xbf".to_vec() } else { Vec::new() };
        whole.extend_from_slice(space.as_bytes());
        whole.extend_from_slice(start.as_bytes());
        let all = sniff(&whole, true);
        prop_assert!(all.is_some());
        for cut in 0..=whole.len() {
            if let Some(form) = sniff(&whole[..cut], false) {
                prop_assert_eq!(Some(form), all, "after {} of {:?}", cut, whole);
            }
        }
    }
}

#[test]
fn httpm_20_what_stands_elsewhere_in_the_arguments_takes_no_field_away() {
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    // Valid JSON all of it, and no reason for an argument that has nothing to do with it to be left out.
    for other in [deep.as_str(), "1e400", r#""\ud83d""#] {
        let arguments =
            format!(r#"{{"other":{other},"tenant":"acme","in":{{"x":{other},"deep":7}}}}"#);
        let fields = tenant().fields("t", &arguments).unwrap();
        let mut shown: Vec<_> = fields
            .iter()
            .map(|field| format!("{}: {}", field.name, field.value))
            .collect();
        shown.sort();
        assert_eq!(
            shown,
            ["Mcp-Param-Deep: 7", "Mcp-Param-Tenant: acme"],
            "{other:.20}"
        );
    }
    // What can't be written into a field is told and not left out.
    for arguments in [
        r#"{"tenant":"\ud83d"}"#,
        r#"{"in":{"deep":1e400}}"#,
        r#"{"\ud83d":1,"tenant":"acme"}"#,
    ] {
        assert!(tenant().fields("t", arguments).is_err(), "{arguments}");
    }
}

#[test]
fn httpm_26_a_schema_that_can_not_be_read_is_not_one_without_annotations() {
    let deep = format!(
        r#"{{"properties":{{"a":{{"type":"string","x-mcp-header":"A"}},"b":{}{{}}{}}}}}"#,
        r#"{"items":"#.repeat(200),
        "}".repeat(200)
    );
    let huge = r#"{"properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"maximum":1e400}}}"#;
    for schema in [deep.as_str(), huge] {
        let read = MirroredParams::read(&raw(schema));
        assert!(
            !read.as_ref().is_ok_and(MirroredParams::is_empty),
            "{schema:.80}: {read:?}"
        );
    }
    // Without the word there is nothing to be missed: a pattern may well have halves of characters.
    let pattern = r#"{"properties":{"a":{"pattern":"[\ud800-\udfff]"}}}"#;
    assert!(MirroredParams::read(&raw(pattern)).unwrap().is_empty());
}

#[test]
fn httpm_26_keywords_of_older_drafts_lead_away_from_a_value_too() {
    let inner = r#"{"type":"string","x-mcp-header":"A"}"#;
    for schema in [
        format!(r#"{{"properties":{{"a":{{"additionalItems":{inner}}}}}}}"#),
        format!(r#"{{"dependencies":{{"a":{{"properties":{{"b":{inner}}}}}}}}}"#),
    ] {
        assert!(
            MirroredParams::read(&raw(schema.clone())).is_err(),
            "{schema}"
        );
    }
    let innocent = r#"{"description":"x-mcp-header","dependencies":{"a":["b"]}}"#;
    assert!(MirroredParams::read(&raw(innocent)).unwrap().is_empty());
}

#[test]
fn httpm_03_the_name_in_the_header_is_the_one_that_a_server_reads() {
    // Of members that stand twice parsers take the last; a header that says otherwise leads past what is checked there.
    let params = r#"{"name":"harmless","name":"other","arguments":{}}"#;
    let fields = modern_fields(
        &ProtocolVersion::NEWEST_MODERN,
        "tools/call",
        params,
        &ToolHeaders::default(),
        &BTreeMap::new(),
    );
    let fields = fields.unwrap();
    let name = fields.iter().find(|field| field.name == "Mcp-Name");
    assert_eq!(name.map(|field| field.value.as_str()), Some("other"));
}
