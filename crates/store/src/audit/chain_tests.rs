use proptest::option;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn text() -> impl Strategy<Value = String> {
    // Short and from few letters, so that what is moved between fields often looks the same.
    prop_oneof!["[ab\u{0}\u{1}]{0,3}", "\\PC{0,12}"]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-8_i32..8).prop_map(|number| json!(f64::from(number) / 2.0)),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map(text(), inner, 0..3)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

prop_compose! {
    fn entry()(
        at in prop_oneof![any::<i64>(), 0_i64..3],
        (user, kind) in (text(), text()),
        (target, decision, request_id, origin) in
            (option::of(text()), option::of(text()), option::of(text()), option::of(text())),
        (policy_digest, receipt_digest) in (option::of(text()), option::of(text())),
        (denials, result) in (value(), value()),
    ) -> AuditEntry {
        AuditEntry {
            at, user, kind, target, decision, policy_digest, receipt_digest, denials, result, request_id, origin,
        }
    }
}

prop_compose! {
    fn row()(
        seq in 1_i64..4,
        previous in prop_oneof![Just(GENESIS.to_owned()), text()],
        entry in entry(),
        spool_id in option::of(text()),
    ) -> (i64, String, AuditEntry, Option<String>) {
        (seq, previous, entry, spool_id)
    }
}

fn stored(row: &(i64, String, AuditEntry, Option<String>)) -> StoredRow {
    StoredRow::new(row.0, row.1.clone(), &row.2, row.3.clone())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn different_rows_never_encode_alike(one in row(), other in row()) {
        prop_assert_eq!(one == other, stored(&one).encoded() == stored(&other).encoded());
    }

    /// The neighbours of a row: one field changed, or two that follow each other divided in another place.
    #[test]
    fn what_moves_from_field_to_field_is_seen(one in row(), cut in 0_usize..4, other in text()) {
        let encoded = stored(&one).encoded();
        let mut neighbours: Vec<(i64, String, AuditEntry, Option<String>)> = Vec::new();
        let mut change = |edit: &dyn Fn(&mut AuditEntry)| {
            let mut neighbour = one.clone();
            edit(&mut neighbour.2);
            neighbours.push(neighbour);
        };
        change(&|entry| {
            let both = format!("{}{}", entry.user, entry.kind);
            let at = both.char_indices().nth(cut).map_or(both.len(), |(at, _)| at);
            entry.user = both[..at].to_owned();
            entry.kind = both[at..].to_owned();
        });
        change(&|entry| std::mem::swap(&mut entry.target, &mut entry.decision));
        change(&|entry| std::mem::swap(&mut entry.policy_digest, &mut entry.receipt_digest));
        change(&|entry| std::mem::swap(&mut entry.denials, &mut entry.result));
        change(&|entry| entry.origin = entry.request_id.take());
        change(&|entry| entry.target = Some(other.clone()));
        change(&|entry| entry.decision = entry.decision.take().filter(|text| !text.is_empty()));
        change(&|entry| entry.at = entry.at.wrapping_add(1));
        for neighbour in neighbours {
            prop_assert_eq!(neighbour == one, stored(&neighbour).encoded() == encoded.clone());
        }
    }
}

/// Published: a row that was written must verify for ever.
#[test]
fn the_encoding_stays_as_it_is() {
    let entry = AuditEntry {
        at: 1_800_000_000_000,
        user: "ann".into(),
        kind: "run".into(),
        target: Some("make".into()),
        decision: None,
        policy_digest: None,
        receipt_digest: Some(String::new()),
        denials: json!([]),
        result: json!({"code": 0}),
        request_id: None,
        origin: Some("cli".into()),
    };
    let row = StoredRow::new(1, GENESIS.to_owned(), &entry, None);
    assert_eq!(row.digest, "d551d7eccfcc71dc7273bb64a6715fe3a5474ff1d164e1814cacd5780f7d470d");
}
