use super::*;

fn all(directory: &Path, from: u64) -> (Vec<u8>, Vec<u8>, u64) {
    let mut reader = LogReader::open(directory, from).unwrap();
    let (mut out, mut err) = (Vec::new(), Vec::new());
    while let Some((stream, bytes)) = reader.read_piece().unwrap() {
        match stream {
            LogStream::Stdout => out.extend(bytes),
            LogStream::Stderr => err.extend(bytes),
        }
    }
    (out, err, reader.dropped())
}

#[test]
fn what_was_written_is_read_from_any_offset() {
    let root = tempfile::tempdir().unwrap();
    let directory = root.path().join("1");
    let mut log = LogWriter::create(directory.clone(), None).unwrap();
    log.append(LogStream::Stdout, b"hello ").unwrap();
    log.append(LogStream::Stderr, b"oh ").unwrap();
    log.append(LogStream::Stdout, b"world").unwrap();
    assert_eq!(all(&directory, 0), (b"hello world".to_vec(), b"oh ".to_vec(), 0));
    assert_eq!(all(&directory, 3), (b"lo world".to_vec(), b"oh ".to_vec(), 0));
    assert_eq!(all(&directory, 10), (b"orld".to_vec(), Vec::new(), 0));
    assert_eq!(all(&directory, 14), (Vec::new(), Vec::new(), 0));
    assert_eq!(all(&directory, 99), (Vec::new(), Vec::new(), 0));
}

#[test]
fn a_full_log_drops_its_oldest_and_says_how_much() {
    let root = tempfile::tempdir().unwrap();
    let directory = root.path().join("1");
    let mut log = LogWriter::create(directory.clone(), Some(SMALLEST_SEGMENT * SEGMENTS)).unwrap();
    let bytes: Vec<u8> = (0..100_000_u32).flat_map(|number| (number as u8).to_le_bytes()).collect();
    for piece in bytes.chunks(1_000) {
        log.append(LogStream::Stdout, piece).unwrap();
    }
    let (out, _, dropped) = all(&directory, 0);
    assert_eq!(out.len() as u64 + dropped, bytes.len() as u64);
    let kept = SMALLEST_SEGMENT * SEGMENTS;
    assert!(
        dropped > 0 && (kept..kept + 2 * SMALLEST_SEGMENT).contains(&(out.len() as u64)),
        "{}",
        out.len()
    );
    assert_eq!(out, bytes[dropped as usize..]);
    let middle = bytes.len() as u64 - 2_500;
    assert_eq!(all(&directory, middle).0, bytes[middle as usize..]);
}

#[test]
fn the_newest_bytes_up_to_the_bound_are_there_at_every_moment() {
    let root = tempfile::tempdir().unwrap();
    for size in [1_000, 4_000, 9_000, 60_000] {
        let directory = root.path().join(size.to_string());
        let kept = 10 * SMALLEST_SEGMENT * SEGMENTS;
        let mut log = LogWriter::create(directory.clone(), Some(kept)).unwrap();
        let mut written = 0;
        while written < 3 * kept {
            log.append(LogStream::Stdout, &vec![7; size]).unwrap();
            written += size as u64;
            let oldest = segments(&directory).unwrap()[0].0;
            assert!(
                oldest == 0 || written - oldest >= kept,
                "of {written} by {size} those from {oldest} on are kept"
            );
        }
    }
}

#[test]
fn a_log_of_tiny_pieces_has_a_bound_too() {
    let root = tempfile::tempdir().unwrap();
    let directory = root.path().join("1");
    let kept = SMALLEST_SEGMENT * SEGMENTS;
    let mut log = LogWriter::create(directory.clone(), Some(kept)).unwrap();
    for _ in 0..kept {
        log.append(LogStream::Stdout, b"x").unwrap();
        let room: u64 =
            segments(&directory).unwrap().iter().map(|(_, path)| path.metadata().unwrap().len()).sum();
        assert!(room <= 2 * kept, "{room} bytes for {kept}");
    }
    let (out, _, dropped) = all(&directory, 0);
    assert!(dropped > 0 && out.len() as u64 + dropped == kept);
}

#[test]
fn a_reader_goes_on_beside_its_writer_over_every_segment() {
    let root = tempfile::tempdir().unwrap();
    let directory = root.path().join("1");
    let mut log = LogWriter::create(directory.clone(), Some(SMALLEST_SEGMENT * SEGMENTS)).unwrap();
    let mut reader = LogReader::open(&directory, 0).unwrap();
    let mut read = Vec::new();
    let mut written = Vec::new();
    for turn in 0..400_u32 {
        let piece = vec![turn as u8; 1 + (turn as usize * 37) % 900];
        log.append(LogStream::Stderr, &piece).unwrap();
        written.extend(piece);
        if turn % 3 == 0 {
            while let Some((_, bytes)) = reader.read_piece().unwrap() {
                read.extend(bytes);
            }
        }
    }
    while let Some((_, bytes)) = reader.read_piece().unwrap() {
        read.extend(bytes);
    }
    assert_eq!(reader.dropped(), 0);
    assert!(read == written);
    assert_eq!(reader.offset(), written.len() as u64);
}

#[test]
fn half_a_piece_is_waited_for() {
    let root = tempfile::tempdir().unwrap();
    let directory = root.path().join("1");
    let mut log = LogWriter::create(directory.clone(), None).unwrap();
    log.append(LogStream::Stdout, b"whole").unwrap();
    let path = directory.join(segment_name(0));
    let mut bytes = fs::read(&path).unwrap();
    let second = bytes.clone();
    bytes.extend(&second[..7]);
    fs::write(&path, &bytes).unwrap();
    let mut reader = LogReader::open(&directory, 0).unwrap();
    assert_eq!(reader.read_piece().unwrap().unwrap().1, b"whole");
    assert!(reader.read_piece().unwrap().is_none());
    bytes.extend(&second[7..]);
    fs::write(&path, &bytes).unwrap();
    assert_eq!(reader.read_piece().unwrap().unwrap().1, b"whole");
}
