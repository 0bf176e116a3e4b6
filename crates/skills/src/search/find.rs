//! Asking the index: exact names first, then names that begin so, then text by rank, then what is nearly it.

use std::collections::BTreeMap;

use rusqlite::{OptionalExtension, params};
use serde::Serialize;

use super::index::{SearchError, SearchIndex};
use super::query::{Ends, Query, Term, join};
use super::snippet::{BEGIN, END, LENGTH, Snippet};
use super::words::{SEPARATOR, distance, fold, is_unspaced, letters, tolerance};

/// A word that fewer skills have may be a mistake.
const RARE: usize = 2;
const MOST_NEAR: usize = 6;
const MOST_HITS: usize = 1000;
const COUNTED: usize = 500;
const MANY: usize = 50;
const MOST_TELLING: usize = 4;
/// With the weight of each column: a word in the name says most, one in the body least.
const TABLES: [(&str, &str, Ends); 3] = [
    ("names", "10.0, 5.0", Ends::Open),
    ("heads", "10.0, 5.0, 4.0", Ends::Open),
    ("texts", "10.0, 5.0, 4.0, 1.0", Ends::Whole),
];

/// Why a skill was found; the better come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Matched {
    /// It has that name.
    Name,
    /// Its name begins so.
    NameBegins,
    /// It has all the words.
    Words,
    /// It has all the words, some spelt a little differently.
    Near,
    /// It has some of the words.
    SomeWords,
    /// Its name has that in it.
    NamePart,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Hit {
    pub key: String,
    pub name: String,
    pub description: String,
    pub matched: Matched,
    pub snippet: Snippet,
}

impl SearchIndex {
    /// At most so many skills, best first.
    pub fn search(&mut self, text: &str, most: usize) -> Result<Vec<Hit>, SearchError> {
        match self.search_now(text, most.min(MOST_HITS)) {
            Err(error) if error.is_damage() => {
                self.make_anew()?;
                Err(SearchError::Damaged)
            }
            other => other,
        }
    }

    fn search_now(&self, text: &str, most: usize) -> Result<Vec<Hit>, SearchError> {
        let mut query = Query::parse(text);
        if query.terms.is_empty() || most == 0 {
            return Ok(Vec::new());
        }
        // One state of the index for all the questions: others write to it.
        let _state = self.connection.unchecked_transaction()?;
        let mut found = Found { most, ids: Vec::new() };
        found.add(Matched::Name, self.names("folded = ?1 ORDER BY key", &query.name, most)?);
        let begins = "folded >= ?1 AND folded < ?1 || char(1114111) ORDER BY length(folded), folded, key";
        found.add(Matched::NameBegins, self.names(begins, &query.name, 2 * most)?);
        for term in &mut query.terms {
            term.is_nowhere = self.frequency("texts", term, 1)? == 0;
            // A word that many have is meant as it is.
            term.is_last &= self.frequency("heads", term, MANY)? < MANY;
        }
        self.add_ranked(&mut found, Matched::Words, &TABLES, |ends| query.all(ends))?;
        if !found.is_full() && self.spell(&mut query)? {
            self.add_ranked(&mut found, Matched::Near, &TABLES, |ends| query.all(ends))?;
        }
        if !found.is_full() && query.terms.len() > 1 {
            let telling = self.telling(&query)?;
            self.add_ranked(&mut found, Matched::SomeWords, &TABLES[1..], |ends| {
                join(telling.clone(), " OR ", ends)
            })?;
        }
        if !found.is_full() && query.name.chars().count() > 2 {
            found.add(
                Matched::NamePart,
                self.names("instr(folded, ?1) > 0 ORDER BY length(folded), key", &query.name, 2 * most)?,
            );
        }
        let marked = [query.any(Ends::Whole), query.any(Ends::Open)];
        found.ids.into_iter().map(|(id, matched)| self.hit(id, matched, &marked)).collect()
    }

