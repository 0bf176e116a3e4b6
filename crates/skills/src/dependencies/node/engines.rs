//! `engines.node`: ranges as npm has them, for versions of Node.

type Version = [u64; 3];

/// From the first, up to and without the second.
type Span = (Version, Option<Version>);

const LOWEST: Version = [0; 3];

/// Does the range admit this version? `None`: it is no range that can be read.
pub fn node_admits(range: &str, version: &str) -> Option<bool> {
    let (version, _) = parse(version)?;
    let sets = range.split("||").map(spans).collect::<Option<Vec<_>>>()?;
    let within = |(from, to): &Span| version >= *from && to.is_none_or(|to| version < to);
    Some(sets.iter().any(|set| set.iter().all(within)))
}

/// All of which must hold.
fn spans(set: &str) -> Option<Vec<Span>> {
    if let Some((from, to)) = set.split_once(" - ") {
        return Some(vec![span(">=", from.trim())?, span("<=", to.trim())?]);
    }
    let mut spans = Vec::new();
    let mut operator = "";
    for word in set.split_whitespace() {
        let end = word.find(|letter: char| !"<>=^~".contains(letter)).unwrap_or(word.len());
        let (sign, rest) = word.split_at(end);
        if !sign.is_empty() {
            operator = sign;
        }
        // A blank may stand between an operator and its version.
        if !rest.is_empty() {
            spans.push(span(operator, rest)?);
            operator = "";
        }
    }
    operator.is_empty().then_some(spans)
}

fn span(operator: &str, text: &str) -> Option<Span> {
    let (from, given) = parse(text)?;
    let next = after(from, given);
    Some(match operator {
        "" | "=" => (from, next),
        ">=" => (from, None),
        "<" => (LOWEST, Some(from)),
        "<=" => (LOWEST, next),
        // Beyond all that the text stands for; nothing is beyond `*`.
        ">" => (next?, None),
        "~" | "~>" => (from, after(from, given.min(2))),
        "^" => {
            let first =
                from.iter().take(given).position(|number| *number > 0).unwrap_or(given.saturating_sub(1));
            (from, after(from, given.min(first + 1)))
        }
        _ => return None,
    })
}

/// The first version that is not one of those that `given` numbers stand for.
fn after(version: Version, given: usize) -> Option<Version> {
    let mut next = LOWEST;
    let last = given.checked_sub(1)?;
    next[..given].copy_from_slice(&version[..given]);
    next[last] = next[last].saturating_add(1);
    Some(next)
}

/// `v18`, `18.x`, `18.2.1-rc.1`: the numbers, and how many of them are given.
fn parse(text: &str) -> Option<(Version, usize)> {
    let text = text.trim().trim_start_matches(['v', 'V']);
    let plain = text.split(['-', '+']).next().unwrap_or(text);
    let mut version = LOWEST;
    let is_any = |part: &str| matches!(part, "x" | "X" | "*");
    let parts: Vec<&str> = plain.split('.').collect();
    let given = parts.iter().position(|part| is_any(part)).unwrap_or(parts.len());
    // Behind one that stands for all, only such ones make sense.
    if parts.len() > version.len() || !parts[given..].iter().all(|part| is_any(part)) {
        return None;
    }
    for (number, part) in version.iter_mut().zip(&parts[..given]) {
        *number = part.parse().ok()?;
    }
    Some((version, given))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_as_people_write_them() {
        for (range, inside, outside) in [
            ("*", &["0.1.0", "24.0.0"][..], &[][..]),
            (">=18", &["18.0.0", "24.1.0"], &["17.9.9"]),
            (">= 18.17 < 21", &["18.17.0", "20.20.2"], &["18.16.9", "21.0.0"]),
            ("^20.1.0", &["20.1.0", "20.20.2"], &["20.0.9", "21.0.0"]),
            ("~20.1", &["20.1.9"], &["20.2.0"]),
            ("18 || 20.x || >=22.6.0", &["18.1.0", "20.0.0", "22.6.0"], &["19.0.0", "22.5.9"]),
            ("18 - 20", &["18.0.0", "20.99.0"], &["21.0.0"]),
            (">18", &["19.0.0"], &["18.9.9"]),
            ("<=20", &["20.9.9"], &["21.0.0"]),
            ("v20.1.2", &["20.1.2"], &["20.1.3"]),
            ("^0.10", &["0.10.5"], &["0.11.0"]),
            (">=20.0.0-rc.1", &["20.0.0"], &["19.0.0"]),
        ] {
            for version in inside {
                assert_eq!(node_admits(range, version), Some(true), "{range} {version}");
            }
            for version in outside {
                assert_eq!(node_admits(range, version), Some(false), "{range} {version}");
            }
        }
    }

    #[test]
    fn what_is_no_range_is_not_guessed() {
        let more_parts = ["1.2.3.4", "20.x.x.x", "20.x.y.z", "20.x.1"];
        let others = ["latest", "lts/*", ">=", "=>18", "\u{661}8", "999999999999999999999"];
        for range in more_parts.into_iter().chain(others) {
            assert_eq!(node_admits(range, "20.0.0"), None, "{range}");
        }
        assert_eq!(node_admits("20", "none"), None);
    }
}
