//! What the permissive profile, which shows the host's files, must still hide; and that it writes nothing outside.

use crate::attempt::{Props, Twin, attempt, secret_is_untouched};
use crate::row::Row;

/// One file of each group of the reviewed list.
const SECRETS: &[&str] = &[
    ".ssh/id_ed25519",
    ".gnupg/private-keys-v1.d/key",
    ".aws/credentials",
    ".azure/accessTokens.json",
    ".config/gcloud/credentials.db",
    ".kube/config",
    ".docker/config.json",
    ".netrc",
    ".git-credentials",
    ".config/gh/hosts.yml",
    ".npmrc",
    ".pypirc",
    ".cargo/credentials.toml",
    ".bash_history",
    ".zsh_history",
    ".python_history",
    ".mozilla/firefox/default/logins.json",
    ".config/google-chrome/Default/Login Data",
    ".password-store/bank.gpg",
    ".claude/.credentials.json",
    ".codex/auth.json",
    ".gemini/oauth_creds.json",
    ".local/share/opencode/auth.json",
    ".pgpass",
];

pub(crate) fn rows() -> Vec<Row> {
    let mut rows: Vec<Row> = SECRETS
        .iter()
        .map(|path| {
            attempt(format!("secret-{path}"), "reads a credential of the caller")
                .profile("permissive")
                .set_up(move |scene| {
                    scene.write(&format!("home/{path}"), &scene.token);
                    Props::default()
                })
                .probe(["read", &format!("{{home}}/{path}"), "{token}"])
                .twin(Twin::Host)
        })
        .collect();
    rows.push(
        attempt("secret-state", "reads our own state under the permissive profile")
            .profile("permissive")
            .set_up(|scene| {
                scene.write("state/canary", &scene.token);
                Props::default()
            })
            .probe(["read", "{state}/canary", "{token}"])
            .twin(Twin::Host),
    );
    rows.push(
        attempt("secret-shadow", "reads the password hashes under the permissive profile")
            .profile("permissive")
            .probe(["read-any", "/etc/shadow"])
            .twin(Twin::HostAsRoot),
    );
    for (name, args) in [
        ("write", ["fill-in-place", "{secret}"]),
        ("create", ["create", "{outside}/new"]),
        ("unlink", ["unlink", "{secret}"]),
        ("chmod", ["chmod", "{secret}"]),
    ] {
        rows.push(
            attempt(format!("permissive-{name}-outside"), "changes what the permissive profile shows")
                .profile("permissive")
                .probe(args)
                .after(secret_is_untouched)
                .twin(Twin::Host),
        );
    }
    rows
}
