# Generated from _async/events.py by sdk/generate: do not edit.
"""Events of the server that are no command's: changes of files, and what happens to actions."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Callable
from contextlib import suppress
from types import TracebackType
from typing import Generic, TypeVar

import time
import httpx

from ringfence._sync.http import Http
from ringfence._operation import Operation
from ringfence._settings import pause_before
from ringfence.errors import StreamBroken
from ringfence.events import EventDecoder, RawEvent

T = TypeVar("T")


class Events(Generic[T]):
    """Iterate over it. Listening begins when it is entered as a context manager, or when the first event is read.

    Where events have ids, a broken connection is made again after the last one that was read.
    """

    def __init__(
        self,
        http: Http,
        operation: Operation[bytes],
        decode: Callable[[RawEvent], T | None],
        *,
        last_event_id: str | None = None,
    ) -> None:
        self._http = http
        self._operation = operation
        self._decode = decode
        self._response: httpx.Response | None = None
        self._chunks: Iterator[bytes] | None = None
        self._decoder = EventDecoder()
        self._ready: deque[RawEvent] = deque()
        self._failures = 0
        self._read_id = last_event_id
        self._closed = False

    def __enter__(self) -> Events[T]:
        if self._chunks is None and not self._closed:
            self._open()
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
            # A loop that was left early. (It takes a context manager to be sure.)
            with suppress(Exception):
                response.close()

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        while True:
            while self._ready:
                raw = self._ready.popleft()
                if raw.name == "end":
                    self.close()
                    self._ready.clear()
                    break
                event = self._decode(raw)
                if event is not None:
                    return event
            if self._closed:
                raise StopIteration
            try:
                self._read()
            except BaseException:
                self.close()
                raise

    def _read(self) -> None:
        try:
            if self._chunks is None:
                self._open()
            assert self._chunks is not None
            chunk = self._chunks.__next__()
        except (StopIteration, httpx.RequestError) as broken:
            self._drop()
            self._failures += 1
            if self._read_id is None or self._failures > self._http.settings.retries:
                what = f"{self._operation.path}: the stream broke off"
                raise StreamBroken(f"{what}\n  listen again, and look at what is there") from broken
            time.sleep(pause_before(self._failures - 1))
            return
        for raw in self._decoder.feed(chunk):
            if raw.id is not None:
                self._read_id = raw.id
                self._failures = 0
            self._ready.append(raw)

    def _open(self) -> None:
        self._response = self._http.open(self._operation, self._read_id)
        self._decoder = EventDecoder()
        self._chunks = self._response.iter_bytes()

    def _drop(self) -> None:
        response, self._response, self._chunks = self._response, None, None
        if response is not None:
            with suppress(httpx.HTTPError):
                response.close()
