//! `ringfence skill …`: one file a verb.

mod build;
mod deps;
mod grant;
mod layers;
pub(crate) mod run;

use crate::args::{SkillArgs, SkillVerb};
use crate::failure::Failure;

pub(crate) fn skill(args: SkillArgs) -> Result<i32, Failure> {
    match args.verb {
        SkillVerb::Run(args) => run::run(*args),
        SkillVerb::Deps(args) => deps::deps(args),
        SkillVerb::Layers(verb) => layers::layers(verb),
        SkillVerb::Grant(args) => grant::grant(args),
        SkillVerb::Revoke(args) => grant::revoke(args),
        SkillVerb::Grants(args) => grant::grants(args),
        SkillVerb::BuildLayer => build::build_layer_here(),
    }
}
