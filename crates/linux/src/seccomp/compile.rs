//! From the table and the caller's rules to a program. Runs at every start of a sandbox, so with no changes to
//! the table it allocates a handful of times and looks at no name.

use super::args;
use super::assemble::{ARCH, Assembler, Label, NR, Program};
use super::rules::{ClosedAction, Rules};
use super::table::{
    Arch, ArgRule, Entry, NUMBERS, Verdict, X32_BIT, X32_FIRST, entries, entry, for_each_place, verdicts,
};
use super::tree::{self, Action, Run};

const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
const NOTIFY: u32 = libc::SECCOMP_RET_USER_NOTIF;
const CLOSED: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
const NO_SYS: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;

/// Why rules can't become a filter.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    #[error("no system call is named `{name}`; the nearest name is `{nearest}`")]
    UnknownCall { name: String, nearest: &'static str },
    #[error("32-bit entry can't be opened on {0:?}: there is no reviewed table for it; leave `compat` off")]
    NoCompat(Arch),
    #[error(
        "{0:?} is an entry of another architecture, not one to compile for; compile for x86_64 with `compat`"
    )]
    NotNative(Arch),
}

/// Compiles the filter of an architecture.
pub fn compile(arch: Arch, rules: &Rules) -> Result<Program, CompileError> {
    match arch {
        Arch::I386 => return Err(CompileError::NotNative(arch)),
        Arch::Aarch64 if rules.compat => return Err(CompileError::NoCompat(arch)),
        _ => {}
    }
    let changes = Changes::of(rules)?;
    let mut asm = Assembler::new();
    let mut targets = Targets::emit(&mut asm, rules.closed);
    let native = runs(arch, rules, &changes);
    let compat = rules.compat.then(|| runs(Arch::I386, rules, &changes));
    for run in native.iter().chain(compat.iter().flatten()) {
        targets.emit_args(&mut asm, run.action);
    }
    let mut target = |asm: &mut Assembler, action| targets.get(asm, action);
    let wrong_arch = match compat {
        None => target(&mut asm, Action::Closed),
        Some(runs) => {
            let tree = tree::emit(&mut asm, &runs, &mut target);
            load_number(&mut asm, tree, false);
            let i386 = asm.here();
            let closed = target(&mut asm, Action::Closed);
            asm.equal(Arch::I386.audit(), i386, closed)
        }
    };
    let tree = tree::emit(&mut asm, &native, &mut target);
    let native = load_number(&mut asm, tree, rules.compat && arch == Arch::X86_64);
    asm.equal(arch.audit(), native, wrong_arch);
    asm.load(ARCH);
    Ok(asm.finish())
}

/// Loads the number and runs on into `tree`.
fn load_number(asm: &mut Assembler, tree: Label, strip_x32: bool) -> Label {
    debug_assert_eq!(tree, asm.here());
    if strip_x32 {
        asm.and(!X32_BIT);
    }
    asm.load(NR)
}

/// The entries that the caller's names stand for.
struct Changes {
    allow: Vec<&'static Entry>,
    deny: Vec<&'static Entry>,
    trace: Vec<&'static Entry>,
}

impl Changes {
    fn of(rules: &Rules) -> Result<Self, CompileError> {
        Ok(Changes {
            allow: rules.allow.iter().map(|name| known(name)).collect::<Result<_, _>>()?,
            deny: rules.deny.iter().map(|name| known(name)).collect::<Result<_, _>>()?,
            trace: rules.notify_also.iter().map(|name| known(name)).collect::<Result<_, _>>()?,
        })
    }

    fn apply(&self, arch: Arch, actions: &mut [Action; NUMBERS]) {
        for entry in &self.allow {
            for_each_place(entry, arch, |at| actions[at] = Action::Allow);
        }
        for entry in &self.trace {
            for_each_place(entry, arch, |at| {
                actions[at] = match actions[at] {
                    Action::Allow => Action::Trace,
                    Action::Args(rule) => Action::TraceArgs(rule),
                    other => other,
                }
            });
        }
        // Last, because it wins.
        for entry in &self.deny {
            for_each_place(entry, arch, |at| actions[at] = Action::Closed);
        }
    }
}

