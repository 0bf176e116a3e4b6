-- Under which policy a sandbox lives and what was enforced, for the audit of what is done in it.
ALTER TABLE sandboxes ADD COLUMN policy_digest TEXT;
ALTER TABLE sandboxes ADD COLUMN receipt_digest TEXT;
