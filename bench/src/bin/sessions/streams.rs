//! Bytes: files into a session and out of it, and the output of a command.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use ringfence_bench::Spread;
use ringfence_sandbox::{Durability, Exec, Existing, Links, Sandbox};

use crate::Amount;
use crate::stage::Stage;

const MEGABYTE: usize = 1 << 20;

#[derive(Debug)]
pub(crate) struct Streams {
    /// Milliseconds for 1 MB, with a worker that is there, and on the host's own tmpfs.
    pub(crate) write: Spread,
    pub(crate) read: Spread,
    pub(crate) plain_write: Spread,
    pub(crate) plain_read: Spread,
    /// Bytes a second.
    pub(crate) piped: f64,
    pub(crate) plain_piped: f64,
}

pub(crate) fn measure(stage: &Stage, amount: Amount) -> Result<Streams> {
    let sandbox = stage.create("streams")?;
    let bytes = vec![b'x'; MEGABYTE];
    let mut files = sandbox.files()?;
    let inside = Path::new("/workspace/megabyte");
    let outside = tempfile::tempdir_in("/dev/shm")?;
    let outside = outside.path().join("megabyte");
    let mut samples: [Vec<f64>; 4] = Default::default();
    let timed = |samples: &mut Vec<f64>, act: &mut dyn FnMut() -> Result<()>| -> Result<()> {
        let started = Instant::now();
        act()?;
        samples.push(started.elapsed().as_secs_f64() * 1_000.0);
        Ok(())
    };
    for _ in 0..amount.transfers {
        timed(&mut samples[0], &mut || {
            let draft = files.create(inside, 0o644, Links::Keep)?;
            draft.file().write_all_at(&bytes, 0)?;
            Ok(files.finish(draft, Existing::Replace, Durability::Later)?)
        })?;
        timed(&mut samples[1], &mut || whole(&files.open_read(inside, Links::Keep)?))?;
        timed(&mut samples[2], &mut || Ok(std::fs::write(&outside, &bytes)?))?;
        timed(&mut samples[3], &mut || whole(&File::open(&outside)?))?;
    }
    let [write, read, plain_write, plain_read] = samples.map(Spread::of);
    let count = amount.stream_bytes.to_string();
    let piped = rate(amount.stream_bytes, || in_session(&sandbox, &count))?;
    let plain_piped = rate(amount.stream_bytes, || plainly(&count))?;
    sandbox.destroy()?;
    let missing = "nothing was measured";
    Ok(Streams {
        write: write.context(missing)?,
        read: read.context(missing)?,
        plain_write: plain_write.context(missing)?,
        plain_read: plain_read.context(missing)?,
        piped,
        plain_piped,
    })
}

fn whole(file: &File) -> Result<()> {
    let mut buffer = vec![0; MEGABYTE];
    ensure!(file.read_at(&mut buffer, 0)? == MEGABYTE, "a part of the file is missing");
    Ok(())
}

/// The best of three, so that one disturbance does not count.
fn rate(bytes: u64, read: impl Fn() -> Result<u64>) -> Result<f64> {
    let mut best: f64 = 0.0;
    for _ in 0..3 {
        let started = Instant::now();
        let got = read()?;
        ensure!(got == bytes, "{got} of {bytes} bytes arrived");
        best = best.max(bytes as f64 / started.elapsed().as_secs_f64());
    }
    Ok(best)
}

fn drain(mut pipe: impl Read) -> Result<u64> {
    let mut buffer = vec![0; 256 << 10];
    let mut all = 0;
    loop {
        match pipe.read(&mut buffer)? {
            0 => return Ok(all),
            read => all += read as u64,
        }
    }
}

fn in_session(sandbox: &Sandbox, count: &str) -> Result<u64> {
    let argv = ["head", "-c", count, "/dev/zero"].map(Into::into).to_vec();
    let mut process = sandbox.exec(Exec { argv, ..Exec::default() })?;
    let got = drain(process.stdout.take().context("no stdout")?)?;
    process.wait()?;
    Ok(got)
}

fn plainly(count: &str) -> Result<u64> {
    let mut child = Command::new("head").args(["-c", count, "/dev/zero"]).stdout(Stdio::piped()).spawn()?;
    let got = drain(child.stdout.take().context("no stdout")?)?;
    child.wait()?;
    Ok(got)
}
