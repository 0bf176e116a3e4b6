//! The client: does a job and prints how many seconds each part took, as JSON.

use std::hint::black_box;
use std::io::{Read, Write};
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use crate::connection::{Connection, Target};
use crate::job::{Job, Task};
use crate::look_up::look_up;

/// What a short request asks for.
const SHORT: usize = 100;
/// Not counted.
const WARM_UP: usize = 10;

pub(crate) fn run(job: &Job) -> Result<()> {
    println!("{}", serde_json::to_string(&seconds(job)?)?);
    Ok(())
}

fn seconds(job: &Job) -> Result<Vec<f64>> {
    match job.task {
        Task::Lookups(count) => in_turn(count, || look_up(&job.name).map(drop)),
        Task::Download(bytes) => {
            let target = Target::find(job)?;
            Ok(vec![timed(|| fetch(&target, bytes))?])
        }
        Task::Requests(count) => {
            let target = Target::find(job)?;
            in_turn(count, || fetch(&target, SHORT))
        }
        Task::Crowd(count) => {
            let target = Target::find(job)?;
            Ok(vec![timed(|| crowd(&target, count))?])
        }
    }
}

fn timed(act: impl FnOnce() -> Result<()>) -> Result<f64> {
    let started = Instant::now();
    act()?;
    Ok(started.elapsed().as_secs_f64())
}

fn in_turn(count: usize, act: impl Fn() -> Result<()>) -> Result<Vec<f64>> {
    for _ in 0..WARM_UP {
        act()?;
    }
    (0..count).map(|_| timed(&act)).collect()
}

fn fetch(target: &Target, bytes: usize) -> Result<()> {
    let mut connection = target.connect()?;
    connection.write_all(target.request(bytes).as_bytes())?;
    read_answer(&mut connection, bytes)
}

fn crowd(target: &Target, count: usize) -> Result<()> {
    let request = target.request(SHORT);
    let connect = |number| target.connect().with_context(|| format!("connection {number} of {count}"));
    let mut all = (1..=count).map(connect).collect::<Result<Vec<_>>>()?;
    for connection in &mut all {
        connection.write_all(request.as_bytes())?;
    }
    for connection in &mut all {
        read_answer(connection, SHORT)?;
    }
    Ok(())
}

/// To the end of the connection. What comes in chunks has their heads in it.
fn read_answer(connection: &mut Connection, bytes: usize) -> Result<()> {
    let mut buffer = vec![0; if bytes > SHORT { 256 << 10 } else { 4096 }];
    let mut start = Vec::new();
    let body = loop {
        let read = connection.read(&mut buffer)?;
        ensure!(read > 0, "the answer has no end of its head: {:?}", String::from_utf8_lossy(&start));
        start.extend_from_slice(&buffer[..read]);
        if let Some(end) = start.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
    };
    ensure!(start.starts_with(b"HTTP/1.1 200 "), "refused: {:?}", String::from_utf8_lossy(&start));
    let mut got = start.len() - body;
    loop {
        match connection.read(&mut buffer)? {
            0 => break,
            read => got += black_box(&buffer[..read]).len(),
        }
    }
    ensure!(got >= bytes, "the answer ended after {got} of {bytes} bytes");
    Ok(())
}
