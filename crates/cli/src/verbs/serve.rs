//! `ringfence serve`

use std::net::{Ipv4Addr, SocketAddr};

use ringfence_server::{Listen, ServeOptions, TlsFiles, serve as run_server};

use crate::args::ServeArgs;
use crate::failure::Failure;
use crate::output;

/// Where the server is unless it is told where to be.
const PORT: u16 = 7070;

pub(crate) fn serve(args: ServeArgs) -> Result<i32, Failure> {
    let json = args.json;
    let mut listen: Vec<Listen> = args.listen.into_iter().map(Listen::Tcp).collect();
    listen.extend(args.socket.into_iter().map(Listen::Unix));
    if listen.is_empty() {
        listen.push(Listen::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, PORT))));
    }
    let tls = args.tls_cert.zip(args.tls_key).map(|(cert, key)| TlsFiles { cert, key });
    let options = ServeOptions {
        listen,
        config: args.config,
        without_authentication: args.without_authentication,
        beyond_loopback: args.beyond_loopback,
        names: args.names,
        json_logs: args.json_logs,
        tls,
    };
    if options.without_authentication {
        output::warning("everybody who reaches this server is an admin of it");
    }
    if options.beyond_loopback && options.tls.is_none() {
        output::warning("without --tls-cert and --tls-key, keys go over the network as they are");
    }
    run_server(options, |served| {
        if json {
            let object = serde_json::json!({ "addresses": served.addresses, "first_url": served.first_url });
            output::json(&object);
            return;
        }
        for address in &served.addresses {
            output::line(format!("listening on {address}"));
        }
        if let Some(url) = &served.first_url {
            output::line(format!("first start: {url}"));
        }
    })?;
    Ok(0)
}