    fn names(&self, condition: &str, name: &str, most: usize) -> Result<Vec<i64>, SearchError> {
        let mut statement =
            self.connection.prepare_cached(&format!("SELECT id FROM skill WHERE {condition} LIMIT ?2"))?;
        let rows = statement.query_map(params![name, most as i64], |row| row.get(0))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// From the table with least in it to that with most, until there are enough.
    fn add_ranked(
        &self,
        found: &mut Found,
        matched: Matched,
        tables: &[(&str, &str, Ends)],
        expression: impl Fn(Ends) -> String,
    ) -> Result<(), SearchError> {
        for (table, weights, ends) in tables {
            if found.is_full() {
                break;
            }
            let mut statement = self.connection.prepare_cached(&format!(
                "SELECT rowid FROM {table} WHERE {table} MATCH ?1 AND rank MATCH 'bm25({weights})' ORDER BY rank LIMIT ?2"
            ))?;
            let rows =
                statement.query_map(params![expression(*ends), 2 * found.most as i64], |row| row.get(0))?;
            found.add(matched, rows.collect::<Result<_, _>>()?);
        }
        Ok(())
    }

    /// How many skills have a word, counted up to `most`.
    fn frequency(&self, table: &str, term: &Term, most: usize) -> Result<usize, SearchError> {
        let mut statement = self.connection.prepare_cached(&format!(
            "SELECT count(*) FROM (SELECT 1 FROM {table} WHERE {table} MATCH ?1 LIMIT ?2)"
        ))?;
        let count: i64 =
            statement.query_row(params![term.expression(Ends::Whole), most as i64], |row| row.get(0))?;
        Ok(count as usize)
    }

    /// Any of the words that tell most: of a sentence, the rare ones. The others are in many skills, and mean little.
    fn telling<'a>(&self, query: &'a Query) -> Result<Vec<&'a Term>, SearchError> {
        let mut counted = Vec::new();
        for term in &query.terms {
            counted.push((self.frequency("heads", term, COUNTED)?, term));
        }
        counted.sort_by_key(|(count, _)| if *count == 0 { usize::MAX } else { *count });
        Ok(counted.into_iter().map(|(_, term)| term).take(MOST_TELLING).collect())
    }

    /// Add words that are nearly those of the query, where the query's are rare. Were there any?
    fn spell(&self, query: &mut Query) -> Result<bool, SearchError> {
        let mut any = false;
        for term in &mut query.terms {
            if !term.text.contains(is_unspaced) && self.frequency("texts", term, RARE + 1)? <= RARE {
                term.near = self.near(&fold(&term.text))?;
                any |= !term.near.is_empty();
            }
        }
        Ok(any)
    }

    fn near(&self, word: &str) -> Result<Vec<String>, SearchError> {
        let wanted: Vec<char> = word.chars().collect();
        let most = tolerance(wanted.len());
        if most == 0 {
            return Ok(Vec::new());
        }
        let mask = letters(word);
        let mut found: BTreeMap<(usize, String), ()> = BTreeMap::new();
        let mut statement = self
            .connection
            .prepare_cached("SELECT word, letters FROM word WHERE length BETWEEN ?1 AND ?2")?;
        let mut rows = statement
            .query(params![wanted.len().saturating_sub(most) as i64, (wanted.len() + most) as i64])?;
        while let Some(row) = rows.next()? {
            if (row.get::<_, u32>(1)? ^ mask).count_ones() as usize > 2 * most {
                continue;
            }
            let candidate = row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?;
            let characters: Vec<char> = candidate.chars().collect();
            match distance(&wanted, &characters, most) {
                Some(distance) if distance > 0 => {
                    found.insert((distance, candidate.to_owned()), ());
                    if found.len() > MOST_NEAR {
                        found.pop_last();
                    }
                }
                _ => {}
            }
        }
        Ok(found.into_keys().map(|(_, word)| word).collect())
    }

    fn hit(&self, id: i64, matched: Matched, expressions: &[String]) -> Result<Hit, SearchError> {
        let mut statement =
            self.connection.prepare_cached("SELECT key, name, description FROM skill WHERE id = ?1")?;
        let (key, name, description): (String, String, String) =
            statement.query_row([id], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        let mut statement = self.connection.prepare_cached(
            "SELECT snippet(texts, 3, ?3, ?4, '…', ?5), snippet(texts, 2, ?3, ?4, '…', ?5) FROM texts WHERE texts MATCH ?1 AND rowid = ?2",
        )?;
        let mut marked: Option<(String, String)> = None;
        // Beginnings of words only where there is no whole one.
        for expression in expressions {
            if marked.is_none() {
                let marks = params![expression, id, BEGIN.to_string(), END.to_string(), LENGTH];
                marked = statement.query_row(marks, |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
            }
        }
        let snippet = match marked {
            Some((body, _)) if body.contains(BEGIN) => Snippet::of_marked(&body),
            Some((_, description)) => Snippet::of_marked(&description),
            None => Snippet::of_beginning(&description),
        };
        let plain = |text: String| text.replace(SEPARATOR, "");
        Ok(Hit { key, name: plain(name), description: plain(description), matched, snippet })
    }
}

struct Found {
    most: usize,
    ids: Vec<(i64, Matched)>,
}

impl Found {
    fn add(&mut self, matched: Matched, ids: Vec<i64>) {
        for id in ids {
            if !self.is_full() && self.ids.iter().all(|(there, _)| *there != id) {
                self.ids.push((id, matched));
            }
        }
    }

    fn is_full(&self) -> bool {
        self.ids.len() >= self.most
    }
}
