//! The bars that the design sets, measured on loopback in one run. Ignored: no test depends on a time unasked.
//! `cargo nextest run -p ringfence-egress --run-ignored only --no-capture bars`

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::testing::{Scene, Stage};

const PORT: u16 = 8099;
const BULK: usize = 128 << 20;
const CONNECTIONS: usize = 1000;

/// Egress in a thread of its own, as it is a process of its own. Gives the address inside.
fn start_egress(upstream: SocketAddr) -> SocketAddr {
    let (tell, told) = mpsc::channel::<IpAddr>();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let scene = Scene::allow(&["host.example:8099"]).leading("host.example", upstream);
            let stage = Stage::start(scene).await;
            tell.send(stage.address_of("host.example").await.unwrap()).unwrap();
            tokio::time::sleep(Duration::from_secs(600)).await;
        });
    });
    SocketAddr::new(told.recv().unwrap(), PORT)
}

/// Answers each connection with so many bytes as its first eight bytes ask for, then echoes.
fn start_server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    thread::spawn(move || {
        let data = vec![7; 256 * 1024];
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = [0; 8];
            if stream.read_exact(&mut head).is_err() {
                continue;
            }
            let mut left = u64::from_be_bytes(head) as usize;
            while left > 0 {
                let part = left.min(data.len());
                stream.write_all(&data[..part]).unwrap();
                left -= part;
            }
        }
    });
    at
}

fn download(at: SocketAddr, bytes: usize) {
    let mut stream = TcpStream::connect(at).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.write_all(&(bytes as u64).to_be_bytes()).unwrap();
    let mut buffer = vec![0; 256 * 1024];
    let mut all = 0;
    loop {
        match stream.read(&mut buffer).unwrap() {
            0 => break,
            read => all += read,
        }
    }
    assert_eq!(all, bytes);
}

fn time(work: impl FnOnce()) -> f64 {
    let started = Instant::now();
    work();
    started.elapsed().as_secs_f64()
}

/// The best time of each, by turns: the machine has other things to do.
fn best(rounds: usize, first: impl Fn(), second: impl Fn()) -> (f64, f64) {
    let mut best = (f64::MAX, f64::MAX);
    for _ in 0..rounds {
        best = (best.0.min(time(&first)), best.1.min(time(&second)));
    }
    best
}

#[test]
#[ignore = "measures"]
fn throughput() {
    let server = start_server();
    let inside = start_egress(server);
    let (direct, through) = best(16, || download(server, BULK), || download(inside, BULK));
    let rate = |seconds: f64| BULK as f64 / seconds / 1e6;
    println!("direct {:.0} MB/s, through {:.0} MB/s: {:.2}x", rate(direct), rate(through), direct / through);
    assert!(direct / through >= 0.7);
}

#[test]
#[ignore = "measures"]
fn a_connection() {
    let server = start_server();
    let inside = start_egress(server);
    let many = |at| move || (0..100).for_each(|_| download(at, 1));
    let (direct, through) = best(16, many(server), many(inside));
    let micros = |seconds: f64| seconds / 100.0 * 1e6;
    println!("direct {:.0} us, through {:.0} us: {:.2}x", micros(direct), micros(through), through / direct);
    assert!(through / direct <= 3.0);
}

#[test]
#[ignore = "measures"]
fn a_thousand_at_once() {
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    let inside = start_egress(upstream.local_addr().unwrap());
    let taken = time(|| {
        let mut pairs = Vec::new();
        for _ in 0..CONNECTIONS {
            let client = TcpStream::connect(inside).unwrap();
            pairs.push((client, upstream.accept().unwrap().0));
        }
        // All of them are alive, in any order.
        for (client, _) in &mut pairs {
            client.write_all(b"\0here").unwrap();
        }
        let mut heard = 0;
        for (_, server) in pairs.iter_mut().rev() {
            let mut got = [0; 5];
            server.read_exact(&mut got).unwrap();
            server.write_all(&got).unwrap();
            heard += 1;
        }
        for (client, _) in &mut pairs {
            let mut got = [0; 5];
            client.read_exact(&mut got).unwrap();
        }
        assert_eq!(heard, CONNECTIONS);
    });
    println!("{CONNECTIONS} connections at once: {taken:.2} s");
}
