-- Approvals that hold for more than one action.
CREATE TABLE decisions (
    id         TEXT    NOT NULL PRIMARY KEY CHECK (id <> ''),
    user_name  TEXT    NOT NULL REFERENCES users (name) ON DELETE CASCADE,
    kind       TEXT    NOT NULL,
    shape      TEXT    NOT NULL,
    scope      TEXT    NOT NULL,
    session    TEXT,
    until      BIGINT,
    by_name    TEXT    NOT NULL,
    made       BIGINT  NOT NULL
);
CREATE INDEX decisions_by_shape ON decisions (user_name, kind, shape);

-- Answers to requests that carried an idempotency key.
CREATE TABLE answers (
    user_name      TEXT    NOT NULL,
    route          TEXT    NOT NULL,
    request_key    TEXT    NOT NULL,
    request_digest TEXT    NOT NULL,
    instance       TEXT    NOT NULL,
    begun          BIGINT  NOT NULL,
    status         INTEGER,
    headers        TEXT,
    body           BLOB,
    PRIMARY KEY (user_name, route, request_key)
);
CREATE INDEX answers_by_age ON answers (begun);
