//! Enums that are words: the same word in the database, in JSON and on a terminal.

/// A word that is none of those that are known, such as a role `root`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{word:?} is not a {what}: one of {known}")]
pub struct UnknownWord {
    pub what: &'static str,
    pub word: String,
    pub known: String,
}

macro_rules! words {
    ($(#[$meta:meta])* pub enum $name:ident ($what:literal) { $($(#[$doc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
        pub enum $name { $($(#[$doc])* #[serde(rename = $word)] $variant),+ }

        impl $name {
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.pad(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::words::UnknownWord;

            fn from_str(word: &str) -> Result<Self, Self::Err> {
                match word {
                    $($word => Ok(Self::$variant),)+
                    _ => Err($crate::words::UnknownWord {
                        what: $what,
                        word: word.to_owned(),
                        known: [$($word),+].join(", "),
                    }),
                }
            }
        }
    };
}
pub(crate) use words;
