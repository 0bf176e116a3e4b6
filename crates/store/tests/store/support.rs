//! A store in a directory of its own, with a clock that stands still until it is moved.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use ringfence_store::{AuditEntry, Claim, Clock, Level, NewAction, NewSandbox, Role, Store, StoreOptions};
use serde_json::json;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions, Connection};
use tempfile::TempDir;

pub(crate) const START: i64 = 1_800_000_000_000;

pub(crate) struct Scene {
    pub(crate) directory: TempDir,
    pub(crate) store: Store,
    time: Arc<AtomicI64>,
}

impl Scene {
    pub(crate) async fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let time = Arc::new(AtomicI64::new(START));
        let store = open(&directory, &time).await;
        Self { directory, store, time }
    }

    /// With users `ann` and `bob` (operators), `eve` and `max` (approvers), `root` (admin).
    pub(crate) async fn with_users() -> Self {
        let scene = Self::new().await;
        for (name, role) in [
            ("ann", Role::Operator),
            ("bob", Role::Operator),
            ("eve", Role::Approver),
            ("max", Role::Approver),
            ("root", Role::Admin),
        ] {
            scene.store.add_user(name, role).await.expect("a user");
        }
        scene
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join("ringfence.db")
    }

    pub(crate) fn anchor(&self) -> PathBuf {
        self.directory.path().join("audit.anchor")
    }

    pub(crate) fn pass(&self, milliseconds: i64) {
        self.time.fetch_add(milliseconds, Ordering::SeqCst);
    }

    /// As another process would have it: connections of its own, the same clock.
    pub(crate) async fn another(&self) -> Store {
        open(&self.directory, &self.time).await
    }

    /// Past the store, as somebody with the file.
    pub(crate) async fn attacker(&self) -> SqliteConnection {
        let options = SqliteConnectOptions::new().filename(self.path()).foreign_keys(false);
        options.connect().await.expect("a connection")
    }

    pub(crate) async fn tamper(&self, sql: &str) {
        let mut connection = self.attacker().await;
        sqlx::raw_sql(sqlx::AssertSqlSafe(sql.to_owned()))
            .execute(&mut connection)
            .await
            .unwrap_or_else(|error| panic!("{sql}: {error}"));
        connection.close().await.expect("closing");
    }
}

async fn open(directory: &TempDir, time: &Arc<AtomicI64>) -> Store {
    let time = Arc::clone(time);
    let clock = Clock::new(move || time.load(Ordering::SeqCst));
    let options = StoreOptions { clock, ..StoreOptions::default() };
    Store::open_with(&directory.path().join("ringfence.db"), options).await.expect("a store")
}

pub(crate) fn entry(target: &str) -> AuditEntry {
    AuditEntry {
        at: START,
        user: "ann".into(),
        kind: "run".into(),
        target: Some(target.into()),
        decision: Some("allow".into()),
        policy_digest: Some("aa".repeat(32)),
        receipt_digest: Some("bb".repeat(32)),
        denials: json!([{"rule": "network off", "what": "connect 1.2.3.4:443"}]),
        result: json!({"code": 0, "milliseconds": 12.5}),
        request_id: Some("request-1".into()),
        origin: Some("http".into()),
    }
}

pub(crate) fn entries(count: usize) -> Vec<AuditEntry> {
    (1..=count).map(|number| entry(&format!("target {number}"))).collect()
}

pub(crate) fn sandbox(id: &str, user: &str) -> NewSandbox {
    NewSandbox {
        id: id.into(),
        user: user.into(),
        name: None,
        profile: "restrictive".into(),
        workspace: Some("main".into()),
        labels: json!({"team": "blue"}),
        request: Some(r#"{"overlay":true}"#.into()),
        claim: Claim { memory: 1 << 20, cpus: 500 },
    }
}

pub(crate) fn action(id: &str, user: &str, level: Level) -> NewAction {
    NewAction {
        id: id.into(),
        user: user.into(),
        kind: "run".into(),
        level,
        summary: "make test".into(),
        request: json!({"command": ["make", "test"]}),
        digest: "d1".into(),
        reasons: vec!["it asks for the network".into(), "a secret".into()],
        expires: START + 60_000,
        decided: None,
    }
}

/// Different in each run, and told, so that a failure can be repeated.
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new() -> Self {
        let mut bytes = [0_u8; 8];
        rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).expect("random numbers");
        let seed = u64::from_le_bytes(bytes) | 1;
        println!("seed {seed}");
        Self(seed)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}
