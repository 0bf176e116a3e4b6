//! Host paths that hold secrets, hidden when a policy shows all host files: reviewed data.
//!
//! A relative path is below the caller's home. Each entry says what it holds. A list can't be complete: SECURITY
//! names that as a limit of `host = "all"`. Entries are exact paths, no patterns, so that each can be covered by a
//! mount; a directory is hidden whole where its secrets have no fixed names.

use serde::Serialize;

/// One path and what it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Secret {
    /// Below the home directory, or absolute.
    pub path: &'static str,
    pub reason: &'static str,
}

const fn s(path: &'static str, reason: &'static str) -> Secret {
    Secret { path, reason }
}

const SECRETS: &[Secret] = &[
    // Keys
    s(".ssh", "ssh private keys, and hosts to use them on"),
    s(".gnupg", "gpg private keys"),
    s(".pki", "private keys and certificates of browsers and tools"),
    s(".config/sops", "age keys that decrypt sops files"),
    s(".config/age", "age private keys"),
    s(".minisign", "signing keys"),
    s(".putty", "ssh private keys and sessions of putty"),
    // Password stores and keyrings
    s(".password-store", "passwords of pass"),
    s(".local/share/keyrings", "passwords of the desktop keyring"),
    s(".local/share/kwalletd", "passwords of kwallet"),
    s(".config/keepassxc", "keepassxc settings, with the key file's place"),
    s(".config/1Password", "1password accounts"),
    s(".config/op", "1password command-line session"),
    s(".config/Bitwarden", "bitwarden vault"),
    s(".config/Bitwarden CLI", "bitwarden command-line session"),
    s(".local/share/gopass", "passwords of gopass"),
    s(".config/gopass", "gopass settings and identities"),
    // Cloud and infrastructure
    s(".aws", "aws keys and sessions"),
    s(".config/gcloud", "google cloud credentials"),
    s(".azure", "azure tokens"),
    s(".config/doctl", "digitalocean token"),
    s(".config/hcloud", "hetzner cloud token"),
    s(".config/linode-cli", "linode token"),
    s(".config/scw", "scaleway keys"),
    s(".oci", "oracle cloud keys"),
    s(".bluemix", "ibm cloud tokens"),
    s(".aliyun", "alibaba cloud keys"),
    s(".config/openstack", "openstack passwords"),
    s(".fly", "fly.io token"),
    s(".config/heroku", "heroku session"),
    s(".config/netlify", "netlify token"),
    s(".local/share/com.vercel.cli", "vercel token"),
    s(".config/.wrangler", "cloudflare token"),
    s(".wrangler", "cloudflare token, older place"),
    s(".config/rclone", "passwords of remote storage"),
    s(".s3cfg", "s3 keys of s3cmd"),
    s(".boto", "s3 and google storage keys of boto and gsutil"),
    s(".mc", "s3 keys of the minio client"),
    s(".config/restic", "backup passwords"),
    s(".kube", "kubernetes credentials"),
    s(".docker", "registry passwords, and contexts with keys"),
    s(".config/containers/auth.json", "registry passwords of podman and buildah"),
    s(".config/helm", "helm repository passwords"),
    s(".terraform.d", "terraform cloud token"),
    s(".terraformrc", "terraform cloud token"),
    s(".pulumi", "pulumi token"),
    s(".vault-token", "vault token"),
    s(".config/ansible", "ansible vault passwords"),
    s(".ansible", "ansible tokens and control sockets"),
    // Version control and package registries
    s(".netrc", "passwords by host name, used by git, curl and pip"),
    s(".git-credentials", "git passwords"),
    s(".config/git/credentials", "git passwords"),
    s(".config/gh", "github token"),
    s(".config/hub", "github token of hub"),
    s(".config/glab-cli", "gitlab token"),
    s(".config/tea", "gitea token"),
    s(".npmrc", "npm token"),
    s(".config/npm", "npm token, newer place"),
    s(".yarnrc", "npm token of yarn"),
    s(".yarnrc.yml", "npm token of yarn"),
    s(".config/pnpm/rc", "npm token of pnpm"),
    s(".bunfig.toml", "npm token of bun"),
    s(".pypirc", "pypi token"),
    s(".config/pip", "index address, often with a password"),
    s(".pip", "index address, often with a password"),
    s(".config/pypoetry/auth.toml", "pypi passwords of poetry"),
    s(".local/share/uv/credentials", "index passwords of uv"),
    s(".condarc", "channel address, often with a token"),
    s(".cargo/credentials", "crates.io token"),
    s(".cargo/credentials.toml", "crates.io token"),
    s(".gem/credentials", "rubygems token"),
    s(".local/share/gem/credentials", "rubygems token, newer place"),
    s(".bundle/config", "gem server passwords"),
    s(".m2/settings.xml", "maven server passwords"),
    s(".m2/settings-security.xml", "maven master password"),
    s(".gradle/gradle.properties", "signing and repository passwords"),
    s(".sbt/.credentials", "repository passwords of sbt"),
    s(".ivy2/.credentials", "repository passwords of ivy"),
    s(".composer/auth.json", "composer passwords"),
    s(".config/composer/auth.json", "composer passwords"),
    s(".nuget/NuGet/NuGet.Config", "nuget passwords"),
    s(".config/NuGet", "nuget passwords"),
    s(".hex", "hex.pm token"),
    s(".cabal/config", "hackage password"),
    s(".julia/servers", "package server tokens of julia"),
    s(".config/containers/registries.conf.d", "registry settings, at times with passwords"),
    // Agents and model providers: tokens, and transcripts of other work
    s(".claude", "claude code credentials and transcripts"),
    s(".claude.json", "claude code account, and keys of mcp servers"),
    s(".config/claude", "claude code credentials, newer place"),
    s(".config/Claude", "claude desktop session, and keys of mcp servers"),
    s(".codex", "codex credentials and transcripts"),
    s(".gemini", "gemini cli credentials and transcripts"),
    s(".config/opencode", "opencode settings with keys"),
    s(".local/share/opencode", "opencode credentials and transcripts"),
    s(".config/github-copilot", "copilot token"),
    s(".copilot", "copilot cli token and transcripts"),
    s(".cursor", "cursor settings, and keys of mcp servers"),
    s(".config/Cursor", "cursor session"),
    s(".codeium", "codeium and windsurf keys"),
    s(".continue", "continue settings with keys"),
    s(".aider.conf.yml", "aider keys"),
    s(".config/goose", "goose settings with keys"),
    s(".config/amp", "amp token"),
    s(".local/share/amp", "amp token and transcripts"),
    s(".config/crush", "crush settings with keys"),
    s(".config/io.datasette.llm", "keys of the llm tool"),
    s(".huggingface", "hugging face token, older place"),
    s(".cache/huggingface/token", "hugging face token"),
    s(".cache/huggingface/stored_tokens", "hugging face tokens"),
    s(".kaggle", "kaggle key"),
    s(".config/wandb", "weights and biases key"),
    s(".config/ringfence", "trust decisions of ringfence"),
    s(".local/state/ringfence", "ringfence's own state"),
    s(".local/share/ringfence", "ringfence's own state"),
    // Editors that keep tokens in their state
    s(".config/Code", "visual studio code sessions and tokens"),
    s(".config/VSCodium", "vscodium sessions and tokens"),
    s(".vscode-server/data", "remote visual studio code tokens"),
    s(".config/JetBrains", "jetbrains accounts and database passwords"),
    s(".emacs.d/auth-source", "emacs passwords"),
    s(".authinfo", "emacs passwords"),
    s(".authinfo.gpg", "emacs passwords"),
    // Browsers and mail: cookies are logins
    s(".mozilla", "firefox profiles: cookies and passwords"),
    s(".config/mozilla", "firefox profiles, newer place"),
    s(".librewolf", "librewolf profiles"),
    s(".config/google-chrome", "chrome profiles: cookies and passwords"),
    s(".config/google-chrome-beta", "chrome profiles"),
    s(".config/chromium", "chromium profiles"),
    s(".config/BraveSoftware", "brave profiles"),
    s(".config/microsoft-edge", "edge profiles"),
    s(".config/vivaldi", "vivaldi profiles"),
    s(".config/opera", "opera profiles"),
    s(".local/share/qutebrowser", "qutebrowser cookies"),
    s(".thunderbird", "mail, and its passwords"),
    s(".config/evolution", "mail accounts"),
    s(".local/share/evolution", "mail"),
    s(".mutt", "mail passwords"),
    s(".msmtprc", "mail password"),
    s(".mbsyncrc", "mail password"),
    s(".fetchmailrc", "mail password"),
    s(".var/app", "data of flatpak applications, browsers among them"),
    s("snap", "data of snap applications, browsers among them"),
    s(".config/Slack", "slack session"),
    s(".config/discord", "discord session"),
    s(".config/Signal", "signal messages and key"),
    s(".local/share/TelegramDesktop", "telegram session"),
    // Databases
    s(".pgpass", "postgresql passwords"),
    s(".my.cnf", "mysql password"),
    s(".mylogin.cnf", "mysql password"),
    s(".config/psql", "postgresql settings with passwords"),
    s(".dbshell", "mongodb shell history"),
    s(".mongodb", "mongodb shell state"),
    // Histories: passwords are typed in the wrong place every day
    s(".bash_history", "shell history"),
    s(".zsh_history", "shell history"),
    s(".zhistory", "shell history"),
    s(".histfile", "shell history"),
    s(".history", "shell history"),
    s(".sh_history", "shell history"),
    s(".zsh_sessions", "shell history by session"),
    s(".local/share/fish/fish_history", "shell history"),
    s(".local/share/atuin", "shell history, and its key"),
    s(".local/share/nushell", "shell history"),
    s(".config/nushell/history.txt", "shell history"),
    s(".python_history", "python prompt history"),
    s(".node_repl_history", "node prompt history"),
    s(".psql_history", "sql history"),
    s(".mysql_history", "sql history"),
    s(".sqlite_history", "sql history"),
    s(".rediscli_history", "redis history"),
    s(".irb_history", "ruby prompt history"),
    s(".lesshst", "searches in less"),
    s(".viminfo", "vim history and registers"),
    s(".local/state/nvim", "neovim history and registers"),
    s(".local/share/nvim/shada", "neovim history and registers"),
    // Wallets and remote access
    s(".bitcoin", "wallet"),
    s(".ethereum", "wallet keys"),
    s(".electrum", "wallet"),
    s(".config/solana", "wallet keys"),
    s(".config/remmina", "remote desktop passwords"),
    s(".local/share/remmina", "remote desktop passwords"),
    s(".vnc", "vnc password"),
    s(".config/ngrok", "ngrok token"),
    s(".cloudflared", "tunnel credentials"),
    s(".config/tailscale", "tailscale state"),
    s(".Xauthority", "the key to the X display: keystrokes and screen"),
    s(".ICEauthority", "the key to the desktop session"),
    // The machine's own
    s("/etc/shadow", "password hashes"),
    s("/etc/shadow-", "password hashes, backup"),
    s("/etc/gshadow", "group password hashes"),
    s("/etc/gshadow-", "group password hashes, backup"),
    s("/etc/security/opasswd", "old password hashes"),
    s("/etc/sudoers", "who may become root"),
    s("/etc/sudoers.d", "who may become root"),
    s("/etc/ssh/ssh_host_rsa_key", "host key"),
    s("/etc/ssh/ssh_host_ecdsa_key", "host key"),
    s("/etc/ssh/ssh_host_ed25519_key", "host key"),
    s("/etc/ssh/ssh_host_dsa_key", "host key"),
    s("/etc/ssl/private", "private keys of services"),
    s("/etc/pki/tls/private", "private keys of services"),
    s("/etc/letsencrypt", "private keys of certificates"),
    s("/etc/wireguard", "vpn private keys"),
    s("/etc/openvpn", "vpn private keys"),
    s("/etc/ipsec.secrets", "vpn passwords"),
    s("/etc/NetworkManager/system-connections", "wifi and vpn passwords"),
    s("/etc/netplan", "wifi passwords"),
    s("/etc/wpa_supplicant", "wifi passwords"),
    s("/etc/krb5.keytab", "kerberos host key"),
    s("/etc/docker", "registry certificates and keys"),
    s("/etc/kubernetes", "cluster keys"),
    s("/etc/rancher", "cluster keys"),
    s("/etc/ringfence", "ringfence's own configuration"),
    s("/etc/apt/auth.conf", "apt repository passwords"),
    s("/etc/apt/auth.conf.d", "apt repository passwords"),
    s("/etc/pip.conf", "index address, often with a password"),
    s("/etc/npmrc", "npm token"),
    s("/etc/environment", "variables for every login, at times with tokens"),
    s("/etc/credstore", "systemd credentials"),
    s("/etc/credstore.encrypted", "systemd credentials"),
    // `/root` is left alone where it is the caller's own home; the entries above cover it then.
    s("/root", "another user's home"),
    s("/run", "sockets of the host's services, and their tokens"),
    s("/var/run", "the same, where it is not a link"),
    s("/var/lib/ringfence", "ringfence's own state"),
    s("/var/lib/docker", "files of containers"),
    s("/var/lib/containers", "files of containers"),
    s("/var/lib/kubelet", "service account tokens"),
    s("/var/lib/rancher", "cluster tokens and state"),
    s("/var/lib/cloud", "cloud-init data with passwords and keys"),
    s("/var/lib/postgresql", "database files"),
    s("/var/lib/mysql", "database files"),
    s("/var/lib/NetworkManager", "network keys"),
    s("/var/lib/private", "state of services"),
    s("/var/lib/systemd/coredump", "memory of other programs"),
    s("/var/crash", "memory of other programs"),
    s("/var/spool", "mail and scheduled jobs"),
    s("/var/mail", "mail"),
    s("/var/backups", "copies of password files"),
];

/// Every secret path, in the order above.
pub fn secrets() -> &'static [Secret] {
    SECRETS
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::{Component, Path};

    #[test]
    fn paths_are_plain_and_unique() {
        for (i, secret) in SECRETS.iter().enumerate() {
            let path = Path::new(secret.path);
            let plain = |c: Component<'_>| matches!(c, Component::Normal(_) | Component::RootDir);
            assert!(path.components().all(plain), "{}", secret.path);
            assert!(path.components().collect::<std::path::PathBuf>().as_os_str() == path.as_os_str());
            assert_ne!(path, Path::new("/"));
            assert!(!secret.reason.is_empty() && !secret.reason.ends_with('.'), "{}", secret.path);
            assert!(SECRETS[i + 1..].iter().all(|other| other.path != secret.path), "{} twice", secret.path);
        }
    }

    #[test]
    fn the_well_known_are_there() {
        for path in [".ssh", ".aws", ".claude", ".codex", ".netrc", ".bash_history", "/etc/shadow", "/root"] {
            assert!(SECRETS.iter().any(|secret| secret.path == path), "{path}");
        }
    }
}
