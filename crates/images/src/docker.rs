//! An image of a Docker daemon, as the daemon saves it: one request over its socket, whose answer is a tar. HTTP/1.0, so that the
//! answer is plain bytes to its end.

use std::io::{BufRead, BufReader, Read, Write, copy};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::{During, ImageError, Result};
use crate::spool::Spool;

const SOCKET: &str = "/var/run/docker.sock";
/// For the daemon to begin its answer, and between two parts of it.
const PATIENCE: Duration = Duration::from_secs(60);
const MOST_HEAD: u64 = 64 << 10;

/// Where the daemon listens, as its own client finds it.
pub(crate) fn socket() -> Result<PathBuf> {
    match std::env::var("DOCKER_HOST").ok().filter(|host| !host.is_empty()) {
        None => Ok(PathBuf::from(SOCKET)),
        Some(host) => match host.strip_prefix("unix://") {
            Some(path) => Ok(PathBuf::from(path)),
            None => Err(ImageError::new(
                "image-docker",
                format!("DOCKER_HOST is {host}, and images are taken over a unix socket only"),
                "save the image to a file with `docker save -o FILE NAME`, then pass --from FILE",
            )),
        },
    }
}

/// The tar of one image, in the spool.
pub(crate) fn save(name: &str, socket: &Path, spool: &Spool, most: u64) -> Result<PathBuf> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/:@".contains(&byte);
    if name.is_empty() || name.len() > 255 || !name.bytes().all(plain) {
        return Err(ImageError::refused(
            "image-docker",
            "what follows `docker:` is not the name of an image",
        ));
    }
    let failed = |error: &std::io::Error| {
        ImageError::new(
            "image-docker",
            format!("the Docker daemon at {} can't be asked: {error}", socket.display()),
            "start it, or save the image elsewhere with `docker save -o FILE NAME` and pass --from FILE",
        )
    };
    let mut stream = UnixStream::connect(socket).map_err(|error| failed(&error))?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(|error| failed(&error))?;
    write!(stream, "GET /images/{name}/get HTTP/1.0\r\nHost: docker\r\n\r\n")
        .map_err(|error| failed(&error))?;
    let mut answer = BufReader::new(stream);
    let status = head(&mut answer).map_err(|error| failed(&error))?;
    match status {
        200 => {}
        404 => {
            return Err(ImageError::new(
                "image-docker",
                format!("the Docker daemon has no image `{name}`"),
                "look with `docker image ls`; one that is elsewhere has to be pulled first",
            ));
        }
        other => return Err(failed(&std::io::Error::other(format!("it answered {other}")))),
    }
    let (path, mut out) = spool.create(false)?;
    let count = copy(&mut answer.take(most + 1), &mut out).at("receive", &path)?;
    if count > most {
        return Err(ImageError::refused("image-too-much", format!("image `{name}` of Docker is too large")));
    }
    Ok(path)
}

/// The status; what follows is the body.
fn head(answer: &mut impl BufRead) -> std::io::Result<u16> {
    let mut status = None;
    let mut answer = answer.take(MOST_HEAD);
    let wrong = || std::io::Error::other("its answer is not HTTP");
    loop {
        let mut line = String::new();
        if answer.read_line(&mut line)? == 0 {
            return Err(wrong());
        }
        if line.to_ascii_lowercase().starts_with("transfer-encoding:") {
            return Err(std::io::Error::other("its answer is in chunks"));
        }
        if status.is_none() {
            let mut words = line.split(' ');
            let version = words.next().unwrap_or_default();
            let number = words.next().and_then(|number| number.trim().parse().ok());
            status = number.filter(|_| version.starts_with("HTTP/1."));
            status.ok_or_else(wrong)?;
        } else if line == "\r\n" {
            return status.ok_or_else(wrong);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads() {
        let read = |text: &str| head(&mut text.as_bytes()).ok();
        assert_eq!(read("HTTP/1.0 200 OK\r\nA: b\r\n\r\nbody"), Some(200));
        assert_eq!(read("HTTP/1.1 404 Not Found\r\n\r\n"), Some(404));
        for wrong in [
            "",
            "HTTP/1.0 200 OK\r\n",
            "200\r\n\r\n",
            "HTTP/1.0 x\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
