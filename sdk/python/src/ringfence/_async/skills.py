"""Skills of the server: found, read, looked over, published and run."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Unpack

from ringfence._async.paging import paged
from ringfence._generated import operations
from ringfence._generated.models import SearchAnswer, SkillAnswer, SkillRunRequest, UploadedAnswer, VersionsAnswer
from ringfence._result import CommandResult, result_of
from ringfence._settings import command_seconds

if TYPE_CHECKING:
    from ringfence._async.client import AsyncRingfence


class AsyncSkills:
    """A skill is named by its domain and its name."""

    def __init__(self, client: AsyncRingfence) -> None:
        self._client = client

    def list(self, *, domain: str | None = None) -> AsyncIterator[SkillAnswer]:
        return paged(self._client, lambda after: operations.skills_list(domain=domain, after=after), lambda page: page.skills)

    async def search(self, words: str, *, limit: int | None = None) -> SearchAnswer:
        """`hits`, the best first."""
        return await self._client.send(operations.skills_search(q=words, limit=limit))

    async def get(self, domain: str, name: str) -> dict[str, Any]:
        return await self._client.send(operations.skills_get(domain, name))

    async def file(self, domain: str, name: str, path: str | None = None) -> bytes:
        """One of its files; SKILL.md where none is named."""
        return await self._client.send(operations.skills_file(domain, name, path=path))

    async def archive(self, domain: str, name: str) -> bytes:
        """All of it, for `upload`."""
        return await self._client.send(operations.skills_archive(domain, name))

    async def versions(self, domain: str, name: str) -> VersionsAnswer:
        return await self._client.send(operations.skills_versions(domain, name))

    async def validate(self, domain: str, name: str, *, strict: bool | None = None) -> dict[str, Any]:
        return await self._client.send(operations.skills_validate(domain, name, strict=strict))

    async def lint(self, domain: str, name: str) -> dict[str, Any]:
        return await self._client.send(operations.skills_lint(domain, name))

    async def validate_archive(self, archive: bytes, *, strict: bool | None = None) -> dict[str, Any]:
        """What `upload` would say of its form; nothing is kept."""
        return await self._client.send(operations.skills_validate_archive(archive, strict=strict))

    async def lint_archive(self, archive: bytes) -> dict[str, Any]:
        """What `upload` would find in it; nothing is kept."""
        return await self._client.send(operations.skills_lint_archive(archive))

    async def upload(
        self,
        domain: str,
        archive: bytes,
        *,
        name: str | None = None,
        replace: bool | None = None,
        accept_findings: bool | None = None,
        action: str | None = None,
        wait_ms: int | None = None,
    ) -> UploadedAnswer:
        """Publish a skill: `.skill`, zip or tar, compressed or not. `replace=True` makes it a new version of one that is there."""
        operation = operations.skills_upload(
            archive,
            domain=domain,
            name=name,
            replace=replace,
            accept_findings=accept_findings,
            action=action,
            wait_ms=wait_ms,
        )
        return await self._client.send(operation)

    async def delete(self, domain: str, name: str, *, action: str | None = None, wait_ms: int | None = None) -> None:
        await self._client.send(operations.skills_delete(domain, name, action=action, wait_ms=wait_ms))

    async def run(
        self, domain: str, name: str, *, check: bool = False, **options: Unpack[SkillRunRequest]
    ) -> CommandResult:
        """Run one of its scripts in a fresh sandbox: `script`, with `args`. One that fails is an error only with `check=True`."""
        seconds = command_seconds(options.get("timeout_ms"), options.get("policy"))
        result = result_of(await self._client._http.send(operations.skills_run(domain, name, options), timeout=seconds))
        return result.check() if check else result
