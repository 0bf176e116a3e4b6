#!/usr/bin/env -S uv run --script
# /// script
# requires-python = ">=3.8"
# dependencies = ["PyYAML>=6"]
# ///
"""Convert a YAML file, or standard input, to JSON."""

import datetime
import json
import sys

import yaml


def plain(value):
    if isinstance(value, (datetime.date, datetime.datetime)):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def main():
    source = open(sys.argv[1], encoding="utf-8") if len(sys.argv) > 1 else sys.stdin
    with source:
        json.dump(yaml.safe_load(source), sys.stdout, indent=2, sort_keys=True, default=plain)
    print()


if __name__ == "__main__":
    main()
