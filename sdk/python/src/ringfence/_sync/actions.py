# Generated from _async/actions.py by sdk/generate: do not edit.
"""What waits for a person, and their decisions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Unpack

from ringfence._sync.events import Events
from ringfence._sync.paging import paged
from ringfence._generated import operations
from ringfence._generated.models import ActionAnswer, DecideRequest, RememberedAnswer, SubmitRequest
from ringfence.events import ActionEvent, action_event_of

if TYPE_CHECKING:
    from ringfence._sync.client import Ringfence


class Actions:
    """Your own; for approvers and admins everybody's."""

    def __init__(self, client: Ringfence) -> None:
        self._client = client

    def submit(self, **order: Unpack[SubmitRequest]) -> ActionAnswer:
        """Ask for approval without doing it: one of `run`, `create`, `exec`, `delete`."""
        return self._client.send(operations.actions_submit(order))

    def list(self, *, state: str | None = None, user: str | None = None) -> Iterator[ActionAnswer]:
        return paged(
            self._client,
            lambda after: operations.actions_list(state=state, user=user, after=after),
            lambda page: page.actions,
        )

    def get(self, action_id: str) -> ActionAnswer:
        return self._client.send(operations.actions_get(action_id))

    def approve(self, action_id: str, **decision: Unpack[DecideRequest]) -> ActionAnswer:
        """Let its submitter do it. `remember` holds for exactly the same again: once, session, hour or always."""
        return self._client.send(operations.actions_approve(action_id, decision))

    def deny(self, action_id: str, **decision: Unpack[DecideRequest]) -> ActionAnswer:
        return self._client.send(operations.actions_deny(action_id, decision))

    def cancel(self, action_id: str) -> ActionAnswer:
        return self._client.send(operations.actions_cancel(action_id))

    def remembered(self) -> Iterator[RememberedAnswer]:
        """Approvals that still hold."""
        return paged(
            self._client,
            lambda after: operations.actions_remembered(after=after),
            lambda page: page.remembered,
        )

    def forget(self, remembered_id: str) -> None:
        self._client.send(operations.actions_forget(remembered_id))

    def events(self, *, after: int | None = None) -> Events[ActionEvent]:
        """What happens to actions, as it happens. `after=0` begins with the first there is; without it only news are told."""
        operation = operations.actions_events(after=after)
        last = None if after is None else str(after)
        return Events(self._client._http, operation, action_event_of, last_event_id=last)
