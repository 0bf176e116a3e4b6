"""Sending: one operation, as often as it takes and may be."""

from __future__ import annotations

from contextlib import suppress
from time import monotonic
from types import TracebackType
from typing import TypeVar
from uuid import uuid4

import anyio
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


class AsyncHttp:
    """Keeps connections to one server. Retries what may be sent twice, POSTs by their idempotency keys."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        transport = httpx.AsyncHTTPTransport(uds=settings.socket) if settings.socket else None
        self._http = httpx.AsyncClient(
            base_url=settings.base_url,
            headers={"Authorization": f"Bearer {settings.key}", "User-Agent": "ringfence-python"},
            transport=transport,
            trust_env=settings.through_proxies,
            follow_redirects=False,
        )

    async def aclose(self) -> None:
        await self._http.aclose()

    async def __aenter__(self) -> AsyncHttp:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def send(self, operation: Operation[T], *, timeout: float | None) -> T:
        """Ask, and give the answer. `timeout` is for all attempts together, a decision's `wait_ms` added; None waits on."""
        key = str(uuid4()) if operation.keyed else None
        until = None if timeout is None else monotonic() + timeout + operation.waits_seconds
        attempt, was_lost = 0, False
        while True:
            error: Exception
            try:
                return await self._once(operation, key, until)
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
            await anyio.sleep(wait)

    async def _once(self, operation: Operation[T], key: str | None, until: float | None) -> T:
        left = None if until is None else max(until - monotonic(), 0.001)
        request = self._request(operation, httpx.Timeout(left, connect=_least(left, 10.0)))
        if key is not None:
            request.headers["Idempotency-Key"] = key
        response = await self._http.send(request, stream=True)
        try:
            content = await _content(response, operation.most)
        finally:
            await response.aclose()
        if response.status_code == 202:
            raise waiting_of(content)
        if not response.is_success:
            raise error_of(response.status_code, content, response.headers.get("Retry-After"))
        return operation.read(content)

    async def open(self, operation: Operation[bytes], last_event_id: str | None) -> httpx.Response:
        """The response of a stream, its body still to come."""
        attempt = 0
        while True:
            request = self._request(operation, httpx.Timeout(SILENCE_SECONDS + operation.waits_seconds, connect=10.0))
            request.headers["Accept"] = "text/event-stream"
            if last_event_id is not None:
                request.headers["Last-Event-ID"] = last_event_id
            error: Exception
            try:
                response = await self._http.send(request, stream=True)
                if response.status_code == 200:
                    return response
                error = await self._refusal(response)
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
            await anyio.sleep(pause_before(attempt, error))

    async def _refusal(self, response: httpx.Response) -> ApiError:
        try:
            body = await response.aread()
        finally:
            with suppress(httpx.HTTPError):
                await response.aclose()
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


async def _content(response: httpx.Response, most: int | None) -> bytes:
    if most is None:
        return await response.aread()
    content = bytearray()
    async for chunk in response.aiter_bytes():
        content += chunk
        if len(content) > most:
            raise AnswerTooLarge(most)
    return bytes(content)


def _least(left: float | None, most: float) -> float:
    return most if left is None else min(left, most)
