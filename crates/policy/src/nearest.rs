//! The nearest known name to a misspelt one, for messages.

/// The known name that `name` was most likely meant to be, if any is near enough to be worth saying.
pub(crate) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A very long name is no typo, and the distance costs its length squared.
    if name.len() > 64 {
        return None;
    }
    let lower = name.to_lowercase();
    let allowed = (lower.chars().count() / 3).max(1);
    known
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&lower, candidate), candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn finds_typos_and_nothing_else() {
        let known = ["read", "write", "hide", "wall_time"];
        assert_eq!(nearest("raed", known), Some("read"));
        assert_eq!(nearest("Write", known), Some("write"));
        assert_eq!(nearest("walltime", known), Some("wall_time"));
        assert_eq!(nearest("network", known), None);
        assert_eq!(nearest(&"r".repeat(10_000), known), None);
    }
}
