#!/usr/bin/env python3
"""The hostile archives, and what a careless program would do with them. Standard library only.

    hostile_archives.py make DIR    every kind into DIR/archives, and DIR/index.json with what must become of each
    hostile_archives.py naive DIR   unpack carelessly those that are said to do harm; prints what happened as JSON

Both write beneath DIR only: an archive that names an absolute path names one in DIR/outside.
"""

import io
import json
import os
import sys
import tarfile
import unicodedata
import zipfile
import zlib
from pathlib import Path

from archive_kinds import good, tars, zips


def make(directory):
    archives = directory / "archives"
    archives.mkdir(parents=True)
    (directory / "outside").mkdir()
    index = []

    def write(kind, data, **facts):
        (archives / kind).write_bytes(data)
        index.append({"kind": kind, **facts})

    outside = str(directory / "outside")
    for kind, code, data, harm in [*zips.kinds(outside), *tars.kinds(outside)]:
        write(kind, data, code=code, harm=harm)
    for kind, data, files in good.kinds():
        write(f"good-{kind}", data, code="ok", files=files)
    # No need to fill it.
    with open(archives / "too-large", "wb") as file:
        file.write(b"PK\3\4")
        file.truncate(2 << 30)
    index.append({"kind": "too-large", "code": "archive-too-large"})
    kinds = [entry["kind"] for entry in index]
    assert len(kinds) == len(set(kinds)), "a kind occurs twice"
    (directory / "index.json").write_text(json.dumps(index))


def naive(directory):
    harms = {}
    for entry in json.loads((directory / "index.json").read_text()):
        if not entry.get("harm"):
            continue
        data = (directory / "archives" / entry["kind"]).read_bytes()
        scene = directory / "naive" / entry["kind"]
        inside = scene / "a" / "inside"
        inside.mkdir(parents=True)
        for left in (directory / "outside").iterdir():
            left.unlink()
        harms[entry["kind"]] = {"escapes": escapes, "collides": collides, "expands": expands}[entry["harm"]](
            data, inside, [scene, directory / "outside"]
        )
    print(json.dumps(harms))


def escapes(data, inside, around):
    """Is there a new file, or a link to a place, outside of the directory?"""
    before = everything(around, inside)
    extract(data, inside)
    links = [path for path in inside.rglob("*") if path.is_symlink()]
    led_out = any(not os.path.realpath(link).startswith(f"{inside}{os.sep}") for link in links)
    return led_out or everything(around, inside) != before


def everything(roots, inside):
    found = set()
    for root in roots:
        for where, directories, files in os.walk(root):
            found.update(Path(where, name) for name in directories + files)
    return {(path, path.lstat().st_mtime_ns) for path in found if inside not in path.parents and path.is_file()}


def collides(data, inside, _):
    """Do fewer files come out than are in it, here or where case and form of names don't count?"""
    extract(data, inside)
    paths = [str(path) for path in inside.rglob("*")]
    here = sum(1 for path in inside.rglob("*") if path.is_file())
    elsewhere = {unicodedata.normalize("NFC", path).casefold() for path in paths}
    return here < count_files(data) or len(elsewhere) < len(paths)


def expands(data, _, __):
    """Does it come to more than 200 times what it is?"""
    if is_zip(data):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            size = sum(len(archive.read(info)) for info in archive.infolist())
    else:
        size = len(zlib.decompress(data, 31))
    return size > 200 * len(data)


def is_zip(data):
    return data.startswith(b"PK")


def count_files(data):
    if is_zip(data):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return len(archive.infolist())
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return len(archive.getmembers())


def extract(data, inside):
    """As many programs do it: join the names, believe the links. Stops where the system does."""
    try:
        if is_zip(data):
            extract_zip(data, inside)
        else:
            with tarfile.open(fileobj=io.BytesIO(data)) as archive:
                trusting = {"filter": "fully_trusted"} if hasattr(tarfile, "fully_trusted_filter") else {}
                archive.extractall(inside, **trusting)
    except OSError as error:
        print(f"{inside.parent.parent.name}: {error}", file=sys.stderr)


def extract_zip(data, inside):
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for info in archive.infolist():
            path = os.path.join(inside, info.filename)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            content = archive.read(info)
            if info.external_attr >> 16 & 0o170000 == 0o120000:
                os.symlink(content, path.encode())
            else:
                Path(path).write_bytes(content)


if __name__ == "__main__":
    command, where = sys.argv[1:]
    {"make": make, "naive": naive}[command](Path(where).resolve())
