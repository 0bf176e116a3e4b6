//! A row of the table, and how a topic's rows are run: all of them, then one report of what failed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use ringfence_testing::{Identity, Leftovers, own_mounts};

/// How one side of a row went: how it was shown, or why this machine can't show it (not root, no such device).
pub(crate) enum Shown {
    Yes(String),
    Skipped(String),
}

pub(crate) type Side = Rc<dyn Fn(Identity) -> Result<Shown, String>>;

/// How a row is shown for the second command of a session.
#[derive(Clone)]
pub(crate) enum InSession {
    Held(Side),
    /// Why it says nothing there, or where it is shown instead.
    Elsewhere(&'static str),
}

impl From<&'static str> for InSession {
    fn from(why: &'static str) -> Self {
        Self::Elsewhere(why)
    }
}

#[derive(Clone)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) what: String,
    /// The sandbox stops the attempt.
    pub(crate) held: Side,
    /// The attempt works where the sandbox isn't.
    pub(crate) twin: Side,
    pub(crate) in_session: InSession,
    /// The same in a sandbox that was made ahead; none where the row is a drill around a run.
    pub(crate) pooled: Option<Side>,
}

/// A row whose two sides are written out, for attempts that need the host to act meanwhile.
pub(crate) fn drill(
    name: &str,
    what: &str,
    in_session: impl Into<InSession>,
    held: impl Fn(Identity) -> Result<(), String> + 'static,
    twin: impl Fn(Identity) -> Result<(), String> + 'static,
) -> Row {
    Row {
        name: name.to_owned(),
        what: what.to_owned(),
        held: Rc::new(move |identity| held(identity).map(|()| Shown::Yes("as it must".into()))),
        twin: Rc::new(move |identity| twin(identity).map(|()| Shown::Yes("as it must".into()))),
        in_session: in_session.into(),
        pooled: None,
    }
}

impl Row {
    /// Not a boundary where `applies`, and named so, by the row's name, in SECURITY.md. The attempt must work there: if it
    /// is held one day, both have to change.
    pub(crate) fn not_a_boundary(self, applies: impl Fn(Identity) -> bool + Clone + 'static) -> Self {
        let gap = |held: Side| -> Side {
            let (name, applies) = (self.name.clone(), applies.clone());
            Rc::new(
                move |identity| {
                    if applies(identity) { is_open(&name, &held, identity) } else { held(identity) }
                },
            )
        };
        let in_session = match self.in_session {
            InSession::Held(held) => InSession::Held(gap(held)),
            elsewhere => elsewhere,
        };
        let pooled = self.pooled.clone().map(gap);
        Self { held: gap(self.held.clone()), in_session, pooled, ..self }
    }
}

fn is_open(name: &str, held: &Side, identity: Identity) -> Result<Shown, String> {
    if !include_str!("../../../../SECURITY.md").contains(&format!("`{name}`")) {
        return Err("SECURITY.md does not name this gap".to_owned());
    }
    match held(identity) {
        Err(_) => Ok(Shown::Skipped("not a boundary here, see SECURITY.md".into())),
        Ok(_) => Err("it is held: take it out of SECURITY.md and of the gaps".to_owned()),
    }
}

/// Run every row and its twin as `identity` and fail with a table of those that did not go as they must.
pub(crate) fn check(topic: &str, rows: &[Row], identity: Identity) {
    if !identity.is_available() {
        return;
    }
    let mut report = Report::new();
    for row in wanted(rows) {
        report.held(row, &row.held, identity);
        match run_side(&row.twin, identity) {
            Ok(Shown::Yes(how)) => {
                println!("twin  {}: {how}", row.name);
                report.twins += 1;
            }
            Ok(Shown::Skipped(why)) => report.skipped.push(format!("twin of {}: {why}", row.name)),
            Err(why) => report.fail("NO TWIN", row, &why),
        }
    }
    report.finish(topic, identity);
}

/// Run every row as `identity` as the second command of a session. Its twin is that of the same row outside one.
pub(crate) fn check_in_session(topic: &str, rows: &[Row], identity: Identity) {
    if !identity.is_available() {
        return;
    }
    let mut report = Report::new();
    for row in wanted(rows) {
        match &row.in_session {
            InSession::Held(side) => report.held(row, side, identity),
            InSession::Elsewhere(why) => report.skipped.push(format!("{}: {why}", row.name)),
        }
    }
    report.finish(&format!("{topic} in a session"), identity);
}

/// Run every row as `identity` in a sandbox of a pool. Its twin is that of the same row outside one.
pub(crate) fn check_pooled(topic: &str, rows: &[Row], identity: Identity) {
    if !identity.is_available() {
        return;
    }
    own_mounts();
    let mut report = Report::new();
    for row in wanted(rows) {
        match &row.pooled {
            Some(side) => report.held(row, side, identity),
            None => report.skipped.push(format!("{}: a drill around a run", row.name)),
        }
    }
    report.finish(&format!("{topic} from a pool"), identity);
}

fn wanted(rows: &[Row]) -> impl Iterator<Item = &Row> {
    let only = std::env::var("RINGFENCE_ESCAPE_ROW").ok();
    rows.iter().filter(move |row| only.as_ref().is_none_or(|name| row.name.contains(name)))
}

struct Report {
    before: Leftovers,
    held: u32,
    twins: u32,
    skipped: Vec<String>,
    failures: Vec<String>,
}

impl Report {
    fn new() -> Self {
        let before = Leftovers::before().without_fds();
        Self { before, held: 0, twins: 0, skipped: Vec::new(), failures: Vec::new() }
    }

    fn held(&mut self, row: &Row, side: &Side, identity: Identity) {
        match run_side(side, identity) {
            Ok(Shown::Yes(how)) => {
                let left = self.before.since();
                self.failures.extend(left.into_iter().map(|left| format!("LEFT BEHIND  {left}")));
                println!("held  {}: {how}", row.name);
                self.held += 1;
            }
            Ok(Shown::Skipped(why)) => self.skipped.push(format!("{}: {why}", row.name)),
            Err(why) => self.fail("NOT HELD", row, &why),
        }
    }

    fn fail(&mut self, how: &str, row: &Row, why: &str) {
        self.failures.push(format!("{how:<9} {}: {}\n    {}", row.name, row.what, indent(why)));
    }

    fn finish(self, topic: &str, identity: Identity) {
        let Self { held, twins, skipped, failures, .. } = self;
        println!(
            "{topic} as {identity:?}: {held} attempts held, {twins} twins worked, {} skipped",
            skipped.len()
        );
        for line in &skipped {
            println!("skipped {line}");
        }
        assert!(
            failures.is_empty(),
            "{topic} as {identity:?}: {} failures\n\n{}\n",
            failures.len(),
            failures.join("\n\n")
        );
    }
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
