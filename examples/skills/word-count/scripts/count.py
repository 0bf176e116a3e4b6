"""Count lines, words and characters of text files."""

import argparse
import collections
import json
import pathlib
import re


def count(path, top):
    text = pathlib.Path(path).read_text(encoding="utf-8", errors="replace")
    words = re.findall(r"\w+", text.lower())
    return {
        "file": path,
        "lines": len(text.splitlines()),
        "words": len(words),
        "characters": len(text),
        "frequent": collections.Counter(words).most_common(top),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--top", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    for path in args.files:
        found = count(path, args.top)
        if args.json:
            print(json.dumps(found))
        else:
            frequent = ", ".join(f"{word} ({times})" for word, times in found["frequent"])
            print(f"{path}: {found['lines']} lines, {found['words']} words, {found['characters']} characters")
            print(f"most frequent: {frequent}")


if __name__ == "__main__":
    main()
