"""The asynchronous client: what is not the same text as the synchronous one's."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from ringfence import AsyncRingfence, Output, WaitingForApproval, run_sandboxed_async
from ringfence.errors import BeyondCeiling, StreamBroken
from serving import Relay, Server


def test_all_of_it(server: Server, key: str) -> None:
    async def main() -> None:
        async with AsyncRingfence(server.url, key) as ringfence:
            assert (await ringfence.run("echo $((6*7))")).stdout == "42\n"
            with pytest.raises(BeyondCeiling):
                await ringfence.run("true", profile="permissive")
            async with await ringfence.sandboxes.create() as sandbox:
                await sandbox.files.write("a", "text")
                assert await sandbox.files.read_text("a") == "text"
                process = await sandbox.processes.start("cat")
                await process.write("in", close=True)
                assert (await process.wait())["code"] == 0
                assert (await process.logs()).stdout == "in"
                assert [one.id async for one in ringfence.sandboxes.list(state="alive")] == [sandbox.id]
                assert [text async for text in sandbox.stream("echo out").text()] == ["out\n"]
            assert [one async for one in ringfence.sandboxes.list(state="alive")] == []

    asyncio.run(main())


def test_new_nouns_with_await(server: Server, key: str, tmp_path: Path) -> None:
    """Those with code of their own: pages, trees, events, forks."""

    async def main() -> None:
        async with AsyncRingfence(server.url, key) as ringfence:
            async with await ringfence.sandboxes.create(workspace="private") as sandbox:
                async with sandbox.files.watch() as changes:
                    await sandbox.files.write("new", "text")
                    async for change in changes:
                        if change.path.endswith("new"):
                            break
                assert await sandbox.files.download(".", tmp_path / "back") == 1
                assert (tmp_path / "back/new").read_text() == "text"
                taken = await sandbox.snapshots.take()
                assert [one.id async for one in sandbox.snapshots.list()] == [taken.id]
                [fork] = await sandbox.fork()
                async with fork:
                    assert await fork.files.read_text("new") == "text"
        async with AsyncRingfence(server.url, server.key("asks-await")) as asking:
            with pytest.raises(WaitingForApproval) as waits:
                await asking.run("true")
            async with asking.actions.events(after=0) as events:
                async for event in events:
                    assert (event.action, event.state) == (waits.value.action.id, "waiting")
                    break
            assert (await asking.actions.cancel(waits.value.action.id)).state == "cancelled"

    asyncio.run(main())


def test_commands_side_by_side(server: Server, key: str) -> None:
    """Each waits for the other's file: one after the other they would never end."""

    async def main() -> None:
        async with AsyncRingfence(server.url, key) as ringfence, await ringfence.sandboxes.create() as sandbox:
            meet = "touch {0}; while [ ! -e {1} ]; do sleep 0.01; done; echo met"
            both = await asyncio.gather(sandbox.run(meet.format("a", "b")), sandbox.run(meet.format("b", "a")))
            assert [one.stdout for one in both] == ["met\n", "met\n"]

    asyncio.run(main())


async def _cancelled(work: Callable[[asyncio.Event], Awaitable[object]]) -> None:
    ready = asyncio.Event()
    task = asyncio.ensure_future(work(ready))
    await ready.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_a_cancelled_task_takes_its_sandbox_away(server: Server, key: str) -> None:
    async def main() -> None:
        async with AsyncRingfence(server.url, key) as ringfence:

            async def work(ready: asyncio.Event) -> None:
                async with await ringfence.sandboxes.create() as sandbox:
                    async with sandbox.stream("echo on; sleep 1000") as stream:
                        async for event in stream:
                            if isinstance(event, Output):
                                ready.set()

            await _cancelled(work)
            assert [one async for one in ringfence.sandboxes.list(state="alive")] == []

    asyncio.run(main())


def test_broken_streams(server: Server, key: str) -> None:
    def cut(connection: int, answered: bytes) -> int | None:
        return len(answered) if connection <= 3 and b"event: stdout" in answered else None

    async def main(url: str) -> None:
        async with AsyncRingfence(url, key) as ringfence:
            with pytest.raises(StreamBroken):
                await ringfence.stream("echo out; sleep 1000").wait()
            result = await ringfence.stream("for i in 1 2 3 4; do echo $i; sleep 0.01; done", keep=True).wait()
            assert result.stdout == "1\n2\n3\n4\n"

    with Relay(server.port, cut) as relay:
        asyncio.run(main(relay.url))
        assert relay.connections > 2


def test_the_one_line_way(environment: None) -> None:
    assert asyncio.run(run_sandboxed_async("echo hello")) == "hello"
