//! Skills of the library by name, for whoever may know of them. What is not seen is not there, and a path is no name.

use std::fmt;

use ringfence_service::Places;
use ringfence_service::skills::{has_shared_skill, shared_domains};

use crate::error::{Answer, ApiError};

/// A skill of the library.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SkillName {
    pub(crate) domain: String,
    pub(crate) name: String,
}

impl fmt::Display for SkillName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.domain, self.name)
    }
}

/// By `domain/name` or, where one alone of those that are seen has it, by name. Reads the library: not for a thread that serves
/// others.
pub(crate) fn find_skill(places: &Places, sees: impl Fn(&str) -> bool, given: &str) -> Answer<SkillName> {
    let missing = || ApiError::not_found("skill", given);
    if let Some((domain, name)) = given.split_once('/') {
        let there = sees(domain) && has_shared_skill(places, domain, name)?;
        let skill = SkillName { domain: domain.to_owned(), name: name.to_owned() };
        return if there { Ok(skill) } else { Err(missing()) };
    }
    let mut found = Vec::new();
    for domain in shared_domains(places)? {
        if sees(&domain) && has_shared_skill(places, &domain, given)? {
            found.push(SkillName { domain, name: given.to_owned() });
        }
    }
    match found.len() {
        0 => Err(missing()),
        1 => Ok(found.remove(0)),
        _ => {
            let all: Vec<String> = found.iter().map(SkillName::to_string).collect();
            Err(ApiError::bad(
                format!("several skills have the name `{given}`: {}", all.join(", ")),
                "name one of them whole",
            ))
        }
    }
}
