# Generated from _async/stream.py by sdk/generate: do not edit.
"""The events of one command as an iterator, taken up again where the connection breaks off."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from types import TracebackType

import time
import httpx

from ringfence._sync.http import Http
from ringfence._operation import Operation
from ringfence._result import CommandResult
from ringfence._settings import pause_before
from ringfence.errors import NotFound, RingfenceError, StreamBroken
from ringfence.events import Collected, Event, EventDecoder, Exit, event_of


class Stream:
    """Iterate over it for events; `text()` for output only; `wait()` for the result.

    Use it as a context manager where you may leave it early: the command ends when its stream is closed, unless it was
    started with `keep=True`. Only then can a broken stream be taken up again.
    """

    def __init__(self, http: Http, operation: Operation[bytes], *, keep: bool, last_event_id: str | None = None) -> None:
        self._http = http
        self._operation = operation
        self._keep = keep
        self._response: httpx.Response | None = None
        self._chunks: Iterator[bytes] | None = None
        self._decoder = EventDecoder()
        # Each with its id: what was read, and is not given yet.
        self._ready: deque[tuple[str | None, Event]] = deque()
        self._trouble: RingfenceError | None = None
        self._closed = False
        self._failures = 0
        #: How the command ended, once it has.
        self.exit: Exit | None = None
        self._read_id = last_event_id
        #: The last event that was given: `resume` goes on after it, in another process too.
        self.last_event_id = last_event_id

    def __enter__(self) -> Stream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._closed = True
        self._drop()

    def __del__(self) -> None:
        response = getattr(self, "_response", None)
        if response is not None:
            # A loop that was left early: the command ends with its reader. (It takes a context manager to be sure.)
            with suppress(Exception):
                response.close()

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        while not self._ready:
            if self._closed or self.exit is not None:
                self.close()
                raise StopIteration
            try:
                if self._trouble is not None:
                    raise self._trouble
                self._read()
            except BaseException:
                self.close()
                raise
        event_id, event = self._ready.popleft()
        self.last_event_id = event_id or self.last_event_id
        if isinstance(event, Exit):
            self.exit = event
        return event

    def text(self) -> Iterator[str]:
        """What the command writes, stdout and stderr together, as it comes."""
        for event in self:
            text = getattr(event, "text", "")
            if text:
                yield text

    def wait(self, *, check: bool = False) -> CommandResult:
        """Read to the end, and give what was read: all of it, where nothing was read before."""
        collected = Collected()
        for event in self:
            collected.add(event)
        if self.exit is None:
            raise StreamBroken("the stream was closed before the command ended\n  leave it open, or start it with keep=True")
        result = collected.result(self.exit)
        return result.check() if check else result

    def _read(self) -> None:
        """Take in some bytes; over a new connection where the old one broke."""
        try:
            if self._chunks is None:
                self._open()
            assert self._chunks is not None
            chunk = self._chunks.__next__()
        except (StopIteration, httpx.RequestError) as broken:
            self._drop()
            self._failures += 1
            if not self._keep or self._read_id is None:
                raise StreamBroken(
                    "the stream broke off, and its command was ended with it\n  use keep=True for one that can be taken up again"
                ) from broken
            if self._failures > self._http.settings.retries:
                raise StreamBroken(f"the stream broke off {self._failures} times\n  see the server's log") from broken
            time.sleep(pause_before(self._failures - 1))
            return
        for raw in self._decoder.feed(chunk):
            if raw.id is not None:
                self._read_id = raw.id
                self._failures = 0
            try:
                event = event_of(raw)
            except RingfenceError as error:
                # Told once all that came before it has been read.
                self._trouble = error
                return
            if event is not None:
                self._ready.append((raw.id, event))

    def _open(self) -> None:
        try:
            self._response = self._http.open(self._operation, self._read_id)
        except NotFound as gone:
            if self._read_id is None:
                raise
            raise StreamBroken("the server no longer has this stream\n  start the command again if it may run twice") from gone
        self._decoder = EventDecoder()
        self._chunks = self._response.iter_raw() if _is_plain(self._response) else self._response.iter_bytes()

    def _drop(self) -> None:
        response, self._response, self._chunks = self._response, None, None
        if response is not None:
            with suppress(httpx.HTTPError):
                response.close()


def _is_plain(response: httpx.Response) -> bool:
    """Not compressed: bytes are given as they arrive."""
    return "content-encoding" not in response.headers
