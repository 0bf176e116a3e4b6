"""Runs the public reference, skills-ref, over manifests: one JSON object a line in, one out.

In:  {"directory": name of the skill's directory, "manifest": its bytes in hexadecimal}
Out: {"errors": [...], "crash": text or null, "properties": {...} or null, "prompt": text or null}
"""

import json
import sys
import tempfile
import unicodedata
import warnings
from pathlib import Path

from skills_ref import SkillError, read_properties, to_prompt, validate


def judge(skill: Path) -> dict:
    answer = {"errors": [], "crash": None, "properties": None, "prompt": None}
    try:
        answer["errors"] = validate(skill)
        if not answer["errors"]:
            answer["properties"] = read_properties(skill).to_dict()
            answer["prompt"] = to_prompt([skill])
    except SkillError as error:
        answer["errors"].append(str(error))
    except (Exception, RecursionError) as error:
        answer["crash"] = repr(error)[:300]
    return answer


def characters() -> dict:
    """Facts of every character that this Python's Unicode knows."""
    known = [chr(code) for code in range(0x110000) if unicodedata.category(chr(code)) not in ("Cn", "Cs")]
    return {
        "known": [ord(character) for character in known],
        "alphanumeric": [ord(character) for character in known if character.isalnum()],
        "changed_by_nfkc": {ord(c): unicodedata.normalize("NFKC", c) for c in known if unicodedata.normalize("NFKC", c) != c},
        "changed_by_lower": {ord(c): c.lower() for c in known if c.lower() != c},
        "space": [ord(character) for character in known if character.isspace()],
    }


def answer(value: dict) -> None:
    # Half of a surrogate pair, which an escape can make, has no UTF-8.
    text = json.dumps(value, ensure_ascii=False, default=str)
    sys.stdout.buffer.write(text.encode("utf-8", "replace") + b"\n")


def main() -> None:
    warnings.simplefilter("ignore")
    if sys.argv[1:] == ["characters"]:
        answer(characters())
        return
    with tempfile.TemporaryDirectory() as scratch:
        for number, line in enumerate(sys.stdin):
            case = json.loads(line)
            skill = Path(scratch) / str(number) / case["directory"]
            skill.mkdir(parents=True)
            (skill / "SKILL.md").write_bytes(bytes.fromhex(case["manifest"]))
            answer(judge(skill))


main()
