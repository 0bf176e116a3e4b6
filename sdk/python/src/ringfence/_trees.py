"""Directories of this machine that somebody else may have written, and tars from a sandbox, which somebody else surely has.

No link is followed and none is made, and there is an end to it."""

from __future__ import annotations

import io
import os
import stat
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ringfence.errors import AnswerNotUnderstood

MOST_FILES = 10_000
MOST_BYTES = 256 << 20


@dataclass(frozen=True)
class TreeFile:
    """A file, and its path relative to the directory."""

    path: str
    executable: bool
    content: bytes


def files_beneath(root: Path) -> Iterator[TreeFile]:
    """The regular files beneath `root`. Symbolic links, devices and the like are left out."""
    if not root.is_dir():
        raise NotADirectoryError(f"{root} is no directory")
    count = size = 0
    for directory, below, names, fd in os.fwalk(root, follow_symlinks=False):
        below.sort()
        relative = os.path.relpath(directory, root)
        parts = [] if relative == "." else relative.split(os.sep)
        for name in sorted(names):
            found = _read(fd, name, MOST_BYTES - size)
            if found is None:
                continue
            content, executable = found
            count, size = count + 1, size + len(content)
            if count > MOST_FILES or size > MOST_BYTES:
                raise ValueError(f"{root} is too large: at most {MOST_FILES} files and {MOST_BYTES >> 20} MiB are copied")
            yield TreeFile("/".join([*parts, name]), executable, content)


def tar_of(root: Path) -> bytes:
    """The regular files beneath a directory, as the server takes them."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for file in files_beneath(root):
            member = tarfile.TarInfo(file.path)
            member.size, member.mode = len(file.content), 0o755 if file.executable else 0o644
            tar.addfile(member, io.BytesIO(file.content))
    return out.getvalue()


def unpack(tar: bytes, target: Path) -> int:
    """Write the files and directories of a tar to a directory that is new or empty; how many files. All else is left out.

    Since nothing is there before and no link is made, no name in it leads anywhere else."""
    target.mkdir(parents=True, exist_ok=True)
    if any(target.iterdir()):
        raise FileExistsError(f"{target} is not empty: give a directory that is, or a new one")
    count = 0
    try:
        with tarfile.open(fileobj=io.BytesIO(tar), mode="r:") as archive:
            for number, member in enumerate(archive, 1):
                if number > MOST_FILES:
                    raise ValueError(f"the tree has more than {MOST_FILES} entries: ask for a part of it")
                path = target.joinpath(*_inside(member.name))
                if member.isdir():
                    path.mkdir(parents=True, exist_ok=True)
                elif member.isreg() and not member.issparse():
                    path.parent.mkdir(parents=True, exist_ok=True)
                    content = archive.extractfile(member)
                    assert content is not None
                    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o755 if member.mode & 0o100 else 0o644)
                    with os.fdopen(fd, "wb") as file:
                        file.write(content.read())
                    count += 1
    except tarfile.TarError as error:
        raise AnswerNotUnderstood("a tree", error) from error
    return count


def _inside(name: str) -> list[str]:
    """The parts of a path that stays below."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/") or ".." in parts or any(os.sep in part or "\0" in part for part in parts):
        raise AnswerNotUnderstood("a tree", f"{name!r} leads out of it")
    return parts


def _read(directory: int, name: str, most: int) -> tuple[bytes, bool] | None:
    """One regular file, or None. Not even a pipe in its place is waited for."""
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    except OSError as error:
        facts = os.stat(name, dir_fd=directory, follow_symlinks=False)
        if stat.S_ISREG(facts.st_mode):
            raise error
        return None
    with os.fdopen(fd, "rb") as file:
        facts = os.fstat(fd)
        if not stat.S_ISREG(facts.st_mode):
            return None
        return file.read(most + 1), bool(facts.st_mode & 0o111)
