"""Files of a sandbox. Paths are those inside; one that is not absolute is in the workspace."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

from ringfence._async.events import AsyncEvents
from ringfence._async.paging import paged
from ringfence._generated import operations
from ringfence._generated.models import EntryAnswer, RenameRequest, StatAnswer, UploadAnswer
from ringfence._trees import MOST_BYTES, tar_of, unpack
from ringfence.events import FileChange, file_change_of

if TYPE_CHECKING:
    from ringfence._async.sandbox import AsyncSandbox


class AsyncFiles:
    def __init__(self, sandbox: AsyncSandbox) -> None:
        self._sandbox = sandbox

    async def read(self, path: str) -> bytes:
        return await self._sandbox.send(operations.files_read(self._sandbox.id, path=path))

    async def read_text(self, path: str) -> str:
        return (await self.read(path)).decode("utf-8")

    async def write(
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
        await self._sandbox.send(query)

    def list(self, path: str = ".") -> AsyncIterator[EntryAnswer]:
        return paged(
            self._sandbox.client,
            lambda after: operations.files_list(self._sandbox.id, path=path, after=after),
            lambda page: page.entries,
        )

    async def stat(self, path: str) -> StatAnswer:
        return await self._sandbox.send(operations.files_stat(self._sandbox.id, path=path))

    async def make_directory(self, path: str, *, parents: bool = False) -> None:
        await self._sandbox.send(operations.files_make_directory(self._sandbox.id, {"path": path, "parents": parents}))

    async def move(
        self,
        source: str,
        target: str,
        *,
        replace: bool = False,
        action: str | None = None,
        wait_ms: int | None = None,
    ) -> None:
        body: RenameRequest = {"from": source, "to": target, "replace": replace, "action": action, "wait_ms": wait_ms}
        await self._sandbox.send(operations.files_rename(self._sandbox.id, body))

    async def remove(
        self, path: str, *, recursive: bool = False, action: str | None = None, wait_ms: int | None = None
    ) -> None:
        query = operations.files_remove(self._sandbox.id, path=path, recursive=recursive, action=action, wait_ms=wait_ms)
        await self._sandbox.send(query)

    async def upload(self, source: str | Path, target: str) -> UploadAnswer:
        """Copy a directory of this machine to `target`. Links are not followed: what they lead to stays here."""
        return await self.upload_tree(target, tar_of(Path(source)))

    async def download(self, source: str, target: str | Path) -> int:
        """Copy a directory to one of this machine that is new or empty; how many files. Links are left out."""
        return unpack(await self.download_tree(source), Path(target))

    async def upload_tree(self, path: str, tar: bytes) -> UploadAnswer:
        """Write the files and directories of a tar below a directory, which is made where it isn't there."""
        return await self._sandbox.send(operations.files_upload(self._sandbox.id, tar, path=path))

    async def download_tree(self, path: str = ".", *, most_bytes: int = MOST_BYTES) -> bytes:
        """A directory as a tar. A command inside may have written anything to it: `download` unpacks it safely."""
        operation = operations.files_download(self._sandbox.id, path=path)
        return await self._sandbox.send(dataclasses.replace(operation, most=most_bytes))

    def watch(self, path: str = ".", *, recursive: bool = False) -> AsyncEvents[FileChange]:
        """Changes below a path as they happen, until the sandbox ends or the path is gone."""
        operation = operations.files_watch(self._sandbox.id, path=path, recursive=recursive)
        return AsyncEvents(self._sandbox.client._http, operation, file_change_of)
