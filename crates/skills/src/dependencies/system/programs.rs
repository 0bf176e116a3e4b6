//! Programs that scripts are known to call and that a system may lack. What every system has (`ls`, `sed`) is not here.

/// The program of a command line, where it is one of those known.
pub(in crate::dependencies) fn first_word(command: &str) -> Option<&'static str> {
    let word = command.split_ascii_whitespace().find(|word| !word.contains('='))?;
    known(word)
}

/// By its bare name, or a path in a directory of the system.
pub(in crate::dependencies) fn known(word: &str) -> Option<&'static str> {
    let bare = ["/usr/local/bin/", "/usr/bin/", "/bin/"].iter().find_map(|start| word.strip_prefix(start));
    PROGRAMS.binary_search(&bare.unwrap_or(word)).ok().map(|at| PROGRAMS[at])
}

/// A name that can stand in PATH: no `/`, no blank, nothing that a shell reads.
pub(in crate::dependencies) fn is_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'+'))
}

/// Sorted; a test says so.
#[rustfmt::skip]
const PROGRAMS: &[&str] = &[
    "R", "Rscript", "adb", "agent-browser", "ansible", "ansible-playbook", "aria2c", "aws", "az", "bats", "bazel",
    "bc", "black", "brew", "bun", "bunx", "cargo", "chromium", "clang", "clang-format", "claude", "cmake", "code",
    "codex", "composer", "convert", "cosign", "curl", "cwebp", "dart", "deno", "dig", "docker", "docker-compose",
    "doctl", "dot", "dotnet", "duckdb", "eslint", "exiftool", "fd", "ffmpeg", "ffprobe", "fly", "flyctl", "fswatch",
    "fzf", "gcc", "gcloud", "gemini", "gh", "ghostscript", "git", "git-lfs", "gitleaks", "glab", "go",
    "google-chrome", "gpg", "gradle", "grpcurl", "gs", "gsutil", "hadolint", "helm", "heroku", "htmlq", "http",
    "hugo", "hyperfine", "identify", "inkscape", "java", "javac", "jq", "julia", "kind", "kubectl", "latexmk",
    "libreoffice", "lsof", "lua", "lynx", "magick", "make", "markdownlint", "mcporter", "mermaid", "minikube", "mmdc",
    "mongosh", "montage", "mvn", "mypy", "mysql", "nc", "ncat", "netlify", "ninja", "nmap", "node", "npm", "npx",
    "nslookup", "ollama", "op", "openssl", "optipng", "osascript", "pandoc", "parallel", "patch", "pdfimages",
    "pdfinfo", "pdflatex", "pdftk", "pdftoppm", "pdftotext", "perl", "pg_dump", "php", "pip", "pip3", "pipx",
    "playwright", "pnpm", "podman", "poetry", "prettier", "psql", "pytest", "python", "python2", "python3", "qpdf",
    "railway", "rclone", "redis-cli", "rg", "rsvg-convert", "rsync", "ruby", "ruff", "rustc", "scp", "semgrep",
    "shellcheck", "shfmt", "sips", "skopeo", "soffice", "sops", "sox", "sqlite3", "ssh", "sshpass", "stripe",
    "supabase", "svn", "swift", "syft", "tar", "terraform", "tesseract", "tmux", "tofu", "tree", "trivy",
    "trufflehog", "ts-node", "tsc", "tshark", "tsx", "typst", "unzip", "uv", "uvx", "vault", "vercel", "vim", "wget",
    "whisper", "wkhtmltopdf", "wrangler", "xelatex", "xmllint", "xvfb-run", "xxd", "yamllint", "yarn", "yq", "yt-dlp",
    "zip", "zstd",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted() {
        for pair in PROGRAMS.windows(2) {
            assert!(pair[0] < pair[1], "{pair:?}");
        }
    }

    #[test]
    fn words_of_commands() {
        assert_eq!(first_word("ffmpeg -i a b"), Some("ffmpeg"));
        assert_eq!(first_word("LANG=C /usr/bin/jq ."), Some("jq"));
        assert_eq!(first_word("ls -l"), None);
        assert_eq!(first_word("/home/x/jq"), None);
        assert_eq!(first_word(""), None);
        assert!(
            is_name("g++") && is_name("python3.11") && !is_name("-x") && !is_name("a/b") && !is_name("a b")
        );
    }
}
