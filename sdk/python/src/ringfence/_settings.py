"""Where the server is, whose key it is asked with, and for how long and how often."""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, field
from ipaddress import ip_address
from urllib.parse import urlsplit

from ringfence.errors import ApiError, NoKey, StillRunning, TooMany

DEFAULT_URL = "http://127.0.0.1:7070"
# What the server gives a command where nobody says how long.
COMMAND_SECONDS = 30.0
# For all that is not the command itself: waiting for a place, making a sandbox, sending the answer.
MARGIN_SECONDS = 60.0
# A stream says something at least every 15 seconds.
SILENCE_SECONDS = 60.0
LONGEST_WAIT = 30.0


@dataclass(frozen=True)
class Settings:
    url: str
    key: str = field(repr=False)
    timeout: float
    retries: int

    @classmethod
    def of(cls, url: str | None, key: str | None, timeout: float, retries: int) -> Settings:
        key = (key or os.environ.get("RINGFENCE_API_KEY") or "").strip()
        if not key:
            raise NoKey
        if not (key.isascii() and key.isprintable() and " " not in key):
            # Sent all the same it would be shown in the error of whoever refuses it.
            raise ValueError("the API key has characters that no key has: see where it comes from")
        url = url or os.environ.get("RINGFENCE_URL") or DEFAULT_URL
        if not url.startswith(("http://", "https://", "unix:")):
            raise ValueError(f"{url!r} is no URL of a server: give http://…, https://… or unix:/path")
        return cls(url.rstrip("/"), key, timeout, retries)

    @property
    def socket(self) -> str | None:
        return self.url.removeprefix("unix:") if self.url.startswith("unix:") else None

    @property
    def base_url(self) -> str:
        return "http://localhost" if self.socket else self.url

    @property
    def through_proxies(self) -> bool:
        """What goes to this machine itself is shown to no proxy of the environment, and neither is its key."""
        host = urlsplit(self.base_url).hostname or ""
        try:
            return not ip_address(host).is_loopback
        except ValueError:
            return host != "localhost"


def command_seconds(timeout_ms: int | None, policy: object) -> float | None:
    """How long the answer to a command may take; None where its policy decides."""
    if timeout_ms is not None:
        return timeout_ms / 1000 + MARGIN_SECONDS
    return None if policy else COMMAND_SECONDS + MARGIN_SECONDS


def pause_before(attempt: int, error: Exception | None = None) -> float:
    """Seconds to wait before the next attempt; what the server asks for, within reason."""
    if isinstance(error, ApiError) and error.retry_after is not None:
        return min(error.retry_after, LONGEST_WAIT)
    return min(0.1 * 2.0**attempt, 5.0) * random.uniform(0.5, 1.0)


def worth_repeating(error: ApiError, repeatable: bool) -> bool:
    """Whether the same request may be answered otherwise later."""
    if isinstance(error, StillRunning):
        return True
    if isinstance(error, TooMany):
        # Nothing was done; a quota is for the caller to look at.
        return error.code == "too_many"
    return repeatable and error.status in (502, 503, 504)
