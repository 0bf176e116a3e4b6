# Generated from _async/skills.py by sdk/generate: do not edit.
"""Skills of the server: found, read, looked over, published and run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Unpack

from ringfence._sync.paging import paged
from ringfence._generated import operations
from ringfence._generated.models import SearchAnswer, SkillAnswer, SkillRunRequest, UploadedAnswer, VersionsAnswer
from ringfence._result import CommandResult, result_of
from ringfence._settings import command_seconds

if TYPE_CHECKING:
    from ringfence._sync.client import Ringfence


class Skills:
    """A skill is named by its domain and its name."""

    def __init__(self, client: Ringfence) -> None:
        self._client = client

    def list(self, *, domain: str | None = None) -> Iterator[SkillAnswer]:
        return paged(self._client, lambda after: operations.skills_list(domain=domain, after=after), lambda page: page.skills)

    def search(self, words: str, *, limit: int | None = None) -> SearchAnswer:
        """`hits`, the best first."""
        return self._client.send(operations.skills_search(q=words, limit=limit))

    def get(self, domain: str, name: str) -> dict[str, Any]:
        return self._client.send(operations.skills_get(domain, name))

    def file(self, domain: str, name: str, path: str | None = None) -> bytes:
        """One of its files; SKILL.md where none is named."""
        return self._client.send(operations.skills_file(domain, name, path=path))

    def archive(self, domain: str, name: str) -> bytes:
        """All of it, for `upload`."""
        return self._client.send(operations.skills_archive(domain, name))

    def versions(self, domain: str, name: str) -> VersionsAnswer:
        return self._client.send(operations.skills_versions(domain, name))

    def validate(self, domain: str, name: str, *, strict: bool | None = None) -> dict[str, Any]:
        return self._client.send(operations.skills_validate(domain, name, strict=strict))

    def lint(self, domain: str, name: str) -> dict[str, Any]:
        return self._client.send(operations.skills_lint(domain, name))

    def validate_archive(self, archive: bytes, *, strict: bool | None = None) -> dict[str, Any]:
        """What `upload` would say of its form; nothing is kept."""
        return self._client.send(operations.skills_validate_archive(archive, strict=strict))

    def lint_archive(self, archive: bytes) -> dict[str, Any]:
        """What `upload` would find in it; nothing is kept."""
        return self._client.send(operations.skills_lint_archive(archive))

    def upload(
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
        return self._client.send(operation)

    def delete(self, domain: str, name: str, *, action: str | None = None, wait_ms: int | None = None) -> None:
        self._client.send(operations.skills_delete(domain, name, action=action, wait_ms=wait_ms))

    def run(
        self, domain: str, name: str, *, check: bool = False, **options: Unpack[SkillRunRequest]
    ) -> CommandResult:
        """Run one of its scripts in a fresh sandbox: `script`, with `args`. One that fails is an error only with `check=True`."""
        seconds = command_seconds(options.get("timeout_ms"), options.get("policy"))
        result = result_of(self._client._http.send(operations.skills_run(domain, name, options), timeout=seconds))
        return result.check() if check else result
