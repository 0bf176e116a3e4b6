//! Telling a client no, quickly and in its own protocol.

use std::time::Duration;

use ringfence_policy::NetworkReason;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::relay::reset_on_close;

/// A reset, when the stream is dropped.
pub(crate) fn turn_away(client: &TcpStream) {
    reset_on_close(client);
}

/// A fatal TLS alert. The client gets a moment to read it: closing over unread bytes would be a reset that overtakes it.
pub(super) async fn send_alert(client: &mut TcpStream, reason: &NetworkReason) {
    const ACCESS_DENIED: u8 = 49;
    const MISSING_EXTENSION: u8 = 109;
    const UNRECOGNIZED_NAME: u8 = 112;
    let alert = match reason {
        NetworkReason::NoSni => MISSING_EXTENSION,
        NetworkReason::Sni { .. } => UNRECOGNIZED_NAME,
        _ => ACCESS_DENIED,
    };
    let _ = timeout(Duration::from_secs(1), async {
        client.write_all(&[21, 3, 3, 0, 2, 2, alert]).await?;
        client.shutdown().await?;
        let mut rest = [0; 1024];
        loop {
            client.readable().await?;
            match client.try_read(&mut rest) {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    })
    .await;
}
