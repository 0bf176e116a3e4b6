//! A test internet: a *machine*, where `ringfence` runs, and a *world* with everything that it might speak to, each in
//! namespaces of its own that only this process holds. Servers are real; addresses are of every sort, private and
//! metadata ones too; nothing is ever sent from this machine's own network namespace.
//!
//! ```no_run
//! use ringfence_testing::{Identity, Internet, Scene, Test};
//!
//! let Some(internet) = Internet::get() else { return };
//! let scene = Scene::new(Identity::User);
//! let test = Test::in_scene(&scene).args(["--allow-host", "good.test"]);
//! internet.machine.within(|| test.run(["curl", "-s", "http://good.test/"])).code(0);
//! assert!(internet.web.saw("good.test"));
//! ```
//!
//! It is started once for a test process, and what only some tests need when it is first asked for.

mod addresses;
mod certificates;
mod daemon;
mod dns;
mod dns_message;
mod machine;
mod place;
mod recorder;
mod services;
mod web;

use std::sync::OnceLock;

pub use addresses::{
    CDN, CLOSED, DNS, EVIL, EVIL_V6, MACHINE_PRIVATE, MACHINE_V4, MACHINE_V6, METADATA, NAT64_METADATA,
    NAT64_TEN, PROXY, SERVICES, SERVICES_V6, SHARED, TEN, UNIQUE_LOCAL, WEB, WEB_V6,
};
pub use certificates::{Certificates, Credentials};
pub use dns::{Answer, Dns, Query};
pub use place::Place;
pub use recorder::{Contact, ECHO_PORT, RAW_HTTP_PORT, Recorder, SCRIPTED_HTTP_PORT, SMTP_PORT};
pub use services::{HTTP_PROXY_PORT, SOCKS_PROXY_PORT, Services, SshAccess};
pub use web::{H2C_PORT, Web};

const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Programs that the servers and set-up need, in `PATH`.
const PROGRAMS: &[&str] = &[
    "ip",
    "setpriv",
    "openssl",
    "nginx",
    "sshd",
    "ssh-keygen",
    "git",
    "fcgiwrap",
    "redis-server",
    "tinyproxy",
    "microsocks",
];

#[derive(Debug)]
pub struct Internet {
    /// Where `ringfence` is run. Its name server is the test internet's, and it trusts the test authority.
    pub machine: &'static Place,
    /// Every other host.
    pub world: &'static Place,
    pub dns: Dns,
    pub recorder: Recorder,
    pub web: Web,
    pub services: Services,
    pub certificates: Certificates,
}

impl Internet {
    /// The internet of this test process. Without root or without the servers there is none: a notice, or a failure in
    /// CI.
    ///
    /// # Panics
    /// If it can't be started, or can't be had in CI.
    #[must_use]
    pub fn get() -> Option<&'static Self> {
        static INTERNET: OnceLock<Result<Internet, String>> = OnceLock::new();
        match INTERNET.get_or_init(|| missing().map_or_else(|| Ok(Self::start()), Err)) {
            Ok(internet) => Some(internet),
            // Each test says so for itself, however many share a process.
            Err(why) => {
                assert!(std::env::var("CI").as_deref() != Ok("true"), "no test internet: {why}");
                let test = std::thread::current().name().unwrap_or("a test").to_owned();
                eprintln!("skipped: {test}: nothing was tried, there is no test internet: {why}");
                None
            }
        }
    }

    fn start() -> Self {
        let certificates = Certificates::make(web::HONEST);
        let authority = certificates.authority.clone();
        // Both live as long as the process.
        let machine: &Place = Box::leak(Box::new(Place::make(move || machine::furnish(&authority))));
        let world: &Place = Box::leak(Box::new(Place::make(daemon::furnish)));
        addresses::connect(machine, world);
        let (dns, recorder) = (Dns::start(world), Recorder::start(world));
        fill(&dns);
        let web = Web::start(world, &certificates);
        Self { machine, world, dns, recorder, web, services: Services::new(world), certificates }
    }
}

/// The names that are there from the start.
fn fill(dns: &Dns) {
    for (name, addresses) in [
        ("good.test", &[WEB, WEB_V6][..]),
        ("*.good.test", &[WEB, WEB_V6]),
        ("api.test", &[WEB, WEB_V6]),
        ("v4only.good.test", &[WEB]),
        ("v6only.good.test", &[WEB_V6]),
        ("xn--mnchen-3ya.test", &[WEB]),
        ("ws.test", &[WEB, WEB_V6]),
        ("othername.test", &[WEB]),
        ("expired.test", &[WEB]),
        ("selfsigned.test", &[WEB]),
        ("unknown-ca.test", &[WEB]),
        ("evil.test", &[EVIL, EVIL_V6]),
        ("*.evil.test", &[EVIL, EVIL_V6]),
        ("git.test", &[SERVICES, SERVICES_V6]),
        ("ssh.test", &[SERVICES, SERVICES_V6]),
        ("mail.test", &[SERVICES, SERVICES_V6]),
        ("db.test", &[SERVICES, SERVICES_V6]),
        ("redis.test", &[SERVICES]),
        ("echo.test", &[SERVICES, SERVICES_V6]),
        ("raw.test", &[SERVICES]),
        ("tenant-a.test", &[CDN]),
        ("tenant-b.test", &[CDN]),
        ("proxy.test", &[PROXY]),
        ("localhost.evil.test", &["127.0.0.1", "::1"]),
        ("mixed.evil.test", &[EVIL, TEN]),
        ("zero.evil.test", &["0.0.0.0", "::"]),
    ] {
        dns.point(name, addresses);
    }
    for (class, address) in CLOSED {
        dns.point(&format!("{class}.evil.test"), &[address]);
    }
    dns.set("alias-to-private.evil.test", [Answer::Alias("private-10.evil.test".into())]);
    dns.set("alias-to-loopback.evil.test", [Answer::Alias("localhost.evil.test".into())]);
    let service = Answer::Service { target: "private-10.evil.test".into(), port: ECHO_PORT };
    dns.set("_echo._tcp.evil.test", [service]);
    dns.set(
        "*.tunnel.test",
        [Answer::Text("orders-from-outside".into()), Answer::Address(EVIL.parse().expect("an address"))],
    );
}

/// Why there can be no test internet here.
fn missing() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some(
            "the tests are not run by root, who can make network namespaces for two identities".into(),
        );
    }
    let absent = |name: &&&str| !PATH.split(':').any(|dir| std::path::Path::new(dir).join(name).exists());
    let mut absent: Vec<&str> = PROGRAMS.iter().filter(absent).copied().collect();
    if services::postgres_programs().is_none() {
        absent.push("postgres");
    }
    (!absent.is_empty()).then(|| format!("{} can't be found: ./test installs them", absent.join(", ")))
}
