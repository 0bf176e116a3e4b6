//! What all lists have in common, and reading the columns that are words or JSON.

use std::str::FromStr;

use serde_json::Value;
use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use crate::UnknownWord;

/// More than this is asked for in several pages, whatever the caller says.
const LARGEST_PAGE: u32 = 1000;

pub(crate) fn page_size(limit: u32) -> i64 {
    i64::from(limit.clamp(1, LARGEST_PAGE))
}

fn undecodable(column: &str, why: impl std::error::Error + Send + Sync + 'static) -> sqlx::Error {
    sqlx::Error::ColumnDecode { index: column.to_owned(), source: Box::new(why) }
}

pub(crate) fn word<T: FromStr<Err = UnknownWord>>(row: &SqliteRow, column: &str) -> Result<T, sqlx::Error> {
    row.try_get::<String, _>(column)?.parse().map_err(|error| undecodable(column, error))
}

pub(crate) fn optional_word<T: FromStr<Err = UnknownWord>>(
    row: &SqliteRow,
    column: &str,
) -> Result<Option<T>, sqlx::Error> {
    let text: Option<String> = row.try_get(column)?;
    text.map(|text| text.parse().map_err(|error| undecodable(column, error))).transpose()
}

pub(crate) fn json(row: &SqliteRow, column: &str) -> Result<Value, sqlx::Error> {
    serde_json::from_str(&row.try_get::<String, _>(column)?).map_err(|error| undecodable(column, error))
}

pub(crate) fn optional_json(row: &SqliteRow, column: &str) -> Result<Option<Value>, sqlx::Error> {
    let text: Option<String> = row.try_get(column)?;
    text.map(|text| serde_json::from_str(&text).map_err(|error| undecodable(column, error))).transpose()
}
