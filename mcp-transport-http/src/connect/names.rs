//! Names in certificates, for errors only: what is found here decides about nothing.

use super::failure::shorten;

/// Longer names are cut.
const MAX_NAME: usize = 100;

/// What a certificate says about who made it.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct Issuer {
    /// As people write it: `CN=Example CA, O=Example`.
    pub(super) name: String,
    /// Whether the certificate names itself.
    pub(super) is_itself: bool,
}

/// Finds the issuer in a certificate in DER.
pub(super) fn issuer(certificate: &[u8]) -> Option<Issuer> {
    let (certificate, _) = expect(certificate, SEQUENCE)?;
    let (mut rest, _) = expect(certificate, SEQUENCE)?;
    // The version is left out in the first version of the format.
    if let Some((_, after)) = expect(rest, VERSION) {
        rest = after;
    }
    let (_serial, rest) = expect(rest, INTEGER)?;
    let (_algorithm, rest) = expect(rest, SEQUENCE)?;
    let (issuer, rest) = expect(rest, SEQUENCE)?;
    let (_validity, rest) = expect(rest, SEQUENCE)?;
    let (subject, _) = expect(rest, SEQUENCE)?;
    Some(Issuer {
        name: name(issuer)?,
        is_itself: issuer == subject,
    })
}

const INTEGER: u8 = 0x02;
const OBJECT_IDENTIFIER: u8 = 0x06;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const VERSION: u8 = 0xa0;
const BMP_STRING: u8 = 0x1e;

/// The parts of names that tell people something, first what tells most.
const PARTS: [(&[u8], &str); 3] = [
    (&[0x55, 0x04, 0x03], "CN"),
    (&[0x55, 0x04, 0x0b], "OU"),
    (&[0x55, 0x04, 0x0a], "O"),
];

/// Writes the parts of a name that tell people something.
fn name(mut parts: &[u8]) -> Option<String> {
    let mut found = Vec::new();
    while let Some((mut set, rest)) = expect(parts, SET) {
        parts = rest;
        while let Some((part, rest)) = expect(set, SEQUENCE) {
            set = rest;
            let (kind, value) = expect(part, OBJECT_IDENTIFIER)?;
            let (tag, value, _) = element(value)?;
            let mut known = PARTS.iter().enumerate();
            if let Some((rank, (_, label))) = known.find(|(_, (part, _))| *part == kind) {
                let value = shorten(&text(tag, value), MAX_NAME);
                found.push((rank, format!("{label}={value}")));
            }
        }
    }
    found.sort_by_key(|(rank, _)| *rank);
    found.truncate(4);
    let found: Vec<String> = found.into_iter().map(|(_, part)| part).collect();
    (!found.is_empty()).then(|| found.join(", "))
}

fn text(tag: u8, value: &[u8]) -> String {
    if tag == BMP_STRING {
        let units = value
            .as_chunks::<2>()
            .0
            .iter()
            .map(|unit| u16::from_be_bytes(*unit));
        char::decode_utf16(units)
            .map(|character| character.unwrap_or(char::REPLACEMENT_CHARACTER))
            .collect()
    } else {
        String::from_utf8_lossy(value).into_owned()
    }
}

/// The content of an element with this tag, and what follows it.
fn expect(input: &[u8], expected: u8) -> Option<(&[u8], &[u8])> {
    let (tag, content, rest) = element(input)?;
    (tag == expected).then_some((content, rest))
}

/// The tag of an element, its content, and what follows it.
fn element(input: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (tag, input) = input.split_first()?;
    let (first, mut input) = input.split_first()?;
    let mut length = usize::from(*first);
    if *first > 0x80 {
        let count = length - 0x80;
        let (digits, rest) = input.split_at_checked(count)?;
        if count > 3 {
            return None;
        }
        length = digits
            .iter()
            .fold(0, |length, digit| (length << 8) | usize::from(*digit));
        input = rest;
    }
    let (content, rest) = input.split_at_checked(length)?;
    Some((*tag, content, rest))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rcgen::{CertificateParams, DnType, DnValue, KeyPair};

    use super::*;

    fn self_signed(parts: &[(DnType, DnValue)]) -> Vec<u8> {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        for (kind, value) in parts {
            params.distinguished_name.push(kind.clone(), value.clone());
        }
        let key = KeyPair::generate().unwrap();
        params.self_signed(&key).unwrap().der().to_vec()
    }

    #[test]
    fn issuers_are_written_as_people_do() {
        let utf8 = |text: &str| DnValue::Utf8String(text.to_owned());
        let cases = [
            (
                vec![
                    (DnType::CountryName, utf8("XX")),
                    (DnType::OrganizationName, utf8("Beispiel GmbH")),
                    (DnType::CommonName, utf8("Prüf-CA")),
                ],
                Some("CN=Prüf-CA, O=Beispiel GmbH"),
            ),
            (
                vec![(
                    DnType::CommonName,
                    DnValue::BmpString("Prüf".try_into().unwrap()),
                )],
                Some("CN=Prüf"),
            ),
            (
                vec![(DnType::CommonName, utf8("a\u{1b}[31mb"))],
                Some("CN=a\u{fffd}[31mb"),
            ),
            (vec![(DnType::CountryName, utf8("XX"))], None),
            (vec![], None),
        ];
        for (parts, expected) in cases {
            let found = issuer(&self_signed(&parts));
            assert_eq!(found.as_ref().map(|issuer| issuer.name.as_str()), expected);
            assert!(found.is_none_or(|issuer| issuer.is_itself));
        }
    }

    #[test]
    fn a_certificate_that_is_cut_off_names_nobody() {
        let parts = [(DnType::CommonName, DnValue::Utf8String("CA".to_owned()))];
        let whole = self_signed(&parts);
        for length in 0..whole.len() {
            assert_eq!(issuer(&whole[..length]), None, "{length}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_can_be_read(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = issuer(&bytes);
            let _ = name(&bytes);
        }
    }
}
