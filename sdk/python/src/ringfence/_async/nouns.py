"""The small nouns: workspaces, secrets, users, keys, audit. One line a verb; what it answers is generated."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Unpack

from ringfence._async.paging import paged
from ringfence._generated import operations
from ringfence._generated.models import (
    KeyAnswer,
    KeyRequest,
    NewKeyAnswer,
    SecretRequest,
    UserAnswer,
    UserChange,
    VerdictAnswer,
    WorkspaceAnswer,
    WorkspaceUsage,
)

if TYPE_CHECKING:
    from ringfence._async.client import AsyncRingfence


class _AsyncNoun:
    def __init__(self, client: AsyncRingfence) -> None:
        self._client = client


class AsyncWorkspaces(_AsyncNoun):
    """Your workspaces, by name. One is made when it is first named in a run or a sandbox."""

    def list(self) -> AsyncIterator[WorkspaceAnswer]:
        return paged(self._client, lambda after: operations.workspaces_list(after=after), lambda page: page.workspaces)

    async def get(self, name: str) -> WorkspaceAnswer:
        return await self._client.send(operations.workspaces_get(name))

    async def usage(self, name: str) -> WorkspaceUsage:
        return await self._client.send(operations.workspaces_usage_of(name))

    async def delete(self, name: str, *, action: str | None = None, wait_ms: int | None = None) -> None:
        await self._client.send(operations.workspaces_delete(name, action=action, wait_ms=wait_ms))


class AsyncSecrets(_AsyncNoun):
    """Values that commands use and never see: `secrets=[{"name": …, "hosts": […]}]` of a run or a sandbox names them."""

    async def set(self, name: str, value: str, *, action: str | None = None, wait_ms: int | None = None) -> None:
        body: SecretRequest = {"value": value, "action": action, "wait_ms": wait_ms}
        await self._client.send(operations.secrets_set(name, body))

    def list(self) -> AsyncIterator[str]:
        """Their names; no value is ever told."""
        return paged(self._client, lambda after: operations.secrets_list(after=after), lambda page: page.secrets)

    async def delete(self, name: str, *, action: str | None = None, wait_ms: int | None = None) -> None:
        await self._client.send(operations.secrets_delete(name, action=action, wait_ms=wait_ms))


class AsyncUsers(_AsyncNoun):
    """Who may ask: for admins."""

    def list(self) -> AsyncIterator[UserAnswer]:
        return paged(self._client, lambda after: operations.people_users(after=after), lambda page: page.users)

    async def create(self, name: str, role: str) -> UserAnswer:
        return await self._client.send(operations.people_add_user({"name": name, "role": role}))

    async def change(self, name: str, **change: Unpack[UserChange]) -> UserAnswer:
        return await self._client.send(operations.people_change_user(name, change))

    async def delete(self, name: str) -> None:
        await self._client.send(operations.people_remove_user(name))


class AsyncKeys(_AsyncNoun):
    """API keys: your own, and for admins everybody's."""

    def list(self) -> AsyncIterator[KeyAnswer]:
        return paged(self._client, lambda after: operations.people_keys(after=after), lambda page: page.keys)

    async def create(self, **options: Unpack[KeyRequest]) -> NewKeyAnswer:
        """The key itself is told this once."""
        return await self._client.send(operations.people_add_key(options))

    async def revoke(self, key_id: str) -> None:
        await self._client.send(operations.people_revoke_key(key_id))


class AsyncAudit(_AsyncNoun):
    """What happened: your own rows, and for admins everybody's."""

    async def rows(
        self, *, user: str | None = None, kind: str | None = None, since: int | None = None, until: int | None = None
    ) -> AsyncIterator[dict[str, Any]]:
        after: int | None = None
        while True:
            query = operations.audit_query(user=user, kind=kind, since=since, until=until, after=after)
            page = await self._client.send(query)
            for row in page.rows:
                yield row
            after = page.next
            if after is None:
                return

    async def export(self) -> str:
        """All rows as JSON lines."""
        return await self._client.send(operations.audit_export())

    async def verify(self) -> VerdictAnswer:
        return await self._client.send(operations.audit_verify())
