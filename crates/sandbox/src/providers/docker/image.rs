//! The image of every container: empty, made here, named after its content. Everything that a sandbox shows comes from
//! the host, as under every provider; guard itself is one static file that is shown to it.

use super::engine::{Engine, PATIENCE, Trouble};

const REPOSITORY: &str = "ringfence/empty";

/// What the daemon knows it by.
pub(super) fn name() -> String {
    format!("{REPOSITORY}:{}", tag())
}

/// Put the empty one there. Where two do so at once they put the same.
pub(super) fn provide(engine: &Engine) -> Result<(), Trouble> {
    let step = "take the empty image in";
    let target = format!("/images/create?fromSrc=-&repo={REPOSITORY}&tag={}", tag());
    let answer = engine.call(step, PATIENCE, "POST", &target, "application/x-tar", &contents())?;
    // It has begun to answer before it is done: a failure is in the last line.
    let text = String::from_utf8_lossy(&answer.body);
    match text.lines().find(|line| line.contains("\"error\"")) {
        Some(line) => Err(Trouble::Said(step.to_owned(), answer.status, line.trim().to_owned())),
        None => Ok(()),
    }
}

fn tag() -> String {
    blake3::hash(&contents()).to_hex()[..16].to_owned()
}

/// One directory, which guard mounts the sandbox's root on.
fn contents() -> Vec<u8> {
    let mut header = tar::Header::new_ustar();
    header.set_entry_type(tar::EntryType::Directory);
    header.set_mode(0o755);
    header.set_size(0);
    // The name is short, and what is written is memory: neither can fail.
    let _ = header.set_path("tmp/");
    header.set_cksum();
    let mut archive = header.as_bytes().to_vec();
    archive.resize(archive.len() + 1024, 0);
    archive
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_empty_image_has_one_directory_and_always_the_same_name() {
        let archive = contents();
        let mut archive = tar::Archive::new(&archive[..]);
        let entries: Vec<_> = archive.entries().unwrap().map(|entry| entry.unwrap()).collect();
        assert_eq!(entries.len(), 1);
        assert_eq!(entries[0].path().unwrap().to_str(), Some("tmp/"));
        assert_eq!(entries[0].header().mtime().unwrap(), 0);
        assert_eq!(name(), name());
        assert!(name().starts_with("ringfence/empty:") && name().len() == REPOSITORY.len() + 17);
    }
}
