# Generated from _async/snapshots.py by sdk/generate: do not edit.
"""Snapshots, by themselves and of one sandbox."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Unpack

from ringfence._sync.paging import paged
from ringfence._generated import operations
from ringfence._generated.models import ForkRequest, RollbackAnswer, SnapshotAnswer

if TYPE_CHECKING:
    from ringfence._sync.client import Ringfence
    from ringfence._sync.sandbox import Sandbox


class Snapshots:
    """Yours, by id or name. They outlive their sandboxes."""

    def __init__(self, client: Ringfence) -> None:
        self._client = client

    def list(self, *, sandbox: str | None = None, user: str | None = None) -> Iterator[SnapshotAnswer]:
        return paged(
            self._client,
            lambda after: operations.snapshots_list(sandbox=sandbox, user=user, after=after),
            lambda page: page.snapshots,
        )

    def get(self, snapshot: str) -> SnapshotAnswer:
        return self._client.send(operations.snapshots_get(snapshot))

    def delete(self, snapshot: str) -> None:
        self._client.send(operations.snapshots_delete(snapshot))

    def fork(self, snapshot: str, **options: Unpack[ForkRequest]) -> Sequence[Sandbox]:
        """New sandboxes that begin there: `count` of them, one where none is given."""
        # Here, since sandboxes have snapshots too.
        from ringfence._sync.sandbox import Sandbox

        answer = self._client.send(operations.snapshots_fork_snapshot(snapshot, options))
        return [Sandbox(self._client, one.id, one) for one in answer.sandboxes]

    def export(self, snapshot: str) -> bytes:
        """As a tar, for `import_` of another server."""
        return self._client.send(operations.snapshots_export(snapshot))

    def import_(self, tar: bytes) -> SnapshotAnswer:
        """Take in what `export` gave, as one of your own."""
        return self._client.send(operations.snapshots_import(tar))


class SandboxSnapshots:
    """Snapshots of one sandbox."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    def take(self, name: str | None = None) -> SnapshotAnswer:
        return self._sandbox.send(operations.snapshots_take(self._sandbox.id, {"name": name}))

    def list(self) -> Iterator[SnapshotAnswer]:
        return self._sandbox.client.snapshots.list(sandbox=self._sandbox.id)

    def rollback(self, snapshot: str) -> RollbackAnswer:
        """Bring the files back to what they were. Commands go on running."""
        return self._sandbox.send(operations.snapshots_rollback(self._sandbox.id, {"snapshot": snapshot}))
