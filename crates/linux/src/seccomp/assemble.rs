//! Classic BPF, written backwards: jumps only go forward, so when the last instruction is emitted first every
//! target is already known. A target out of reach of an 8-bit offset gets a copy (a return) or a long jump.

/// One instruction, laid out as the kernel's `sock_filter`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Insn {
    pub code: u16,
    pub jt: u8,
    pub jf: u8,
    pub k: u32,
}

/// A filter that is ready to install.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program(pub(super) Vec<Insn>);

impl Program {
    pub fn instructions(&self) -> &[Insn] {
        &self.0
    }

    /// From the instructions of another one, as they came from a process that compiled it.
    pub fn from_instructions(instructions: Vec<Insn>) -> Self {
        Self(instructions)
    }
}

pub(super) const LOAD: u16 = 0x20; // BPF_LD | BPF_W | BPF_ABS
pub(super) const AND: u16 = 0x54; // BPF_ALU | BPF_AND | BPF_K
pub(super) const JUMP: u16 = 0x05; // BPF_JMP | BPF_JA
pub(super) const EQUAL: u16 = 0x15; // BPF_JMP | BPF_JEQ | BPF_K
pub(super) const GREATER: u16 = 0x25; // BPF_JMP | BPF_JGT | BPF_K
pub(super) const AT_LEAST: u16 = 0x35; // BPF_JMP | BPF_JGE | BPF_K
pub(super) const ANY_SET: u16 = 0x45; // BPF_JMP | BPF_JSET | BPF_K
pub(super) const RETURN: u16 = 0x06; // BPF_RET | BPF_K

/// Offsets in `struct seccomp_data`. The low word of an argument comes first: both architectures are
/// little-endian.
pub(super) const NR: u32 = 0;
pub(super) const ARCH: u32 = 4;
pub(super) const ARGS: u32 = 16;

/// A place in the program, counted from its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Label(usize);

/// Collects instructions from the last to the first.
pub(super) struct Assembler {
    backwards: Vec<Insn>,
}

impl Assembler {
    pub(super) fn new() -> Self {
        Assembler { backwards: Vec::with_capacity(256) }
    }

    /// The instruction emitted last, which will run first.
    pub(super) fn here(&self) -> Label {
        Label(self.backwards.len() - 1)
    }

    pub(super) fn ret(&mut self, value: u32) -> Label {
        self.push(Insn { code: RETURN, jt: 0, jf: 0, k: value })
    }

    /// Loads a word of `seccomp_data`, then runs into what was emitted before.
    pub(super) fn load(&mut self, offset: u32) -> Label {
        self.push(Insn { code: LOAD, jt: 0, jf: 0, k: offset })
    }

    /// Loads the low word of an argument.
    pub(super) fn load_arg(&mut self, arg: u32) -> Label {
        self.load(ARGS + 8 * arg)
    }

    pub(super) fn and(&mut self, mask: u32) -> Label {
        self.push(Insn { code: AND, jt: 0, jf: 0, k: mask })
    }

    pub(super) fn equal(&mut self, value: u32, then: Label, other: Label) -> Label {
        self.branch(EQUAL, value, then, other)
    }

    pub(super) fn greater(&mut self, value: u32, then: Label, other: Label) -> Label {
        self.branch(GREATER, value, then, other)
    }

    pub(super) fn at_least(&mut self, value: u32, then: Label, other: Label) -> Label {
        self.branch(AT_LEAST, value, then, other)
    }

    pub(super) fn any_set(&mut self, bits: u32, then: Label, other: Label) -> Label {
        self.branch(ANY_SET, bits, then, other)
    }

    /// An earlier test of an argument with the same outcome, if one is there to share.
    pub(super) fn find_equal(&self, arg: u32, value: u32, then: Label, other: Label) -> Option<Label> {
        let load = Insn { code: LOAD, jt: 0, jf: 0, k: ARGS + 8 * arg };
        let same = |at: usize, test: &Insn| {
            test.code == EQUAL
                && test.k == value
                && at == then.0 + usize::from(test.jt) + 1
                && at == other.0 + usize::from(test.jf) + 1
        };
        let pairs = self.backwards.windows(2).enumerate();
        pairs.filter(|(at, pair)| same(*at, &pair[0]) && pair[1] == load).map(|(at, _)| Label(at + 1)).next()
    }

    fn branch(&mut self, code: u16, k: u32, then: Label, other: Label) -> Label {
        // The second may push one more instruction between the first and the branch.
        let then = self.near(then, 1);
        let other = self.near(other, 0);
        let (jt, jf) = (self.distance(then) as u8, self.distance(other) as u8);
        self.push(Insn { code, jt, jf, k })
    }

    /// A label that the next instruction but `spare` can reach: the same one, or a copy or a long jump to it.
    pub(super) fn near(&mut self, label: Label, spare: usize) -> Label {
        if self.distance(label) + spare <= usize::from(u8::MAX) {
            return label;
        }
        match self.backwards[label.0] {
            insn if insn.code == RETURN => self.push(insn),
            _ => {
                let k = self.distance(label) as u32;
                self.push(Insn { code: JUMP, jt: 0, jf: 0, k })
            }
        }
    }

    /// How many instructions the next one would have to skip.
    fn distance(&self, label: Label) -> usize {
        self.backwards.len() - label.0 - 1
    }

    fn push(&mut self, insn: Insn) -> Label {
        self.backwards.push(insn);
        self.here()
    }

    pub(super) fn finish(mut self) -> Program {
        self.backwards.reverse();
        Program(self.backwards)
    }
}
