"""Files under one root: read, write, list, move, delete."""

import argparse
import datetime
import json
import os
import pathlib
import sys

EXTENSIONS = {".txt", ".md", ".csv", ".json", ".yaml", ".yml", ".toml", ".html", ".svg"}
MOST_BYTES = 1 << 20
MOST_ENTRIES = 1000
LOG = ".fs-log.jsonl"


class Refused(Exception):
    """What was asked for is not allowed, or not possible."""


class Root:
    def __init__(self, path):
        path.mkdir(parents=True, exist_ok=True)
        self.path = path.resolve(strict=True)

    def inside(self, name):
        """The path of a name, with every link on the way resolved, if that is under the root."""
        if not name or "\0" in name or any(ord(letter) < 32 for letter in name):
            raise Refused("an empty name, or one with control characters")
        if os.path.isabs(name):
            raise Refused("an absolute path")
        path = (self.path / name).resolve()
        if path != self.path and self.path not in path.parents:
            raise Refused("a path that leads out of the root")
        if path.name == LOG:
            raise Refused("the log is nobody's to change")
        return path

    def file(self, name):
        path = self.inside(name)
        if path.suffix.lower() not in EXTENSIONS:
            raise Refused(f"the extension {path.suffix or '(none)'} is not allowed")
        return path

    def shown(self, path):
        return str(path.relative_to(self.path))


def read(root, args):
    path = root.file(args.path)
    if not path.is_file():
        raise Refused("no such file")
    if path.stat().st_size > MOST_BYTES:
        raise Refused("the file is larger than 1 MiB")
    return {"text": path.read_text(encoding="utf-8")}


def write(root, args):
    text = sys.stdin.read(MOST_BYTES + 1) if args.text is None else args.text
    data = text.encode("utf-8")
    if len(data) > MOST_BYTES:
        raise Refused("the text is larger than 1 MiB")
    path = root.file(args.path)
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.new")
    fresh.write_bytes(data)
    os.replace(fresh, path)
    return {"bytes": len(data)}


def list_(root, args):
    path = root.inside(args.path)
    if not path.is_dir():
        raise Refused("no such directory")
    names = sorted(entry.name + ("/" if entry.is_dir() else "") for entry in path.iterdir() if entry.name != LOG)
    return {"entries": names[:MOST_ENTRIES], "truncated": len(names) > MOST_ENTRIES}


def move(root, args):
    source, target = root.file(args.path), root.file(args.to)
    if not source.is_file():
        raise Refused("no such file")
    if target.exists():
        raise Refused("the target exists")
    target.parent.mkdir(parents=True, exist_ok=True)
    source.rename(target)
    return {"to": root.shown(target)}


def delete(root, args):
    path = root.file(args.path)
    if not path.is_file():
        raise Refused("no such file")
    path.unlink()
    return {}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path("files"))
    verbs = parser.add_subparsers(dest="verb", required=True)
    for name, action in [("read", read), ("write", write), ("list", list_), ("move", move), ("delete", delete)]:
        verb = verbs.add_parser(name)
        verb.set_defaults(action=action)
        verb.add_argument("path", **({"nargs": "?", "default": "."} if name == "list" else {}))
        if name == "write":
            verb.add_argument("--text")
        if name == "move":
            verb.add_argument("to")
    args = parser.parse_args()
    root = Root(args.root)
    result = {"verb": args.verb, "path": args.path}
    try:
        result.update(ok=True, **args.action(root, args))
    except (Refused, OSError, UnicodeError) as error:
        result.update(ok=False, error=str(error))
    entry = {key: value for key, value in result.items() if key != "text"}
    entry["at"] = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    with open(root.path / LOG, "a", encoding="utf-8") as log:
        log.write(json.dumps(entry) + "\n")
    print(json.dumps(result))
    return 0 if result["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
