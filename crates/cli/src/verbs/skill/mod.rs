//! `ringfence skill …`: one file a verb.

mod add;
pub(crate) mod build;
mod cat;
mod deps;
mod grant;
mod history;
mod layers;
mod lint;
mod list;
mod lock;
mod new;
mod outdated;
mod pack;
mod progress;
mod prompt;
mod properties;
mod publish;
mod remove;
mod rollback;
pub(crate) mod run;
mod search;
mod show;
mod update;
mod validate;
mod verify;

use ringfence_service::skills::Unreadable;

use crate::args::{LintFormat, SkillArgs, SkillLibraryVerb, SkillVerb};
use crate::failure::Failure;
use crate::output;

/// Another user's folder stops nobody, and nobody overlooks that it is there.
fn warn_of_unreadable(unreadable: &[Unreadable]) {
    for one in unreadable {
        output::warning(&format!("in the library: {one} (left out)"));
    }
}

pub(crate) fn skill(args: SkillArgs) -> Result<i32, Failure> {
    match args.verb {
        SkillVerb::Run(args) => run::run(*args),
        SkillVerb::Deps(args) => deps::deps(args),
        SkillVerb::Layers(verb) => layers::layers(verb),
        SkillVerb::Grant(args) => grant::grant(args),
        SkillVerb::Revoke(args) => grant::revoke(args),
        SkillVerb::Grants(args) => grant::grants(args),
        SkillVerb::Library(verb) => library(verb),
        SkillVerb::BuildLayer => build::build_layer_here(),
    }
}

fn library(verb: SkillLibraryVerb) -> Result<i32, Failure> {
    use SkillLibraryVerb as V;
    match verb {
        V::Add(args) => with_json(args.flags.json, || add::add(args)),
        V::List(args) => with_json(args.flags.json, || list::list(args)),
        V::Search(args) => with_json(args.flags.json, || search::search(args)),
        V::Show(args) => with_json(args.flags.json, || show::show(args)),
        V::Cat(args) => cat::cat(args),
        V::Properties(args) => with_json(true, || properties::properties(args)),
        V::Prompt(args) => with_json(args.flags.json, || prompt::prompt(args)),
        V::Validate(args) => with_json(args.flags.json, || validate::validate(args)),
        V::Lint(args) => with_json(args.flags.json || args.format != LintFormat::Table, || lint::lint(args)),
        V::Pack(args) => with_json(args.flags.json, || pack::pack(args)),
        V::New(args) => with_json(args.json, || new::new(args)),
        V::Publish(args) => with_json(args.flags.json, || publish::publish(args)),
        V::History(args) => with_json(args.flags.json, || history::history(args)),
        V::Rollback(args) => with_json(args.flags.json, || rollback::rollback(args)),
        V::Remove(args) => with_json(args.flags.json, || remove::remove(args)),
        V::Lock(args) => with_json(args.flags.json, || lock::lock(args)),
        V::Outdated(args) => with_json(args.flags.json, || outdated::outdated(args)),
        V::Update(args) => with_json(args.flags.json, || update::update(args)),
        V::Verify(args) => with_json(args.flags.json, || verify::verify(args)),
    }
}

fn with_json(json: bool, verb: impl FnOnce() -> Result<i32, Failure>) -> Result<i32, Failure> {
    verb().map_err(|failure| failure.with_json(json))
}
