//! Clients that take their time. The clock is a test's own: it jumps to the next deadline whenever everything waits.

use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::body::Frame;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, sleep};

use super::body::{Timely, boxed};
use super::testing::Origin;
use crate::testing::{Scene, Stage};

const HOST: &str = "Host: web.example.com:8081\r\n";

async fn stage(origin: &Origin) -> Stage {
    Stage::start(Scene::allow(&["web.example.com:8081"]).leading("web.example.com", origin.address)).await
}

#[tokio::test]
async fn a_head_that_never_ends_and_a_body_that_stops_are_given_up() {
    let origin = Origin::clear().await;
    let stage = stage(&origin).await;
    let body = format!("POST / HTTP/1.1\r\n{HOST}Content-Length: 10\r\n\r\nhalf");
    for (unfinished, within) in [(format!("GET / HTTP/1.1\r\n{HOST}X-Slow: "), 61), (body, 200)] {
        let mut client = stage.connect("web.example.com", 8081).await;
        client.write_all(unfinished.as_bytes()).await.unwrap();
        // It is with the server, and the host is dialled.
        sleep(Duration::from_millis(200)).await;
        tokio::time::pause();
        let started = Instant::now();
        let mut answer = Vec::new();
        let _ = client.read_to_end(&mut answer).await;
        tokio::time::resume();
        assert!(!answer.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&answer));
        assert!(started.elapsed() < Duration::from_secs(within), "{:?}", started.elapsed());
    }
    assert_eq!(origin.seen().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn only_the_time_that_a_client_takes_counts() {
    let patience = Duration::from_secs(10);
    // A frame every 9 seconds, which takes 20 to be used.
    let frames = async_frames(vec![9, 9, 9]);
    let mut body = pin!(Timely::new(frames, patience));
    for _ in 0..3 {
        assert!(body.frame().await.unwrap().is_ok());
        sleep(Duration::from_secs(20)).await;
    }
    assert!(body.frame().await.is_none());
    let mut late = pin!(Timely::new(async_frames(vec![9, 11]), patience));
    assert!(late.frame().await.unwrap().is_ok());
    assert!(late.frame().await.unwrap().is_err());
    let mut empty = pin!(Timely::new(boxed(Empty::new()), patience));
    assert!(empty.frame().await.is_none());
}

/// A body of frames that come after so many seconds each, counted from when they are waited for.
fn async_frames(seconds: Vec<u64>) -> Frames {
    Frames { left: seconds.into_iter(), wait: None }
}

struct Frames {
    left: std::vec::IntoIter<u64>,
    wait: Option<std::pin::Pin<Box<tokio::time::Sleep>>>,
}

impl hyper::body::Body for Frames {
    type Data = Bytes;
    type Error = super::body::BodyError;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        use std::future::Future;
        use std::task::{Poll, ready};
        if self.wait.is_none() {
            let Some(next) = self.left.next() else { return Poll::Ready(None) };
            self.wait = Some(Box::pin(sleep(Duration::from_secs(next))));
        }
        if let Some(wait) = &mut self.wait {
            ready!(wait.as_mut().poll(context));
        }
        self.wait = None;
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"frame")))))
    }
}
