"""The synchronous half of the Python SDK: the asynchronous one without its awaits."""

import re
from pathlib import Path

RULES = [
    (r"\basync (def|with|for)\b", r"\1"),
    (r"\bawait ", ""),
    (r"\b_async\b", "_sync"),
    (r"\b(\w*)Async(?=[A-Z])", r"\1"),
    (r"__a(enter|exit|iter|next)__", r"__\1__"),
    (r"\baclose\b", "close"),
    (r"\baread\b", "read"),
    (r"\baiter_", "iter_"),
    (r"\banyio\b", "time"),
    (r"\bwebsockets\.asyncio\b", "websockets.sync"),
    (r"run_sandboxed_async", "run_sandboxed"),
]


def files(source: Path, target: Path) -> dict[Path, str]:
    return {target / path.name: translated(path) for path in sorted(source.glob("*.py"))}


def translated(path: Path) -> str:
    text = path.read_text("utf-8")
    for pattern, replacement in RULES:
        text = re.sub(pattern, replacement, text)
    return f"# Generated from _async/{path.name} by sdk/generate: do not edit.\n{text}"
