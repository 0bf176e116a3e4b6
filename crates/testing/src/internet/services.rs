//! The services that only some tests need, each started when it is first asked for: ssh, git, PostgreSQL, Redis and the
//! user's own proxies.

use std::fs;
use std::os::unix::fs::chown;
use std::path::PathBuf;
use std::sync::OnceLock;

use super::Place;
use super::daemon::{ACCOUNT, ACCOUNT_ID, Daemon, FILES, prepare};

/// An HTTP proxy (CONNECT to any port, and plain requests) and a SOCKS5 one.
pub const HTTP_PROXY_PORT: u16 = 8888;
pub const SOCKS_PROXY_PORT: u16 = 1080;

/// What an ssh client needs to be let in, and to know whom it speaks to.
#[derive(Debug)]
pub struct SshAccess {
    pub user: &'static str,
    /// The private key.
    pub key: String,
    /// The server's public key, as `ssh-ed25519 AAAA…`.
    pub server_key: String,
}

#[derive(Debug)]
pub struct Services {
    place: &'static Place,
    ssh: OnceLock<SshAccess>,
    git: OnceLock<()>,
    postgres: OnceLock<()>,
    redis: OnceLock<()>,
    proxies: OnceLock<()>,
    starttls: OnceLock<()>,
}

impl Services {
    pub(super) fn new(place: &'static Place) -> Self {
        let (ssh, git, postgres) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        let (redis, proxies, starttls) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        Self { place, ssh, git, postgres, redis, proxies, starttls }
    }

    /// sshd on port 22 of every address.
    pub fn ssh(&self) -> &SshAccess {
        self.ssh.get_or_init(|| {
            prepare(
                self.place,
                "for key in host client; do ssh-keygen -q -t ed25519 -N '' -C '' -f $key; done; \
                 mkdir -m 700 .ssh; cp client.pub .ssh/authorized_keys",
            );
            let (key, server_key) = self.place.within(|| {
                // sshd wants its own key to be root's.
                chown(format!("{FILES}/host"), Some(0), Some(0)).expect("chown the host key");
                fs::write(format!("{FILES}/sshd.conf"), SSHD).expect("write sshd.conf");
                let read = |name| fs::read_to_string(format!("{FILES}/{name}")).expect("a key");
                (read("client"), read("host.pub").trim().to_owned())
            });
            Daemon::new("sshd", &["/usr/sbin/sshd", "-D", "-e", "-f", "/run/rf/sshd.conf"])
                .start_at(self.place, "127.0.0.1:22");
            SshAccess { user: ACCOUNT, key, server_key }
        })
    }

    /// `git/project.git`, over https through nginx and over ssh; the file in it is `hello.txt`.
    pub fn git(&self) {
        self.git.get_or_init(|| {
            prepare(
                self.place,
                "git init -q -b main work; cd work; echo hello from git > hello.txt; git add .; \
                 git -c user.name=a -c user.email=a@b commit -q -m first; mkdir ../git; \
                 git clone -q --bare . ../git/project.git; git -C ../git/project.git config http.receivepack true",
            );
            Daemon::new("fcgiwrap", &["fcgiwrap", "-s", "unix:/run/rf/fcgi"]).without_root().start(self.place);
            prepare(self.place, "until test -S fcgi; do sleep 0.01; done");
        });
    }

    /// The path of that repository on the server.
    #[must_use]
    pub fn repository() -> String {
        format!("{FILES}/git/project.git")
    }

