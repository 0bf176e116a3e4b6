//! How fast the HTTP paths are, as figures to look at: `cargo test --release -- --ignored --nocapture speed`.

use std::time::Instant;

use hyper::Response;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

use super::testing::*;
use crate::testing::{Scene, Stage};

const LENGTH: usize = 256 << 20;

fn large() -> impl Fn(&Seen) -> Response<super::Body> + Send + Sync {
    // Bytes that are no form of any value.
    let body = bytes::Bytes::from((0..LENGTH).map(|index| (index * 7 % 251) as u8).collect::<Vec<u8>>());
    move |_| Response::new(super::body::boxed(http_body_util::Full::new(body.clone())))
}

async fn download(what: &str, mut stream: impl AsyncRead + AsyncWrite + Unpin, host: &str) {
    let started = Instant::now();
    stream.write_all(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes()).await.unwrap();
    let mut buffer = vec![0; 256 << 10];
    let mut count = 0;
    while count < LENGTH {
        let read = stream.read(&mut buffer).await.unwrap();
        assert!(read > 0, "{what}: {count}");
        count += read;
    }
    let rate = count as f64 / 1e6 / started.elapsed().as_secs_f64();
    println!("{what}: {rate:.0} MB/s");
}

#[tokio::test]
#[ignore = "figures, not a test"]
async fn speed() {
    let trust = Trust::new();
    let clear = Origin::answering(large()).await;
    let tls = Origin::tls_answering(trust.server(&Identity::of("api.example.com")), large()).await;
    let rules = ["web.example.com:8081", "api.example.com:8443", "ruled.example.com:8443"];
    let mut scene = Scene::allow(&rules);
    let secret =
        add_secret(&mut scene, "T=env:T@api.example.com", "ghp_planted/Value+0123456789", "stand-in-0123");
    scene.terminator = Some(trust.terminator(&scene, vec![secret]));
    let scene = scene.leading("web.example.com", clear.address).leading("api.example.com", tls.address);
    let stage = Stage::start(scene).await;
    download("clear, direct", TcpStream::connect(clear.address).await.unwrap(), "x").await;
    download("clear, through egress", stage.connect("web.example.com", 8081).await, "web.example.com:8081")
        .await;
    let client = tls_client(&stage, "api.example.com", 8443, &["http/1.1"]).await.unwrap();
    download("TLS ended here, with a secret", client, "api.example.com:8443").await;
}
