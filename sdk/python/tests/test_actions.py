"""What waits for a person: told as an error, approved by somebody else, and done once by the same call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from ringfence import Ringfence, WaitingForApproval
from ringfence.errors import Conflict
from serving import Relay, Server


@pytest.fixture
def asking(server: Server, request: pytest.FixtureRequest) -> Iterator[Ringfence]:
    """A user who must ask for everything."""
    with Ringfence(server.url, server.key(f"asks{abs(hash(request.node.nodeid)):x}"[:20])) as ringfence:
        yield ringfence


@pytest.fixture
def approver(server: Server) -> Iterator[Ringfence]:
    with Ringfence(server.url, server.key("decides", "approver")) as ringfence:
        yield ringfence


def waiting(call: Callable[[], object]) -> WaitingForApproval:
    with pytest.raises(WaitingForApproval) as waits:
        call()
    return waits.value


def test_the_same_call_again_once_it_is_approved(asking: Ringfence, approver: Ringfence) -> None:
    told = waiting(lambda: asking.run("echo ran > f; echo ran", workspace="w"))
    action = told.action
    assert (action.state, action.kind) == ("waiting", "run") and action.id in str(told)
    # Not approved yet, and not for anything else.
    again = waiting(lambda: asking.run("echo ran > f; echo ran", workspace="w", action=action.id))
    assert again.action.id == action.id
    assert approver.actions.approve(action.id, reason="seen").state == "approved"
    with pytest.raises(Conflict) as changed:
        asking.run("echo something else", workspace="w", action=action.id)
    assert changed.value.code == "changed"
    assert asking.run("echo ran > f; echo ran", workspace="w", action=action.id).stdout == "ran\n"
    assert asking.actions.get(action.id).state == "done"
    with pytest.raises(Conflict):
        asking.run("echo ran > f; echo ran", workspace="w", action=action.id)


def test_a_sandbox_its_commands_and_files_wait_alike(asking: Ringfence, approver: Ringfence) -> None:
    made = waiting(lambda: asking.sandboxes.create(name="mine"))
    approver.actions.approve(made.action.id)
    with asking.sandboxes.create(name="mine", action=made.action.id) as sandbox:
        for call in (
            lambda **more: sandbox.run("true", **more),
            lambda **more: sandbox.stream("true", **more).wait(),
            lambda **more: sandbox.processes.start("true", **more),
            lambda **more: sandbox.files.write("a", "text", **more),
            lambda **more: sandbox.files.move("a", "b", **more),
            lambda **more: sandbox.files.remove("b", **more),
        ):
            told = waiting(call)
            approver.actions.approve(told.action.id)
            call(action=told.action.id)


def test_whoever_waits_hears_of_the_decision(asking: Ringfence, approver: Ringfence) -> None:
    with ThreadPoolExecutor() as threads, approver.actions.events(after=0) as events:
        running = threads.submit(asking.run, "echo ran", wait_ms=120_000)
        me = asking.me().user
        waits = next(event for event in events if event.user == me)
        assert (waits.state, waits.kind) == ("waiting", "run")
        approver.actions.approve(waits.action)
        assert running.result().stdout == "ran\n"
        states = []
        for event in events:
            if event.action == waits.action:
                states.append(event.state)
                if event.state == "done":
                    break
        assert states[0] == "approved"
        # Going on after an event gives what came after it, and nothing twice.
        with approver.actions.events(after=waits.id) as later:
            assert next(event for event in later if event.action == waits.action).state == "approved"


def test_a_broken_connection_is_made_again_after_the_last_event(server: Server, asking: Ringfence) -> None:
    first = asking.actions.submit(run={"command": ["true"]})

    def cut(connection: int, answered: bytes) -> int | None:
        """The first connection ends after the first event."""
        end = answered.find(b"\n\n", answered.find(b"data:"))
        return end + 2 if connection == 1 and b"data:" in answered and end > 0 else None

    with Relay(server.port, cut) as relay, Ringfence(relay.url, asking._http.settings.key) as listening:
        with listening.actions.events(after=0) as events:
            assert next(events).action == first.id
            second = asking.actions.submit(run={"command": ["true"]})
            told = next(events)
            assert (told.action, told.state) == (second.id, "waiting")
        assert relay.connections == 2


def test_submitted_denied_cancelled_and_remembered(asking: Ringfence, approver: Ringfence) -> None:
    first = asking.actions.submit(run={"command": ["true"]})
    denied = approver.actions.deny(first.id, reason="not today")
    assert (denied.state, denied.decided_why) == ("denied", "not today")
    second = asking.actions.submit(run={"command": ["true"]})
    assert asking.actions.cancel(second.id).state == "cancelled"
    assert [one.id for one in asking.actions.list(state="denied")] == [first.id]
    assert {one.id for one in asking.actions.list()} == {first.id, second.id}
    told = waiting(lambda: asking.run(["true"]))
    approver.actions.approve(told.action.id, remember="hour")
    asking.run(["true"], action=told.action.id)
    assert asking.run(["true"]).ok
    [held] = asking.actions.remembered()
    approver.actions.forget(held.id)
    waiting(lambda: asking.run(["true"]))
