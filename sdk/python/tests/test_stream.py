"""Streams: events as they come, connections that break, and what may be sent twice."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ringfence import Event, Exit, Output, Ringfence, Start, StreamBroken
from ringfence.errors import ConnectionFailed, NotFound
from ringfence.events import EventDecoder, RawEvent
from serving import Relay, Server


def texts(events: Iterator[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, Output))


def test_events_in_their_order(ringfence: Ringfence) -> None:
    with ringfence.sandboxes.create() as sandbox:
        for stream in (ringfence.stream("echo out; echo err >&2; exit 3"), sandbox.stream("echo out; echo err >&2; exit 3")):
            events = list(stream)
            assert isinstance(events[0], Start) and isinstance(events[-1], Exit)
            assert events[-1].code == 3 and stream.exit == events[-1]
            written = {(event.stream, event.text) for event in events if isinstance(event, Output)}
            assert written == {("stdout", "out\n"), ("stderr", "err\n")}


def test_output_arrives_while_the_command_runs(ringfence: Ringfence) -> None:
    # It ends only once it is told to, and is told to only after its first output was seen.
    with ringfence.sandboxes.create() as sandbox:
        with sandbox.stream("echo first; while [ ! -e go ]; do sleep 0.01; done; echo second") as stream:
            text = stream.text()
            assert next(text) == "first\n"
            sandbox.files.write("go", "")
            assert "".join(text) == "second\n"


def test_any_bytes(ringfence: Ringfence) -> None:
    # Line separators of Unicode and of ASCII's attic are text, and end no line of the stream.
    odd = "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\rh\r\ni"
    result = ringfence.stream(["printf", "%s", odd]).wait()
    assert result.stdout == odd
    assert ringfence.stream(["printf", r"\000\377\n"]).wait().stdout_bytes == b"\0\xff\n"
    assert len(ringfence.stream("head -c 3000000 /dev/zero | tr '\\0' x").wait().stdout) == 3_000_000


def test_a_stream_that_is_left_ends_its_command(ringfence: Ringfence) -> None:
    with ringfence.sandboxes.create() as sandbox:
        with sandbox.stream("echo on; sleep 1000") as stream:
            assert next(stream.text()) == "on\n"
        # Waits for all that runs: it would not come back for a thousand seconds.
        [ended] = [one["process"] for one in sandbox.processes.list() if "sleep 1000" in str(one)]
        assert sandbox.processes.attach(ended).wait(timeout=60)["signal"] == 9
        for event in sandbox.stream("echo on; sleep 1001"):
            if isinstance(event, Output):
                break
        [ended] = [one["process"] for one in sandbox.processes.list() if "sleep 1001" in str(one)]
        assert sandbox.processes.attach(ended).wait(timeout=60)["signal"] == 9


COUNT = "i=0; while [ $i -lt 40 ]; do echo line $i; i=$((i+1)); done; echo x >> ran; wc -l < ran"
LINES = "".join(f"line {n}\n" for n in range(40))


@pytest.mark.parametrize("in_sandbox", [False, True])
def test_a_broken_stream_is_taken_up_after_its_last_event(server: Server, key: str, in_sandbox: bool) -> None:
    """Three connections end in the middle, one even within an event; nothing is lost, told twice or run twice."""

    def cut(connection: int, answered: bytes) -> int | None:
        enough = 1200 if connection <= 4 else 1 << 40
        is_stream = b"text/event-stream" in answered
        return enough if is_stream and len(answered) > enough else None

    slowly = COUNT.replace("echo line $i;", "echo line $i; sleep 0.002;")
    with Relay(server.port, cut) as relay, Ringfence(relay.url, key) as ringfence:
        with ringfence.sandboxes.create() as sandbox:
            stream = sandbox.stream(slowly, keep=True) if in_sandbox else ringfence.stream(slowly, keep=True)
            result = stream.wait()
        assert result.stdout == LINES + "1\n"
        assert relay.connections > 2


def test_a_broken_stream_without_keep_is_an_error(server: Server, key: str) -> None:
    def cut(connection: int, answered: bytes) -> int | None:
        return len(answered) if b"event: stdout" in answered else None

    with Relay(server.port, cut) as relay, Ringfence(relay.url, key) as ringfence:
        with pytest.raises(StreamBroken, match="keep=True"):
            ringfence.stream("echo out; sleep 1000").wait()


def test_a_stream_is_taken_up_by_another_client(server: Server, key: str) -> None:
    with Ringfence(server.url, key) as first, first.stream(COUNT, keep=True) as stream:
        assert isinstance(next(stream), Start)
        seen = next(stream)
        assert isinstance(seen, Output)
        last = stream.last_event_id
    assert last is not None
    with Ringfence(server.url, key) as second:
        assert seen.text + second.resume(last).wait().stdout == LINES + "1\n"
        with pytest.raises(StreamBroken):
            second.resume("0123.5").wait()
    with Ringfence(server.url, server.key("eve")) as eve, pytest.raises(StreamBroken) as refused:
        eve.resume(last).wait()
    assert isinstance(refused.value.__cause__, NotFound)


def test_a_lost_answer_is_asked_for_again_and_the_command_runs_once(server: Server, key: str) -> None:
    lost: list[int] = []

    def cut(connection: int, answered: bytes) -> int | None:
        if b" 200 OK" in answered and len(lost) < 2:
            lost.append(connection)
            return 0
        return None

    with Relay(server.port, cut) as relay, Ringfence(relay.url, key) as ringfence:
        assert ringfence.run("echo x >> log; wc -l < log").stdout == "1\n"
        assert len(lost) == 2
        assert ringfence.run("echo x >> log; wc -l < log").stdout == "2\n"
    # The twin: with no second attempt the answer is lost, though the command ran.
    lost.clear()
    with Relay(server.port, cut) as relay, Ringfence(relay.url, key, retries=0) as ringfence:
        with pytest.raises(ConnectionFailed):
            ringfence.run("echo x >> log; wc -l < log")


def test_a_lost_delete_is_done(server: Server, key: str) -> None:
    lost: list[int] = []

    def cut(connection: int, answered: bytes) -> int | None:
        if b" 204 " in answered and not lost:
            lost.append(connection)
            return 0
        return None

    with Relay(server.port, cut) as relay, Ringfence(relay.url, key) as ringfence:
        ringfence.sandboxes.create().delete()
        assert lost
        assert list(ringfence.sandboxes.list(state="alive")) == []


def test_bytes_cut_anywhere_are_the_same_events() -> None:
    text = ": alive\r\nevent: stdout\r\nid: a.1\r\ndata: {\"text\":\r\ndata:  \"é\"}\r\n\r\ndata: x\r\rid: 7\n\ndata\n\n".encode()
    expected = [RawEvent("a.1", "stdout", '{"text":\n "é"}'), RawEvent(None, "message", "x"), RawEvent(None, "message", "")]
    for cut in range(len(text)):
        decoder = EventDecoder()
        assert [*decoder.feed(text[:cut]), *decoder.feed(text[cut:])] == expected, cut
    decoder = EventDecoder()
    assert [event for n in range(len(text)) for event in decoder.feed(text[n : n + 1])] == expected
