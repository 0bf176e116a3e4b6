-- Times are milliseconds since 1970. Digests are lower-case hex. JSON is text.

CREATE TABLE users (
    name       TEXT    NOT NULL PRIMARY KEY CHECK (name <> ''),
    role       TEXT    NOT NULL,
    created    BIGINT  NOT NULL,
    disabled   BOOLEAN NOT NULL DEFAULT FALSE
);

-- Names that are not given again: the audit and directories speak of their old owners.
CREATE TABLE removed_users (
    name       TEXT    NOT NULL PRIMARY KEY,
    removed    BIGINT  NOT NULL
);

CREATE TABLE api_keys (
    id          TEXT   NOT NULL PRIMARY KEY CHECK (id <> ''),
    user_name   TEXT   NOT NULL REFERENCES users (name) ON DELETE CASCADE,
    role        TEXT   NOT NULL,
    label       TEXT,
    secret_hash TEXT   NOT NULL UNIQUE,
    created     BIGINT NOT NULL,
    expires     BIGINT,
    last_used   BIGINT,
    revoked     BIGINT
);
CREATE INDEX api_keys_of_user ON api_keys (user_name);

CREATE TABLE sandboxes (
    id         TEXT    NOT NULL PRIMARY KEY CHECK (id <> ''),
    user_name  TEXT    NOT NULL REFERENCES users (name),
    name       TEXT,
    state      TEXT    NOT NULL,
    profile    TEXT    NOT NULL,
    workspace  TEXT,
    created    BIGINT  NOT NULL,
    ended      BIGINT,
    ended_why  TEXT,
    labels     TEXT    NOT NULL
);
CREATE INDEX sandboxes_of_user ON sandboxes (user_name, id);
CREATE INDEX sandboxes_living ON sandboxes (user_name) WHERE state <> 'ended';
CREATE UNIQUE INDEX sandbox_names ON sandboxes (user_name, name) WHERE state <> 'ended';

CREATE TABLE actions (
    id          TEXT   NOT NULL PRIMARY KEY CHECK (id <> ''),
    user_name   TEXT   NOT NULL REFERENCES users (name),
    kind        TEXT   NOT NULL,
    level       TEXT   NOT NULL,
    state       TEXT   NOT NULL,
    summary     TEXT   NOT NULL,
    request     TEXT   NOT NULL,
    digest      TEXT   NOT NULL,
    reasons     TEXT   NOT NULL,
    created     BIGINT NOT NULL,
    expires     BIGINT NOT NULL,
    decided_by  TEXT,
    decided_at  BIGINT,
    decided_why TEXT,
    scope       TEXT,
    finished    BIGINT,
    result      TEXT
);
CREATE INDEX actions_of_user ON actions (user_name, id);
CREATE INDEX actions_by_state ON actions (state, expires);

-- Numbered by a counter that is raised in the transaction that writes the event: who has seen number n has seen all before it.
CREATE TABLE counters (
    name       TEXT    NOT NULL PRIMARY KEY,
    value      BIGINT  NOT NULL
);
INSERT INTO counters (name, value) VALUES ('action_events', 0);

CREATE TABLE action_events (
    seq        BIGINT  NOT NULL PRIMARY KEY,
    action_id  TEXT    NOT NULL REFERENCES actions (id) ON DELETE CASCADE,
    user_name  TEXT    NOT NULL,
    state      TEXT    NOT NULL,
    by_name    TEXT,
    at         BIGINT  NOT NULL
);
CREATE INDEX action_events_of_action ON action_events (action_id);

CREATE TABLE audit (
    seq            INTEGER NOT NULL PRIMARY KEY,
    previous       TEXT    NOT NULL,
    digest         TEXT    NOT NULL,
    at             BIGINT  NOT NULL,
    user_name      TEXT    NOT NULL,
    kind           TEXT    NOT NULL,
    target         TEXT,
    decision       TEXT,
    policy_digest  TEXT,
    receipt_digest TEXT,
    denials        TEXT    NOT NULL,
    result         TEXT    NOT NULL,
    request_id     TEXT,
    origin         TEXT,
    -- What a spooled record was known by before it was folded in: so that it is folded in once.
    spool_id       TEXT    UNIQUE
);
CREATE INDEX audit_of_user ON audit (user_name, seq);

-- Against mistakes of our own. Who has the file can drop these; the chain shows what they changed.
CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON audit
BEGIN
    SELECT RAISE(ABORT, 'the audit is append-only');
END;
CREATE TRIGGER audit_is_not_deleted BEFORE DELETE ON audit
BEGIN
    SELECT RAISE(ABORT, 'the audit is append-only');
END;
