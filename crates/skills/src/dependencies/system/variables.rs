//! Which variables of the environment are worth naming, and which look like secrets.

/// Upper case, and not one that a sandbox sets or that changes nothing.
pub(in crate::dependencies) fn is_of_interest(name: &str) -> bool {
    is_name(name) && !COMMON.contains(&name) && !COMMON_BEGINNINGS.iter().any(|start| name.starts_with(start))
}

/// `NAME_2`: what people name variables that are passed in.
pub(in crate::dependencies) fn is_name(name: &str) -> bool {
    (2..=128).contains(&name.len())
        && name.starts_with(|c: char| c.is_ascii_uppercase() || c == '_')
        && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
        && name.bytes().any(|byte| byte.is_ascii_uppercase())
}

/// By its name: one of its words is that of a secret.
pub(in crate::dependencies) fn is_secret(name: &str) -> bool {
    const ENDINGS: &[&str] =
        &["APIKEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIALS"];
    let mut words = name.split('_').filter(|word| !word.is_empty());
    // Settings that are about a secret, not one: `MAX_TOKENS`, `KEY_PATH`.
    let about = ["PATH", "FILE", "DIR", "NAME", "URL", "COUNT", "LENGTH", "LIMIT", "TTL", "EXPIRY"];
    let last = words.clone().next_back().unwrap_or_default();
    if about.contains(&last) {
        return false;
    }
    words.any(|word| {
        matches!(word, "KEY" | "PASS" | "PWD" | "AUTH" | "COOKIE" | "DSN" | "PAT" | "CREDENTIAL" | "WEBHOOK")
            || ENDINGS.iter().any(|ending| word.ends_with(ending))
    })
}

#[rustfmt::skip]
const COMMON: &[&str] = &[
    "ALL_PROXY", "APPDATA", "BASH", "BASH_SOURCE", "BASH_VERSION", "BROWSER", "CI", "CLICOLOR", "COLORTERM", "COLUMNS",
    "COMSPEC", "CUDA_VISIBLE_DEVICES", "DEBUG", "DISPLAY", "EDITOR", "EUID", "FORCE_COLOR", "FUNCNAME", "GITHUB_ACTIONS",
    "GROUPS", "HOME", "HOSTNAME", "HTTPS_PROXY", "HTTP_PROXY", "IFS", "LANG", "LANGUAGE", "LD_LIBRARY_PATH", "LINENO",
    "LINES", "LOCALAPPDATA", "LOGLEVEL", "LOGNAME", "LOG_LEVEL", "MACHTYPE", "MAIL", "MPLBACKEND", "NODE_ENV", "NODE_PATH",
    "NO_COLOR", "NO_PROXY", "OLDPWD", "OPTARG", "OPTIND", "OSTYPE", "PAGER", "PATH", "PATHEXT", "PIPESTATUS", "PPID",
    "PROGRAMFILES", "PS1", "PWD", "RANDOM", "REPLY", "SECONDS", "SHELL", "SHELLOPTS", "SHLVL", "SYSTEMROOT", "TEMP",
    "TERM", "TMP", "TMPDIR", "TZ", "UID", "USER", "USERNAME", "USERPROFILE", "VERBOSE", "VIRTUAL_ENV", "VISUAL",
    "WAYLAND_DISPLAY", "WINDIR", "XAUTHORITY",
];

const COMMON_BEGINNINGS: &[&str] = &["LC_", "XDG_", "PYTHON", "npm_", "RINGFENCE_", "PIP_", "UV_", "BASH_"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_by_name() {
        for name in [
            "OPENAI_API_KEY",
            "GITHUB_TOKEN",
            "DB_PASSWORD",
            "AWS_SECRET_ACCESS_KEY",
            "AUTH",
            "MYAPIKEY",
            "SLACK_WEBHOOK",
            "GOOGLE_CREDENTIALS",
            "API_KEY_2",
        ] {
            assert!(is_secret(name), "{name}");
        }
        for name in
            ["MAX_TOKENS", "KEY_PATH", "OUTPUT_DIR", "MONKEY_COUNT", "API_URL", "TOKEN_LIMIT", "REGION"]
        {
            assert!(!is_secret(name), "{name}");
        }
    }

    #[test]
    fn names_of_interest() {
        for name in ["OPENAI_API_KEY", "REGION", "A1", "_TOKEN"] {
            assert!(is_of_interest(name), "{name}");
        }
        for name in ["HOME", "home", "LC_ALL", "A", "", "A-B", "1A", "__", "PYTHONPATH", "Ä_B"] {
            assert!(!is_of_interest(name), "{name}");
        }
    }
}
