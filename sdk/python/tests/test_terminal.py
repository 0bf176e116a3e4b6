"""Commands on terminals, over real WebSockets."""

from __future__ import annotations

import asyncio
import sys

import pytest

from ringfence import AsyncRingfence, Ringfence, RingfenceError, WaitingForApproval
from ringfence._sync.terminal import Terminal
from serving import Server


def until(terminal: Terminal, words: bytes) -> None:
    shown = b""
    for piece in terminal:
        shown += piece
        if words in shown:
            return
    raise AssertionError(f"{words!r} was not shown: {shown!r}")


def test_a_shell_of_ones_own(ringfence: Ringfence) -> None:
    with ringfence.sandboxes.create() as sandbox:
        with sandbox.terminal(["sh"], rows=30, columns=100) as terminal:
            terminal.write("stty size; test -t 0 && echo is-a-terminal\n")
            until(terminal, b"30 100\r\nis-a-terminal\r\n")
            terminal.resize(50, 120)
            terminal.write("stty size\n")
            until(terminal, b"50 120\r\n")
            terminal.write(b"sh -c 'trap \"exit 42\" INT; echo rea\"\"dy; while :; do sleep 0.1; done'; echo got-$?\n")
            until(terminal, b"ready\r\n")
            terminal.write("\x03")
            until(terminal, b"got-42")
            terminal.write("exit 7\n")
            for _ in terminal:
                pass
            assert terminal.exit is not None and terminal.exit["code"] == 7
        with pytest.raises(RingfenceError, match="not open"):
            terminal.write("x")
        # It ends with its block.
        with sandbox.terminal("echo up; sleep 1003 & sleep 1003") as terminal:
            until(terminal, b"up")
        [ended] = [one["process"] for one in sandbox.processes.list() if "sleep 1003" in str(one)]
        assert sandbox.processes.attach(ended).wait()


def test_what_waits_and_what_is_missing(
    server: Server, ringfence: Ringfence, monkeypatch: pytest.MonkeyPatch
) -> None:
    approver = Ringfence(server.url, server.key("decides", "approver"))
    with approver, Ringfence(server.url, server.key("asks-terminal")) as asking:
        with pytest.raises(WaitingForApproval) as made:
            asking.sandboxes.create()
        approver.actions.approve(made.value.action.id)
        with asking.sandboxes.create(action=made.value.action.id) as sandbox:
            with pytest.raises(WaitingForApproval) as waits, sandbox.terminal(["echo", "ran"]):
                pass
            approver.actions.approve(waits.value.action.id)
            with sandbox.terminal(["echo", "ran"], action=waits.value.action.id) as terminal:
                assert b"".join(terminal) == b"ran\r\n"
    with ringfence.sandboxes.create() as sandbox:
        monkeypatch.setitem(sys.modules, "websockets.sync.client", None)
        with pytest.raises(RingfenceError, match=r"ringfence\[terminal\]"), sandbox.terminal():
            pass


def test_there_is_none_over_a_unix_socket() -> None:
    with Ringfence("unix:/nowhere", "rf_x") as ringfence, pytest.raises(RingfenceError, match="http://"):
        with ringfence.sandboxes.attach("any").terminal():
            pass


def test_with_await(server: Server, key: str) -> None:
    async def main() -> None:
        async with AsyncRingfence(server.url, key) as ringfence, await ringfence.sandboxes.create() as sandbox:
            async with sandbox.terminal(["cat"]) as terminal:
                await terminal.write("line\n")
                async for shown in terminal:
                    assert shown
                    break
                await terminal.write("\x04")
                async for _ in terminal:
                    pass
                assert terminal.exit is not None and terminal.exit["code"] == 0

    asyncio.run(main())