/// The actions of all 2^32 numbers, as runs.
fn runs(arch: Arch, rules: &Rules, changes: &Changes) -> Vec<Run> {
    let mut actions = verdicts(arch).map(|verdict| match verdict {
        None | Some(Verdict::NoSys) => Action::NoSys,
        Some(Verdict::Allow) => Action::Allow,
        Some(Verdict::Closed) => Action::Closed,
        Some(Verdict::Args(rule)) => Action::Args(rules.rule(rule)),
    });
    changes.apply(arch, &mut actions);
    let x32 = rules.compat && arch == Arch::X86_64;
    let numbers = if x32 { NUMBERS } else { X32_FIRST };
    let mut runs = Vec::with_capacity(192);
    let mut add = |start, action| {
        // Where closed calls are notified, traced and closed are one return.
        let action = match action {
            Action::Trace | Action::TraceArgs(_) if rules.closed == ClosedAction::Notify => Action::Closed,
            other => other,
        };
        if runs.last().is_none_or(|last: &Run| last.action != action) {
            runs.push(Run { start, action });
        }
    };
    for (number, action) in (0..).zip(&actions[..numbers]) {
        add(number, *action);
    }
    add(numbers as u32, Action::NoSys);
    if arch == Arch::X86_64 && !x32 {
        add(X32_BIT, Action::Closed);
        add(1 << 31, Action::NoSys);
    }
    runs
}

/// The places that carry actions out.
struct Targets {
    allow: Label,
    closed: Label,
    no_sys: Label,
    trace: Label,
    args: Vec<(Action, Label)>,
}

impl Targets {
    fn emit(asm: &mut Assembler, closed: ClosedAction) -> Self {
        let no_sys = asm.ret(NO_SYS);
        let trace = asm.ret(NOTIFY);
        let closed = match closed {
            ClosedAction::Notify => trace,
            ClosedAction::Errno => asm.ret(CLOSED),
        };
        Targets { allow: asm.ret(ALLOW), closed, no_sys, trace, args: Vec::with_capacity(16) }
    }

    /// Emits the block of an action that has one, once.
    fn emit_args(&mut self, asm: &mut Assembler, action: Action) {
        let (rule, pass): (ArgRule, Label) = match action {
            Action::Args(rule) => (rule, self.allow),
            Action::TraceArgs(rule) => (rule, self.trace),
            _ => return,
        };
        if self.args.iter().all(|(other, _)| *other != action) {
            let label = args::emit(asm, rule, pass, self.closed);
            self.args.push((action, label));
        }
    }

    /// A place in reach of the next instruction.
    fn get(&mut self, asm: &mut Assembler, action: Action) -> Label {
        let label = match action {
            Action::Allow => &mut self.allow,
            Action::Closed => &mut self.closed,
            Action::NoSys => &mut self.no_sys,
            Action::Trace => &mut self.trace,
            Action::Args(_) | Action::TraceArgs(_) => {
                let found = self.args.iter_mut().find(|(other, _)| *other == action);
                match found {
                    Some((_, label)) => label,
                    // emit_args has seen every run, so there is none without a block; if there were, closed.
                    None => &mut self.closed,
                }
            }
        };
        // Kept, so that what follows uses the near copy too.
        *label = asm.near(*label, 2);
        *label
    }
}

fn known(name: &str) -> Result<&'static Entry, CompileError> {
    entry(name).ok_or_else(|| CompileError::UnknownCall { name: name.to_owned(), nearest: nearest(name) })
}

/// The name with the fewest edits between it and what was written.
fn nearest(name: &str) -> &'static str {
    entries()
        .map(|entry| entry.name)
        .min_by_key(|known| edits(name.as_bytes(), known.as_bytes()))
        .unwrap_or("")
}

fn edits(a: &[u8], b: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let change = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = change.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
#[path = "compile_tests.rs"]
mod tests;
