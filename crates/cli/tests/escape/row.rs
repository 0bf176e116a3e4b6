//! A row of the table, and how a topic's rows are run: all of them, then one report of what failed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use ringfence_testing::{Identity, Leftovers};

/// How one side of a row went: how it was shown, or why this machine can't show it (not root, no such device).
pub(crate) enum Shown {
    Yes(String),
    Skipped(String),
}

pub(crate) type Side = Rc<dyn Fn(Identity) -> Result<Shown, String>>;

#[derive(Clone)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) what: String,
    /// The sandbox stops the attempt.
    pub(crate) held: Side,
    /// The attempt works where the sandbox isn't.
    pub(crate) twin: Side,
}

/// A row whose two sides are written out, for attempts that need the host to act meanwhile.
pub(crate) fn drill(
    name: &str,
    what: &str,
    held: impl Fn(Identity) -> Result<(), String> + 'static,
    twin: impl Fn(Identity) -> Result<(), String> + 'static,
) -> Row {
    Row {
        name: name.to_owned(),
        what: what.to_owned(),
        held: Rc::new(move |identity| held(identity).map(|()| Shown::Yes("as it must".into()))),
        twin: Rc::new(move |identity| twin(identity).map(|()| Shown::Yes("as it must".into()))),
    }
}

impl Row {
    /// Not a boundary where `applies`, and named so, by the row's name, in SECURITY.md. The attempt must work there: if it
    /// is held one day, both have to change.
    pub(crate) fn not_a_boundary(self, applies: impl Fn(Identity) -> bool + 'static) -> Self {
        let (name, held) = (self.name.clone(), self.held.clone());
        let side = move |identity| {
            if !applies(identity) {
                return held(identity);
            }
            if !include_str!("../../../../SECURITY.md").contains(&format!("`{name}`")) {
                return Err("SECURITY.md does not name this gap".to_owned());
            }
            match held(identity) {
                Err(_) => Ok(Shown::Skipped("not a boundary here, see SECURITY.md".into())),
                Ok(_) => Err("it is held: take it out of SECURITY.md and of the gaps".to_owned()),
            }
        };
        Self { held: Rc::new(side), ..self }
    }
}

/// Run every row as `identity` and fail with a table of those that did not go as they must.
pub(crate) fn check(topic: &str, rows: Vec<Row>, identity: Identity) {
    if !identity.is_available() {
        return;
    }
    let before = Leftovers::before().without_fds();
    let only = std::env::var("RINGFENCE_ESCAPE_ROW").ok();
    let (mut held, mut twins, mut skipped, mut failures) = (0, 0, Vec::new(), Vec::new());
    for row in rows.iter().filter(|row| only.as_ref().is_none_or(|name| row.name.contains(name))) {
        match run_side(&row.held, identity) {
            Ok(Shown::Yes(how)) => {
                for left in before.since() {
                    failures.push(format!("LEFT BEHIND  {left}"));
                }
                println!("held  {}: {how}", row.name);
                held += 1;
            }
            Ok(Shown::Skipped(why)) => skipped.push(format!("{}: {why}", row.name)),
            Err(why) => failures.push(format!("NOT HELD  {}: {}\n    {}", row.name, row.what, indent(&why))),
        }
        match run_side(&row.twin, identity) {
            Ok(Shown::Yes(how)) => {
                println!("twin  {}: {how}", row.name);
                twins += 1;
            }
            Ok(Shown::Skipped(why)) => skipped.push(format!("twin of {}: {why}", row.name)),
            Err(why) => failures.push(format!("NO TWIN   {}: {}\n    {}", row.name, row.what, indent(&why))),
        }
    }
    println!(
        "{topic} as {identity:?}: {held} attempts held, {twins} twins worked, {} skipped",
        skipped.len()
    );
    for line in &skipped {
        println!("skipped {line}");
    }
    assert!(
        failures.is_empty(),
        "{topic} as {identity:?}: {} of {} rows failed\n\n{}\n",
        failures.len(),
        rows.len(),
        failures.join("\n\n")
    );
}

fn run_side(side: &Side, identity: Identity) -> Result<Shown, String> {
    catch_unwind(AssertUnwindSafe(|| side(identity))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        Err(text.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned())).unwrap_or_default())
    })
}

fn indent(text: &str) -> String {
    text.trim_end().replace('\n', "\n    ")
}
