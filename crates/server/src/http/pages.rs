//! Lists by the page: each has rows in a fixed order, and `next` to go on after the last of them.

use super::bounds::PageLimit;
use crate::error::{Answer, ApiError};

pub(crate) const MOST: u32 = 1000;
const USUAL: u32 = 100;

/// How many rows a page has.
pub(crate) fn page_size(limit: Option<PageLimit>) -> u32 {
    limit.map_or(USUAL, |limit| limit.get() as u32)
}

/// The rows after `after`, in the order of their cursors, and where to go on.
pub(crate) fn page<T>(
    mut rows: Vec<T>,
    after: Option<&str>,
    limit: Option<PageLimit>,
    cursor: impl Fn(&T) -> String,
) -> Answer<(Vec<T>, Option<String>)> {
    const LONGEST: usize = 512;
    if after.is_some_and(|after| after.len() > LONGEST) {
        return Err(ApiError::bad("that is no cursor", "give `next` of the page before as `after`"));
    }
    rows.sort_by_cached_key(&cursor);
    if let Some(after) = after {
        rows.retain(|row| cursor(row).as_str() > after);
    }
    let size = page_size(limit) as usize;
    let more = rows.len() > size;
    rows.truncate(size);
    let next = rows.last().filter(|_| more).map(cursor);
    Ok((rows, next))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_on_one_page() {
        let all: Vec<String> = (0..10).map(|number| format!("{number}")).collect();
        let (mut seen, mut after) = (Vec::new(), None);
        let three = serde_json::from_str("3").ok();
        loop {
            let (rows, next) = page(all.clone(), after.as_deref(), three, Clone::clone).unwrap();
            seen.extend(rows);
            match next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        assert_eq!(seen, all);
        assert!(page(all, Some(&"x".repeat(1000)), None, Clone::clone).is_err());
    }
}
