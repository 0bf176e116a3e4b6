//! Puts the functions that starting a sandbox goes through side by side in the program. They are four hundred kilobytes of some
//! twenty megabytes; scattered, each start reads a hundred pages more into its page tables, and guard, a fork, reads them again.
//! `launch.order`, which `bench/order` writes, names them; what is not there any more, or is new, costs a page, and nothing else
//! (ADR 23).

use std::env;
use std::fmt::Write;
use std::path::Path;

const ORDER: &str = "launch.order";

fn main() {
    println!("cargo::rerun-if-changed={ORDER}");
    println!("cargo::rerun-if-changed=build.rs");
    // Whoever debugs waits for the linker only.
    if env::var("PROFILE").as_deref() != Ok("release")
        || env::var("CARGO_CFG_TARGET_OS").as_deref() != Ok("linux")
    {
        return;
    }
    let order = std::fs::read_to_string(ORDER).expect("launch.order beside build.rs");
    let mut script = String::from("SECTIONS {\n  .text.launch : {\n");
    for function in order.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let _ = writeln!(script, "    *(.text.{function} .text.unlikely.{function})");
    }
    script.push_str("  }\n}\nINSERT BEFORE .text;\n");
    let path = Path::new(&env::var("OUT_DIR").expect("cargo's directory")).join("launch.ld");
    std::fs::write(&path, script).expect("a file in cargo's directory");
    println!("cargo::rustc-link-arg-bin=ringfence=-Wl,-T,{}", path.display());
}
