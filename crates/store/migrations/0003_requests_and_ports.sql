-- What a sandbox was asked for with, so that a fork can be asked for again; and the ports of sandboxes that are shown.
ALTER TABLE sandboxes ADD COLUMN request TEXT;
-- What it may use: bytes, and thousandths of a processor.
ALTER TABLE sandboxes ADD COLUMN memory BIGINT NOT NULL DEFAULT 0;
ALTER TABLE sandboxes ADD COLUMN cpus BIGINT NOT NULL DEFAULT 0;

CREATE TABLE ports (
    sandbox_id TEXT    NOT NULL REFERENCES sandboxes (id) ON DELETE CASCADE,
    port       INTEGER NOT NULL CHECK (port BETWEEN 1 AND 65535),
    created    BIGINT  NOT NULL,
    PRIMARY KEY (sandbox_id, port)
);
