-- Who made a user or a key, and who made those, as JSON: whoever asks for something does not approve it through what they made.
ALTER TABLE users ADD COLUMN makers TEXT NOT NULL DEFAULT '[]';
ALTER TABLE api_keys ADD COLUMN makers TEXT NOT NULL DEFAULT '[]';
