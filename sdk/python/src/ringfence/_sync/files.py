# Generated from _async/files.py by sdk/generate: do not edit.
"""Files of a sandbox. Paths are those inside; one that is not absolute is in the workspace."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ringfence._sync.events import Events
from ringfence._sync.paging import paged
from ringfence._generated import operations
from ringfence._generated.models import EntryAnswer, RenameRequest, StatAnswer, UploadAnswer
from ringfence._trees import MOST_BYTES, tar_of, unpack
from ringfence.events import FileChange, file_change_of

if TYPE_CHECKING:
    from ringfence._sync.sandbox import Sandbox


class Files:
    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    def read(self, path: str) -> bytes:
        return self._sandbox.send(operations.files_read(self._sandbox.id, path=path))

    def read_text(self, path: str) -> str:
        return (self.read(path)).decode("utf-8")

    def write(
        self,
        path: str,
        content: str | bytes,
        *,
        mode: int | None = None,
        action: str | None = None,
        wait_ms: int | None = None,
    ) -> None:
        """Write a file whole. `mode` is its permission bits, as in 0o755."""
        data = content.encode() if isinstance(content, str) else content
        octal = None if mode is None else format(mode, "o")
        query = operations.files_write(self._sandbox.id, data, path=path, mode=octal, action=action, wait_ms=wait_ms)
        self._sandbox.send(query)

    def list(self, path: str = ".") -> Iterator[EntryAnswer]:
        return paged(
            self._sandbox.client,
            lambda after: operations.files_list(self._sandbox.id, path=path, after=after),
            lambda page: page.entries,
        )

    def stat(self, path: str) -> StatAnswer:
        return self._sandbox.send(operations.files_stat(self._sandbox.id, path=path))

    def make_directory(self, path: str, *, parents: bool = False) -> None:
        self._sandbox.send(operations.files_make_directory(self._sandbox.id, {"path": path, "parents": parents}))

    def move(
        self,
        source: str,
        target: str,
        *,
        replace: bool = False,
        action: str | None = None,
        wait_ms: int | None = None,
    ) -> None:
        body: RenameRequest = {"from": source, "to": target, "replace": replace, "action": action, "wait_ms": wait_ms}
        self._sandbox.send(operations.files_rename(self._sandbox.id, body))

    def remove(
        self, path: str, *, recursive: bool = False, action: str | None = None, wait_ms: int | None = None
    ) -> None:
        query = operations.files_remove(self._sandbox.id, path=path, recursive=recursive, action=action, wait_ms=wait_ms)
        self._sandbox.send(query)

    def upload(self, source: str | Path, target: str) -> UploadAnswer:
        """Copy a directory of this machine to `target`. Links are not followed: what they lead to stays here."""
        return self.upload_tree(target, tar_of(Path(source)))

    def download(self, source: str, target: str | Path) -> int:
        """Copy a directory to one of this machine that is new or empty; how many files. Links are left out."""
        return unpack(self.download_tree(source), Path(target))

    def upload_tree(self, path: str, tar: bytes) -> UploadAnswer:
        """Write the files and directories of a tar below a directory, which is made where it isn't there."""
        return self._sandbox.send(operations.files_upload(self._sandbox.id, tar, path=path))

    def download_tree(self, path: str = ".", *, most_bytes: int = MOST_BYTES) -> bytes:
        """A directory as a tar. A command inside may have written anything to it: `download` unpacks it safely."""
        operation = operations.files_download(self._sandbox.id, path=path)
        return self._sandbox.send(dataclasses.replace(operation, most=most_bytes))

    def watch(self, path: str = ".", *, recursive: bool = False) -> Events[FileChange]:
        """Changes below a path as they happen, until the sandbox ends or the path is gone."""
        operation = operations.files_watch(self._sandbox.id, path=path, recursive=recursive)
        return Events(self._sandbox.client._http, operation, file_change_of)
