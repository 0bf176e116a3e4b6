//! Any bytes as a SKILL.md: strict, lenient, properties and prompt.
//!
//! How it is run, and what came of it, is in README.md.

#![no_main]

use libfuzzer_sys::fuzz_target;
use ringfence_skills::{PromptEntry, load, prompt_block, properties, validate};

fuzz_target!(|bytes: &[u8]| {
    let valid = validate(bytes, "pdf").is_empty();
    let loaded = load(bytes, "pdf");
    // A frontmatter may end in the middle of a line for the reference, so that not all that is valid loads.
    if valid && let Ok(loaded) = &loaded {
        assert!(!loaded.manifest.name.is_empty());
    }
    if let Ok(loaded) = loaded {
        let manifest = &loaded.manifest;
        assert!(!manifest.description.trim().is_empty());
        properties(manifest);
        let entry =
            PromptEntry { name: &manifest.name, description: &manifest.description, location: "/skills/pdf" };
        let block = prompt_block(&[entry]);
        assert_eq!(block.matches('<').count(), 10);
    }
});