    /// PostgreSQL on port 5432 of every address, with TLS; user `tester` needs no password.
    ///
    /// # Panics
    /// If it isn't installed.
    pub fn postgres(&self) {
        self.postgres.get_or_init(|| {
            let bin = postgres_programs().expect("PostgreSQL is installed: ./test installs it");
            prepare(
                self.place,
                &format!(
                    "{}/initdb -D pg -U tester -A trust -N --no-instructions >initdb.log 2>&1 || {{ cat initdb.log; exit 1; }}; \
                     echo 'host all all all trust' >> pg/pg_hba.conf; cp good.key pg.key; chmod 600 pg.key",
                    bin.display()
                ),
            );
            let program = bin.join("postgres").display().to_string();
            let settings = [
                "listen_addresses=*",
                "unix_socket_directories=/run/rf/pg",
                "fsync=off",
                "ssl=on",
                "ssl_cert_file=/run/rf/good.pem",
                "ssl_key_file=/run/rf/pg.key",
            ];
            let mut args = vec![program.as_str(), "-D", "/run/rf/pg"];
            args.extend(settings.iter().flat_map(|setting| ["-c", setting]));
            Daemon::new("postgres", &args).without_root().start_at(self.place, "127.0.0.1:5432");
            prepare(
                self.place,
                &format!("until {}/pg_isready -q -h /run/rf/pg; do sleep 0.02; done", bin.display()),
            );
        });
    }

    /// Redis on port 6379 of every address.
    pub fn redis(&self) {
        self.redis.get_or_init(|| {
            let args =
                ["redis-server", "--port", "6379", "--bind", "0.0.0.0", "::", "--protected-mode", "no"];
            Daemon::new("redis", &[&args[..], &["--save", ""]].concat())
                .without_root()
                .start_at(self.place, "127.0.0.1:6379");
        });
    }

    /// The user's own proxies.
    pub fn proxies(&self) {
        self.proxies.get_or_init(|| {
            self.place.within(|| fs::write(format!("{FILES}/tinyproxy.conf"), TINYPROXY).expect("write"));
            Daemon::new("tinyproxy", &["tinyproxy", "-d", "-c", "/run/rf/tinyproxy.conf"])
                .without_root()
                .start_at(self.place, &format!("127.0.0.1:{HTTP_PROXY_PORT}"));
            Daemon::new("microsocks", &["microsocks", "-i", "0.0.0.0", "-p", "1080"])
                .without_root()
                .start_at(self.place, &format!("127.0.0.1:{SOCKS_PROXY_PORT}"));
        });
    }

    /// A mail server on port 587 that does nothing but go over to TLS when it is asked to.
    pub fn starttls(&self) {
        const SERVER: &str = "import socketserver, ssl\n\
            class Mail(socketserver.StreamRequestHandler):\n\
            \x20 def handle(self):\n\
            \x20   self.request.sendall(b'220 mail.test ESMTP\\r\\n')\n\
            \x20   if not self.rfile.readline().startswith(b'STARTTLS'): return\n\
            \x20   self.request.sendall(b'220 go on\\r\\n')\n\
            \x20   context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)\n\
            \x20   context.load_cert_chain('good.pem', 'good.key')\n\
            \x20   context.wrap_socket(self.request, server_side=True)\n\
            class Server(socketserver.ThreadingTCPServer): allow_reuse_address = True\n\
            Server(('0.0.0.0', 587), Mail).serve_forever()";
        self.starttls.get_or_init(|| {
            Daemon::new("starttls", &["/usr/bin/python3", "-c", SERVER])
                .start_at(self.place, "127.0.0.1:587");
        });
    }

    /// What a server has said so far.
    #[must_use]
    pub fn log_of(&self, name: &str) -> String {
        self.place.within(|| fs::read_to_string(format!("{FILES}/{name}.log")).unwrap_or_default())
    }
}

/// The newest PostgreSQL's directory of programs.
pub(super) fn postgres_programs() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?.flatten().map(|entry| entry.path().join("bin"));
    versions.filter(|bin| bin.join("postgres").exists() && bin.join("initdb").exists()).max()
}

const SSHD: &str = "Port 22\nHostKey /run/rf/host\nPidFile none\nUsePAM no\nStrictModes no\n\
    PasswordAuthentication no\nKbdInteractiveAuthentication no\nAuthorizedKeysFile .ssh/authorized_keys\n\
    UseDNS no\nMaxStartups 100\nPrintMotd no\n";

const TINYPROXY: &str = "Port 8888\nTimeout 60\nMaxClients 100\nLogLevel Connect\n";

const _: () = assert!(ACCOUNT_ID != crate::USER_ID);
