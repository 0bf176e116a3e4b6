//! nginx: HTTP/1.1, HTTP/2 and TLS on every address of the test internet, git over HTTP, WebSocket, and a log of what
//! arrived.

use std::fs;
use std::sync::OnceLock;

use serde_json::Value;

use super::certificates::Credentials;
use super::daemon::{Daemon, FILES};
use super::{Certificates, Place};

/// Names with a good certificate.
pub(super) const HONEST: &[&str] = &[
    "good.test",
    "*.good.test",
    "api.test",
    "evil.test",
    "git.test",
    "ws.test",
    "tenant-a.test",
    "tenant-b.test",
    "xn--mnchen-3ya.test",
    "*.rebind.test",
];
/// HTTP/2 in clear, for those who know.
pub const H2C_PORT: u16 = 8082;
// Port 8083 is for a balancer, which says first for whom it speaks (the PROXY protocol).

#[derive(Debug)]
pub struct Web {
    place: &'static Place,
    websocket: OnceLock<()>,
}

impl Web {
    pub(super) fn start(place: &'static Place, certificates: &Certificates) -> Self {
        let files = [
            ("good", &certificates.good),
            ("other_name", &certificates.other_name),
            ("expired", &certificates.expired),
            ("self_signed", &certificates.self_signed),
            ("unknown", &certificates.unknown_authority),
        ];
        place.within(|| {
            for (name, Credentials { certificate, key }) in files {
                fs::write(format!("{FILES}/{name}.pem"), certificate).expect("write a certificate");
                fs::write(format!("{FILES}/{name}.key"), key).expect("write a key");
            }
            fs::write(format!("{FILES}/nginx.conf"), configuration()).expect("write nginx.conf");
            fs::write(format!("{FILES}/big"), vec![b'x'; 8 << 20]).expect("write a large file");
        });
        Daemon::new("nginx", &["nginx", "-p", "/run/rf/", "-c", "/run/rf/nginx.conf"])
            .start_at(place, "127.0.0.1:443");
        Self { place, websocket: OnceLock::new() }
    }

    /// The WebSocket server behind `/ws`: says `echo ` and what it was told.
    pub fn websocket(&self) {
        const SERVER: &str = "import asyncio, websockets\n\
            async def echo(ws):\n    async for text in ws: await ws.send('echo ' + text)\n\
            async def main():\n    async with websockets.serve(echo, '127.0.0.1', 8765): await asyncio.Future()\n\
            asyncio.run(main())";
        self.websocket.get_or_init(|| {
            Daemon::new("websocket", &["/usr/bin/python3", "-c", SERVER])
                .without_root()
                .start_at(self.place, "127.0.0.1:8765");
        });
    }

    /// The requests so far, one object each: address, port, host, sni, method, uri, protocol, authorization, token.
    ///
    /// # Panics
    /// If nginx wrote a line that is not JSON.
    #[must_use]
    pub fn requests(&self) -> Vec<Value> {
        let log = self.log();
        // The last line may still be on its way.
        let whole = log.rsplit_once('\n').map_or("", |(lines, _)| lines);
        whole.lines().map(|line| serde_json::from_str(line).expect("a line of the log")).collect()
    }

    /// Whether any request held `words` in its address, names, path or headers.
    #[must_use]
    pub fn saw(&self, words: &str) -> bool {
        self.log().contains(words)
    }

    fn log(&self) -> String {
        self.place.within(|| fs::read_to_string(format!("{FILES}/access.log")).unwrap_or_default())
    }
}

fn configuration() -> String {
    let servers: String = [
        ("othername.test", "other_name"),
        ("expired.test", "expired"),
        ("selfsigned.test", "self_signed"),
        ("unknown-ca.test", "unknown"),
    ]
    .iter()
    .map(|(name, files)| {
        format!(
            "server {{ listen 443 ssl http2; listen [::]:443 ssl http2; server_name {name};\n\
             ssl_certificate {files}.pem; ssl_certificate_key {files}.key;\n\
             location / {{ return 200 \"page of $host at $server_addr by $server_protocol\\n\"; }} }}\n"
        )
    })
    .collect();
    CONFIGURATION.replace("{servers}", &servers)
}

