"""What waits for a person, and their decisions."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Unpack

from ringfence._async.events import AsyncEvents
from ringfence._async.paging import paged
from ringfence._generated import operations
from ringfence._generated.models import ActionAnswer, DecideRequest, RememberedAnswer, SubmitRequest
from ringfence.events import ActionEvent, action_event_of

if TYPE_CHECKING:
    from ringfence._async.client import AsyncRingfence


class AsyncActions:
    """Your own; for approvers and admins everybody's."""

    def __init__(self, client: AsyncRingfence) -> None:
        self._client = client

    async def submit(self, **order: Unpack[SubmitRequest]) -> ActionAnswer:
        """Ask for approval without doing it: one of `run`, `create`, `exec`, `delete`."""
        return await self._client.send(operations.actions_submit(order))

    def list(self, *, state: str | None = None, user: str | None = None) -> AsyncIterator[ActionAnswer]:
        return paged(
            self._client,
            lambda after: operations.actions_list(state=state, user=user, after=after),
            lambda page: page.actions,
        )

    async def get(self, action_id: str) -> ActionAnswer:
        return await self._client.send(operations.actions_get(action_id))

    async def approve(self, action_id: str, **decision: Unpack[DecideRequest]) -> ActionAnswer:
        """Let its submitter do it. `remember` holds for exactly the same again: once, session, hour or always."""
        return await self._client.send(operations.actions_approve(action_id, decision))

    async def deny(self, action_id: str, **decision: Unpack[DecideRequest]) -> ActionAnswer:
        return await self._client.send(operations.actions_deny(action_id, decision))

    async def cancel(self, action_id: str) -> ActionAnswer:
        return await self._client.send(operations.actions_cancel(action_id))

    def remembered(self) -> AsyncIterator[RememberedAnswer]:
        """Approvals that still hold."""
        return paged(
            self._client,
            lambda after: operations.actions_remembered(after=after),
            lambda page: page.remembered,
        )

    async def forget(self, remembered_id: str) -> None:
        await self._client.send(operations.actions_forget(remembered_id))

    def events(self, *, after: int | None = None) -> AsyncEvents[ActionEvent]:
        """What happens to actions, as it happens. `after=0` begins with the first there is; without it only news are told."""
        operation = operations.actions_events(after=after)
        last = None if after is None else str(after)
        return AsyncEvents(self._client._http, operation, action_event_of, last_event_id=last)
