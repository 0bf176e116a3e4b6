//! A classic-BPF interpreter for tests: runs a program on one call, as the kernel would, and counts the steps.

use super::assemble::{AND, ANY_SET, ARCH, ARGS, AT_LEAST, EQUAL, GREATER, JUMP, LOAD, NR, Program, RETURN};

pub(super) struct Outcome {
    pub(super) value: u32,
    pub(super) steps: usize,
    /// Whether the kernel would find the answer constant at install and never run the program for it again.
    pub(super) constant: bool,
}

/// Panics on what the kernel's checker would refuse: an unknown instruction, a jump or a run past the end.
pub(super) fn run(program: &Program, arch: u32, nr: u32, args: &[u64; 6]) -> Outcome {
    let (mut at, mut acc, mut steps, mut constant) = (0, 0_u32, 0, true);
    loop {
        let insn = program.instructions()[at];
        steps += 1;
        at += 1;
        let mut jump = |taken: bool| at += usize::from(if taken { insn.jt } else { insn.jf });
        match insn.code {
            LOAD => match insn.k {
                NR => acc = nr,
                ARCH => acc = arch,
                offset if (ARGS..64).contains(&offset) && offset % 4 == 0 => {
                    let word = args[(offset - ARGS) as usize / 8];
                    acc = if offset % 8 == 0 { word as u32 } else { (word >> 32) as u32 };
                    constant = false;
                }
                other => panic!("load of offset {other}"),
            },
            AND => acc &= insn.k,
            JUMP => at += insn.k as usize,
            EQUAL => jump(acc == insn.k),
            GREATER => jump(acc > insn.k),
            AT_LEAST => jump(acc >= insn.k),
            ANY_SET => jump(acc & insn.k != 0),
            RETURN => return Outcome { value: insn.k, steps, constant },
            other => panic!("instruction {other:#x}"),
        }
    }
}
