//! `ringfence serve`

use ringfence_server::{Listen, ServeOptions, serve as run_server};

use crate::args::ServeArgs;
use crate::failure::Failure;
use crate::output;

pub(crate) fn serve(args: ServeArgs) -> Result<i32, Failure> {
    let json = args.json;
    let mut listen: Vec<Listen> = args.listen.into_iter().map(Listen::Tcp).collect();
    listen.extend(args.socket.into_iter().map(Listen::Unix));
    let options = ServeOptions {
        listen,
        config: args.config,
        without_authentication: args.without_authentication,
        beyond_loopback: args.beyond_loopback,
        names: args.names,
        json_logs: args.json_logs,
    };
    if options.without_authentication {
        output::warning("everybody who reaches this server is an admin of it");
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
