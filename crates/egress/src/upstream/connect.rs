//! CONNECT through an HTTP proxy.

use ringfence_policy::Host;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::authority;
use crate::dial::DialError;

const LONGEST_HEAD: usize = 16 * 1024;
const END: &[u8] = b"\r\n\r\n";

pub(super) async fn tunnel(
    stream: &mut TcpStream,
    host: &Host,
    port: u16,
    authorization: Option<&str>,
) -> Result<(), DialError> {
    let target = authority(host, port);
    let mut request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n");
    if let Some(value) = authorization {
        request.push_str(&format!("Proxy-Authorization: {value}\r\n"));
    }
    request.push_str("\r\n");
    stream.write_all(request.as_bytes()).await?;
    let head = read_head(stream).await?;
    let line =
        String::from_utf8_lossy(head.split(|&byte| byte == b'\r').next().unwrap_or_default()).into_owned();
    let mut words = line.split(' ');
    let version = words.next().unwrap_or_default();
    let status = words.next().unwrap_or_default();
    if version.starts_with("HTTP/1.") && status.len() == 3 && status.starts_with('2') {
        Ok(())
    } else {
        Err(DialError::Proxy(line.chars().take(200).collect()))
    }
}

/// The head of an answer, and not one byte of what follows it.
async fn read_head(stream: &mut TcpStream) -> Result<Vec<u8>, DialError> {
    let mut head = Vec::new();
    let mut buffer = [0; 1024];
    loop {
        let seen = stream.peek(&mut buffer).await?;
        if seen == 0 {
            return Err(DialError::Proxy("it closed the connection".to_owned()));
        }
        let before = head.len();
        head.extend_from_slice(buffer.get(..seen).unwrap_or_default());
        let from = before.saturating_sub(END.len());
        let end = head.iter().enumerate().skip(from).find_map(|(at, _)| {
            head.get(at..at + END.len()).filter(|part| *part == END).map(|_| at + END.len())
        });
        let taken = end.unwrap_or(head.len()) - before;
        stream.read_exact(buffer.get_mut(..taken).unwrap_or_default()).await?;
        if let Some(end) = end {
            head.truncate(end);
            return Ok(head);
        }
        if head.len() > LONGEST_HEAD {
            return Err(DialError::Proxy("its answer has no end".to_owned()));
        }
    }
}
