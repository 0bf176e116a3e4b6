# Generated from _async/paging.py by sdk/generate: do not edit.
"""Lists that come in pages."""

from __future__ import annotations

from collections.abc import Iterator, Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

from ringfence._operation import Operation

if TYPE_CHECKING:
    from ringfence._sync.client import Ringfence


class Page(Protocol):
    @property
    def next(self) -> str | None: ...


P = TypeVar("P", bound=Page)
T = TypeVar("T")


def paged(
    client: Ringfence, page_after: Callable[[str | None], Operation[P]], rows: Callable[[P], Sequence[T]]
) -> Iterator[T]:
    """All of a list; the next page is asked for when it is needed."""
    after: str | None = None
    while True:
        page = client.send(page_after(after))
        for row in rows(page):
            yield row
        after = page.next
        if after is None:
            return
