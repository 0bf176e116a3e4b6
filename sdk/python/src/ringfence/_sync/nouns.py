# Generated from _async/nouns.py by sdk/generate: do not edit.
"""The small nouns: workspaces, secrets, users, keys, audit. One line a verb; what it answers is generated."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Unpack

from ringfence._sync.paging import paged
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
    from ringfence._sync.client import Ringfence


class _Noun:
    def __init__(self, client: Ringfence) -> None:
        self._client = client


class Workspaces(_Noun):
    """Your workspaces, by name. One is made when it is first named in a run or a sandbox."""

    def list(self) -> Iterator[WorkspaceAnswer]:
        return paged(self._client, lambda after: operations.workspaces_list(after=after), lambda page: page.workspaces)

    def get(self, name: str) -> WorkspaceAnswer:
        return self._client.send(operations.workspaces_get(name))

    def usage(self, name: str) -> WorkspaceUsage:
        return self._client.send(operations.workspaces_usage_of(name))

    def delete(self, name: str, *, action: str | None = None, wait_ms: int | None = None) -> None:
        self._client.send(operations.workspaces_delete(name, action=action, wait_ms=wait_ms))


class Secrets(_Noun):
    """Values that commands use and never see: `secrets=[{"name": …, "hosts": […]}]` of a run or a sandbox names them."""

    def set(self, name: str, value: str, *, action: str | None = None, wait_ms: int | None = None) -> None:
        body: SecretRequest = {"value": value, "action": action, "wait_ms": wait_ms}
        self._client.send(operations.secrets_set(name, body))

    def list(self) -> Iterator[str]:
        """Their names; no value is ever told."""
        return paged(self._client, lambda after: operations.secrets_list(after=after), lambda page: page.secrets)

    def delete(self, name: str, *, action: str | None = None, wait_ms: int | None = None) -> None:
        self._client.send(operations.secrets_delete(name, action=action, wait_ms=wait_ms))


class Users(_Noun):
    """Who may ask: for admins."""

    def list(self) -> Iterator[UserAnswer]:
        return paged(self._client, lambda after: operations.people_users(after=after), lambda page: page.users)

    def create(self, name: str, role: str) -> UserAnswer:
        return self._client.send(operations.people_add_user({"name": name, "role": role}))

    def change(self, name: str, **change: Unpack[UserChange]) -> UserAnswer:
        return self._client.send(operations.people_change_user(name, change))

    def delete(self, name: str) -> None:
        self._client.send(operations.people_remove_user(name))


class Keys(_Noun):
    """API keys: your own, and for admins everybody's."""

    def list(self) -> Iterator[KeyAnswer]:
        return paged(self._client, lambda after: operations.people_keys(after=after), lambda page: page.keys)

    def create(self, **options: Unpack[KeyRequest]) -> NewKeyAnswer:
        """The key itself is told this once."""
        return self._client.send(operations.people_add_key(options))

    def revoke(self, key_id: str) -> None:
        self._client.send(operations.people_revoke_key(key_id))


class Audit(_Noun):
    """What happened: your own rows, and for admins everybody's."""

    def rows(
        self, *, user: str | None = None, kind: str | None = None, since: int | None = None, until: int | None = None
    ) -> Iterator[dict[str, Any]]:
        after: int | None = None
        while True:
            query = operations.audit_query(user=user, kind=kind, since=since, until=until, after=after)
            page = self._client.send(query)
            for row in page.rows:
                yield row
            after = page.next
            if after is None:
                return

    def export(self) -> str:
        """All rows as JSON lines."""
        return self._client.send(operations.audit_export())

    def verify(self) -> VerdictAnswer:
        return self._client.send(operations.audit_verify())
