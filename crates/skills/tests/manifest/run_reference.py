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
from skills_ref.validator import _validate_name


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
    """What is wrong with each character that this Python's Unicode knows, as the name of a skill and its directory."""
    wrong = {}
    for code in range(1, 0x110000):
        name = chr(code)
        if unicodedata.category(name) not in ("Cn", "Cs") and name not in "/.":
            wrong[code] = _validate_name(name, Path(name))
    return wrong


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
