"""Create a new skill."""

import argparse
import json
import pathlib
import re
import sys

SCRIPTS = {
    "python": (
        "main.py",
        '"""{description}"""\n\n\ndef main():\n    print("{name} is ready")\n\n\nif __name__ == "__main__":\n    main()\n',
    ),
    "bash": ("main.sh", '#!/usr/bin/env bash\nset -euo pipefail\n\necho "{name} is ready"\n'),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--name", required=True)
    parser.add_argument("--description", required=True)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    parser.add_argument("--language", choices=SCRIPTS, default="python")
    args = parser.parse_args()

    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", args.name) or len(args.name) > 64:
        sys.exit(f"{args.name}: use lower-case letters, digits and single hyphens, at most 64")
    description = " ".join(args.description.split())
    if not 1 <= len(description) <= 1024:
        sys.exit("the description has 1 to 1024 characters")
    if args.out.name != args.name:
        sys.exit(f"the directory must be called {args.name}, as the skill is")
    if args.out.exists():
        sys.exit(f"{args.out} exists already")

    file, script = SCRIPTS[args.language]
    # Words that would end a comment or a string have no place in generated code.
    words = {"name": args.name, "description": re.sub(r'["\\\\]', "'", description)}
    (args.out / "scripts").mkdir(parents=True)
    # JSON text is YAML text, so that no character of it means anything else.
    quoted = json.dumps(description, ensure_ascii=False)
    manifest = f"---\nname: {args.name}\ndescription: {quoted}\n---\n\n# {args.name}\n\nRun `scripts/{file}`.\n"
    (args.out / "SKILL.md").write_text(manifest, encoding="utf-8")
    (args.out / "scripts" / file).write_text(script.format(**words), encoding="utf-8")
    print(f"made {args.out}")


if __name__ == "__main__":
    main()
