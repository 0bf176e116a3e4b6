//! What is said to a model. Matched against folded text: lower case, one space between words, no markup.

use super::super::rules::*;
use super::{Pattern, Scope::Any};

pub(super) const PHRASES: &[Pattern] = &[
    Pattern {
        rule: PROMPT_INJECTION,
        scope: Any,
        hints: &["ignore", "disregard", "forget", "not follow", "n't follow", "override", "bypass"],
        regex: r"\b(?:ignore|disregard|forget|do not follow|don't follow|stop following) (?:(?:all|any|every|everything|the|of|your|my|our|these|those|and|other|completely|about) ){0,6}(?:previous|prior|above|earlier|preceding|foregoing|system|initial|original) (?:and \w+ )?(?:system )?(?:instructions?|prompts?|rules?|directives?|guidelines?|commands?|messages?|constraints|policies|training|programming)\b",
        unless: "",
        what: "sets earlier instructions aside",
    },
    Pattern {
        rule: PROMPT_INJECTION,
        scope: Any,
        hints: &["override", "bypass", "disable", "turn off"],
        regex: r"\b(?:override|bypass|disable|turn off|switch off) (?:(?:all|any|the|of|your|its) ){0,4}(?:system prompt|system instructions|previous instructions|prior instructions|safety (?:guidelines|checks?|filters?|rules|restrictions|protocols|measures|guardrails)|guardrails|content polic(?:y|ies)|ethical guidelines)\b",
        unless: "",
        what: "sets the agent's rules aside",
    },
    Pattern {
        rule: PROMPT_INJECTION,
        scope: Any,
        hints: &["ignore", "disregard", "forget"],
        regex: r"\b(?:ignore|disregard|forget) (?:all|everything|anything|what(?:ever)?) (?:(?:that|which|of|was|is) ){0,3}(?:above|before this|previously|you(?: were| have been|'ve been)? (?:told|instructed|taught|know|learned)|said before|written above)\b",
        unless: "",
        what: "sets earlier instructions aside",
    },
    Pattern {
        rule: PROMPT_INJECTION,
        scope: Any,
        hints: &["you are now", "act as", "pretend", "developer mode", "jailb", "do anything now"],
        regex: r"\byou are now (?:in )?(?:dan\b|a dan\b|(?:an )?(?:unrestricted|unfiltered|uncensored|jailbroken|evil)|developer mode|god mode|free (?:of|from) (?:all |any |your )?(?:restrictions|rules|guidelines))|\b(?:act|behave|respond) as (?:if you (?:had|have) no|though you (?:had|have) no|an? (?:unrestricted|unfiltered|uncensored|jailbroken))|\bpretend (?:that )?(?:you|there) (?:are|have|is) no (?:rules|restrictions|guidelines|limits)|\b(?:enable|enter|activate) (?:dan|developer|jailbreak|god) mode\b|\bdo anything now\b",
        unless: "",
        what: "gives the agent another identity",
    },
    Pattern {
        rule: PROMPT_INJECTION,
        scope: Any,
        hints: &["system prompt", "instructions", "initial prompt"],
        regex: r"\b(?:reveal|print|output|repeat|leak|disclose|send|dump|show)(?: me| us)? (?:your|the agent's|the assistant's|the model's) (?:(?:full|entire|complete|hidden|exact|secret|own) )*(?:system prompt|system message|initial prompt|initial instructions|hidden instructions|secret instructions)\b",
        unless: "",
        what: "asks for the agent's own instructions",
    },
    Pattern {
        rule: PROMPT_INJECTION,
        scope: Any,
        hints: &["precedence", "override", "supersede", "new system", "your new", "your real", "your true"],
        regex: r"\b(?:these|this|the following|my) (?:instructions?|skill|rules?|message|text) (?:(?:always|now|must|will|shall) )?(?:takes? precedence over|overrides?|supersedes?|replaces?) (?:(?:all|any|every|the|your|of) ){0,3}(?:other|previous|prior|earlier|system|existing|user|safety)\b|\bnew system (?:prompt|instructions?|message) ?:|\byour (?:new|real|true|only) (?:purpose|goal|objective|mission|task) is (?:now )?to\b",
        unless: "",
        what: "puts itself above all other instructions",
    },
    Pattern {
        rule: PROMPT_INJECTION,
        scope: Any,
        hints: &["忽略", "无视", "無視", "ignora", "ignorez", "oublie", "ignoriere", "vergiss", "ignore "],
        regex: r"(?u-i:(?:忽略|无视|無視)(?:掉|你)?(?:所有|之前|以上|先前|前面|全部)(?:的|所有|之前){0,3}(?:指令|指示|提示|规则|規則)|(?:以前|上記|これまで)の(?:すべての)?(?:指示|命令)を(?:すべて)?無視)|\bignora (?:todas )?las instrucciones (?:anteriores|previas)|\b(?:ignore|ignorez|oublie|oubliez) (?:toutes )?les instructions (?u:précédentes)|\b(?:ignoriere|vergiss|ignorieren sie) (?:alle )?(?:vorherigen|bisherigen|vorigen|obigen) (?:anweisungen|befehle)|\bignora (?:tutte )?le istruzioni precedenti|\bignore (?:todas )?as (?u:instruções) anteriores",
        unless: "",
        what: "sets earlier instructions aside",
    },
    Pattern {
        rule: SECRECY,
        scope: Any,
        hints: &["user", "human", "operator"],
        regex: r"\b(?:do not|don't|never|must not|without) (?:tell(?:ing)?|inform(?:ing)?|notify(?:ing)?|alert(?:ing)?|warn(?:ing)?|let(?:ting)?) (?:the |your )?(?:user|human|operator|owner|developer)s?(?: (?:about|of|that|know|what|anything)\b|[.,!;]| ?$)|\bwithout the (?:user|human|operator)(?:'?s)? (?:knowledge|noticing|knowing|awareness)\b|\b(?:hide|conceal|keep) (?:this|it|that|these|the \w+) (?:(?:step|action|output|fact|secret|hidden|instructions?|a secret|commands?) )*from (?:the )?(?:user|human|operator)\b",
        unless: "",
        what: "asks for silence towards the user",
    },
    Pattern {
        rule: SECRECY,
        scope: Any,
        hints: &["mention", "reveal", "disclose", "secretly", "silently", "quietly", "covertly"],
        regex: r"\b(?:do not|don't|never) (?:mention|reveal|disclose|report|show|admit) (?:(?:this|these|that|the|any of|existence of|it) )*(?:instructions?|step|action|request|upload|command|transfer|fact|text|prompt|comment|to (?:the )?(?:user|human))(?: to (?:the )?(?:user|anyone|human))?\b|\b(?:secretly|covertly|surreptitiously) (?:\w+ )?(?:send|upload|run|execute|read|copy|post|install|collect|add|include|exfiltrate)|\b(?:silently|quietly) (?:send|upload|exfiltrate|post|transmit|forward|collect|copy)\b",
        unless: "",
        what: "asks for silence towards the user",
    },
    Pattern {
        rule: NO_CONFIRMATION,
        scope: Any,
        hints: &["without", "confirmation", "permission", "approval", "consent", "approve"],
        regex: r"\bwithout (?:asking|prompting|waiting for|requesting|seeking|needing)(?: for)?(?: the| any| user| their| explicit)*(?: users?'?s?)?(?: for)? ?(?:confirmation|permission|approval|consent|user\b|first\b)|\b(?:do not|don't|never|no need to) (?:ask|prompt|wait)(?: the)?(?: user)?(?: for)?(?: any| user| explicit)? (?:confirmation|permission|approval|consent)\b|\bauto-?approve (?:all|every|any)\b",
        unless: "",
        what: "asks to go on without a question",
    },
    Pattern {
        rule: REMOTE_INSTRUCTIONS,
        scope: Any,
        hints: &["http://", "https://"],
        regex: r"\b(?:fetch|download|load|read|get|retrieve|open|visit|pull|curl|go to|check|access|browse)\b.{0,80}?https?://\S+.{0,60}?\b(?:follow|obey|execute|carry out|apply|act on|comply with|perform|adhere to|do)\b (?:(?:all|any|the|its|every|those|these|whatever|each|what|exactly|of|them|listed|resulting|returned|contained|remote|current) ){0,5}(?:instructions?|steps|commands?|directions|directives?|prompts?|rules|guidelines|it says|it tells you|is (?:there|written)|you find|tasks?)\b",
        unless: "",
        what: "instructions to be fetched and followed",
    },
    Pattern {
        rule: REMOTE_INSTRUCTIONS,
        scope: Any,
        hints: &["http://", "https://"],
        regex: r"\b(?:follow|obey|execute|apply|use|load|fetch|read) (?:(?:all|any|the|your|its) ){0,3}(?:(?:latest|current|updated|remote|live|additional|further|real|actual|up-to-date) )+(?:system prompt|instructions?|rules|directives|prompts?|guidelines|commands?) (?:that are |which are )?(?:at|from|in|on|found at|located at|hosted at|hosted on|served from|served at|published at|given at) <?https?://|\b(?:load|fetch|read|take|get) (?:your|the|its) (?:system prompt|instructions|directives|orders) from <?https?://",
        unless: "",
        what: "instructions to be fetched and followed",
    },
    Pattern {
        rule: ENCRYPTED_ARCHIVE,
        scope: Any,
        hints: &["password", "passphrase", " pass:", "(pass"],
        regex: r"\b(?:extract|unzip|unpack|open|decompress|unarchive)\b.{0,80}?\b(?:zip|archive|rar|7z|tarball)\b.{0,60}?\b(?:password|passphrase|pass)\b ?(?:is|:|=|\x22|'|\()|\b(?:zip|archive|rar|7z)(?:'s)? (?:file )?(?:password|passphrase|pass) ?(?:is|:|=) ?\S",
        unless: "",
        what: "gives the password of an archive",
    },
];

