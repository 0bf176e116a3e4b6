"""What can go wrong, one class a reason. Every error of the server has its stable `code`; the classes follow the codes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ringfence._generated.models import ActionAnswer

if TYPE_CHECKING:
    from ringfence._result import CommandResult


class RingfenceError(Exception):
    """The base of all errors here."""


class NoKey(RingfenceError):
    """There is no API key to ask with."""

    def __init__(self) -> None:
        super().__init__(
            "no API key is given\n  make one with `ringfence key create --user NAME`, and set RINGFENCE_API_KEY or pass key="
        )


class ConnectionFailed(RingfenceError):
    """The server can't be reached, or the connection broke off."""


class RequestTimeout(RingfenceError):
    """There was no answer in time. A command with a timeout of its own ends by that."""


class StreamBroken(ConnectionFailed):
    """A stream broke off and can't be taken up again."""


class AnswerNotUnderstood(RingfenceError):
    """The server answered something else than its API says."""

    def __init__(self, asked: str, why: object) -> None:
        super().__init__(
            f"the answer to {asked} was not understood: {why!r}\n  see whether URL and versions of server and SDK are right"
        )


class AnswerTooLarge(RingfenceError):
    """A tree is larger than is taken in at once."""

    def __init__(self, most: int) -> None:
        super().__init__(f"the answer is larger than {most >> 20} MiB\n  ask for a part of it")


class CommandFailed(RingfenceError):
    """A command of `run(..., check=True)` did not end with 0."""

    def __init__(self, result: CommandResult) -> None:
        why = "ran out of time" if result.timed_out else f"ended with {result.exit_code}"
        tail = result.stderr.strip()[-2000:]
        super().__init__(f"the command {why}" + (f": {tail}" if tail else ""))
        self.result = result


class WaitingForApproval(RingfenceError):
    """Nothing was done yet: a person must approve first. `action` is what the server says of it.

    Once it is approved, the same call with `action=error.action.id` does it. `wait_ms=` waits for the decision instead.
    """

    def __init__(self, action: ActionAnswer) -> None:
        self.action = action
        super().__init__(
            f"{action.summary}: this is {action.level}, and action {action.id} waits for approval\n"
            f"  once it is approved, do the same again with action={action.id!r}"
        )


class ApiError(RingfenceError):
    """An error that the server told. `code` is stable; `hint` says what to do next."""

    def __init__(
        self,
        *,
        status: int,
        code: str,
        message: str,
        hint: str = "",
        request_id: str = "",
        retry_after: float | None = None,
        detail: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message + (f"\n  {hint}" if hint else ""))
        self.status = status
        self.code = code
        self.message = message
        self.hint = hint
        self.request_id = request_id
        self.retry_after = retry_after
        #: All that the server told of it; for a commit that conflicts, `paths`.
        self.detail = detail or {}


class BadRequest(ApiError):
    """The request is wrong as it is."""


class AuthenticationFailed(ApiError):
    """The key is missing, wrong, expired or revoked."""


class Forbidden(ApiError):
    """Your role may not do this."""


class BeyondCeiling(Forbidden):
    """A sandbox may not have this in your role."""


class FileDenied(Forbidden):
    """The sandbox's own policy keeps this file closed."""


class NotFound(ApiError):
    """There is no such thing, or it is somebody else's."""


class NoSuchFile(NotFound):
    """There is no such file in the sandbox."""


class Conflict(ApiError):
    """Something else is in the way."""


class FileExists(Conflict):
    """There is such a file already."""


class NameTaken(Conflict):
    """Another one has this name."""


class StillRunning(Conflict):
    """The same request, by its key, is being carried out."""


class SandboxEnded(ApiError):
    """The sandbox has ended."""


class NotEnforceable(ApiError):
    """The server's host can't enforce what was asked for; nothing ran."""


class TooMany(ApiError):
    """Too much at a time; `retry_after` says for how many seconds to wait."""


class QuotaReached(TooMany):
    """Your quota is used up; end something first."""


class ServerFailed(ApiError):
    """The server could not do its part."""


BY_CODE: dict[str, type[ApiError]] = {
    "beyond_ceiling": BeyondCeiling,
    "file_denied": FileDenied,
    "no_such_file": NoSuchFile,
    "file_exists": FileExists,
    "taken": NameTaken,
    "still_running": StillRunning,
    "session_ended": SandboxEnded,
    "no_session": SandboxEnded,
    "not_enforceable": NotEnforceable,
    "quota": QuotaReached,
}
BY_STATUS: dict[int, type[ApiError]] = {
    401: AuthenticationFailed,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: SandboxEnded,
    429: TooMany,
}


def waiting_of(body: bytes) -> WaitingForApproval:
    """What a response says of an action that waits."""
    try:
        return WaitingForApproval(ActionAnswer.from_json(json.loads(body)))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise AnswerNotUnderstood("a request that waits for approval", error) from error


def error_of(status: int, body: bytes, retry_after: str | None = None) -> ApiError:
    """The error that a response tells; a proxy's page is one too."""
    try:
        detail = dict(json.loads(body)["error"])
    except (ValueError, KeyError, TypeError):
        text = body[:200].decode("utf-8", "replace").strip()
        detail = {"code": "", "message": f"the server answered {status}" + (f": {text}" if text else "")}
    return error_from_detail(status, detail, retry_after)


def error_from_detail(status: int, detail: dict[str, Any], retry_after: str | None = None) -> ApiError:
    code = str(detail.get("code", ""))
    general = BY_STATUS.get(status, ServerFailed if status >= 500 or status == 0 else BadRequest)
    return BY_CODE.get(code, general)(
        status=status,
        code=code,
        message=str(detail.get("message", "")),
        hint=str(detail.get("hint", "")),
        request_id=str(detail.get("request_id", "")),
        retry_after=float(retry_after) if retry_after and retry_after.isdigit() else None,
        detail=detail,
    )
