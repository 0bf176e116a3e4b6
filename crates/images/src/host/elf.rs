//! What a program says of what it needs: its loader, its libraries, and where to look for them. Only the headers and the dynamic
//! section are read, by position, each within bounds.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// Of the same class and machine: what can be loaded into one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Machine {
    is_64: bool,
    number: u16,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Elf {
    pub(super) machine: Machine,
    /// The loader, for a program.
    pub(super) interpreter: Option<String>,
    pub(super) needed: Vec<String>,
    pub(super) rpath: Vec<String>,
    pub(super) runpath: Vec<String>,
}

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const PT_INTERP: u32 = 3;
const DT_NEEDED: u64 = 1;
const DT_STRTAB: u64 = 5;
const DT_STRSZ: u64 = 10;
const DT_RPATH: u64 = 15;
const DT_RUNPATH: u64 = 29;
/// Larger tables are no program's.
const MOST_HEADERS: usize = 256;
const MOST_DYNAMIC: u64 = 1 << 20;
const MOST_STRINGS: u64 = 16 << 20;

/// A part of a file, and where it is in memory.
struct Segment {
    kind: u32,
    offset: u64,
    address: u64,
    size: u64,
}

/// `None`: it is not an ELF file for a little-endian machine, or not one that can be loaded.
pub(super) fn read_elf(file: &File) -> Option<Elf> {
    let ident = bytes(file, 0, 16)?;
    let is_64 = match (&ident[..4], ident[4], ident[5]) {
        (b"\x7fELF", 2, 1) => true,
        (b"\x7fELF", 1, 1) => false,
        _ => return None,
    };
    let header = bytes(file, 0, if is_64 { 64 } else { 52 })?;
    let machine = Machine { is_64, number: u16::from_le_bytes(header.get(18..20)?.try_into().ok()?) };
    let (table, size, count) = if is_64 {
        (number(&header, 32, 8)?, number(&header, 54, 2)?, number(&header, 56, 2)?)
    } else {
        (number(&header, 28, 4)?, number(&header, 42, 2)?, number(&header, 44, 2)?)
    };
    let least = if is_64 { 56 } else { 32 };
    let count = usize::try_from(count).ok()?;
    if count > MOST_HEADERS || size < least || size > 256 {
        return None;
    }
    let mut segments = Vec::with_capacity(count);
    for index in 0..count as u64 {
        let one = bytes(file, table.checked_add(index * size)?, size as usize)?;
        let kind = number(&one, 0, 4)? as u32;
        segments.push(match is_64 {
            true => Segment {
                kind,
                offset: number(&one, 8, 8)?,
                address: number(&one, 16, 8)?,
                size: number(&one, 32, 8)?,
            },
            false => Segment {
                kind,
                offset: number(&one, 4, 4)?,
                address: number(&one, 8, 4)?,
                size: number(&one, 16, 4)?,
            },
        });
    }
    let interpreter = match segments.iter().find(|segment| segment.kind == PT_INTERP) {
        Some(segment) if segment.size <= 4096 => {
            Some(text(&bytes(file, segment.offset, segment.size as usize)?, 0)?)
        }
        Some(_) => return None,
        None => None,
    };
    let mut elf = Elf { machine, interpreter, needed: Vec::new(), rpath: Vec::new(), runpath: Vec::new() };
    if let Some(dynamic) = segments.iter().find(|segment| segment.kind == PT_DYNAMIC) {
        read_dynamic(file, is_64, dynamic, &segments, &mut elf)?;
    }
    Some(elf)
}

fn read_dynamic(
    file: &File,
    is_64: bool,
    dynamic: &Segment,
    segments: &[Segment],
    elf: &mut Elf,
) -> Option<()> {
    if dynamic.size > MOST_DYNAMIC {
        return None;
    }
    let table = bytes(file, dynamic.offset, dynamic.size as usize)?;
    let width = if is_64 { 8 } else { 4 };
    let entries = table
        .chunks_exact(2 * width)
        .map(|entry| Some((number(entry, 0, width)?, number(entry, width, width)?)));
    let entries: Vec<(u64, u64)> = entries.map_while(|entry| entry.filter(|(tag, _)| *tag != 0)).collect();
    let value = |wanted| entries.iter().find(|(tag, _)| *tag == wanted).map(|(_, value)| *value);
    let Some(address) = value(DT_STRTAB) else { return Some(()) };
    let size = value(DT_STRSZ)?;
    let loaded = segments.iter().find(|segment| {
        segment.kind == PT_LOAD
            && address.checked_sub(segment.address).is_some_and(|within| within < segment.size)
    })?;
    if size > MOST_STRINGS {
        return None;
    }
    let strings = bytes(file, loaded.offset.checked_add(address - loaded.address)?, size as usize)?;
    for (tag, at) in entries {
        let list = match tag {
            DT_NEEDED => &mut elf.needed,
            DT_RPATH => &mut elf.rpath,
            DT_RUNPATH => &mut elf.runpath,
            _ => continue,
        };
        let text = text(&strings, usize::try_from(at).ok()?)?;
        match tag {
            DT_NEEDED => list.push(text),
            _ => list.extend(text.split(':').filter(|part| !part.is_empty()).map(str::to_owned)),
        }
    }
    Some(())
}