/// One process, so that one signal ends it.
const CONFIGURATION: &str = r#"
daemon off;
master_process off;
pid nginx.pid;
error_log stderr;
worker_rlimit_nofile 8192;
events { worker_connections 4096; }
http {
    log_format seen escape=json '{"address":"$server_addr","port":"$server_port","host":"$http_host",'
        '"sni":"$ssl_server_name","method":"$request_method","uri":"$request_uri","protocol":"$server_protocol",'
        '"authorization":"$http_authorization","token":"$http_x_token","from":"$remote_addr"}';
    access_log /run/rf/access.log seen;
    default_type text/plain;
    client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi; scgi_temp_path scgi;
    client_max_body_size 100m;
    server {
        listen 80 default_server; listen [::]:80 default_server;
        listen 443 ssl http2 default_server; listen [::]:443 ssl http2 default_server;
        listen 8082 http2 default_server; listen [::]:8082 http2 default_server;
        listen 8083 proxy_protocol default_server; listen [::]:8083 proxy_protocol default_server;
        server_name _;
        ssl_certificate good.pem; ssl_certificate_key good.key;
        location / { return 200 "page of $host at $server_addr by $server_protocol\n"; }
        location = /big { alias /run/rf/big; }
        location = /echo {
            add_header X-Echo $http_x_token;
            return 200 "authorization: $http_authorization\ntoken: $http_x_token\n";
        }
        # An index whose page leads nearer than the internet: to metadata, into a private network, to the machine itself.
        location ^~ /hostile-index/ {
            default_type text/html;
            return 200 "<a href='http://169.254.169.254/files/pip-99.1-py3-none-any.whl'>pip-99.1-py3-none-any.whl</a>
                <a href='http://10.1.2.3/files/pip-99.2-py3-none-any.whl'>pip-99.2-py3-none-any.whl</a>
                <a href='http://[fd00::7]/files/pip-99.3-py3-none-any.whl'>pip-99.3-py3-none-any.whl</a>
                <a href='http://203.0.113.2:8099/files/pip-99.4-py3-none-any.whl'>pip-99.4-py3-none-any.whl</a>
                <a href='http://192.0.2.66/files/pip-99.5-py3-none-any.whl'>pip-99.5-py3-none-any.whl</a>";
        }
        location = /to-private { return 302 http://10.1.2.3/; }
        location = /to-evil { return 302 http://evil.test/; }
        location = /body { proxy_pass http://127.0.0.1:8080; proxy_http_version 1.1; }
        location = /ws {
            proxy_pass http://127.0.0.1:8765;
            proxy_http_version 1.1;
            proxy_set_header Upgrade $http_upgrade;
            proxy_set_header Connection "upgrade";
        }
        location /git/ {
            fastcgi_pass unix:/run/rf/fcgi;
            fastcgi_param SCRIPT_FILENAME /usr/lib/git-core/git-http-backend;
            fastcgi_param GIT_PROJECT_ROOT /run/rf;
            fastcgi_param GIT_HTTP_EXPORT_ALL "";
            fastcgi_param PATH_INFO $uri;
            fastcgi_param QUERY_STRING $query_string;
            fastcgi_param REQUEST_METHOD $request_method;
            fastcgi_param CONTENT_TYPE $content_type;
            fastcgi_param CONTENT_LENGTH $content_length;
            fastcgi_param REMOTE_USER $remote_user;
            fastcgi_param REMOTE_ADDR $remote_addr;
            fastcgi_param SERVER_PROTOCOL $server_protocol;
        }
    }
    {servers}
}
"#;
