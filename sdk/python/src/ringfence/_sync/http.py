# Generated from _async/http.py by sdk/generate: do not edit.
"""Sending: one operation, as often as it takes and may be."""

from __future__ import annotations

from contextlib import suppress
from time import monotonic
from types import TracebackType
from typing import TypeVar
from uuid import uuid4

import time
import httpx

from ringfence._operation import Operation
from ringfence._settings import SILENCE_SECONDS, Settings, pause_before, worth_repeating
from ringfence.errors import (
    AnswerTooLarge,
    ApiError,
    ConnectionFailed,
    NotFound,
    RequestTimeout,
    SandboxEnded,
    StillRunning,
    error_of,
    waiting_of,
)

T = TypeVar("T")


class Http:
    """Keeps connections to one server. Retries what may be sent twice, POSTs by their idempotency keys."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        transport = httpx.HTTPTransport(uds=settings.socket) if settings.socket else None
        self._http = httpx.Client(
            base_url=settings.base_url,
            headers={"Authorization": f"Bearer {settings.key}", "User-Agent": "ringfence-python"},
            transport=transport,
            trust_env=settings.through_proxies,
            follow_redirects=False,
        )

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Http:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def send(self, operation: Operation[T], *, timeout: float | None) -> T:
        """Ask, and give the answer. `timeout` is for all attempts together, a decision's `wait_ms` added; None waits on."""
        key = str(uuid4()) if operation.keyed else None
        until = None if timeout is None else monotonic() + timeout + operation.waits_seconds
        attempt, was_lost = 0, False
        while True:
            error: Exception
            try:
                return self._once(operation, key, until)
            except (NotFound, SandboxEnded):
                if was_lost and operation.method == "DELETE":
                    # The first one arrived after all.
                    return operation.read(b"")
                raise
            except ApiError as told:
                if not worth_repeating(told, operation.repeatable):
                    raise
                error = told
            except httpx.ConnectError as refused:
                error = ConnectionFailed(f"cannot reach {self.settings.url}: {refused}\n  is `ringfence serve` running?")
            except httpx.TimeoutException as late:
                raise RequestTimeout(f"{operation.method} {operation.path} was not answered in time") from late
            except httpx.RequestError as lost:
                error = ConnectionFailed(f"{operation.method} {operation.path}: the connection broke off: {lost}")
                was_lost = True
                if not operation.repeatable:
                    raise error from lost
            if not isinstance(error, StillRunning):
                attempt += 1
            wait = pause_before(attempt, error)
            if attempt > self.settings.retries or (until is not None and monotonic() + wait > until):
                raise error
            time.sleep(wait)

    def _once(self, operation: Operation[T], key: str | None, until: float | None) -> T:
        left = None if until is None else max(until - monotonic(), 0.001)
        request = self._request(operation, httpx.Timeout(left, connect=_least(left, 10.0)))
        if key is not None:
            request.headers["Idempotency-Key"] = key
        response = self._http.send(request, stream=True)
        try:
            content = _content(response, operation.most)
        finally:
            response.close()
        if response.status_code == 202:
            raise waiting_of(content)
        if not response.is_success:
            raise error_of(response.status_code, content, response.headers.get("Retry-After"))
        return operation.read(content)

    def open(self, operation: Operation[bytes], last_event_id: str | None) -> httpx.Response:
        """The response of a stream, its body still to come."""
        attempt = 0
        while True:
            request = self._request(operation, httpx.Timeout(SILENCE_SECONDS + operation.waits_seconds, connect=10.0))
            request.headers["Accept"] = "text/event-stream"
            if last_event_id is not None:
                request.headers["Last-Event-ID"] = last_event_id
            error: Exception
            try:
                response = self._http.send(request, stream=True)
                if response.status_code == 200:
                    return response
                error = self._refusal(response)
                if not worth_repeating(error, last_event_id is not None):
                    raise error
            except httpx.ConnectError as refused:
                error = ConnectionFailed(f"cannot reach {self.settings.url}: {refused}\n  is `ringfence serve` running?")
            except httpx.RequestError as lost:
                error = ConnectionFailed(f"{operation.path}: the connection broke off: {lost}")
                if last_event_id is None:
                    # Nobody knows whether the command was started.
                    raise error from lost
            attempt += 1
            if attempt > self.settings.retries:
                raise error
            time.sleep(pause_before(attempt, error))

    def _refusal(self, response: httpx.Response) -> ApiError:
        try:
            body = response.read()
        finally:
            with suppress(httpx.HTTPError):
                response.close()
        if response.status_code == 202:
            raise waiting_of(body)
        return error_of(response.status_code, body, response.headers.get("Retry-After"))

    def _request(self, operation: Operation[T], timeout: httpx.Timeout) -> httpx.Request:
        return self._http.build_request(
            operation.method,
            operation.path,
            params=operation.sent_query(),
            headers=operation.sent_headers(),
            content=operation.body(),
            timeout=timeout,
        )


def _content(response: httpx.Response, most: int | None) -> bytes:
    if most is None:
        return response.read()
    content = bytearray()
    for chunk in response.iter_bytes():
        content += chunk
        if len(content) > most:
            raise AnswerTooLarge(most)
    return bytes(content)


def _least(left: float | None, most: float) -> float:
    return most if left is None else min(left, most)
