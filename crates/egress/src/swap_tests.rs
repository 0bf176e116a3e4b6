use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use proptest::prelude::*;

use super::*;

const VALUE: &str = "ghp_T0ken/with+odd=chars";
const STAND_IN: &str = "ringfence-placeholder-4f1d";

fn secret(body: bool) -> Secret {
    Secret { placeholder: STAND_IN.into(), value: VALUE.into(), rule: 0, body }
}

fn swap(body: bool) -> Swap {
    Swap::new(&[&secret(body)], &[&secret(body)])
}

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    pairs.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
}

#[test]
fn headers_are_filled_in_plain_and_inside_basic() {
    let basic = |password: &str| format!("Basic {}", STANDARD.encode(format!("user:{password}")));
    let mut map = headers(&[
        ("authorization", &format!("Bearer {STAND_IN}")),
        ("proxy-authorization", &basic(STAND_IN)),
        ("x-encoded", &basic(STAND_IN)),
        ("x-two", &format!("{STAND_IN},{STAND_IN}")),
        ("accept", "text/html"),
    ]);
    map.append("authorization", basic(STAND_IN).parse().unwrap());
    swap(false).fill_headers(&mut map);
    let all: Vec<&HeaderValue> = map.get_all("authorization").iter().collect();
    assert_eq!(all, [&format!("Bearer {VALUE}"), &basic(VALUE)]);
    assert!(all.iter().all(|value| value.is_sensitive()));
    assert_eq!(map["proxy-authorization"], basic(VALUE));
    assert_eq!(map["x-encoded"], basic(STAND_IN), "only credentials are decoded");
    assert_eq!(map["x-two"], format!("{VALUE},{VALUE}"));
    assert!(!map["accept"].is_sensitive());
}

#[test]
fn answers_are_masked_in_values_and_names() {
    let encoded = STANDARD.encode(format!("user:{VALUE}"));
    let mut map = headers(&[
        ("location", "/?token=ghp_T0ken%2Fwith%2Bodd%3Dchars&x=1"),
        ("x-echo", &format!("Basic {encoded}")),
        ("x-plain", &format!("<{VALUE}>")),
        ("x-none", "nothing"),
    ]);
    swap(false).mask_headers(&mut map);
    assert_eq!(map["location"], format!("/?token={STAND_IN}&x=1"));
    assert_eq!(map["x-plain"], format!("<{STAND_IN}>"));
    assert_eq!(map["x-none"], "nothing");
    assert!(map["x-echo"].to_str().unwrap().contains(STAND_IN), "{:?}", map["x-echo"]);

    let named = Secret { placeholder: STAND_IN.into(), value: "NameableValue".into(), rule: 0, body: false };
    let mut map = headers(&[("x-nameablevalue-x", "1"), ("x-other", "2")]);
    Swap::new(&[], &[&named]).mask_headers(&mut map);
    assert_eq!(map.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["x-other"]);
}

#[test]
fn bodies_are_filled_only_for_secrets_that_say_so() {
    assert!(swap(false).fill_body(Writing::Plain).is_none());
    let fill = |writing| {
        let mut stream = swap(true).fill_body(writing).unwrap();
        [stream.push(Bytes::from(format!("a={STAND_IN}"))), stream.finish()].concat()
    };
    assert_eq!(fill(Writing::Plain), format!("a={VALUE}").as_bytes());
    assert_eq!(fill(Writing::Form), b"a=ghp_T0ken%2Fwith%2Bodd%3Dchars");
    let mixed = [&secret(false), &Secret { placeholder: "other-stand-in".into(), ..secret(true) }];
    let mixed = Swap::new(&mixed, &mixed);
    let mut stream = mixed.fill_body(Writing::Plain).unwrap();
    let out = [stream.push(Bytes::from(format!("{STAND_IN} other-stand-in"))), stream.finish()].concat();
    assert_eq!(out, format!("{STAND_IN} {VALUE}").as_bytes());
}

fn form() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(VALUE.to_owned()),
        "[a-z]{0,4}:".prop_map(|user| STANDARD.encode(format!("{user}{VALUE}"))),
        Just("ghp_T0ken%2Fwith%2Bodd%3Dchars".to_owned()),
        Just(r"ghp_T0ken\/with+odd=chars".to_owned()),
        // What looks like it and is not.
        "gh[p_T0k]{0,6}",
        "[a-z ]{0,9}",
    ]
}

proptest! {
    #[test]
    fn no_form_of_the_value_gets_through_wherever_chunks_end(
        parts in prop::collection::vec(form(), 0..6),
        cuts in prop::collection::vec(0usize..200, 0..20),
    ) {
        let text = parts.concat().into_bytes();
        let mut cuts: Vec<usize> = cuts.into_iter().filter(|cut| *cut <= text.len()).chain([0, text.len()]).collect();
        cuts.sort_unstable();
        let swap = swap(true);
        let (mut masked, mut covered) = (swap.mask_body(), swap.cover());
        let (mut out, mut same_length) = (Vec::new(), Vec::new());
        for pair in cuts.windows(2) {
            let chunk = Bytes::copy_from_slice(&text[pair[0]..pair[1]]);
            out.extend_from_slice(&masked.push(chunk.clone()));
            same_length.extend_from_slice(&covered.push(chunk));
        }
        out.extend_from_slice(&masked.finish());
        same_length.extend_from_slice(&covered.finish());
        prop_assert_eq!(same_length.len(), text.len());
        for form in forms::echoes(VALUE) {
            for result in [&out, &same_length] {
                prop_assert!(!result.windows(form.len()).any(|part| part == form));
            }
        }
        let expected = swap.echoes.replace(&text).unwrap_or(text);
        prop_assert_eq!(out, expected);
    }
}