/// Orders that are suspicious where a person does not see them: in comments and in hidden elements.
pub(super) const ORDERS: &[Pattern] = &[
    Pattern {
        rule: HIDDEN_INSTRUCTIONS,
        scope: Any,
        hints: &["assistant", "agent", "claude", "model", "ai", "llm", "gpt", "copilot", "codex", "gemini"],
        regex: r"\b(?:assistant|agent|claude|the model|ai|llm|gpt|copilot|codex|gemini)s?\b.{0,40}?\b(?:must|should|shall|always|never|needs? to|has to|have to|is to|please)\b|\b(?:instructions?|note|message|orders?) (?:for|to) (?:the |any |all )?(?:ai|agents?|assistants?|models?|llms?|claude|copilot|codex)\b",
        unless: "",
        what: "speaks to the agent",
    },
    Pattern {
        rule: HIDDEN_INSTRUCTIONS,
        scope: Any,
        hints: &["you "],
        regex: r"\byou (?:must|should|shall|will|have to|need to|are to) (?:(?:also|always|first|now|then|silently|secretly|immediately) )*(?:run|execute|send|fetch|read|upload|ignore|include|download|post|call|forward|collect|append|install|exfiltrate|obey|never tell|not tell)\b",
        unless: "",
        what: "gives an order",
    },
    Pattern {
        rule: HIDDEN_INSTRUCTIONS,
        scope: Any,
        hints: &["run", "execute", "send", "upload", "fetch", "download", "post", "read", "copy"],
        regex: r"\b(?:run|execute|send|upload|fetch|download|post|read|copy|exfiltrate)\b.{0,60}?(?:\bhttps?://|\bcurl\b|\bwget\b|~/\.|\.env\b|\bcredentials?\b|\bapi keys?\b|\bsecrets?\b|\bprivate keys?\b|\baccess tokens?\b|\bpasswords?\b|\bbash\b)",
        unless: "",
        what: "gives an order",
    },
];

/// Marks of the messages that models are trained on. Matched against joined text: folding takes tags away.
pub(super) const MARKUP: &[Pattern] = &[Pattern {
    rule: ROLE_MARKUP,
    scope: Any,
    hints: &["<|", "inst]", "sys>>", "<system", "</system", "<function_calls", "<tool_result", "antml:"],
    regex: r"<\|(?:im_start|im_end|system|assistant|user|endoftext|start_header_id|end_header_id|eot_id)\|>|(?-i:\[/?INST\])|<</?SYS>>|</?(?:system|system-reminder|system_prompt|function_calls|tool_result|antml:\w+)>",
    unless: "",
    what: "a marker of system or tool messages",
}];
