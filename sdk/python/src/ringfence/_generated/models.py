"""Generated from docs/openapi.json by sdk/generate: do not edit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NotRequired, Required, TypeAlias, TypedDict

__all__ = [
    "ActionAnswer",
    "ActionPage",
    "AuditPage",
    "ChangeAnswer",
    "CommitAnswer",
    "CommitRequest",
    "CreateRequest",
    "DecideRequest",
    "DeleteSubmit",
    "DeleteSubmitOptions",
    "DiffAnswer",
    "DirectoryRequest",
    "DirectoryRequestOptions",
    "EntryAnswer",
    "EntryPage",
    "ErrorBody",
    "ErrorDetail",
    "ExecAnswer",
    "ExecRequest",
    "ExecRequestOptions",
    "ExecSubmit",
    "ExtendRequest",
    "FileWanted",
    "FileWantedOptions",
    "ForkAnswer",
    "ForkRequest",
    "HeldAnswer",
    "HitAnswer",
    "KeyAnswer",
    "KeyPage",
    "KeyRequest",
    "LoginRequest",
    "LogsAnswer",
    "MeAnswer",
    "NetworkWanted",
    "NewKeyAnswer",
    "PortAnswer",
    "PortRequest",
    "PortsAnswer",
    "ProcessAnswer",
    "RememberedAnswer",
    "RememberedPage",
    "RenameRequest",
    "RollbackAnswer",
    "RollbackRequest",
    "RollbackRequestOptions",
    "RunAnswer",
    "RunRequest",
    "RunRequestOptions",
    "SandboxAnswer",
    "SandboxPage",
    "SandboxWhole",
    "SearchAnswer",
    "SecretPage",
    "SecretRequest",
    "SecretRequestOptions",
    "SecretWanted",
    "SignalRequest",
    "SignalRequestOptions",
    "SkillAnswer",
    "SkillPage",
    "SkillRunRequest",
    "SnapshotAnswer",
    "SnapshotPage",
    "SnapshotRequest",
    "StatAnswer",
    "StatusAnswer",
    "StdinRequest",
    "SubmitRequest",
    "TicketAnswer",
    "UploadAnswer",
    "UploadedAnswer",
    "UsageAnswer",
    "UserAnswer",
    "UserChange",
    "UserPage",
    "UserRequest",
    "VerdictAnswer",
    "VersionAnswer",
    "VersionsAnswer",
    "WorkspaceAnswer",
    "WorkspacePage",
    "WorkspaceUsage",
]


@dataclass(frozen=True, kw_only=True)
class ActionAnswer:
    """Something that somebody wants to do, and what became of it."""

    created: int
    decided_at: int | None = None
    decided_by: str | None = None
    decided_why: str | None = None
    # Of all of that. Only what has this digest is begun.
    digest: str
    # Until then it waits for a decision, and once approved for its submitter.
    expires: int
    finished: int | None = None
    id: str
    # run, exec, sandbox.create, file.delete, …
    kind: str
    # low, medium, high or critical
    level: str
    # Why it is of this level, the weightiest first.
    reasons: list[str]
    # How long the approval holds: once, session, hour or always.
    remember: str | None = None
    # Exactly what would be done: command, policy, digests of files. Values that look like credentials are masked.
    request: dict[str, Any]
    result: dict[str, Any] | None = None
    sandbox: str | None = None
    # waiting, approved, denied, cancelled, expired, running, done or failed
    state: str
    summary: str
    user: str

    @classmethod
    def from_json(cls, data: Any) -> ActionAnswer:
        return cls(
            created=data["created"],
            decided_at=data.get("decided_at"),
            decided_by=data.get("decided_by"),
            decided_why=data.get("decided_why"),
            digest=data["digest"],
            expires=data["expires"],
            finished=data.get("finished"),
            id=data["id"],
            kind=data["kind"],
            level=data["level"],
            reasons=data["reasons"],
            remember=data.get("remember"),
            request=data["request"],
            result=data.get("result"),
            sandbox=data.get("sandbox"),
            state=data["state"],
            summary=data["summary"],
            user=data["user"],
        )


@dataclass(frozen=True, kw_only=True)
class ActionPage:
    actions: list[ActionAnswer]
    # For `after` of the next page; null at the end.
    next: str | None = None

    @classmethod
    def from_json(cls, data: Any) -> ActionPage:
        return cls(
            actions=[ActionAnswer.from_json(item) for item in data["actions"]],
            next=data.get("next"),
        )


@dataclass(frozen=True, kw_only=True)
class AuditPage:
    # For `after` of the next page; null at the end.
    next: int | None = None
    rows: list[dict[str, Any]]

    @classmethod
    def from_json(cls, data: Any) -> AuditPage:
        return cls(
            next=data.get("next"),
            rows=data["rows"],
        )


@dataclass(frozen=True, kw_only=True)
class ChangeAnswer:
    # added, changed, mode, removed or replaced
    change: str
    # It was changed beneath too: it can't be committed.
    conflict: bool
    path: str
    # workspace or home
    root: str
    size: int | None = None

    @classmethod
    def from_json(cls, data: Any) -> ChangeAnswer:
        return cls(
            change=data["change"],
            conflict=data["conflict"],
            path=data["path"],
            root=data["root"],
            size=data.get("size"),
        )


@dataclass(frozen=True, kw_only=True)
class CommitAnswer:
    applied: list[dict[str, Any]]
    # Protected names, pipes and the like, which are never committed.
    left_out: list[dict[str, Any]]

    @classmethod
    def from_json(cls, data: Any) -> CommitAnswer:
        return cls(
            applied=data["applied"],
            left_out=data["left_out"],
        )


class CommitRequest(TypedDict, total=False):
    # The action that was approved for exactly this request.
    action: str | None
    # These paths of the workspace, and what is in them; all, if there are none.
    only: list[str]
    # Where a person has to decide, wait so long for that before the answer is 202; at most 300000.
    wait_ms: int | None


class CreateRequest(TypedDict, total=False):
    """A sandbox that stays."""

    # The action that was approved for exactly this request.
    action: str | None
    # native, claude-code, codex or gemini: begin from the defaults of that client's own sandbox, as far as your role
    # may have them. What is here besides holds over it.
    compat: str | None
    # Where its commands start.
    cwd: str | None
    # Variables of all its commands.
    env: dict[str, str]
    files: list[FileWanted]
    # It ends when nothing was done in it for so long.
    idle_ms: int | None
    # Show the system directories of this image in place of the host's: the one of your role's ceiling.
    image: str | None
    # Yours to give and to find it by.
    labels: dict[str, Any]
    # For people; one living sandbox of yours has it at a time.
    name: str | None
    network: NetworkWanted | None
    # The workspace is copy-on-write: see `diff` and `commit`.
    overlay: bool
    policy: dict[str, Any] | None
    profile: str | None
    secrets: list[SecretWanted]
    skills: bool
    strict: bool
    trace: bool
    # It ends after so long.
    ttl_ms: int | None
    # Where a person has to decide, wait so long for that before the answer is 202; at most 300000.
    wait_ms: int | None
    workspace: str | None


class DecideRequest(TypedDict, total=False):
    # For whoever asked.
    reason: str | None
    # How long an approval holds for exactly the same by the same user: once (the default), session, hour or always.
    remember: str | None


class DeleteSubmitOptions(TypedDict, total=False):
    """What may be left out of `DeleteSubmit`."""

    recursive: bool


class DeleteSubmit(DeleteSubmitOptions):
    """A file or directory of a sandbox, to be removed."""

    path: str
    sandbox: str


@dataclass(frozen=True, kw_only=True)
class DiffAnswer:
    changes: list[ChangeAnswer]

    @classmethod
    def from_json(cls, data: Any) -> DiffAnswer:
        return cls(
            changes=[ChangeAnswer.from_json(item) for item in data["changes"]],
        )


class DirectoryRequestOptions(TypedDict, total=False):
    """What may be left out of `DirectoryRequest`."""

    # Also those above it; one that is there already is fine.
    parents: bool


class DirectoryRequest(DirectoryRequestOptions):
    path: str


@dataclass(frozen=True, kw_only=True)
class EntryAnswer:
    """One entry of a directory."""

    # file, directory, symlink or other
    kind: str
    # With replacement characters where it is not UTF-8.
    name: str

    @classmethod
    def from_json(cls, data: Any) -> EntryAnswer:
        return cls(
            kind=data["kind"],
            name=data["name"],
        )


@dataclass(frozen=True, kw_only=True)
class EntryPage:
    entries: list[EntryAnswer]
    # For `after` of the next page; null at the end.
    next: str | None = None

    @classmethod
    def from_json(cls, data: Any) -> EntryPage:
        return cls(
            entries=[EntryAnswer.from_json(item) for item in data["entries"]],
            next=data.get("next"),
        )


@dataclass(frozen=True, kw_only=True)
class ErrorBody:
    """The body of every error."""

    error: ErrorDetail

    @classmethod
    def from_json(cls, data: Any) -> ErrorBody:
        return cls(
            error=ErrorDetail.from_json(data["error"]),
        )


@dataclass(frozen=True, kw_only=True)
class ErrorDetail:
    # Stable: programs match on it.
    code: str
    # What to do next.
    hint: str
    message: str
    # Paths of the workspace that it is about, where there are any: what a commit conflicts with, say.
    paths: list[str] | None = None
    # Quote it when you ask for help; the server's log has it too.
    request_id: str

    @classmethod
    def from_json(cls, data: Any) -> ErrorDetail:
        return cls(
            code=data["code"],
            hint=data["hint"],
            message=data["message"],
            paths=data.get("paths"),
            request_id=data["request_id"],
        )


@dataclass(frozen=True, kw_only=True)
class ExecAnswer:
    """What came of a command."""

    duration_ms: int
    # Why the command itself could not be started.
    error: dict[str, Any] | None = None
    exit_code: int
    result: dict[str, Any]
    signal: int | None = None
    stderr: str
    stderr_base64: str | None = None
    stdout: str
    stdout_base64: str | None = None
    timed_out: bool
    truncated: bool

    @classmethod
    def from_json(cls, data: Any) -> ExecAnswer:
        return cls(
            duration_ms=data["duration_ms"],
            error=data.get("error"),
            exit_code=data["exit_code"],
            result=data["result"],
            signal=data.get("signal"),
            stderr=data["stderr"],
            stderr_base64=data.get("stderr_base64"),
            stdout=data["stdout"],
            stdout_base64=data.get("stdout_base64"),
            timed_out=data["timed_out"],
            truncated=data["truncated"],
        )


class ExecRequestOptions(TypedDict, total=False):
    """What may be left out of `ExecRequest`."""

    # The action that was approved for exactly this request.
    action: str | None
    cwd: str | None
    # On top of the sandbox's own.
    env: dict[str, str]
    # A command whose stream breaks off goes on, and the stream can be taken up with `Last-Event-ID`.
    keep: bool
    stdin: str | None
    stdin_base64: str | None
    # The command and all that it started end after this time; 30000 where none is given, for a process none.
    timeout_ms: int | None
    # Where a person has to decide, wait so long for that before the answer is 202; at most 300000.
    wait_ms: int | None


class ExecRequest(ExecRequestOptions):
    """One command in a sandbox that stays."""

    # The program and its arguments; no shell is in between.
    command: list[str]


class ExecSubmit(TypedDict):
    """A command in a sandbox that is there."""

    request: ExecRequest
    sandbox: str


class ExtendRequest(TypedDict, total=False):
    idle_ms: int | None
    # From now.
    ttl_ms: int | None


class FileWantedOptions(TypedDict, total=False):
    """What may be left out of `FileWanted`."""

    content: str | None
    # In place of `content`, for what is not text.
    content_base64: str | None
    # Permission bits; 420 (octal 644) where none are given.
    mode: int | None


class FileWanted(FileWantedOptions):
    # Relative to the workspace.
    path: str


@dataclass(frozen=True, kw_only=True)
class ForkAnswer:
    sandboxes: list[SandboxAnswer]

    @classmethod
    def from_json(cls, data: Any) -> ForkAnswer:
        return cls(
            sandboxes=[SandboxAnswer.from_json(item) for item in data["sandboxes"]],
        )


class ForkRequest(TypedDict, total=False):
    # The action that was approved for exactly this request.
    action: str | None
    # How many; one where none is given.
    count: int | None
    # They end when nothing was done in them for so long.
    idle_ms: int | None
    # They end after so long.
    ttl_ms: int | None
    # Where a person has to decide, wait so long for that before the answer is 202; at most 300000.
    wait_ms: int | None


@dataclass(frozen=True, kw_only=True)
class HeldAnswer:
    # What your workspaces, snapshots and sandboxes take up on disk together.
    bytes: int
    files: int
    # What they may take up: beyond it nothing more is written, and commands that write are ended.
    limit: int

    @classmethod
    def from_json(cls, data: Any) -> HeldAnswer:
        return cls(
            bytes=data["bytes"],
            files=data["files"],
            limit=data["limit"],
        )


@dataclass(frozen=True, kw_only=True)
class HitAnswer:
    description: str
    domain: str
    name: str
    # A piece of its text, and where the words are in it.
    snippet: dict[str, Any]

    @classmethod
    def from_json(cls, data: Any) -> HitAnswer:
        return cls(
            description=data["description"],
            domain=data["domain"],
            name=data["name"],
            snippet=data["snippet"],
        )


@dataclass(frozen=True, kw_only=True)
class KeyAnswer:
    created: int
    expires: int | None = None
    id: str
    label: str | None = None
    last_used: int | None = None
    revoked: int | None = None
    role: str
    user: str

    @classmethod
    def from_json(cls, data: Any) -> KeyAnswer:
        return cls(
            created=data["created"],
            expires=data.get("expires"),
            id=data["id"],
            label=data.get("label"),
            last_used=data.get("last_used"),
            revoked=data.get("revoked"),
            role=data["role"],
            user=data["user"],
        )


@dataclass(frozen=True, kw_only=True)
class KeyPage:
    keys: list[KeyAnswer]
    # For `after` of the next page; null at the end.
    next: str | None = None

    @classmethod
    def from_json(cls, data: Any) -> KeyPage:
        return cls(
            keys=[KeyAnswer.from_json(item) for item in data["keys"]],
            next=data.get("next"),
        )


class KeyRequest(TypedDict, total=False):
    # From now. A key that ends makes none that outlives it: the answer says when this one ends.
    expires_ms: int | None
    label: str | None
    # Your own role where none is given; never more than the user's.
    role: str | None
    # Whose; yours where none is given. Others' are for admins.
    user: str | None


class LoginRequest(TypedDict):
    # What `ringfence serve` printed at its first start.
    token: str


@dataclass(frozen=True, kw_only=True)
class LogsAnswer:
    # Bytes that are no longer kept.
    dropped: int
    # For `from` of the next request.
    next: int
    stderr: str
    stderr_base64: str | None = None
    stdout: str
    stdout_base64: str | None = None

    @classmethod
    def from_json(cls, data: Any) -> LogsAnswer:
        return cls(
            dropped=data["dropped"],
            next=data["next"],
            stderr=data["stderr"],
            stderr_base64=data.get("stderr_base64"),
            stdout=data["stdout"],
            stdout_base64=data.get("stdout_base64"),
        )


@dataclass(frozen=True, kw_only=True)
class MeAnswer:
    """Who the key belongs to."""

    role: str
    user: str

    @classmethod
    def from_json(cls, data: Any) -> MeAnswer:
        return cls(
            role=data["role"],
            user=data["user"],
        )


class NetworkWanted(TypedDict, total=False):
    # Hosts, as in `network.allow` of a policy. None, with `enabled`: every public host.
    allowed_domains: list[str]
    # False: loopback only, whatever `allowed_domains` says.
    enabled: bool


@dataclass(frozen=True, kw_only=True)
class NewKeyAnswer:
    """A key that was just made."""

    created: int
    expires: int | None = None
    id: str
    label: str | None = None
    last_used: int | None = None
    revoked: int | None = None
    role: str
    user: str
    # Shown this once; empty where the answer is told again for an `Idempotency-Key`.
    key: str

    @classmethod
    def from_json(cls, data: Any) -> NewKeyAnswer:
        return cls(
            created=data["created"],
            expires=data.get("expires"),
            id=data["id"],
            label=data.get("label"),
            last_used=data.get("last_used"),
            revoked=data.get("revoked"),
            role=data["role"],
            user=data["user"],
            key=data["key"],
        )


@dataclass(frozen=True, kw_only=True)
class PortAnswer:
    # Below it: any method, any path.
    path: str
    port: int

    @classmethod
    def from_json(cls, data: Any) -> PortAnswer:
        return cls(
            path=data["path"],
            port=data["port"],
        )


class PortRequest(TypedDict):
    port: int


@dataclass(frozen=True, kw_only=True)
class PortsAnswer:
    # At most 32.
    ports: list[PortAnswer]

    @classmethod
    def from_json(cls, data: Any) -> PortsAnswer:
        return cls(
            ports=[PortAnswer.from_json(item) for item in data["ports"]],
        )


@dataclass(frozen=True, kw_only=True)
class ProcessAnswer:
    """A command that runs on without anybody listening."""

    process: int

    @classmethod
    def from_json(cls, data: Any) -> ProcessAnswer:
        return cls(
            process=data["process"],
        )


@dataclass(frozen=True, kw_only=True)
class RememberedAnswer:
    """An approval that holds for more than one action."""

    # Who approved.
    by: str
    # Of exactly what it holds for.
    digest: str
    id: str
    kind: str
    made: int
    sandbox: str | None = None
    # session, hour or always
    scope: str
    until: int | None = None
    user: str

    @classmethod
    def from_json(cls, data: Any) -> RememberedAnswer:
        return cls(
            by=data["by"],
            digest=data["digest"],
            id=data["id"],
            kind=data["kind"],
            made=data["made"],
            sandbox=data.get("sandbox"),
            scope=data["scope"],
            until=data.get("until"),
            user=data["user"],
        )


@dataclass(frozen=True, kw_only=True)
class RememberedPage:
    # For `after` of the next page; null at the end.
    next: str | None = None
    remembered: list[RememberedAnswer]

    @classmethod
    def from_json(cls, data: Any) -> RememberedPage:
        return cls(
            next=data.get("next"),
            remembered=[RememberedAnswer.from_json(item) for item in data["remembered"]],
        )


RenameRequest = TypedDict(
    "RenameRequest",
    {
        "action": NotRequired["str | None"],
        "from": Required["str"],
        "replace": NotRequired["bool"],
        "to": Required["str"],
        "wait_ms": NotRequired["int | None"],
    },
)


@dataclass(frozen=True, kw_only=True)
class RollbackAnswer:
    # Whose mode or time alone was wrong.
    attributes_set: int
    bytes_written: int
    removed: int
    snapshot: str
    unchanged: int
    written: int

    @classmethod
    def from_json(cls, data: Any) -> RollbackAnswer:
        return cls(
            attributes_set=data["attributes_set"],
            bytes_written=data["bytes_written"],
            removed=data["removed"],
            snapshot=data["snapshot"],
            unchanged=data["unchanged"],
            written=data["written"],
        )


class RollbackRequestOptions(TypedDict, total=False):
    """What may be left out of `RollbackRequest`."""

    # The action that was approved for exactly this request.
    action: str | None
    # Where a person has to decide, wait so long for that before the answer is 202; at most 300000.
    wait_ms: int | None


class RollbackRequest(RollbackRequestOptions):
    # Its id or name.
    snapshot: str


@dataclass(frozen=True, kw_only=True)
class RunAnswer:
    """What came of a command."""

    # What was blocked, by which rule, and what would allow it.
    denials: list[dict[str, Any]]
    duration_ms: int
    # Why the command itself could not be started.
    error: dict[str, Any] | None = None
    # As a shell would see it: 128+n for signal n, 124 after a timeout, 126 and 127 for a command that can't be
    # started.
    exit_code: int
    # Connections, by process and host; null where the sandbox had no network.
    network: dict[str, Any] | None = None
    notes: list[str]
    # Each clause of the policy and the mechanism that enforced it.
    receipt: dict[str, Any]
    signal: int | None = None
    stderr: str | None = None
    stderr_base64: str | None = None
    stdout: str | None = None
    # Only where stdout is not UTF-8, and `stdout` has replacement characters.
    stdout_base64: str | None = None
    timed_out: bool
    # There was more output than is kept.
    truncated: bool | None = None
    usage: UsageAnswer

    @classmethod
    def from_json(cls, data: Any) -> RunAnswer:
        return cls(
            denials=data["denials"],
            duration_ms=data["duration_ms"],
            error=data.get("error"),
            exit_code=data["exit_code"],
            network=data.get("network"),
            notes=data["notes"],
            receipt=data["receipt"],
            signal=data.get("signal"),
            stderr=data.get("stderr"),
            stderr_base64=data.get("stderr_base64"),
            stdout=data.get("stdout"),
            stdout_base64=data.get("stdout_base64"),
            timed_out=data["timed_out"],
            truncated=data.get("truncated"),
            usage=UsageAnswer.from_json(data["usage"]),
        )


class RunRequestOptions(TypedDict, total=False):
    """What may be left out of `RunRequest`."""

    # The action that was approved for exactly this request: what is here besides must be what was submitted.
    action: str | None
    # native, claude-code, codex or gemini: begin from the defaults of that client's own sandbox, as far as your role
    # may have them. What is here besides holds over it.
    compat: str | None
    # A directory inside.
    cwd: str | None
    env: dict[str, str]
    files: list[FileWanted]
    # Show the system directories of this image in place of the host's: the one of your role's ceiling.
    image: str | None
    # A command whose stream breaks off goes on, and the stream can be taken up with `Last-Event-ID`.
    keep: bool
    network: NetworkWanted | None
    policy: dict[str, Any] | None
    profile: str | None
    secrets: list[SecretWanted]
    # A skill of the library, as `domain/name` or by its name alone: `command` is the path of a script in it and its
    # arguments, or `[]` for the only one that it has.
    skill: str | None
    skills: bool
    stdin: str | None
    # In place of `stdin`, for what is not text.
    stdin_base64: str | None
    strict: bool
    # The command and all that it started end after this time; 30000 where neither this nor the policy says how long.
    timeout_ms: int | None
    trace: bool
    # Where a person has to decide, wait so long for that before the answer is 202; at most 300000.
    wait_ms: int | None
    workspace: str | None


class RunRequest(RunRequestOptions):
    """One command and the sandbox for it."""

    # The program and its arguments; no shell is in between. With `skill`, its script and the arguments.
    command: list[str]


@dataclass(frozen=True, kw_only=True)
class SandboxAnswer:
    """A sandbox, as lists show it."""

    # Milliseconds since 1970, as all times here.
    created: int
    ended: int | None = None
    ended_why: str | None = None
    id: str
    labels: dict[str, Any]
    name: str | None = None
    # What this host could not enforce, and what else to know: only in the answer to its making.
    notes: list[str] | None = None
    profile: str
    # making, alive or ended
    state: str
    user: str
    workspace: str | None = None

    @classmethod
    def from_json(cls, data: Any) -> SandboxAnswer:
        return cls(
            created=data["created"],
            ended=data.get("ended"),
            ended_why=data.get("ended_why"),
            id=data["id"],
            labels=data["labels"],
            name=data.get("name"),
            notes=data.get("notes"),
            profile=data["profile"],
            state=data["state"],
            user=data["user"],
            workspace=data.get("workspace"),
        )


@dataclass(frozen=True, kw_only=True)
class SandboxPage:
    # For `after` of the next page; null at the end.
    next: str | None = None
    sandboxes: list[SandboxAnswer]

    @classmethod
    def from_json(cls, data: Any) -> SandboxPage:
        return cls(
            next=data.get("next"),
            sandboxes=[SandboxAnswer.from_json(item) for item in data["sandboxes"]],
        )


@dataclass(frozen=True, kw_only=True)
class SandboxWhole:
    """A sandbox whole: what it may do, how that is enforced, what was blocked."""

    # Milliseconds since 1970, as all times here.
    created: int
    ended: int | None = None
    ended_why: str | None = None
    id: str
    labels: dict[str, Any]
    name: str | None = None
    # What this host could not enforce, and what else to know: only in the answer to its making.
    notes: list[str] | None = None
    profile: str
    # making, alive or ended
    state: str
    user: str
    workspace: str | None = None
    # What its keeper tells: policy, receipt, processes; null when it has ended.
    status: dict[str, Any] | None = None

    @classmethod
    def from_json(cls, data: Any) -> SandboxWhole:
        return cls(
            created=data["created"],
            ended=data.get("ended"),
            ended_why=data.get("ended_why"),
            id=data["id"],
            labels=data["labels"],
            name=data.get("name"),
            notes=data.get("notes"),
            profile=data["profile"],
            state=data["state"],
            user=data["user"],
            workspace=data.get("workspace"),
            status=data.get("status"),
        )


@dataclass(frozen=True, kw_only=True)
class SearchAnswer:
    # The best first.
    hits: list[HitAnswer]

    @classmethod
    def from_json(cls, data: Any) -> SearchAnswer:
        return cls(
            hits=[HitAnswer.from_json(item) for item in data["hits"]],
        )


@dataclass(frozen=True, kw_only=True)
class SecretPage:
    # For `after` of the next page; null at the end.
    next: str | None = None
    # Their names; no value is ever told.
    secrets: list[str]

    @classmethod
    def from_json(cls, data: Any) -> SecretPage:
        return cls(
            next=data.get("next"),
            secrets=data["secrets"],
        )


class SecretRequestOptions(TypedDict, total=False):
    """What may be left out of `SecretRequest`."""

    # The action that was approved for exactly this request.
    action: str | None
    # Where a person has to decide, wait so long for that before the answer is 202; at most 300000.
    wait_ms: int | None


class SecretRequest(SecretRequestOptions):
    # One line of text, up to 64 KiB.
    value: str


class SecretWanted(TypedDict):
    """One of the caller's own secrets: inside, the variable of that name holds a placeholder; on the way to these
    hosts, which
    must be allowed too, the value takes its place.
    """

    hosts: list[str]
    name: str


class SignalRequestOptions(TypedDict, total=False):
    """What may be left out of `SignalRequest`."""

    # To all that it started too.
    tree: bool


class SignalRequest(SignalRequestOptions):
    # 15 asks, 9 ends.
    signal: int


@dataclass(frozen=True, kw_only=True)
class SkillAnswer:
    # Null where its manifest can't be read.
    description: str | None = None
    # The BLAKE3 of its tree: its version.
    digest: str | None = None
    domain: str
    name: str
    problem: str | None = None
    # published, edited, unpublished or unfit
    state: str

    @classmethod
    def from_json(cls, data: Any) -> SkillAnswer:
        return cls(
            description=data.get("description"),
            digest=data.get("digest"),
            domain=data["domain"],
            name=data["name"],
            problem=data.get("problem"),
            state=data["state"],
        )


@dataclass(frozen=True, kw_only=True)
class SkillPage:
    # For `after` of the next page; null at the end.
    next: str | None = None
    skills: list[SkillAnswer]

    @classmethod
    def from_json(cls, data: Any) -> SkillPage:
        return cls(
            next=data.get("next"),
            skills=[SkillAnswer.from_json(item) for item in data["skills"]],
        )


class SkillRunRequest(TypedDict, total=False):
    """A script of a skill, and the sandbox for it."""

    # The action that was approved for exactly this request.
    action: str | None
    args: list[str]
    env: dict[str, str]
    files: list[FileWanted]
    network: NetworkWanted | None
    policy: dict[str, Any] | None
    profile: str | None
    # Its path in the skill; the only one that it has, where none is given.
    script: str | None
    secrets: list[SecretWanted]
    stdin: str | None
    strict: bool
    # 30000 where neither this nor the policy says how long.
    timeout_ms: int | None
    # Where a person has to decide, wait so long for that before the answer is 202; at most 300000.
    wait_ms: int | None
    workspace: str | None


@dataclass(frozen=True, kw_only=True)
class SnapshotAnswer:
    # Of its files, before those that other snapshots share are counted once.
    bytes: int
    # Milliseconds since 1970.
    created: int
    entries: int
    id: str
    # For people; several may have it.
    name: str
    # The sandbox that it was taken of.
    sandbox: str

    @classmethod
    def from_json(cls, data: Any) -> SnapshotAnswer:
        return cls(
            bytes=data["bytes"],
            created=data["created"],
            entries=data["entries"],
            id=data["id"],
            name=data["name"],
            sandbox=data["sandbox"],
        )


@dataclass(frozen=True, kw_only=True)
class SnapshotPage:
    # For `after` of the next page; null at the end.
    next: str | None = None
    snapshots: list[SnapshotAnswer]

    @classmethod
    def from_json(cls, data: Any) -> SnapshotPage:
        return cls(
            next=data.get("next"),
            snapshots=[SnapshotAnswer.from_json(item) for item in data["snapshots"]],
        )


class SnapshotRequest(TypedDict, total=False):
    # For people; the sandbox's id where none is given.
    name: str | None


@dataclass(frozen=True, kw_only=True)
class StatAnswer:
    kind: str
    # Permission bits, in octal.
    mode: str
    # Seconds since 1970.
    modified: int
    size: int
    # Where a symbolic link leads.
    target: str | None = None

    @classmethod
    def from_json(cls, data: Any) -> StatAnswer:
        return cls(
            kind=data["kind"],
            mode=data["mode"],
            modified=data["modified"],
            size=data["size"],
            target=data.get("target"),
        )


@dataclass(frozen=True, kw_only=True)
class StatusAnswer:
    # Why the audit's anchors can't follow, if so.
    audit_trouble: str | None = None
    commands_running: int
    # Yours; of everybody, for admins.
    sandboxes: int
    streams: int
    uptime_ms: int
    version: str

    @classmethod
    def from_json(cls, data: Any) -> StatusAnswer:
        return cls(
            audit_trouble=data.get("audit_trouble"),
            commands_running=data["commands_running"],
            sandboxes=data["sandboxes"],
            streams=data["streams"],
            uptime_ms=data["uptime_ms"],
            version=data["version"],
        )


class StdinRequest(TypedDict, total=False):
    base64: str | None
    # Nothing comes after this.
    close: bool
    text: str | None


class SubmitRequest(TypedDict, total=False):
    """One of these: what the route of that name would be sent."""

    create: CreateRequest | None
    delete: DeleteSubmit | None
    exec: ExecSubmit | None
    run: RunRequest | None


@dataclass(frozen=True, kw_only=True)
class TicketAnswer:
    expires_ms: int
    # For `?ticket=` of the WebSocket's URL.
    ticket: str

    @classmethod
    def from_json(cls, data: Any) -> TicketAnswer:
        return cls(
            expires_ms=data["expires_ms"],
            ticket=data["ticket"],
        )


@dataclass(frozen=True, kw_only=True)
class UploadAnswer:
    bytes: int
    entries: int

    @classmethod
    def from_json(cls, data: Any) -> UploadAnswer:
        return cls(
            bytes=data["bytes"],
            entries=data["entries"],
        )


@dataclass(frozen=True, kw_only=True)
class UploadedAnswer:
    # What it asks for beyond a profile. Nothing is granted by that.
    asks: dict[str, Any]
    description: str
    digest: str
    # High and critical ones.
    findings: list[dict[str, Any]]
    # What was published before.
    previous: str | None = None
    # `domain/name`
    skill: str

    @classmethod
    def from_json(cls, data: Any) -> UploadedAnswer:
        return cls(
            asks=data["asks"],
            description=data["description"],
            digest=data["digest"],
            findings=data["findings"],
            previous=data.get("previous"),
            skill=data["skill"],
        )


@dataclass(frozen=True, kw_only=True)
class UsageAnswer:
    cpu_ms: int
    max_memory_bytes: int
    processes: int

    @classmethod
    def from_json(cls, data: Any) -> UsageAnswer:
        return cls(
            cpu_ms=data["cpu_ms"],
            max_memory_bytes=data["max_memory_bytes"],
            processes=data["processes"],
        )


@dataclass(frozen=True, kw_only=True)
class UserAnswer:
    created: int
    disabled: bool
    name: str
    role: str

    @classmethod
    def from_json(cls, data: Any) -> UserAnswer:
        return cls(
            created=data["created"],
            disabled=data["disabled"],
            name=data["name"],
            role=data["role"],
        )


class UserChange(TypedDict, total=False):
    # Their keys stop working as long as they are disabled.
    disabled: bool | None
    role: str | None


@dataclass(frozen=True, kw_only=True)
class UserPage:
    # For `after` of the next page; null at the end.
    next: str | None = None
    users: list[UserAnswer]

    @classmethod
    def from_json(cls, data: Any) -> UserPage:
        return cls(
            next=data.get("next"),
            users=[UserAnswer.from_json(item) for item in data["users"]],
        )


class UserRequest(TypedDict):
    name: str
    # viewer, operator, approver or admin
    role: str


@dataclass(frozen=True, kw_only=True)
class VerdictAnswer:
    # The digest of the last row: keep it elsewhere, and the tail can't be cut unseen.
    head: str
    problems: list[dict[str, Any]]
    rows: int
    whole: bool

    @classmethod
    def from_json(cls, data: Any) -> VerdictAnswer:
        return cls(
            head=data["head"],
            problems=data["problems"],
            rows=data["rows"],
            whole=data["whole"],
        )


@dataclass(frozen=True, kw_only=True)
class VersionAnswer:
    # add, publish, rollback or remove
    action: str
    # Seconds since 1970.
    at: int
    digest: str | None = None

    @classmethod
    def from_json(cls, data: Any) -> VersionAnswer:
        return cls(
            action=data["action"],
            at=data["at"],
            digest=data.get("digest"),
        )


@dataclass(frozen=True, kw_only=True)
class VersionsAnswer:
    # What the folder holds, where nobody has published that.
    unpublished: str | None = None
    # The oldest first.
    versions: list[VersionAnswer]

    @classmethod
    def from_json(cls, data: Any) -> VersionsAnswer:
        return cls(
            unpublished=data.get("unpublished"),
            versions=[VersionAnswer.from_json(item) for item in data["versions"]],
        )


@dataclass(frozen=True, kw_only=True)
class WorkspaceAnswer:
    # What its files take up.
    bytes: int
    files: int
    limit: int | None = None
    name: str
    # Sandboxes that live in it.
    sandboxes: list[str]

    @classmethod
    def from_json(cls, data: Any) -> WorkspaceAnswer:
        return cls(
            bytes=data["bytes"],
            files=data["files"],
            limit=data.get("limit"),
            name=data["name"],
            sandboxes=data["sandboxes"],
        )


@dataclass(frozen=True, kw_only=True)
class WorkspacePage:
    # For `after` of the next page; null at the end.
    next: str | None = None
    workspaces: list[WorkspaceAnswer]

    @classmethod
    def from_json(cls, data: Any) -> WorkspacePage:
        return cls(
            next=data.get("next"),
            workspaces=[WorkspaceAnswer.from_json(item) for item in data["workspaces"]],
        )


@dataclass(frozen=True, kw_only=True)
class WorkspaceUsage:
    bytes: int
    files: int

    @classmethod
    def from_json(cls, data: Any) -> WorkspaceUsage:
        return cls(
            bytes=data["bytes"],
            files=data["files"],
        )