fn bytes(file: &File, at: u64, count: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; count];
    file.read_exact_at(&mut bytes, at).ok()?;
    Some(bytes)
}

fn number(bytes: &[u8], at: usize, width: usize) -> Option<u64> {
    let part = bytes.get(at..at.checked_add(width)?)?;
    Some(part.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

/// Up to the NUL that ends it.
fn text(bytes: &[u8], at: usize) -> Option<String> {
    let rest = bytes.get(at..)?;
    let end = rest.iter().position(|byte| *byte == 0)?;
    String::from_utf8(rest[..end].to_vec()).ok()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::io::Write;

    /// A library with these dynamic entries, and nothing else in it.
    pub(in crate::host) fn made(
        interpreter: Option<&str>,
        needed: &[&str],
        rpath: Option<&str>,
        runpath: Option<&str>,
    ) -> Vec<u8> {
        let mut strings = vec![0];
        let mut keep = |text: &str| {
            let at = strings.len() as u64;
            strings.extend_from_slice(text.as_bytes());
            strings.push(0);
            at
        };
        let mut dynamic: Vec<(u64, u64)> = needed.iter().map(|name| (DT_NEEDED, keep(name))).collect();
        dynamic.extend(rpath.map(|path| (DT_RPATH, keep(path))));
        dynamic.extend(runpath.map(|path| (DT_RUNPATH, keep(path))));
        let interpreter = interpreter.map(|path| [path.as_bytes(), b"\0"].concat()).unwrap_or_default();
        let count: u16 = if interpreter.is_empty() { 2 } else { 3 };
        let start = 64 + u64::from(count) * 56;
        let base = 0x1000;
        let dynamic_at = start + interpreter.len() as u64;
        let strings_at = dynamic_at + (dynamic.len() as u64 + 3) * 16;
        dynamic.extend([(DT_STRTAB, base + strings_at), (DT_STRSZ, strings.len() as u64), (0, 0)]);
        let mut out = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
        out.extend([3_u16, 62].iter().flat_map(|half| half.to_le_bytes()));
        out.extend(1_u32.to_le_bytes());
        out.extend([0_u64, 64, 0].iter().flat_map(|word| word.to_le_bytes()));
        out.extend(0_u32.to_le_bytes());
        out.extend([64_u16, 56, count, 0, 0, 0].iter().flat_map(|half| half.to_le_bytes()));
        let total = strings_at + strings.len() as u64;
        let mut segment = |kind: u32, offset: u64, size: u64| {
            out.extend(kind.to_le_bytes());
            out.extend(4_u32.to_le_bytes());
            out.extend(
                [offset, base + offset, base + offset, size, size, 1]
                    .iter()
                    .flat_map(|word| word.to_le_bytes()),
            );
        };
        segment(PT_LOAD, 0, total);
        segment(PT_DYNAMIC, dynamic_at, dynamic.len() as u64 * 16);
        if !interpreter.is_empty() {
            segment(PT_INTERP, start, interpreter.len() as u64);
        }
        out.extend(interpreter);
        out.extend(dynamic.iter().flat_map(|(tag, value)| [tag.to_le_bytes(), value.to_le_bytes()].concat()));
        out.extend(strings);
        out
    }

    fn read(bytes: &[u8]) -> Option<Elf> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        read_elf(&file)
    }

    #[test]
    fn a_program_of_the_host_is_read() {
        let elf = read_elf(&File::open("/bin/sh").unwrap()).unwrap();
        assert!(elf.needed.iter().any(|name| name.starts_with("libc.so")), "{elf:?}");
        assert!(elf.interpreter.is_some_and(|path| path.contains("ld-")));
        assert_eq!(read(b"#!/bin/sh\n"), None);
        assert_eq!(read(b""), None);
    }

    proptest::proptest! {
        #[test]
        fn what_was_written_is_read(needed in proptest::collection::vec("[a-z]{1,12}\\.so\\.[0-9]", 0..6), rpath in proptest::option::of("/[a-z]{1,8}"), runpath in proptest::option::of("\\$ORIGIN/[a-z]{1,8}"), program: bool) {
            let names: Vec<&str> = needed.iter().map(String::as_str).collect();
            let made = made(program.then_some("/lib/ld.so"), &names, rpath.as_deref(), runpath.as_deref());
            let elf = read(&made).unwrap();
            proptest::prop_assert_eq!(elf.needed, needed);
            proptest::prop_assert_eq!(elf.rpath, rpath.into_iter().collect::<Vec<_>>());
            proptest::prop_assert_eq!(elf.runpath, runpath.into_iter().collect::<Vec<_>>());
            proptest::prop_assert_eq!(elf.interpreter.is_some(), program);
        }

        /// Cut and changed files are no programs, or are read: nothing else happens.
        #[test]
        fn nothing_breaks_the_reader(at in 0..400_usize, byte: u8, cut in 0..400_usize) {
            let mut made = made(Some("/lib/ld.so"), &["libc.so.6"], None, Some("/opt"));
            if let Some(place) = made.get_mut(at) {
                *place = byte;
            }
            let _ = read(&made);
            made.truncate(cut);
            let _ = read(&made);
        }
    }
}
