//! The shapes of tokens and keys. What matches is looked at once more: placeholders and poor randomness are none.

use super::super::rules::{SECRET, SECRET_LIKE};
use super::{Pattern, Scope::Any};

const fn token(hints: &'static [&'static str], regex: &'static str, what: &'static str) -> Pattern {
    Pattern { rule: SECRET, scope: Any, hints, regex, unless: "", what }
}

pub(super) const SECRETS: &[Pattern] = &[
    token(&["akia", "asia"], r"\b(?-i:(?:AKIA|ASIA)[A-Z2-7]{16})\b", "an AWS access key"),
    token(
        &["ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"],
        r"\b(?-i:gh[pousr]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59})\b",
        "a GitHub token",
    ),
    token(&["glpat-"], r"\bglpat-[\w-]{20}", "a GitLab token"),
    token(&["xox"], r"\b(?-i:xox[abeoprs]-[0-9A-Za-z-]{20,120})\b", "a Slack token"),
    token(
        &["hooks.slack.com"],
        r"hooks\.slack\.com/services/T[A-Z0-9]{8,12}/B[A-Z0-9]{8,12}/[A-Za-z0-9]{24}",
        "a Slack webhook",
    ),
    token(
        &["/api/webhooks/"],
        r"discord(?:app)?\.com/api/webhooks/\d{17,20}/[\w-]{60,72}",
        "a Discord webhook",
    ),
    token(&[":aa"], r"\b\d{8,10}:(?-i:AA)[\w-]{33}\b", "a Telegram bot token"),
    token(&["sk-ant-"], r"\b(?-i:sk-ant-[a-z]+\d{2}-[\w-]{80,120})", "an Anthropic key"),
    token(
        &["sk-proj-", "t3blbkfj", "sk-svcacct-"],
        r"\b(?-i:sk-(?:proj|svcacct|admin)-[\w-]{40,200}|sk-[A-Za-z0-9]{20}T3BlbkFJ[A-Za-z0-9]{20})",
        "an OpenAI key",
    ),
    token(&["sk_live_", "rk_live_"], r"\b(?-i:[sr]k_live_[A-Za-z0-9]{20,120})\b", "a Stripe live key"),
    token(&["aiza"], r"\b(?-i:AIza[\w-]{35})", "a Google API key"),
    token(&["gocspx-"], r"\b(?-i:GOCSPX-[\w-]{28})", "a Google client secret"),
    token(&["npm_"], r"\b(?-i:npm_[A-Za-z0-9]{36})\b", "an npm token"),
    token(&["pypi-ageichlwas5vcmc"], r"\b(?-i:pypi-AgEIcHlwaS5vcmc[\w-]{50,250})", "a PyPI token"),
    token(&["hf_"], r"\b(?-i:hf_[A-Za-z]{34})\b", "a Hugging Face token"),
    token(&["sg."], r"\b(?-i:SG\.[\w-]{22}\.[\w-]{43})\b", "a SendGrid key"),
    token(&["dop_v1_"], r"\bdop_v1_[a-f0-9]{64}\b", "a DigitalOcean token"),
    token(&["age-secret-key-"], r"\bAGE-SECRET-KEY-1[0-9A-Z]{58}\b", "an age key"),
    token(&["accountkey="], r"AccountKey=[A-Za-z0-9+/]{86}==", "an Azure storage key"),
    token(
        &["private key-----"],
        r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY(?: BLOCK)?-----(?:\\r|\\n|[\r\n\s])+(?:[\w-]+:[^\n]*[\r\n\s]+)*[A-Za-z0-9+/=]{40}",
        "a private key",
    ),
    token(
        &["://"],
        r#"\b(?:postgres(?:ql)?|mysql|mongodb(?:\+srv)?|redis|amqps?|https?)://[\w.%-]+:[^\s:@/'"`<>{}$]{8,80}@[a-z0-9.-]+\.[a-z]{2,}"#,
        "a password in an address",
    ),
    Pattern {
        rule: SECRET_LIKE,
        scope: Any,
        hints: &["key", "secret", "token", "passw", "pwd", "auth"],
        regex: r#"\b\w*(?:api_?key|secret|token|passw(?:or)?d|pwd|auth_?key|private_?key|access_?key)\w*["']?\s*(?:[:=]|=>)\s*["'][A-Za-z0-9+/_=.-]{20,200}["']"#,
        unless: "",
        what: "a random value under the name of a secret",
    },
];
