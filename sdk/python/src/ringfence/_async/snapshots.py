"""Snapshots, by themselves and of one sandbox."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Unpack

from ringfence._async.paging import paged
from ringfence._generated import operations
from ringfence._generated.models import ForkRequest, RollbackAnswer, SnapshotAnswer

if TYPE_CHECKING:
    from ringfence._async.client import AsyncRingfence
    from ringfence._async.sandbox import AsyncSandbox


class AsyncSnapshots:
    """Yours, by id or name. They outlive their sandboxes."""

    def __init__(self, client: AsyncRingfence) -> None:
        self._client = client

    def list(self, *, sandbox: str | None = None, user: str | None = None) -> AsyncIterator[SnapshotAnswer]:
        return paged(
            self._client,
            lambda after: operations.snapshots_list(sandbox=sandbox, user=user, after=after),
            lambda page: page.snapshots,
        )

    async def get(self, snapshot: str) -> SnapshotAnswer:
        return await self._client.send(operations.snapshots_get(snapshot))

    async def delete(self, snapshot: str) -> None:
        await self._client.send(operations.snapshots_delete(snapshot))

    async def fork(self, snapshot: str, **options: Unpack[ForkRequest]) -> Sequence[AsyncSandbox]:
        """New sandboxes that begin there: `count` of them, one where none is given."""
        # Here, since sandboxes have snapshots too.
        from ringfence._async.sandbox import AsyncSandbox

        answer = await self._client.send(operations.snapshots_fork_snapshot(snapshot, options))
        return [AsyncSandbox(self._client, one.id, one) for one in answer.sandboxes]

    async def export(self, snapshot: str) -> bytes:
        """As a tar, for `import_` of another server."""
        return await self._client.send(operations.snapshots_export(snapshot))

    async def import_(self, tar: bytes) -> SnapshotAnswer:
        """Take in what `export` gave, as one of your own."""
        return await self._client.send(operations.snapshots_import(tar))


class AsyncSandboxSnapshots:
    """Snapshots of one sandbox."""

    def __init__(self, sandbox: AsyncSandbox) -> None:
        self._sandbox = sandbox

    async def take(self, name: str | None = None) -> SnapshotAnswer:
        return await self._sandbox.send(operations.snapshots_take(self._sandbox.id, {"name": name}))

    def list(self) -> AsyncIterator[SnapshotAnswer]:
        return self._sandbox.client.snapshots.list(sandbox=self._sandbox.id)

    async def rollback(self, snapshot: str) -> RollbackAnswer:
        """Bring the files back to what they were. Commands go on running."""
        return await self._sandbox.send(operations.snapshots_rollback(self._sandbox.id, {"snapshot": snapshot}))
