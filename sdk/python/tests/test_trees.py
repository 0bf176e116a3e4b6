"""Trees both ways, hostile ones among them, and changes as they happen."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest

from ringfence import Ringfence
from ringfence._trees import unpack
from ringfence.errors import AnswerNotUnderstood, AnswerTooLarge, ApiError


def tar(*members: tuple[str, bytes, str]) -> bytes:
    """Entries that say what they like: name, type, and where a link leads or what a file holds."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, kind, text in members:
            member = tarfile.TarInfo(name)
            member.type = kind
            if kind == tarfile.REGTYPE:
                member.size = len(text)
                archive.addfile(member, io.BytesIO(text.encode()))
            else:
                member.linkname = text
                archive.addfile(member)
    return out.getvalue()


def test_a_tree_goes_in_and_comes_out(ringfence: Ringfence, tmp_path: Path) -> None:
    deep = "a-long-name-of-a-directory/" * 8
    source = tmp_path / "source"
    (source / deep).mkdir(parents=True)
    (source / deep / "ünï").write_text("deep")
    (source / "run").write_text("#!/bin/sh\necho ran\n")
    (source / "run").chmod(0o755)
    with ringfence.sandboxes.create() as sandbox:
        assert sandbox.files.upload(source, "up").entries == 2
        assert sandbox.run("up/run; ln -s /etc/passwd up/link; mkdir up/empty", check=True).stdout == "ran\n"
        assert sandbox.files.download("up", tmp_path / "back") == 2
        assert (tmp_path / "back" / deep / "ünï").read_text() == "deep"
        assert os.access(tmp_path / "back/run", os.X_OK) and (tmp_path / "back/empty").is_dir()
        assert not os.path.lexists(tmp_path / "back/link")
        with pytest.raises(FileExistsError):
            sandbox.files.download("up", tmp_path / "back")
        sandbox.run("head -c 3000000 /dev/zero > up/large", check=True)
        with pytest.raises(AnswerTooLarge):
            sandbox.files.download_tree("up", most_bytes=1 << 20)
        with tarfile.open(fileobj=io.BytesIO(sandbox.files.download_tree("up"))) as whole:
            assert any(member.issym() for member in whole), "the tar itself has links"
        with pytest.raises(ApiError):
            sandbox.files.upload_tree("up", tar(("../out", tarfile.REGTYPE, "x")))


@pytest.mark.parametrize("name", ["../out", "/tmp/out", "a/../../out"])
def test_no_name_in_a_tree_leads_out_of_it(tmp_path: Path, name: str) -> None:
    with pytest.raises(AnswerNotUnderstood, match="leads out"):
        unpack(tar((name, tarfile.REGTYPE, "x")), tmp_path / "in")
    assert [path.name for path in tmp_path.rglob("*")] == ["in"]


def test_no_link_in_a_tree_leads_out_of_it(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    hostile = tar(("link", tarfile.SYMTYPE, str(out)), ("link/file", tarfile.REGTYPE, "x"), ("h", tarfile.LNKTYPE, "link/file"))
    # The twin: unpacked as it is, it writes outside.
    with tarfile.open(fileobj=io.BytesIO(hostile)) as archive:
        archive.extraction_filter = tarfile.fully_trusted_filter
        archive.extractall(tmp_path / "naive", members=archive.getmembers()[:2])
    assert (out / "file").exists()
    (out / "file").unlink()
    assert unpack(hostile, tmp_path / "in") == 1
    assert list(out.iterdir()) == [] and (tmp_path / "in/link/file").read_text() == "x"


def test_changes_are_heard_of(ringfence: Ringfence) -> None:
    with ringfence.sandboxes.create() as sandbox:
        sandbox.files.make_directory("d")
        with sandbox.files.watch(recursive=True) as changes:
            sandbox.files.write("d/new", "text")
            assert next(one for one in changes if one.path.endswith("d/new")).change in ("created", "moved_to")
        # It ends with its sandbox.
        with sandbox.files.watch() as changes:
            sandbox.delete()
            for _ in changes:
                pass
